package engine

import (
	"context"
	"encoding/binary"
	"log/slog"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/host/internal/gateway"
	"github.com/greenroomdb/greenroom/host/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/host/internal/runnerproto"
)

// A tunnel is one request of a client, or one WebSocket, on its way through a runner to an actor. All fields are guarded by
// Engine.mu.
//
// The messages to an actor are numbered. The index in a message is its number modulo 65536: 0 is for the one that opens the
// tunnel.
type tunnel struct {
	e  *Engine
	a  *actor
	id rp.TunnelID
	n  uint64 // the number of the next message

	request *request // nil for a socket
	client  *socket  // nil for a request, and when the client of a socket has gone

	opened     bool // the actor has taken the socket
	hibernates bool // it outlives the actor's sleep
	// pending are the messages of a socket that hibernates which the actor hasn't acknowledged, in order.
	pending []*pendingMessage
	bytes   int    // of pending
	sent    uint64 // the first number that wasn't sent to this start of the actor
	closing bool   // the client has gone, and the actor is told so behind the last of pending
	ending  rp.ClientClose
	room    chan struct{} // closed when pending has become shorter
}

// A pendingMessage is what a client has sent.
type pendingMessage struct {
	n      uint64
	m      rivetstore.Message
	stored bool // it is durable
}

// tunnel returns the tunnel with an id, nil if there is none.
//
// +checklocks:e.mu
func (e *Engine) tunnel(id rp.TunnelID) *tunnel {
	t := e.tunnels[binary.BigEndian.Uint32(id.Request[:])]
	if t == nil || t.id != id {
		return nil
	}
	return t
}

// open makes a tunnel to the actor, which runs.
//
// +checklocks:a.e.mu
func (a *actor) openTunnel() *tunnel {
	number := a.e.number()
	t := &tunnel{e: a.e, a: a, id: rp.TunnelID{Gateway: a.e.gateway, Request: requestBytes(number)}, room: make(chan struct{})}
	t.track(number)
	return t
}

// track has the tunnel found by its number.
//
// +checklocks:t.e.mu
func (t *tunnel) track(number uint32) {
	t.e.tunnels[number] = t
	t.a.tunnels[number] = t
}

// remove ends the tunnel.
//
// +checklocks:t.e.mu
func (t *tunnel) remove() {
	number := binary.BigEndian.Uint32(t.id.Request[:])
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

// take takes what the actor says.
//
// +checklocks:t.e.mu
func (t *tunnel) take(m rp.FromActor) {
	if t.request != nil {
		t.request.take(m.Body)
		return
	}
	t.takeSocket(m)
}

// lost follows the end of the actor in its runner.
//
// +checklocks:t.e.mu
func (t *tunnel) lost() {
	if t.request != nil {
		t.request.fail(errStopped)
		t.remove()
		return
	}
	t.endSocket(gateway.ErrUnavailable, "ws.downstream_closed")
}

// cut follows the loss of the runner: what it has done isn't known.
//
// +checklocks:t.e.mu
func (t *tunnel) cut() {
	if t.request != nil {
		t.request.fail(errUnknownOutcome)
		t.remove()
		return
	}
	t.endSocket(gateway.ErrUnavailable, "ws.downstream_closed")
}

// fail ends the tunnel with an error.
//
// +checklocks:t.e.mu
func (t *tunnel) fail(err error) {
	if t.request != nil {
		t.request.fail(err)
		t.remove()
		return
	}
	t.endSocket(err, gateway.CloseReason(err))
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

// rewind has everything sent again that isn't acknowledged.
//
// +checklocks:t.e.mu
func (t *tunnel) rewind() { t.sent = t.first() }

// flush sends what is stored and wasn't sent.
//
// +checklocks:t.e.mu
func (t *tunnel) flush() {
	a := t.a
	if !a.told || a.phase != starting && a.phase != running || a.runner.conn == nil {
		return
	}
	for _, p := range t.pending {
		if p.n < t.sent {
			continue
		}
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
	t.pending = append(t.pending, &pendingMessage{n: t.n, m: m})
	t.n++
	t.bytes += len(m.Data) + 128
	t.a.storeMessages()
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
	a.forgotten = append(a.forgotten, rivetstore.MessageKey(rivetstore.Socket(t.id), p.n))
	if len(a.forgotten) >= 64 && a.phase != gone {
		a.storeMessages()
	}
}

// discard ends a socket whose client has gone.
//
// +checklocks:t.e.mu
func (t *tunnel) discard() { t.remove() }

// storeMessages has the messages stored that aren't, in one commit, and then sent.
//
// +checklocks:a.e.mu
func (a *actor) storeMessages() {
	if a.unstored {
		return
	}
	a.unstored = true
	a.do(0, func() {
		a.e.mu.Lock()
		a.unstored = false
		gone := a.forgotten
		a.forgotten = nil
		var b batch.Batch
		var fresh []*pendingMessage
		for _, t := range a.tunnels {
			for _, p := range t.pending {
				if !p.stored {
					b.Put(rivetstore.MessageKey(rivetstore.Socket(t.id), p.n), p.m.Append(nil))
					fresh = append(fresh, p)
				}
			}
		}
		a.e.mu.Unlock()
		for _, key := range gone {
			b.Delete(key)
		}
		err := a.commitMessages(&b, len(fresh) > 0)
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		if err != nil {
			a.e.log.Error("engine: store messages", slog.String("actor", a.public.Name+"/"+a.public.Key), slog.Any("error", err))
			for _, t := range a.tunnels {
				if t.hibernates && len(t.pending) > 0 {
					t.fail(gateway.ErrUnavailable)
				}
			}
			return
		}
		for _, p := range fresh {
			p.stored = true
		}
		for _, t := range a.tunnels {
			if t.hibernates {
				t.flush()
			}
		}
	})
}

func (a *actor) commitMessages(b *batch.Batch, durable bool) error {
	b.Mode = batch.Ordered // as many as there are
	if durable {
		return a.handle.Commit(a.e.ctx, b)
	}
	return a.handle.Apply(a.e.ctx, b)
}

// loadMessages reads the messages that weren't acknowledged before the engine ended. Their clients have gone.
func (a *actor) loadMessages(ctx context.Context, h *actorstore.Actor) error {
	start, end := rivetstore.SocketRange()
	of := map[rp.TunnelID]*tunnel{}
	for e, err := range h.List(ctx, actorstore.ListOptions{Start: start, End: end}) {
		if err != nil {
			return err
		}
		s, n, message, err := rivetstore.ParseSocketKey(e.Key)
		if err != nil {
			return err
		}
		if !message {
			continue
		}
		m, err := rivetstore.ParseMessage(append([]byte(nil), e.Value...))
		if err != nil {
			return err
		}
		t := of[rp.TunnelID(s)]
		if t == nil {
			t = &tunnel{e: a.e, a: a, id: rp.TunnelID(s), opened: true, hibernates: true, closing: true, room: make(chan struct{})}
			of[t.id] = t
		}
		t.pending = append(t.pending, &pendingMessage{n: n, m: m, stored: true})
		t.bytes += len(m.Data) + 128
		t.n = n + 1
	}
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	for id, t := range of {
		number := binary.BigEndian.Uint32(id.Request[:])
		if a.e.tunnels[number] != nil {
			continue // looked at again when the actor is opened next
		}
		t.track(number)
	}
	return nil
}
