package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// openTunnel makes a tunnel of a client to the actor, as soon as that runs, and sends its first message.
func openTunnel(ctx context.Context, a *actor, c client, first rp.ToActorBody) (*tunnel, error) {
	if err := a.await(ctx); err != nil {
		return nil, err
	}
	e := a.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if !a.runner.takes(a) {
		return nil, errStopped
	}
	t := newTunnel(a, e.newID())
	t.client = c
	t.track()
	a.used.turn()
	t.sendThen(first, c.sent)
	return t, nil
}

func newTunnel(a *actor, id rp.TunnelID) *tunnel {
	return &tunnel{e: a.e, a: a, id: id}
}

// track makes the tunnel known by its id.
//
// +checklocks:t.e.mu
func (t *tunnel) track() {
	t.e.tunnels[t.id] = t
	t.a.tunnels[t.id] = t
}

// isOpen reports whether the tunnel hasn't ended.
//
// +checklocks:t.e.mu
func (t *tunnel) isOpen() bool { return t.e.tunnels[t.id] == t }

// remove ends the tunnel.
//
// +checklocks:t.e.mu
func (t *tunnel) remove() {
	if !t.isOpen() {
		return
	}
	delete(t.e.tunnels, t.id)
	delete(t.a.tunnels, t.id)
	for _, p := range t.pending {
		t.forget(p)
	}
	if t.pending = nil; t.noted {
		t.a.mail.forget(rivetstore.MessageKey(rivetstore.Socket(t.id), 0))
	}
	t.a.mail.makeRoom()
	t.a.settle()
}

// send sends the actor a message of the tunnel with the next number.
//
// +checklocks:t.e.mu
func (t *tunnel) send(body rp.ToActorBody) {
	n := t.n
	t.n++
	t.sendAs(n, body)
}

// sendThen is send, and calls done when the message is written, or won't be.
//
// +checklocks:t.e.mu
func (t *tunnel) sendThen(body rp.ToActorBody, done func()) {
	n := t.n
	t.n++
	m := rp.ToActor{ID: rp.MessageID{Tunnel: t.id, Index: uint16(n)}, Body: body}
	if r := t.a.runner; r != nil && r.conn != nil {
		r.conn.sendThen(m, done)
	} else {
		done()
	}
}

// +checklocks:t.e.mu
func (t *tunnel) sendAs(n uint64, body rp.ToActorBody) {
	if r := t.a.runner; r != nil {
		r.send(rp.ToActor{ID: rp.MessageID{Tunnel: t.id, Index: uint16(n)}, Body: body})
	}
}

// fail ends the tunnel with an error.
//
// +checklocks:t.e.mu
func (t *tunnel) fail(err error) {
	c := t.client
	t.client = nil
	t.remove()
	if c != nil {
		c.fail(t, err)
	}
}

// leave ends the tunnel with an error for the client. The actor is told when its runner can be reached.
//
// +checklocks:t.e.mu
func (t *tunnel) leave(err error) {
	c := t.client
	if t.client = nil; t.opened {
		t.closing, t.ending = true, rp.ClientClose{}
	} else {
		t.remove()
	}
	if c != nil {
		c.fail(t, err)
	}
}

// part sends what it can of a tunnel whose client has gone. One of which nothing is kept ends if the actor isn't running: the
// actor's next start doesn't name it.
//
// +checklocks:t.e.mu
func (t *tunnel) part() {
	if t.flush(); len(t.pending) == 0 && !t.a.told {
		t.remove()
	}
}

// first returns the number of the oldest message that isn't acknowledged.
//
// +checklocks:t.e.mu
func (t *tunnel) first() uint64 {
	if len(t.pending) > 0 {
		return t.pending[0].n
	}
	return t.n
}

