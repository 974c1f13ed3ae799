package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// alarms has actors started whose time has come. What sleeping actors wait for is stored in rows, one an actor at most.
// The row of an actor that runs says that it must be started at once: whoever finds it, after a crash, or a
// loss of the process that had the actor, doesn't know what the actor has set meanwhile. So an alarm that is set costs nothing, and a row is
// never too late. Rows are applied and not waited for: what is applied before something else that is durable is there after a crash.
type alarms struct {
	e     *core
	start func(id actorstore.ID) error // starts an actor that sleeps; nil where there is no runner

	mu   sync.Mutex
	next *btree.BTreeG[alarm]    // +checklocks:mu
	of   map[actorstore.ID]alarm // +checklocks:mu
	here map[actorstore.ID]bool  // those that run in this process: their rows say nothing  +checklocks:mu
	wake chan struct{}           // of one: next has changed
}

// An alarm is when an actor must be started.
type alarm struct {
	id     actorstore.ID
	at     int64     // Unix milliseconds, 0 for never
	rung   bool      // as soon as there is a runner
	behind time.Time // tried before, and not again until then
}

// due returns when the actor is tried next.
func (a alarm) due() time.Time {
	at := time.UnixMilli(a.at)
	if a.rung || a.behind.After(at) {
		return a.behind
	}
	return at
}

func (a alarm) before(b alarm) bool {
	return cmp.Or(a.due().Compare(b.due()), cmp.Compare(a.id.String(), b.id.String())) < 0
}

// retry is after how long an actor is tried again that has no runner, or has failed.
const retry = 5 * time.Second

// rescan is how often rows are read that other processes may have written.
const rescan = 30 * time.Second

func newAlarms(e *core, start func(id actorstore.ID) error) *alarms {
	return &alarms{
		e: e, start: start, of: map[actorstore.ID]alarm{}, here: map[actorstore.ID]bool{}, wake: make(chan struct{}, 1),
		next: btree.NewBTreeGOptions(alarm.before, btree.Options{NoLocks: true}),
	}
}

// load reads the rows.
func (s *alarms) load(ctx context.Context) error {
	for row, err := range s.e.kv.Scan(ctx, rivetstore.WakeRange()) {
		if err != nil {
			return err
		}
		id, err := rivetstore.ParseWakeKey(row.Key)
		if err != nil {
			return err
		}
		ms, err := rivetstore.ParseTime(row.Value)
		if err != nil {
			return err
		}
		s.mu.Lock()
		if old, ok := s.of[id]; !s.here[id] && (!ok || old.at != ms) {
			s.put(alarm{id: id, at: ms, rung: old.rung})
		}
		s.mu.Unlock()
	}
	return nil
}

// put replaces the actor's alarm.
//
// +checklocks:s.mu
func (s *alarms) put(a alarm) {
	if old, ok := s.of[a.id]; ok {
		s.next.Delete(old)
	}
	s.of[a.id] = a
	s.next.Set(a)
	s.poke()
}

// drop removes it.
//
// +checklocks:s.mu
func (s *alarms) drop(id actorstore.ID) {
	if old, ok := s.of[id]; ok {
		s.next.Delete(old)
		delete(s.of, id)
	}
}

func (s *alarms) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// began notes that the actor is about to be started: before anything that it does is stored.
func (s *alarms) began(id actorstore.ID) error {
	s.mu.Lock()
	s.here[id] = true
	s.mu.Unlock()
	return s.commit(kv.Set(rivetstore.WakeKey(id), rivetstore.AppendTime(nil, 1)))
}

// set notes when an actor that runs must be started when it sleeps, 0 for never.
func (s *alarms) set(id actorstore.ID, ms int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drop(id); ms != 0 {
		s.put(alarm{id: id, at: ms})
	}
}

// ended stores when the actor, which has stopped, must be started.
func (s *alarms) ended(id actorstore.ID) error {
	s.mu.Lock()
	delete(s.here, id)
	at := s.of[id].at
	s.mu.Unlock()
	if at == 0 {
		return s.commit(kv.Clear(rivetstore.WakeKey(id)))
	}
	return s.commit(kv.Set(rivetstore.WakeKey(id), rivetstore.AppendTime(nil, at)))
}

// remove forgets an actor that is destroyed.
func (s *alarms) remove(id actorstore.ID) error {
	s.mu.Lock()
	s.drop(id)
	s.mu.Unlock()
	return s.ended(id)
}

func (s *alarms) commit(op kv.Op) error {
	return s.e.kv.Commit(s.e.ctx, &kv.Commit{Ops: []kv.Op{op}, Durability: kv.Applied})
}

// ring has an actor started as soon as there is a runner. It isn't stored.
func (s *alarms) ring(id actorstore.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(alarm{id: id, at: s.of[id].at, rung: true})
}

// arrived has the actors tried again that had no runner.
func (s *alarms) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var late []alarm
	s.next.Scan(func(a alarm) bool {
		if !a.behind.IsZero() {
			late = append(late, a)
		}
		return true
	})
	for _, a := range late {
		a2 := a
		a2.behind = time.Time{}
		s.put(a2)
	}
}

// served takes the alarm of an actor that runs now, if its time has come.
func (s *alarms) served(id actorstore.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.of[id]
	if !ok {
		return
	}
	if s.drop(id); old.at > s.e.now().UnixMilli() {
		s.put(alarm{id: id, at: old.at})
	}
}

// run starts who is due.
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

// due returns the next actor that is due, and puts it behind, or how long that takes; a negative time if there is none.
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
	again.behind = now.Add(retry)
	s.next.Delete(a)
	s.of[a.id] = again
	s.next.Set(again)
	return a, 0
}

// try has an actor started. If it runs already it knows by itself, and is tried again until it has set another time, or has
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
			s.next.Delete(old)
			old.behind = e.now().Add(rescan)
			s.of[due.id] = old
			s.next.Set(old)
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

// startUnasked has an actor started for which nobody waits.
func startUnasked(e *core, id actorstore.ID) error {
	a, err := enter(e.ctx, e, id)
	if err != nil {
		return err
	}
	defer a.leave()
	e.mu.Lock()
	defer e.mu.Unlock()
	a.wake()
	return nil
}
