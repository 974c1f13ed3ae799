package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// What an actor uses is counted from when its runner is told to start it until it stops. A turn is a request, a WebSocket, or a message over one, that
// goes to the actor. An answer with a status of 500 or more is a failure, and so is a start that doesn't end well.

// Places of failures.
const (
	placeRequest = "request"
	placeActor   = "actor"
	placeRunner  = "runner"
)

// Usage returns what the actors that are awake have used and the store doesn't say yet, in the order of their names. What it says,
// actorstore.ActorInfo.Usage has.
func (e *Engine) Usage() []actorstore.ActorUsage {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := []actorstore.ActorUsage{}
	for id, a := range e.actors {
		if a.phase == starting || a.phase == running || a.phase == stopping {
			all = append(all, actorstore.ActorUsage{ID: id, Name: a.name(), Usage: a.used.Unstored()})
		}
	}
	slices.SortFunc(all, func(a, b actorstore.ActorUsage) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// turn counts that something goes to the actor. What an actor uses that is awake for long is stored with a turn now and then.
//
// +checklocks:m.a.e.mu
func (m *meter) turn() {
	a := m.a
	m.Turn()
	if m.storing || !m.Due(a.e.now()) {
		return
	}
	m.storing = true
	a.do(0, func() {
		var b batch.Batch
		m.Stage(&b, true)
		if err := a.handle.Apply(a.e.ctx, &b); err != nil {
			a.e.log.Warn("engine: note what an actor uses", a.attr(), slog.Any("error", err))
		}
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		m.storing = false
	})
}

// answered counts an answer of the actor that says that something has failed in it.
//
// +checklocks:m.a.e.mu
func (m *meter) answered(status uint16) {
	if status >= http.StatusInternalServerError {
		m.Fail(fmt.Sprint("http_", status), placeRequest)
	}
}
