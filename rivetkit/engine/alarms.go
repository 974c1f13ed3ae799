package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/wake"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// alarms starts actors whose time has come, or for which something waits. When an actor that sleeps must be started is in the store,
// beside the actor. That of an actor that runs is now: an engine that finds it after a crash, or a
// loss of the process that had the actor, doesn't know what the actor has set meanwhile. So an alarm that is set costs nothing, and the
// store never says too late a time.
type alarms struct {
	*wake.Table
	e *core
	// late are the actors that wait for a runner, by their names. It is guarded by core.mu.
	late map[poolKey]map[string]struct{}
}

// retry is after how long an actor is tried again that has no runner, or has failed.
const retry = 5 * time.Second

// rescan is how often the engine looks for what other processes have stored.
const rescan = 5 * time.Second

func newAlarms(e *core) *alarms {
	s := &alarms{e: e, late: map[poolKey]map[string]struct{}{}}
	s.Table = wake.New(wake.Options{
		Store: e.store, Now: e.now, Every: rescan, Due: dueRivetKit, Awake: s.awake, Wake: s.try, Logger: e.log,
	})
	return s
}

// dueRivetKit returns when an actor must be started; the zero time for one that isn't of a RivetKit program.
func dueRivetKit(w *actorstore.Waking) time.Time {
	if w.Layout != actorstore.LayoutRivetKit {
		return time.Time{}
	}
	return w.At
}

// awake reports whether a runner has the actor, or what follows from the end of that isn't stored yet.
func (s *alarms) awake(w *actorstore.Waking) bool {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	a := s.e.actors[w.ID]
	return a != nil && (a.phase != asleep || a.working || a.closing)
}

// ring starts an actor as soon as there is a runner. It isn't stored.
func (s *alarms) ring(a *actor) {
	s.Add(actorstore.Waking{ID: a.id, Name: a.name()}, s.e.now())
}

// try starts an actor.
func (s *alarms) try(ctx context.Context, w *actorstore.Waking, _ int) (again time.Duration) {
	e := s.e
	if s.leaves(ctx, w.ID) {
		return -1
	}
	a, err := enter(ctx, e, w.ID, false)
	if err == nil {
		defer a.leave()
		if e.fleet.gives(ctx, a) {
			return -1
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if a.wake() {
			return -1
		}
		if e.pools.lack(a) {
			s.waits(a)
		}
		return retry
	}
	switch {
	case errors.Is(err, errNotFound), errors.Is(err, errNotRivetKit),
		errors.Is(err, errUnavailable), errors.Is(err, errHalf): // another process has it, or is to finish it
		return -1
	case ctx.Err() == nil:
		e.log.Error("engine: start an actor by its alarm", slog.String("id", w.ID.String()), slog.Any("error", err))
	}
	return retry
}

// leaves reports whether an actor is another engine's to start, which alone has a runner for it.
func (s *alarms) leaves(ctx context.Context, id actorstore.ID) bool {
	e := s.e
	if e.fleet == nil || (follower{e: e, info: &actorInfo{ID: id}}).isOpen() {
		return false
	}
	a, err := look(ctx, e, id)
	return err == nil && e.fleet.wanted(ctx, &a) != nil
}

// waits notes that an actor was tried, and has no runner.
//
// +checklocks:s.e.mu
func (s *alarms) waits(a *actor) {
	at := a.pool()
	if s.late[at] == nil {
		s.late[at] = map[string]struct{}{}
	}
	s.late[at][a.name()] = struct{}{}
}

// started notes that an actor has a runner.
//
// +checklocks:s.e.mu
func (s *alarms) started(a *actor) {
	if late := s.late[a.pool()]; late != nil {
		if delete(late, a.name()); len(late) == 0 {
			delete(s.late, a.pool())
		}
	}
}

// arrived returns the names of the actors that had no runner of a pool, and forgets them.
//
// +checklocks:s.e.mu
func (s *alarms) arrived(at poolKey) map[string]struct{} {
	late := s.late[at]
	delete(s.late, at)
	return late
}

// adoptAll takes over rows of stores of before.
func (s *alarms) adoptAll() {
	rows := rivetstore.OldWakes()
	old := wake.Old{Engine: s.e.kv, Start: rows.Start, End: rows.End, Adopt: s.adopt, Logger: s.e.log}
	old.Run(s.e.ctx)
}

// adopt takes one row over. What the store says already of the actor is newer.
func (s *alarms) adopt(ctx context.Context, row kv.Entry) (done bool) {
	id, ms, err := rivetstore.ParseOldWake(row.Key, row.Value)
	if err != nil {
		s.e.log.Error("engine: take over when an actor must be started", slog.Any("error", err))
		return false
	}
	a, err := enter(ctx, s.e, id, false)
	if err == nil {
		err = a.handle.WakeBy(ctx, time.UnixMilli(ms))
		s.e.mu.Lock()
		if a.phase == asleep && (a.alarm == 0 || ms < a.alarm) {
			a.alarm = ms
		}
		s.e.mu.Unlock()
		a.leave()
	}
	switch {
	case err == nil, errors.Is(err, errNotFound), errors.Is(err, errNotRivetKit):
		return true
	case !errors.Is(err, errUnavailable) && !errors.Is(err, errHalf) && ctx.Err() == nil:
		s.e.log.Error("engine: take over when an actor must be started", slog.String("id", id.String()), slog.Any("error", err))
	}
	return false
}
