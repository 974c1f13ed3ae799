package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/wake"
	"github.com/greenroomdb/greenroom/kv"
)

// When an actor must be woken is in the store, beside the actor: each commit that stores something
// to be done brings that time forward, and an actor that goes to sleep puts it right (remnant.note). A host that
// starts after another was killed wakes the actors for which something was stored, some of it done by now; they find out
// themselves what is left.

// alarms wakes the actors of a host.
type alarms struct {
	*wake.Table
	host     *Host
	adopting sync.WaitGroup // of adoptAll and buildIndex
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
	kind := s.host.kind(a.Type)
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
	case errors.Is(err, errRestored), noActor(err), errors.Is(err, ErrAddress), errors.Is(err, ErrClosed), ctx.Err() != nil:
	case errors.Is(err, actorstore.ErrInUse): // by another host, which looks after it while it can
	case errors.Is(err, actorstore.ErrNewerSchema): // a host that knows its schema looks after it
	default:
		s.host.log.Error("host: wake by alarm", slog.String("actor", w.Name), slog.Any("error", err))
		return backoff(failures + 1)
	}
	return -1
}

// wakeFor schedules waking an actor, if it sleeps, for a client that is lost, which no row says.
func (s *alarms) wakeFor(name string, at time.Time) {
	if w := (actorstore.Waking{Name: name}); !s.awake(&w) {
		s.Add(w, at)
	}
}

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

// adoptAll takes over rows of stores of before: it wakes their actors, one after the other, and when
// they sleep again the store says when they must be woken.
func (s *alarms) adoptAll() {
	h := s.host
	start, end := oldAlarms.Range()
	old := wake.Old{Engine: h.engine, Start: start, End: end, Adopt: s.adopt, Logger: h.log}
	old.Run(h.ctx)
}

// adopt takes one row over.
func (s *alarms) adopt(ctx context.Context, row kv.Entry) (done bool) {
	h := s.host
	name, err := parseOldAlarm(row.Key)
	if err != nil {
		h.log.Error("host: take over when an actor must be woken", slog.Any("error", err))
		return false
	}
	a, err := ParseAddress(name)
	if err != nil || h.kind(a.Type) == nil {
		return false // another program's
	}
	l, err := h.enter(ctx, a, nil, byUser)
	if err == nil {
		err = l.actor.WakeBy(l.steady, h.clock()) // until it sleeps
		l.leave()
	}
	if err != nil && !noActor(err) && !errors.Is(err, ErrClosed) && !errors.Is(err, actorstore.ErrInUse) {
		h.log.Error("host: take over when an actor must be woken", slog.String("actor", name), slog.Any("error", err))
	}
	return err == nil || noActor(err)
}

// buildIndex completes the index by which actors are found, in a store that an older version has made. Actors that it can't have now, it
// tries again.
func (s *alarms) buildIndex() {
	h := s.host
	for {
		err := h.door.BuildIndex(h.ctx)
		if err == nil || h.ctx.Err() != nil || errors.Is(err, actorstore.ErrClosed) {
			return
		}
		h.log.Warn("host: build the index of the store", slog.Any("error", err))
		again := time.NewTimer(h.opts.Rescan)
		select {
		case <-again.C:
		case <-h.ctx.Done():
		}
		again.Stop()
	}
}
