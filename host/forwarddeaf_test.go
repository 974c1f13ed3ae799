package host

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
)

// TestForwardDeaf: a call waits for an actor that a program keeps for a moment, and is told that it is in use if the program keeps it for longer.
func TestForwardDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPeers(t, counters)
		a := f.open("a:1")
		ctx, at := t.Context(), Address{"thing", "one"}
		must(t, testkit.Second(invoke[int](ctx, a, at, "add", 1)))
		for had, want := range map[time.Duration]error{50 * time.Millisecond: nil, 250 * time.Millisecond: nil, time.Minute: actorstore.ErrInUse} {
			must(t, a.Sleep(ctx, idOf(at)))
			program, err := greenroom.New(ctx, engines.Shared(f.below), nil)
			must(t, err)
			must(t, testkit.Second(program.Actor(ctx, at.String(), nil)))
			closed := make(chan error)
			time.AfterFunc(had, func() { closed <- program.Close() })
			began := time.Now()
			_, err = invoke[int](ctx, a, at, "add", 1)
			if !errors.Is(err, want) || time.Since(began) > time.Second {
				t.Errorf("an actor that a program has for %v: %v after %v", had, err, time.Since(began))
			}
			must(t, <-closed)
		}
		f.close()
	})
}

// TestForwardDeafLate: a call asks no longer for an actor of a program if the actor moved often before.
func TestForwardDeafLate(t *testing.T) {
	for _, moving := range []int{0, 6, 10} {
		synctest.Test(t, func(t *testing.T) {
			f := newPeers(t, counters)
			a := f.open("a:1")
			tries := 0
			err := a.Follow(t.Context(), Address{"thing", "one"}, func(context.Context) error {
				if tries++; tries <= moving {
					return actorstore.ErrInUse
				}
				return &actorstore.InUseError{Host: actorstore.HostInfo{ID: actorstore.HostID{9}}}
			}, nil)
			if want := max(moving, deafMoves) + 1; tries != want || errors.Is(err, ErrUnreachable) || !errors.Is(err, actorstore.ErrInUse) {
				t.Errorf("an actor that moves %d times: %d tries, want %d: %v", moving, tries, want, err)
			}
			f.close()
		})
	}
}
