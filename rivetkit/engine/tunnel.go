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
	if a.phase != running || !a.runner.reachable() {
		return nil, errStopped
	}
	t := newTunnel(a, e.newID())
	t.client = c
	t.track()
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
		t.a.forgetRow(rivetstore.MessageKey(rivetstore.Socket(t.id), 0))
	}
	t.a.makeRoom()
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
	if !a.told || !a.runner.reachable() {
		return
	}
	for _, p := range t.unsent() {
		if !p.stored {
			return
		}
		if p.m == nil {
			fetchMessages(a)
			return
		}
		m := rp.SocketMessage{Data: p.m.Data, Binary: p.m.Binary}
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

// messageOverhead is what the engine counts for a message beside its data, in bytes.
const messageOverhead = 128

// add adds a message to those that aren't acknowledged.
//
// +checklocks:t.e.mu
func (t *tunnel) add(p *pendingMessage) {
	t.pending = append(t.pending, p)
	t.n = p.n + 1
	t.bytes += p.size + messageOverhead
	t.a.kept += p.size + messageOverhead
}

// keep has a message of the client stored, and sent then.
//
// +checklocks:t.e.mu
func (t *tunnel) keep(m rivetstore.Message) {
	p := &pendingMessage{t: t, n: t.n, size: len(m.Data), m: &m}
	t.add(p)
	t.a.fresh = append(t.a.fresh, p)
	storeMessages(t.a)
}

// note has it stored that the socket is open: the actor must be told when it has ended with the engine.
//
// +checklocks:t.e.mu
func (t *tunnel) note() {
	t.noted = true
	t.a.sockets = append(t.a.sockets, t)
	storeMessages(t.a)
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

// forget has the row of a message removed, some time.
//
// +checklocks:t.e.mu
func (t *tunnel) forget(p *pendingMessage) {
	p.gone = true
	p.release()
	t.bytes -= p.size + messageOverhead
	t.a.kept -= p.size + messageOverhead
	t.a.forgetRow(rivetstore.MessageKey(rivetstore.Socket(t.id), p.n))
	t.a.makeRoom()
}

// forgetRow has a row of a tunnel removed, some time.
//
// +checklocks:a.e.mu
func (a *actor) forgetRow(key []byte) {
	a.forgotten = append(a.forgotten, key)
	if len(a.forgotten) >= 64 && a.phase != gone {
		storeMessages(a)
	}
}

// makeRoom tells those that wait until less is kept for the actor.
//
// +checklocks:a.e.mu
func (a *actor) makeRoom() {
	close(a.room)
	a.room = make(chan struct{})
}

// storeMessages stores the messages that aren't stored yet, and then sends them.
//
// +checklocks:a.e.mu
func storeMessages(a *actor) {
	if a.unstored {
		return
	}
	a.unstored = true
	a.do(0, func() {
		a.e.mu.Lock()
		c := changes{fresh: slices.DeleteFunc(a.fresh, func(p *pendingMessage) bool { return p.gone }), gone: a.forgotten}
		for _, t := range a.sockets {
			if t.isOpen() {
				c.open = append(c.open, t)
			}
		}
		a.unstored, a.fresh, a.forgotten, a.sockets = false, nil, nil, nil
		a.e.mu.Unlock()
		failed := c.commit(a)
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		c.landed(a, failed)
	})
}

// changes are what is to be changed of the rows of an actor's tunnels.
type changes struct {
	fresh []*pendingMessage // to be stored
	open  []*tunnel         // whose opening is to be stored
	gone  [][]byte          // keys to be removed
}

// commit makes the changes in one commit, or those of each client in one if that fails. It returns the tunnels whose messages aren't
// stored, and why.
func (c *changes) commit(a *actor) (failed map[*tunnel]error) {
	err := commitMessages(a, c.fresh, c.open, c.gone)
	if err == nil {
		return nil
	}
	failed = map[*tunnel]error{}
	of := map[*tunnel][]*pendingMessage{}
	for _, p := range c.fresh {
		of[p.t] = append(of[p.t], p)
	}
	for t, list := range of {
		failed[t] = err
		if len(of) > 1 {
			failed[t] = commitMessages(a, list, nil, nil)
		}
	}
	a.e.log.Error("engine: store messages", a.attr(), slog.Any("error", err))
	return failed
}

// landed sends what is stored. A client whose messages aren't is told so: its socket ends, and what is stored of it stays.
//
// +checklocks:a.e.mu
func (c *changes) landed(a *actor, failed map[*tunnel]error) {
	if failed != nil {
		a.forgotten = append(c.gone, a.forgotten...)
	}
	for _, p := range c.fresh {
		p.stored = failed[p.t] == nil
	}
	for _, p := range c.fresh {
		t := p.t
		switch {
		case !t.isOpen(): // it has ended
		case !p.stored:
			t.refuse(errUnavailable)
		case p.n >= t.sent:
			t.flush()
			p.m = nil // until it is sent it is in the store
			p.release()
		}
	}
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
	t.flush()
	if len(t.pending) == 0 && !t.a.told {
		t.remove()
	}
}

// commitMessages stores messages and which sockets are open, and removes rows.
func commitMessages(a *actor, fresh []*pendingMessage, open []*tunnel, gone [][]byte) error {
	b := batch.Batch{Mode: batch.Ordered} // as many as there are
	for _, key := range gone {
		b.Delete(key)
	}
	for _, t := range open {
		b.Put(rivetstore.MessageKey(rivetstore.Socket(t.id), 0), rivetstore.Message{Binary: t.hibernates}.Append(nil))
	}
	for _, p := range fresh {
		b.Put(rivetstore.MessageKey(rivetstore.Socket(p.t.id), p.n), p.m.Append(nil))
	}
	if len(fresh) > 0 {
		b.WakeBy(time.Time{}) // should the engine end before they have come
		return a.handle.Commit(a.e.ctx, &b)
	}
	return a.handle.Apply(a.e.ctx, &b)
}

// A keptMessage is a message that wasn't acknowledged before the engine ended, or the opening of a socket: its number is 0 then.
type keptMessage struct {
	socket rivetstore.Socket
	n      uint64
	size   int
	binary bool
}

// loadMessages reads which messages are kept for an actor, those of a socket in their order.
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
		m, err := rivetstore.ParseMessage(e.Value)
		if err != nil {
			return nil, err
		}
		list = append(list, keptMessage{s, n, len(m.Data), m.Binary})
	}
	return list, nil
}

