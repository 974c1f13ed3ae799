package conn

// An Ack says that a gateway may forget the messages of a connection up to Index: that
// they were received is on stable storage.
type Ack struct {
	Conn  *Conn
	Index Index
}

// acks are the acknowledgements of applied saves, in their order. All fields are guarded
// by the Set's lock.
type acks struct {
	queue  []Ack
	queued uint64 // how many there have ever been: queue ends with that one
	stable uint64 // up to which the saves are on stable storage
	giving bool   // somebody calls OnAck
}

// acknowledge queues the acknowledgement of the index that a save of c has stored, if it is
// news: that is for received to say, since the index may have gone around since the last.
//
// +checklocks:c.set.mu
func (c *Conn) acknowledge(index Index, received uint64) {
	a := &c.set.acks
	if c.set.opts.OnAck == nil || !c.unacked && received <= c.acked {
		return
	}
	c.acked, c.unacked = received, false
	a.queue = append(a.queue, Ack{c, index})
	a.queued++
}

// release says that the saves of the first n acknowledgements are on stable storage, and
// gives those to OnAck. If that is being called, whoever calls it goes on with these: so
// OnAck may itself save.
func (s *Set) release(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.acks
	a.stable = max(a.stable, n)
	if a.giving {
		return
	}
	a.giving = true
	defer func() { a.giving = false }()
	for {
		first := a.queued - uint64(len(a.queue))
		if a.stable <= first {
			return
		}
		ready := a.queue[:a.stable-first]
		a.queue = a.queue[len(ready):]
		if len(a.queue) == 0 {
			a.queue = nil
		}
		s.give(ready)
	}
}

// give calls OnAck without the lock. Nobody waits for what a connection that is gone has
// received.
//
// +checklocks:s.mu
func (s *Set) give(ready []Ack) {
	acks := make([]Ack, 0, len(ready))
	for _, a := range ready {
		if !a.Conn.gone {
			acks = append(acks, a)
		}
	}
	if len(acks) == 0 {
		return
	}
	s.count(metricAcks, len(acks))
	s.mu.Unlock()
	defer s.mu.Lock()
	s.opts.OnAck(acks)
}
