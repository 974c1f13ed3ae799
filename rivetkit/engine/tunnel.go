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

// tunnel returns the tunnel with an id, or nil.
//
// +checklocks:e.mu
func (e *core) tunnel(id rp.TunnelID) *tunnel {
	t := e.tunnels[numberOf(id)]
	if t == nil || t.id != id {
		return nil
	}
	return t
}

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
	t := newTunnel(a, rp.TunnelID{Gateway: e.instance, Request: requestBytes(e.number())})
	t.client = c
	t.track()
	t.send(first)
	return t, nil
}

func newTunnel(a *actor, id rp.TunnelID) *tunnel {
	return &tunnel{e: a.e, a: a, id: id, room: make(chan struct{})}
}

// track makes the tunnel known by its number.
//
// +checklocks:t.e.mu
func (t *tunnel) track() {
	number := numberOf(t.id)
	t.e.tunnels[number] = t
	t.a.tunnels[number] = t
}

// remove ends the tunnel.
//
// +checklocks:t.e.mu
func (t *tunnel) remove() {
	number := numberOf(t.id)
	if t.e.tunnels[number] != t {
		return
	}
	delete(t.e.tunnels, number)
	delete(t.a.tunnels, number)
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
			case a.e.tunnel(p.t.id) != p.t: // it has ended
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

// loadMessages reads the messages that weren't acknowledged before the engine ended. Their clients have gone.
func loadMessages(ctx context.Context, a *actor, h *actorstore.Actor) error {
	start, end := rivetstore.SocketRange()
	of := map[rp.TunnelID]*tunnel{}
	for e, err := range h.List(ctx, actorstore.ListOptions{Start: start, End: end}) {
		if err != nil {
			return err
		}
		s, n, err := rivetstore.ParseMessageKey(e.Key)
		if err != nil {
			return err
		}
		m, err := rivetstore.ParseMessage(append([]byte(nil), e.Value...))
		if err != nil {
			return err
		}
		t := of[rp.TunnelID(s)]
		if t == nil {
			t = newTunnel(a, rp.TunnelID(s))
			t.opened, t.hibernates, t.closing = true, true, true
			of[t.id] = t
		}
		t.pending = append(t.pending, &pendingMessage{t: t, n: n, m: m, stored: true})
		t.bytes += len(m.Data) + 128
		t.n = n + 1
	}
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	for id, t := range of {
		if a.e.tunnels[numberOf(id)] == nil { // else it is looked at again when the actor is opened next
			t.track()
		}
	}
	return nil
}
