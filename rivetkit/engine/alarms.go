package engine

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// alarms starts actors whose time has come. What sleeping actors wait for is stored in rows, one an actor at most.
// The row of an actor that runs says that it must be started at once: an engine that finds it, after a crash, or a
// loss of the process that had the actor, doesn't know what the actor has set meanwhile. So an alarm that is set costs nothing, and a row is
// never too late. Rows are applied and not waited for: what is applied before something else that is durable is there after a crash.
type alarms struct {
	e     *core
	start func(id actorstore.ID) error // starts an actor that sleeps; nil if no runner can run it

	mu   sync.Mutex
	next *btree.BTreeG[alarm]                   // +checklocks:mu
	of   map[actorstore.ID]alarm                // +checklocks:mu
	late map[poolKey]map[actorstore.ID]struct{} // those that wait for a runner  +checklocks:mu
	here map[actorstore.ID]bool                 // those that run in this process: their rows say nothing  +checklocks:mu
	wake chan struct{}                          // of one: next has changed
}

// An alarm is when an actor must be started.
type alarm struct {
	id     actorstore.ID
	at     int64     // Unix milliseconds, 0 for never
	rung   bool      // as soon as there is a runner
	behind time.Time // tried before, and not again until then
	pool   poolKey   // it had no runner when it was tried; the zero poolKey if it wasn't, or had one
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
		e: e, start: start, of: map[actorstore.ID]alarm{}, here: map[actorstore.ID]bool{},
		late: map[poolKey]map[actorstore.ID]struct{}{}, wake: make(chan struct{}, 1),
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

// put replaces the actor's alarm, and lets the clock look at it.
//
// +checklocks:s.mu
func (s *alarms) put(a alarm) {
	s.replace(a)
	s.poke()
}

// replace replaces the actor's alarm.
//
// +checklocks:s.mu
func (s *alarms) replace(a alarm) {
	s.drop(a.id)
	s.of[a.id] = a
	s.next.Set(a)
	if a.pool == (poolKey{}) {
		return
	}
	if s.late[a.pool] == nil {
		s.late[a.pool] = map[actorstore.ID]struct{}{}
	}
	s.late[a.pool][a.id] = struct{}{}
}

// drop removes it.
//
// +checklocks:s.mu
func (s *alarms) drop(id actorstore.ID) {
	old, ok := s.of[id]
	if !ok {
		return
	}
	s.next.Delete(old)
	delete(s.of, id)
	if late := s.late[old.pool]; late != nil {
		if delete(late, id); len(late) == 0 {
			delete(s.late, old.pool)
		}
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

// ring starts an actor as soon as there is a runner. It isn't stored.
func (s *alarms) ring(id actorstore.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(alarm{id: id, at: s.of[id].at, rung: true})
}

// waits notes that the actor was tried, and has no runner.
func (s *alarms) waits(id actorstore.ID, at poolKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.of[id]; ok {
		a.pool = at
		s.replace(a)
	}
}

// arrived tries the actors again that had no runner of a pool.
func (s *alarms) arrived(at poolKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.late[at] {
		a := s.of[id]
		a.behind, a.pool = time.Time{}, poolKey{}
		s.put(a)
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
