package engine

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
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
	if a.phase != running || a.runner.conn == nil {
		return nil, errStopped
	}
	t := newTunnel(a, e.newID())
	t.client = c
	t.track()
	t.sendThen(first, c.sent)
	return t, nil
}

func newTunnel(a *actor, id rp.TunnelID) *tunnel {
	return &tunnel{e: a.e, a: a, id: id, room: make(chan struct{})}
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
	t.pending, t.bytes = nil, 0
	close(t.room)
	t.room = make(chan struct{})
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

// first returns the number of the oldest message that isn't acknowledged.
//
// +checklocks:t.e.mu
func (t *tunnel) first() uint64 {
	if len(t.pending) > 0 {
		return t.pending[0].n
	}
	return t.n
}

// flush sends what is stored and wasn't sent.
//
// +checklocks:t.e.mu
func (t *tunnel) flush() {
	a := t.a
	if !a.told || a.phase != starting && a.phase != running || a.runner.conn == nil {
		return
	}
	first, _ := slices.BinarySearchFunc(t.pending, t.sent, func(p *pendingMessage, n uint64) int { return cmp.Compare(p.n, n) })
	for _, p := range t.pending[first:] {
		if !p.stored {
			return
		}
		t.sendAs(p.n, rp.SocketMessage{Data: p.m.Data, Binary: p.m.Binary})
		t.sent = p.n + 1
	}
	if t.closing {
		t.send(t.ending)
		t.closing = false
		if len(t.pending) == 0 {
			t.remove()
		}
	}
}

// keep has a message of the client stored, and sent then.
//
// +checklocks:t.e.mu
func (t *tunnel) keep(m rivetstore.Message) {
	p := &pendingMessage{t: t, n: t.n, m: m}
	t.pending = append(t.pending, p)
	t.a.fresh = append(t.a.fresh, p)
	t.n++
	t.bytes += len(m.Data) + 128
	storeMessages(t.a)
}

// acknowledged forgets the messages up to the one with an index.
//
// +checklocks:t.e.mu
func (t *tunnel) acknowledged(index uint16) {
	n := 0
	for n < len(t.pending) && index-uint16(t.pending[n].n) < 1<<15 {
		t.bytes -= len(t.pending[n].m.Data) + 128
		t.forget(t.pending[n])
		n++
	}
	if n == 0 {
		return
	}
	t.pending = t.pending[n:]
	close(t.room)
	t.room = make(chan struct{})
	if t.client == nil && !t.closing && len(t.pending) == 0 {
		t.remove()
	}
}

// forget has the row of a message removed, some time.
//
// +checklocks:t.e.mu
func (t *tunnel) forget(p *pendingMessage) {
	a := t.a
	p.gone = true
	p.release()
	a.forgotten = append(a.forgotten, rivetstore.MessageKey(rivetstore.Socket(t.id), p.n))
	if len(a.forgotten) >= 64 && a.phase != gone {
		storeMessages(a)
	}
}

// storeMessages stores the messages that aren't stored yet, in one commit, and then sends them.
//
// +checklocks:a.e.mu
func storeMessages(a *actor) {
	if a.unstored {
		return
	}
	a.unstored = true
	a.do(0, func() {
		a.e.mu.Lock()
		fresh, gone := slices.DeleteFunc(a.fresh, func(p *pendingMessage) bool { return p.gone }), a.forgotten
		a.unstored, a.fresh, a.forgotten = false, nil, nil
		a.e.mu.Unlock()
		err := commitMessages(a, fresh, gone)
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		if err != nil {
			a.e.log.Error("engine: store messages", a.attr(), slog.Any("error", err))
			a.forgotten = append(gone, a.forgotten...)
		}
		for _, p := range fresh {
			p.stored = err == nil
		}
		for _, p := range fresh {
			switch {
			case !p.t.isOpen(): // it has ended
			case err != nil:
				p.t.fail(errUnavailable)
			case p.n >= p.t.sent:
				p.t.flush()
			}
		}
	})
}

// commitMessages stores messages, and removes rows.
func commitMessages(a *actor, fresh []*pendingMessage, gone [][]byte) error {
	b := batch.Batch{Mode: batch.Ordered} // as many as there are
	for _, p := range fresh {
		b.Put(rivetstore.MessageKey(rivetstore.Socket(p.t.id), p.n), p.m.Append(nil))
	}
	for _, key := range gone {
		b.Delete(key)
	}
	if len(fresh) > 0 {
		b.WakeBy(time.Time{}) // should the engine end before they have come
		return a.handle.Commit(a.e.ctx, &b)
	}
	return a.handle.Apply(a.e.ctx, &b)
}

// A keptMessage is a message that wasn't acknowledged before the engine ended.
type keptMessage struct {
	socket rivetstore.Socket
	n      uint64
	m      rivetstore.Message
}

// loadMessages reads the messages that are kept for an actor, those of a socket in their order.
func loadMessages(ctx context.Context, h *actorstore.Actor) (list []keptMessage, err error) {
	start, end := rivetstore.SocketRange()
	for e, err := range h.List(ctx, actorstore.ListOptions{Start: start, End: end}) {
		if err != nil {
			return nil, err
		}
		s, n, err := rivetstore.ParseMessageKey(e.Key)
		if err != nil {
			return nil, err
		}
		m, err := rivetstore.ParseMessage(append([]byte(nil), e.Value...))
		if err != nil {
			return nil, err
		}
		list = append(list, keptMessage{s, n, m})
	}
	return list, nil
}

// restoreTunnels makes the tunnels of messages that were kept. Their clients have gone.
//
// +checklocks:a.e.mu
func restoreTunnels(a *actor, list []keptMessage) {
	for _, k := range list {
		t := a.tunnels[rp.TunnelID(k.socket)]
		if t == nil {
			t = newTunnel(a, rp.TunnelID(k.socket))
			t.opened, t.hibernates, t.closing = true, true, true
			t.track()
		}
		t.pending = append(t.pending, &pendingMessage{t: t, n: k.n, m: k.m, stored: true})
		t.bytes += len(k.m.Data) + 128
		t.n = k.n + 1
	}
}
