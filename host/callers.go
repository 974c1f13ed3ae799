package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom"
)

// errAgain says that a turn didn't run, because the actor left memory before its
// turn came: the caller wakes the actor again.
var errAgain = errors.New("host: actor has left memory")

// A caller is a kind of callers that want an actor awake.
type caller uint8

const (
	byUser caller = iota
	byCourier
	byAlarm       // for what was due when the actor was as it was before a restore, if it was restored meanwhile
	byCoordinator // for a turn of several, some of which are awake for it: doesn't wait for room: errNoRoom
)

// errNoRoom says that as many actors are awake as may be.
var errNoRoom = errors.New("host: no room for one more actor")

// errRestored says that an actor was restored, and isn't woken for what was due before.
var errRestored = errors.New("host: actor was restored")

// nested returns ErrNested if ctx, or the calling goroutine, belongs to a turn of l that
// runs, or to one for which such a turn waits: what waited there for a turn of l would wait
// for itself.
//
// +checklocks:l.host.mu
func nested(ctx context.Context, l *life) error {
	for c := turnOf(ctx); c != nil; c = c.caller {
		if c.runs() && (c.life == l || slices.Contains(c.beside, l.name)) || slices.Contains(c.remote, l.name) {
			return fmt.Errorf("host: call of %s, which waits for the caller: %w", l.name, greenroom.ErrNested)
		}
	}
	if l.door != nil && transactions.Nested(ctx, l.door) != nil {
		return fmt.Errorf("host: call of %s in a turn of its own: %w", l.name, greenroom.ErrNested)
	}
	return nil
}
