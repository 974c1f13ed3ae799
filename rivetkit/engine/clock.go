package engine

import (
	"errors"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// run starts the actors that are due.
func (s *alarms) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	scan := time.NewTicker(rescan)
	defer scan.Stop()
	others := kv.Shared(s.e.kv) == nil
	busy := make(chan struct{}, 16)
	for {
		a, in := s.due()
		if in == 0 {
			select {
			case busy <- struct{}{}:
			case <-s.e.ctx.Done():
				return
			}
			s.e.mu.Lock()
			s.e.spawn(func() {
				s.try(a)
				<-busy
			})
			s.e.mu.Unlock()
			continue
		}
		if in > 0 {
			timer.Reset(in)
		} else {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-s.wake:
		case <-scan.C:
			if others {
				if err := s.load(s.e.ctx); err != nil && s.e.ctx.Err() == nil {
					s.e.log.Warn("engine: read alarms", slog.Any("error", err))
				}
			}
		case <-s.e.ctx.Done():
			return
		}
	}
}

// due returns the next actor that is due, and puts it behind, or how long that takes; a negative time if there aren't any.
func (s *alarms) due() (a alarm, in time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.next.Min()
	if !ok {
		return a, -1
	}
	now := s.e.now()
	if in = a.due().Sub(now); in > 0 {
		return a, min(in, time.Minute) // timers don't count the time that a machine is suspended
	}
	again := a
	again.behind, again.pool = now.Add(retry), poolKey{}
	s.replace(again)
	return a, 0
}

// try starts an actor. If it runs already it knows by itself, and is tried again until it has set another time, or has
// slept and run again.
func (s *alarms) try(due alarm) {
	e := s.e
	if !due.rung && kv.Shared(e.kv) == nil {
		if ok, err := s.stands(due); !ok {
			if err != nil && e.ctx.Err() == nil {
				e.log.Error("engine: read an alarm", slog.Any("error", err))
			}
			return
		}
	}
	switch err := s.start(due.id); {
	case errors.Is(err, errNotFound), errors.Is(err, errNotRivetKit):
		if err := s.remove(due.id); err != nil && e.ctx.Err() == nil {
			e.log.Warn("engine: remove the alarm of an actor that isn't there", slog.Any("error", err))
		}
		return
	case errors.Is(err, errUnavailable), errors.Is(err, errHalf): // another process has it, or is to finish it
		s.mu.Lock()
		defer s.mu.Unlock()
		if old, ok := s.of[due.id]; ok {
			old.behind = e.now().Add(rescan)
			s.replace(old)
		}
		return
	case err != nil && e.ctx.Err() == nil:
		e.log.Error("engine: start an actor by its alarm", slog.String("id", due.id.String()), slog.Any("error", err))
	}
}

// stands says whether the row is what it was when it was read: another process may have changed it.
func (s *alarms) stands(a alarm) (bool, error) {
	value, err := s.e.kv.Get(s.e.ctx, rivetstore.WakeKey(a.id), nil)
	at := int64(0)
	if err == nil {
		at, err = rivetstore.ParseTime(value)
	}
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == a.at || s.here[a.id] {
		return true, nil
	}
	if s.drop(a.id); at != 0 {
		s.put(alarm{id: a.id, at: at})
	}
	return false, nil
}

// startUnasked starts an actor without a request.
func startUnasked(e *core, id actorstore.ID) error {
	a, err := enter(e.ctx, e, id)
	if err != nil {
		return err
	}
	defer a.leave()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !a.wake() && e.pools.lack(a) {
		e.alarms.waits(id, a.pool())
	}
	return nil
}
