package host

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/wake"
	"github.com/greenroomdb/greenroom/kv"
)

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
	if err != nil || h.types[a.Type] == nil {
		return false // another program's
	}
	l, err := h.enter(ctx, a, nil, byUser)
	if err == nil {
		err = l.actor.WakeBy(l.steady, h.clock()) // until it sleeps
		l.leave()
	}
	if err != nil && !errors.Is(err, ErrNoActor) && !errors.Is(err, ErrClosed) && !errors.Is(err, actorstore.ErrInUse) {
		h.log.Error("host: take over when an actor must be woken", slog.String("actor", name), slog.Any("error", err))
	}
	return err == nil || errors.Is(err, ErrNoActor)
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
