package host

import (
	"context"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// An AwakeError says what keeps an actor awake that Host.Sleep was to put to sleep. It is of the kind greenroom.ErrInUse.
type AwakeError struct {
	Connections int   // those that don't hibernate
	Tasks       int   // for which KeepAwake was called
	Turns       int   // that run or wait, about
	Steps       bool  // the actor's workflow runs
	Err         error // of the context that ended while turns and steps were waited for; nil if connections or tasks alone are the reason
}

// Error says what keeps the actor awake.
func (e *AwakeError) Error() string {
	var by []string
	if e.Connections > 0 {
		by = append(by, fmt.Sprintf("connections that don't hibernate (%d)", e.Connections))
	}
	if e.Tasks > 0 {
		by = append(by, fmt.Sprintf("work that isn't done (%d)", e.Tasks))
	}
	if e.Steps {
		by = append(by, "the steps of its workflow")
	}
	if e.Turns > 0 {
		by = append(by, fmt.Sprintf("turns (%d)", e.Turns))
	}
	if by == nil {
		by = []string{"what is due"}
	}
	return "host: it is kept awake by " + strings.Join(by, " and ")
}

// Unwrap returns Err.
func (e *AwakeError) Unwrap() error { return e.Err }

// Is reports whether target is the kind of the error.
func (e *AwakeError) Is(target error) bool { return target == errkind.ErrInUse }

// sleep puts the actor of that name to sleep, as Host.Sleep says.
func (h visitor) sleep(ctx context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		l := h.lives[name]
		if l == nil {
			return nil
		}
		if err := nested(ctx, l); err != nil {
			return err
		}
		switch l.phase {
		case waking:
			if err := await(ctx, &h.mu, l.woken); err != nil {
				return err
			}
		case awake:
			if l.held+l.kept > 0 {
				return &AwakeError{Connections: l.held, Tasks: l.kept}
			}
			if kept, err := h.awaitSleep(ctx, l); !kept {
				return err
			}
		default:
			return await(ctx, &h.mu, l.left)
		}
	}
}

// awaitSleep makes an actor that is awake sleep as soon as it has nothing to do, and returns when it is out of memory; or, with kept, as soon as
// a connection, or work, holds it.
//
// +checklocks:l.host.mu
func (h visitor) awaitSleep(ctx context.Context, l *life) (kept bool, err error) {
	if l.sleepers.kept == nil {
		l.sleepers.kept = make(chan struct{})
	}
	held := l.sleepers.kept
	l.sleepers.callers++
	defer func() { l.sleepers.callers-- }()
	if l.place == nil {
		l.settle()
	} else {
		l.rest()
	}
	h.mu.Unlock()
	select {
	case <-l.left:
	case <-held:
		kept = true
	case <-ctx.Done():
		err = ctx.Err()
	}
	h.mu.Lock()
	if err != nil && l.phase == awake {
		e := &AwakeError{Connections: l.held, Tasks: l.kept, Turns: l.users, Err: err}
		if l.running.Load() {
			e.Turns, e.Steps = e.Turns-1, true
		}
		err = e
	}
	return kept, err
}
