package host

import (
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/conn"
)

// An Event is a message on its way to a client.
type Event struct {
	Name string
	Body Raw // it must not be changed
}

// A Transport is the way to the client of a connection. Its methods are called by one
// goroutine at a time for what a turn sends, and must not wait: the transport
// cuts off a client that can't keep up. They must not call the actor.
type Transport interface {
	// Send sends an event. What can't be sent is lost.
	Send(e Event)
	// Close ends the transport: the connection is gone.
	Close(reason string)
}

// transports are those of hibernating connections: they stay when the actor sleeps.
type transports struct {
	mu   sync.Mutex
	of   map[string]map[conn.ID]attached  // by the actor  +checklocks:mu
	left map[string]map[conn.ID]time.Time // whose clients are away, and since when  +checklocks:mu
}

// An attached is a transport, and what takes it, and no later one, off its connection.
type attached struct {
	Transport
	detach func()
}

func (ts *transports) put(actor string, id conn.ID, t Transport, detach func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.of == nil {
		ts.of = map[string]map[conn.ID]attached{}
	}
	if ts.of[actor] == nil {
		ts.of[actor] = map[conn.ID]attached{}
	}
	ts.of[actor][id] = attached{t, detach}
	ts.forget(actor, id)
}

// attach gives a connection of an actor that wakes its transport back, unless its client
// was lost.
func (ts *transports) attach(actor string, n *conn.Conn) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, ok := ts.of[actor][n.ID()]
	if !ok {
		return nil
	}
	detach, err := n.Attach(t.Transport)
	if err != nil {
		return err
	}
	ts.of[actor][n.ID()] = attached{t.Transport, detach}
	return nil
}

// absent says since when the client of a connection is away, as far as that is known.
func (ts *transports) absent(actor string, id conn.ID) time.Time {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.left[actor][id]
}

// away returns since when a client of the actor is away, the one that has been so for
// longest; the zero time if all are there.
func (ts *transports) away(actor string) (first time.Time) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, at := range ts.left[actor] {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// leave takes a transport, if it is that one, off its connection, and notes since when the
// client is away.
func (ts *transports) leave(actor string, id conn.ID, t Transport, now time.Time) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	of := ts.of[actor][id]
	if of.Transport != t || t == nil {
		return false
	}
	of.detach()
	ts.remove(actor, id)
	if ts.left == nil {
		ts.left = map[string]map[conn.ID]time.Time{}
	}
	if ts.left[actor] == nil {
		ts.left[actor] = map[conn.ID]time.Time{}
	}
	ts.left[actor][id] = now
	return true
}

// +checklocks:ts.mu
func (ts *transports) forget(actor string, id conn.ID) {
	delete(ts.left[actor], id)
	if len(ts.left[actor]) == 0 {
		delete(ts.left, actor)
	}
}

// +checklocks:ts.mu
func (ts *transports) remove(actor string, id conn.ID) {
	delete(ts.of[actor], id)
	if len(ts.of[actor]) == 0 {
		delete(ts.of, actor)
	}
}

// take forgets a connection that is gone.
func (ts *transports) take(actor string, id conn.ID) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.remove(actor, id)
	ts.forget(actor, id)
}

// release takes a transport, if it is that one, off its connection, whose client is at another host.
func (ts *transports) release(actor string, id conn.ID, t Transport) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if of := ts.of[actor][id]; of.Transport == t && t != nil {
		of.detach()
		ts.remove(actor, id)
	}
}

// moved tells the transports of an actor, or of all if the name is "", that it may be at another host.
func (ts *transports) moved(actor string) {
	var all []Mover
	ts.mu.Lock()
	add := func(of map[conn.ID]attached) {
		for _, t := range of {
			if m, ok := t.Transport.(Mover); ok {
				all = append(all, m)
			}
		}
	}
	if add(ts.of[actor]); actor == "" {
		for _, of := range ts.of {
			add(of)
		}
	}
	ts.mu.Unlock()
	for _, m := range all {
		m.Moved()
	}
}

// drop closes all transports of an actor.
func (ts *transports) drop(actor, reason string) {
	ts.mu.Lock()
	all := ts.of[actor]
	delete(ts.of, actor)
	delete(ts.left, actor)
	ts.mu.Unlock()
	for _, t := range all {
		t.Close(reason)
	}
}

// restoredReason is what clients are told whose connections end because their actor was restored.
const restoredReason = "the actor was restored"
