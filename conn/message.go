package conn

import "time"

// Received says that the message with that index has come in, of size bytes. It returns
// how far the index is ahead of the last one that came: 1 for the next message, more if
// some between are missing. One that is not ahead, 0 or less, has come before: it moves
// nothing, and is to be ignored; the gateway didn't see its acknowledgement, which is
// given once more.
//
// The index is saved within Options.MaxWait, and at once when Options.MaxBuffered bytes or
// 16,384 messages have come since the last save. For an ephemeral connection it is only
// kept.
func (c *Conn) Received(index Index, size int) (ahead int, err error) {
	err = c.change(func() error {
		ahead = index.Sub(c.rec.Server)
		if ahead <= 0 {
			c.unacked = true
			c.mark(c.set.opts.MaxWait)
			return nil
		}
		c.rec.Server = index
		c.received += uint64(ahead)
		was, wait := c.buffered, c.set.opts.MaxWait
		c.buffered.add(buffered{size, ahead})
		if !c.set.full(was) && c.set.full(c.buffered) {
			wait = 0
		}
		c.mark(wait)
		return nil
	})
	return ahead, err
}

// buffered is what a gateway keeps because no save has it.
type buffered struct{ bytes, messages int }

func (b *buffered) add(o buffered) {
	b.bytes += o.bytes
	b.messages += o.messages
}

// maxMessages is how many messages start a save at once: a gateway that waits for many more
// can't tell which of them an index of 16 bits acknowledges.
const maxMessages = 1 << 14

// full reports whether so much is a reason to save at once.
func (s *Set) full(b buffered) bool {
	return b.bytes >= s.opts.MaxBuffered || b.messages >= maxMessages
}

// Sent counts a message that goes out, and returns its index: the first one's is 1. It is
// saved within Options.MaxWait.
func (c *Conn) Sent() (index Index, err error) {
	err = c.change(func() error {
		c.rec.Client = c.rec.Client.Next()
		index = c.rec.Client
		c.mark(c.set.opts.MaxWait)
		return nil
	})
	return index, err
}

// Indices returns the index of the last message that came in, and of the last one that
// went out.
func (c *Conn) Indices() (server, client Index) {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	return c.rec.Server, c.rec.Client
}

// Attach gives the connection a transport, in place of what it had; a client that is there
// again needs nothing else. The func that it returns takes it away again, unless another
// was attached since.
func (c *Conn) Attach(transport any) (detach func(), err error) {
	var n uint64
	err = c.change(func() error {
		c.attached++
		n, c.transport = c.attached, transport
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func() {
		c.set.mu.Lock()
		defer c.set.mu.Unlock()
		if c.attached == n {
			c.transport = nil
		}
	}, nil
}

// Transport returns what was attached, nil if the client isn't there.
func (c *Conn) Transport() any {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	return c.transport
}

// mark has c saved within wait.
//
// +checklocks:c.set.mu
func (c *Conn) mark(wait time.Duration) {
	if !c.ephemeral {
		c.set.changed.Mark(c.rec.ID)
		c.set.arm(wait)
	}
}
