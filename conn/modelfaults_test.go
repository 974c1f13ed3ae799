package conn

import (
	"errors"
	"reflect"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// fault sets what becomes of the next commit.
func (m *model) fault() outcome {
	o := outcome(m.rand.IntN(int(outcomes)))
	if m.rand.IntN(3) > 0 {
		o = lands
	}
	switch o {
	case isRefused:
		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	case isPartly:
		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1, Err: kv.ErrTooLarge})
	case isLost:
		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit})
	case isDoubted:
		m.eng.Fail(faultkv.Rule{Point: faultkv.AfterApply})
	}
	return o
}

// settle says what became of a commit that was to make the store next, and restarts if
// the actor is poisoned.
func (m *model) settle(o outcome, err error, next map[ID]Record) {
	m.t.Helper()
	m.eng.Heal()
	m.note("  %v: %v", o, err)
	var part *batch.OrderedError
	switch {
	case err == nil:
		m.store = next
	case errors.As(err, &part) || o == isDoubted && m.actor.Err() != nil:
		m.store = m.between(m.store, next)
	}
	if m.actor.Err() != nil {
		m.restart()
	}
}

// between returns what is stored, where each connection has to be as it was or as it was to
// become.
func (m *model) between(before, after map[ID]Record) map[ID]Record {
	m.t.Helper()
	got := m.storedAnyway()
	is := func(rec Record, ok bool, in map[ID]Record, id ID) bool {
		want, there := in[id]
		return ok == there && reflect.DeepEqual(rec, want)
	}
	for _, all := range []map[ID]Record{before, after, got} {
		for id := range all {
			if rec, ok := got[id]; !is(rec, ok, before, id) && !is(rec, ok, after, id) {
				m.t.Errorf("%s is neither as it was nor as it was to become: %+v (%v)", id, rec, ok)
			}
		}
	}
	return got
}

// storedAnyway is stored for an actor that is poisoned.
func (r *room) storedAnyway() map[ID]Record {
	r.t.Helper()
	v, err := r.store.View(ctx, actorstore.IDFromName("room"))
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return map[ID]Record{}
	}
	must(r.t, err)
	all := map[ID]Record{}
	for s, err := range List(ctx, v) {
		must(r.t, err)
		all[s.ID] = *s.Record
	}
	must(r.t, v.Close())
	return all
}

// restart loses what is in memory.
func (m *model) restart() {
	m.note("restart")
	m.crash()
	m.memory = clone(m.store)
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.acked)
	for id, rec := range m.memory {
		// As if it had gone around once, so that no index is before the first.
		m.received[id] = 1<<16 + uint64(rec.Server)
		m.acked[id] = m.received[id]
	}
}