// flush sends what is stored and wasn't sent, also while the actor stops: what it doesn't acknowledge then is sent again.
//
// +checklocks:t.e.mu
func (t *tunnel) flush() {
	a := t.a
	if !a.told || t.awaits || !a.runner.reachable() {
		return
	}
	for _, p := range t.unsent() {
		if !p.stored {
			return
		}
		if p.m == nil {
			a.mail.fetch()
			return
		}
		m := rp.SocketMessage{Data: p.m.Data, Binary: p.m.Binary}
		a.used.turn()
		a.runner.conn.sendThen(rp.ToActor{ID: rp.MessageID{Tunnel: t.id, Index: uint16(p.n)}, Body: m}, p.done)
		t.sent, p.m, p.done = p.n+1, nil, nil
	}
	if t.closing {
		t.send(t.ending)
		t.closing = false
		if len(t.pending) == 0 {
			t.remove()
		}
	}
}

// unsent returns the messages that weren't sent to this start of the actor.
//
// +checklocks:t.e.mu
func (t *tunnel) unsent() []*pendingMessage {
	first, _ := slices.BinarySearchFunc(t.pending, t.sent, func(p *pendingMessage, n uint64) int { return cmp.Compare(p.n, n) })
	return t.pending[first:]
}

// add adds a message to those that aren't acknowledged.
//
// +checklocks:t.e.mu
func (t *tunnel) add(p *pendingMessage) {
	t.pending = append(t.pending, p)
	t.n = p.n + 1
	t.bytes += p.size + messageOverhead
	t.a.mail.kept += p.size + messageOverhead
}

// keep stores a message of the client, and sends it then. The account has its data until that has left memory, and its overhead until it is
// acknowledged.
//
// +checklocks:t.e.mu
func (t *tunnel) keep(m rivetstore.Message, of *account) {
	n := int64(len(m.Data))
	p := &pendingMessage{t: t, n: t.n, size: len(m.Data), m: &m, account: of, done: func() { of.give(n) }}
	of.lend(messageOverhead)
	t.add(p)
	t.a.mail.fresh = append(t.a.mail.fresh, p)
	t.a.mail.store()
}

// note stores that the socket is open: the engine tells the actor when the socket has ended with an engine before.
//
// +checklocks:t.e.mu
func (t *tunnel) note() {
	t.noted = true
	t.a.mail.sockets = append(t.a.mail.sockets, t)
	t.a.mail.store()
}

// acknowledged forgets the messages up to the one with an index.
//
// +checklocks:t.e.mu
func (t *tunnel) acknowledged(index uint16) {
	n := 0
	for n < len(t.pending) && index-uint16(t.pending[n].n) < 1<<15 {
		t.forget(t.pending[n])
		n++
	}
	if n == 0 {
		return
	}
	t.pending = t.pending[n:]
	if t.client == nil && !t.closing && len(t.pending) == 0 {
		t.remove()
	}
}

// forget removes the row of a message, some time.
//
// +checklocks:t.e.mu
func (t *tunnel) forget(p *pendingMessage) {
	p.gone = true
	p.repay()
	t.bytes -= p.size + messageOverhead
	t.a.mail.kept -= p.size + messageOverhead
	t.a.mail.forget(rivetstore.MessageKey(rivetstore.Socket(t.id), p.n))
	t.a.mail.makeRoom()
}

// refuse ends the client's end of the tunnel, and forgets the messages that aren't stored.
//
// +checklocks:t.e.mu
func (t *tunnel) refuse(err error) {
	t.pending = slices.DeleteFunc(t.pending, func(p *pendingMessage) bool {
		if !p.stored && !p.gone {
			t.forget(p)
		}
		return !p.stored
	})
	t.leave(err)
	t.part()
}

// repay gives back what the account of the client has for the message.
//
// +checklocks:p.t.e.mu
func (p *pendingMessage) repay() {
	p.release()
	if p.account != nil {
		p.account.repaid(messageOverhead, false)
		p.account = nil
	}
}

// release says that the data of the message has left memory.
//
// +checklocks:p.t.e.mu
func (p *pendingMessage) release() {
	if p.done != nil {
		p.done()
		p.done = nil
	}
}
