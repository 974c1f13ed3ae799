package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/wake"
)

// When an actor must be woken is in the store, beside the actor: each commit that stores something
// to be done brings that time forward, and an actor that goes to sleep puts it right (noteWake). A host that
// was killed wakes the actors for which something was stored, and no others; they find out
// themselves what it is.

// startAlarms has h wake actors.
func (h *Host) startAlarms(ctx context.Context) (err error) {
	h.alarms, err = wake.Start(ctx, wake.Options{
		Store: h.store, Now: h.clock, Every: h.opts.Rescan, Due: h.due, Awake: func(w *actorstore.Waking) bool { return h.isAwake(w.Name) }, Wake: h.wake, Logger: h.log,
	})
	if err == nil {
		h.adopting.Go(h.adoptAlarms)
	}
	return err
}

// due returns when an actor must be woken; the zero time for never.
func (h *Host) due(w *actorstore.Waking) time.Time {
	a, err := ParseAddress(w.Name)
	kind := h.types[a.Type]
	if err != nil || kind == nil || w.Layout != actorstore.LayoutGreenroom {
		return time.Time{} // it may be of a type that another program has
	}
	return w.Due(kind.fingerprint())
}

func (h *Host) isAwake(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lives[name] != nil
}

// wake wakes an actor: everything else it does by itself.
func (h *Host) wake(ctx context.Context, w *actorstore.Waking, failures int) (again time.Duration) {
	a, err := ParseAddress(w.Name)
	if err == nil {
		var l *life
		if l, err = h.enter(ctx, a, nil, false); err == nil {
			l.leave()
			h.meter.Count(metricAlarms, 1)
			return -1
		}
	}
	switch {
	case errors.Is(err, ErrNoActor), errors.Is(err, ErrAddress), errors.Is(err, ErrClosed), ctx.Err() != nil:
	case errors.Is(err, actorstore.ErrInUse): // by another host, which looks after it while it can
	default:
		h.log.Error("host: wake by alarm", slog.String("actor", w.Name), slog.Any("error", err))
		return backoff(failures + 1)
	}
	return -1
}

// wakeFor has an actor woken at a time for a client that is lost, which no row says, if it sleeps.
func (h *Host) wakeFor(name string, at time.Time) {
	if !h.isAwake(name) {
		h.alarms.Add(actorstore.Waking{Name: name}, at)
	}
}

// noteWake notes in the store when an actor that is about to leave memory must be woken: at once if there
// is something for it to do. If there is something that its type can't do, another version of the type is to look.
func (l *life) noteWake(left remnant) {
	now := l.host.clock()
	at := l.clock.Next()
	switch {
	case left.ready:
		at = now
	case !at.IsZero() && at.Before(now):
		at = now.Add(time.Second) // it was awake when that was due
	}
	w := actorstore.Wake{At: at}
	if left.stuck {
		l.kind.try(&w, &l.had, left.fresh, now)
	}
	l.report("note when it must be woken", l.actor.SetWake(l.steady, w)) // else it is woken too early
}

// try notes that the version of the type that k is can't do all that the actor has to do. What
// the store said of other versions when it woke holds as long as there is no
// work that they have not seen, be it fresh or due since then. For what one of them waits to
// do later the time stays.
func (k *kind) try(w, had *actorstore.Wake, fresh bool, now time.Time) {
	w.Tried = k.tried(nil)
	if len(had.Tried) == 0 || fresh || !had.At.IsZero() && !had.At.After(now) {
		return
	}
	if w.Tried = k.tried(had.Tried); w.At.IsZero() || !had.At.IsZero() && had.At.Before(w.At) {
		w.At = had.At
	}
}

// tried returns the fingerprints of the versions of k's type that could not do what an actor
// has to do: those of before and that of k, which is the last of them.
func (k *kind) tried(before []uint64) []uint64 {
	if slices.Contains(before, k.fingerprint()) {
		return before
	}
	all := append(slices.Clone(before), k.fingerprint())
	return all[max(0, len(all)-actorstore.MaxTried):]
}