// restoreTunnels makes the tunnels of messages that were kept, and of sockets that were open. Their clients have gone.
//
// +checklocks:a.e.mu
func restoreTunnels(a *actor, list []keptMessage) {
	for _, k := range list {
		t := a.tunnels[rp.TunnelID(k.socket)]
		if t == nil {
			t = newTunnel(a, rp.TunnelID(k.socket))
			t.opened, t.hibernates, t.closing, t.n = true, true, true, 1
			t.track()
		}
		if k.n == 0 {
			t.noted, t.hibernates = true, k.binary
			continue
		}
		t.add(&pendingMessage{t: t, n: k.n, size: k.size, stored: true})
	}
}

// maxFetch bounds the stored messages that are read at once, in bytes.
const maxFetch = 1 << 20

// fetchMessages reads stored messages that wait to be sent, and then sends them.
//
// +checklocks:a.e.mu
func fetchMessages(a *actor) {
	if a.fetching {
		return
	}
	a.fetching = true
	a.do(0, func() {
		a.e.mu.Lock()
		var list []*pendingMessage
		size := 0
		for _, t := range a.tunnels {
			for _, p := range t.unsent() {
				if p.m == nil && p.stored && (size == 0 || size+p.size <= maxFetch) {
					list = append(list, p)
					size += p.size
				}
			}
		}
		a.e.mu.Unlock()
		read, err := readMessages(a, list)
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		a.fetching = false
		if err != nil {
			a.e.log.Error("engine: read stored messages", a.attr(), slog.Any("error", err))
			time.AfterFunc(startPause, func() {
				a.e.mu.Lock()
				defer a.e.mu.Unlock()
				a.flush()
			})
			return
		}
		for i, p := range list {
			p.m = read[i]
		}
		a.flush()
	})
}

// flush sends what is stored and wasn't sent.
//
// +checklocks:a.e.mu
func (a *actor) flush() {
	for _, t := range a.tunnels {
		t.flush()
	}
}

// readMessages reads stored messages.
func readMessages(a *actor, list []*pendingMessage) ([]*rivetstore.Message, error) {
	read := make([]*rivetstore.Message, len(list))
	for i, p := range list {
		value, err := a.handle.Get(a.e.ctx, rivetstore.MessageKey(rivetstore.Socket(p.t.id), p.n), nil)
		if err != nil {
			return nil, err
		}
		m, err := rivetstore.ParseMessage(value)
		if err != nil {
			return nil, err
		}
		read[i] = &m
	}
	return read, nil
}
