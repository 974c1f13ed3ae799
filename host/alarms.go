package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/wake"
)

// When an actor must be woken is in the store, beside the actor: each commit that stores something
// to be done brings that time forward, and an actor that goes to sleep puts it right (noteSleep). A host that
// starts after another was killed wakes the actors for which something was stored, some of it done by now; they find out
// themselves what is left.

// alarms wakes the actors of a host.
type alarms struct {
	*wake.Table
	host     *Host
	adopting sync.WaitGroup // of adoptAll and buildIndex
}

func newAlarms(h *Host) *alarms {
	s := &alarms{host: h}
	s.Table = wake.New(wake.Options{
		Store: h.store, Now: h.clock, Every: h.opts.Rescan, Due: s.due, Awake: s.awake, Wake: s.wake, Logger: h.log,
	})
	return s
}

// start begins to wake actors.
func (s *alarms) start(ctx context.Context) error {
	err := s.Start(ctx)
	if err == nil {
		s.adopting.Go(s.adoptAll)
		s.adopting.Go(s.buildIndex)
	}
	return err
}

// due returns when an actor must be woken; the zero time for never.
func (s *alarms) due(w *actorstore.Waking) time.Time {
	a, err := ParseAddress(w.Name)
	kind := s.host.types[a.Type]
	if err != nil || kind == nil || w.Layout != actorstore.LayoutGreenroom {
		return time.Time{} // it may be of a type that another program has
	}
	return w.Due(kind.fingerprint())
}

func (s *alarms) awake(w *actorstore.Waking) bool {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	return s.host.lives[w.Name] != nil
}

// wake wakes an actor: everything else it does by itself.
func (s *alarms) wake(ctx context.Context, w *actorstore.Waking, failures int) (again time.Duration) {
	a, err := ParseAddress(w.Name)
	if err == nil {
		var l *life
		if l, err = s.host.enter(ctx, a, nil, byAlarm); err == nil {
			l.leave()
			s.host.meter.Count(metricAlarms, 1)
			return -1
		}
	}
	switch {
	case errors.Is(err, errRestored), errors.Is(err, ErrNoActor), errors.Is(err, ErrAddress), errors.Is(err, ErrClosed), ctx.Err() != nil:
	case errors.Is(err, actorstore.ErrInUse): // by another host, which looks after it while it can
	default:
		s.host.log.Error("host: wake by alarm", slog.String("actor", w.Name), slog.Any("error", err))
		return backoff(failures + 1)
	}
	return -1
}

// wakeFor has an actor woken at a time for a client that is lost, which no row says, if it sleeps.
func (s *alarms) wakeFor(name string, at time.Time) {
	if w := (actorstore.Waking{Name: name}); !s.awake(&w) {
		s.Add(w, at)
	}
}

// noteSleep notes in the store, in one commit that isn't waited for, what there is to say of an actor that is about to leave memory: when it must be woken,
// when it fell asleep, and what it has used. It must be woken at once if there
// is something for it to do. If there is something that its type can't do, another version of the type is to look.
func (l *life) noteSleep(left remnant) {
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
	var b batch.Batch
	err := l.actor.StageWake(&b, w)
	if seq := l.actor.Seq(); err == nil && seq > 0 && (seq != l.seq || now.Sub(l.woke) > briefly) {
		l.actor.StageAttributes(&b, func(at *actorstore.Attributes) error {
			at.Slept = now
			return nil
		})
		l.used.stage(&b, true)
	}
	if err == nil {
		err = l.actor.Apply(l.steady, &b)
	}
	l.report("note that it sleeps", err) // else it is woken too early
}

// briefly is how long an actor may have been awake of which nothing is noted that hasn't written: calls that only read cost no commit.
const briefly = time.Minute

// try notes that the version of the type that k is can't do all that the actor has to do. What
// the store said of other versions when it woke holds unless there is work that those didn't see,
// be it fresh or due since then. For what one of them waits to do later the time stays.
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
