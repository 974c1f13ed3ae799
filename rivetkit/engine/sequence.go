package engine

// A sequence sends what an actor says to its clients' sockets in the order in which the actor says it: the next message is
// handed over when the former one has been written to its socket, over any of them. RivetKit relies on it: a client that has
// an answer over one connection expects that an event which the actor sent before is there over another one.
//
// A client that doesn't read holds up those of its own actor only, and not for long. If maxBehind or maxBehindBytes come
// while its message is being written, it leaves the order: its messages go as it takes them, until it has taken them all.
//
// A sequence is guarded by core.mu.
type sequence struct {
	e     *core
	steps []step // that wait, in order
	turn  *turn  // whose message is being written; or nil
}

// A step is a message, or something else that is done when its turn has come.
type step struct {
	to *outbox
	m  message
	do func() // nil for a message
}

// A turn is that of a message that is being written.
type turn struct {
	to            *outbox
	behind, bytes int // messages that have come meanwhile, and their bytes
}

// How much of an actor waits for a message to be written, in messages and bytes.
const (
	maxBehind      = 64
	maxBehindBytes = 256 << 10
)

// send sends a message when what was said before is sent.
//
// +checklocks:s.e.mu
func (s *sequence) send(to *outbox, m message) {
	if !to.reserve(m) {
		return
	}
	if to.isSlow() {
		to.queueUp(m)
		return
	}
	s.add(step{to: to, m: m})
}

// do does something when what was said before is sent. fn doesn't wait.
//
// +checklocks:s.e.mu
func (s *sequence) do(fn func()) { s.add(step{do: fn}) }

// +checklocks:s.e.mu
func (s *sequence) add(st step) {
	s.steps = append(s.steps, st)
	if s.turn == nil {
		s.next()
		return
	}
	s.turn.behind++
	s.turn.bytes += st.m.size
	if s.turn.behind > maxBehind || s.turn.bytes > maxBehindBytes {
		s.overtake()
	}
}

// next hands over messages until there is one that takes time.
//
// +checklocks:s.e.mu
func (s *sequence) next() {
	for s.turn == nil && len(s.steps) > 0 {
		st := s.steps[0]
		s.steps[0] = step{}
		s.steps = s.steps[1:]
		if st.do != nil {
			st.do()
			continue
		}
		t := &turn{to: st.to}
		st.m.done = func() { s.written(t) }
		if st.to.queueUp(st.m) {
			s.turn = t
		}
	}
}

// written follows the end of a message: it has been written, or its socket has failed.
func (s *sequence) written(t *turn) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.turn == t {
		s.turn = nil
		s.next()
	}
}

// overtake takes the socket whose turn it is out of the order.
//
// +checklocks:s.e.mu
func (s *sequence) overtake() {
	slow := s.turn.to
	if slow.fallBehind() {
		rest := s.steps[:0]
		for _, st := range s.steps {
			if st.to == slow {
				slow.queueUp(st.m)
			} else {
				rest = append(rest, st)
			}
		}
		clear(s.steps[len(rest):])
		s.steps = rest
	}
	s.turn = nil
	s.next()
}
