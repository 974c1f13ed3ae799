package engine

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A mailbox keeps what clients have sent an actor over sockets that hibernate, until the actor acknowledges it. A message is stored
// before it is sent, and is in memory until it is sent: it is read again for the next start of the actor. That a socket is open is stored,
// too, so that the actor can be told when it has ended with the engine. All fields are guarded by core.mu.
type mailbox struct {
	a         *actor
	kept      int               // bytes of messages that aren't acknowledged
	room      chan struct{}     // closed when kept has become less
	unstored  bool              // a job will store messages
	fetching  bool              // a job will read stored messages
	fresh     []*pendingMessage // that aren't stored, in order
	sockets   []*tunnel         // whose opening isn't stored
	forgotten [][]byte          // keys of rows to be removed
}

// forget removes a row of a tunnel, some time.
//
// +checklocks:b.a.e.mu
func (b *mailbox) forget(key []byte) {
	b.forgotten = append(b.forgotten, key)
	if len(b.forgotten) >= 64 && b.a.phase != gone {
		b.store()
	}
}

// makeRoom tells those that wait until less is kept for the actor.
//
// +checklocks:b.a.e.mu
func (b *mailbox) makeRoom() {
	close(b.room)
	b.room = make(chan struct{})
}

// store stores the messages that aren't stored yet, and then sends them.
//
// +checklocks:b.a.e.mu
func (b *mailbox) store() {
	if b.unstored {
		return
	}
	b.unstored = true
	b.a.do(0, func() {
		e := b.a.e
		e.mu.Lock()
		c := changes{fresh: slices.DeleteFunc(b.fresh, func(p *pendingMessage) bool { return p.gone }), gone: b.forgotten}
		for _, t := range b.sockets {
			if t.isOpen() {
				c.open = append(c.open, t)
			}
		}
		b.unstored, b.fresh, b.forgotten, b.sockets = false, nil, nil, nil
		e.mu.Unlock()
		failed := b.commitEach(&c)
		e.mu.Lock()
		defer e.mu.Unlock()
		b.landed(&c, failed)
	})
}

// yield ends the sockets of an actor that sleeps, and that another engine is to have: what is kept of them stays in the store, as at the end of an engine.
//
// +checklocks:b.a.e.mu
func (b *mailbox) yield() {
	a := b.a
	if len(b.forgotten) > 0 {
		b.store()
	}
	for id, t := range a.tunnels {
		delete(a.e.tunnels, id)
		delete(a.tunnels, id)
		for _, p := range t.pending {
			if p.stored {
				p.repay()
			}
		}
		if c := t.client; c != nil {
			t.client = nil
			c.fail(t, errUnavailable)
		}
	}
	b.makeRoom()
	a.phase = gone // it is opened anew, here or there
	a.notify()
	a.abandon()
}

// changes are what is to be changed of the rows of an actor's tunnels.
type changes struct {
	fresh []*pendingMessage // to be stored
	open  []*tunnel         // whose opening is to be stored
	gone  [][]byte          // keys to be removed
}

// commitEach makes the changes in one commit, or those of each client in one if that fails. It returns the tunnels whose messages
// aren't stored, and why.
func (b *mailbox) commitEach(c *changes) (failed map[*tunnel]error) {
	err := b.commit(c)
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
			failed[t] = b.commit(&changes{fresh: list})
		}
	}
	b.a.e.log.Error("engine: store messages", b.a.attr(), slog.Any("error", err))
	return failed
}

// landed sends what is stored. A client whose messages aren't is told so: its socket ends, and what is stored of it stays.
//
// +checklocks:b.a.e.mu
func (b *mailbox) landed(c *changes, failed map[*tunnel]error) {
	if failed != nil {
		b.forgotten, b.sockets = append(c.gone, b.forgotten...), append(c.open, b.sockets...)
	}
	for _, p := range c.fresh {
		p.stored = failed[p.t] == nil
	}
	for _, p := range c.fresh {
		t := p.t
		switch {
		case !t.isOpen(): // it has ended
			p.repay()
		case !p.stored:
			t.refuse(errUnavailable)
		case p.n >= t.sent:
			t.flush()
			p.m = nil // until it is sent it is in the store
			p.release()
		}
	}
}

// commit makes changes in one commit.
func (b *mailbox) commit(c *changes) error {
	rows := batch.Batch{Mode: batch.Ordered} // as many as there are
	for _, key := range c.gone {
		rows.Delete(key)
	}
	for _, t := range c.open {
		rows.Put(rivetstore.MessageKey(rivetstore.Socket(t.id), 0), rivetstore.Message{Binary: t.hibernates}.Append(nil))
	}
	for _, p := range c.fresh {
		rows.Put(rivetstore.MessageKey(rivetstore.Socket(p.t.id), p.n), p.m.Append(nil))
	}
	if len(c.fresh) > 0 {
		rows.WakeBy(time.Time{}) // should the engine end before they have come
		return b.a.handle.Commit(b.a.e.ctx, &rows)
	}
	return b.a.handle.Apply(b.a.e.ctx, &rows)
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

// restore makes the tunnels of messages that were kept, and of sockets that were open. Their clients have gone.
//
// +checklocks:b.a.e.mu
func (b *mailbox) restore(list []keptMessage) {
	a := b.a
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

// fetch reads stored messages that wait to be sent, and then sends them.
//
// +checklocks:b.a.e.mu
func (b *mailbox) fetch() {
	if b.fetching {
		return
	}
	b.fetching = true
	b.a.do(0, func() {
		e := b.a.e
		e.mu.Lock()
		list := b.wanted()
		e.mu.Unlock()
		read, err := b.read(list)
		e.mu.Lock()
		defer e.mu.Unlock()
		b.fetching = false
		if err != nil {
			e.log.Error("engine: read stored messages", b.a.attr(), slog.Any("error", err))
			time.AfterFunc(startPause, func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				b.flush()
			})
			return
		}
		for i, p := range list {
			p.m = read[i]
		}
		b.flush()
	})
}

// wanted returns stored messages that wait to be sent, up to maxFetch.
//
// +checklocks:b.a.e.mu
func (b *mailbox) wanted() (list []*pendingMessage) {
	size := 0
	for _, t := range b.a.tunnels {
		for _, p := range t.unsent() {
			if p.m == nil && p.stored && (size == 0 || size+p.size <= maxFetch) {
				list = append(list, p)
				size += p.size
			}
		}
	}
	return list
}

// flush sends what is stored and wasn't sent.
//
// +checklocks:b.a.e.mu
func (b *mailbox) flush() {
	for _, t := range b.a.tunnels {
		t.flush()
	}
}

// read reads stored messages.
func (b *mailbox) read(list []*pendingMessage) ([]*rivetstore.Message, error) {
	read := make([]*rivetstore.Message, len(list))
	for i, p := range list {
		value, err := b.a.handle.Get(b.a.e.ctx, rivetstore.MessageKey(rivetstore.Socket(p.t.id), p.n), nil)
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
