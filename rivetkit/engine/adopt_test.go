package engine_test

import (
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rs "github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// putOld puts a row of before.
func (r *rig) putOld(id string, at time.Time) {
	r.Helper()
	start := rs.OldWakes().Start
	key := append(start[:len(start)-1:len(start)-1], "\x02"+id+"\x00"...)
	must(r, r.kv.Commit(r.Context(), &kv.Commit{Ops: []kv.Op{kv.Set(key, rs.AppendTime(nil, at.UnixMilli()))}}))
}

// TestAdoptRunning: a row of before that is taken over while its actor runs doesn't make the time in the store later: an actor that
// runs is to be started again at once after a crash.
func TestAdoptRunning(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	p.started(id)
	must(t, r.engine.Close()) // as is: the store says that it runs
	if at := r.wakeOf(id); at.IsZero() || at.After(time.Now()) {
		t.Fatalf("an actor that runs is to be started at %v", at)
	}
	_ = p.ws.CloseNow()
	r.stop()
	r.putOld(id, time.Now().Add(time.Hour))
	r.start()
	eventually(t, "the row of before is gone", func() bool {
		n := 0
		for _, err := range r.kv.Scan(t.Context(), rs.OldWakes()) {
			must(t, err)
			n++
		}
		return n == 0
	})
	must(t, r.engine.Close())
	if at := r.wakeOf(id); at.IsZero() || at.After(time.Now()) {
		t.Errorf("after the row of before was taken over it is to be started at %v", at)
	}
}

func (r *rig) wakeOf(id string) time.Time {
	r.Helper()
	s, err := actorstore.Open(r.Context(), r.kv, &actorstore.Options{ReadOnly: true})
	must(r, err)
	defer s.Close()
	for w, err := range s.Wakes(r.Context(), time.Now().Add(1000*time.Hour), false) {
		must(r, err)
		if w.ID.String() == id {
			return w.At
		}
	}
	return time.Time{}
}

// TestAdoptLater: a row of before doesn't replace an earlier time that the store has beside the actor, which is newer: it is left of an
// engine that ended as it took the row over, or its actor has run since.
func TestAdoptLater(t *testing.T) {
	r := newRig(t, engine.Options{})
	id := r.actor("counter", "a")
	r.close()
	s, err := actorstore.Open(t.Context(), r.kv, nil)
	must(t, err)
	aid, err := actorstore.ParseID(id)
	must(t, err)
	a, err := s.Actor(t.Context(), aid, nil)
	must(t, err)
	alarm := time.Now().Add(time.Minute)
	must(t, a.SetWake(t.Context(), actorstore.Wake{At: alarm}))
	must(t, a.Close())
	must(t, s.Close())
	r.putOld(id, time.Now().Add(time.Hour))
	r.start()
	eventually(t, "the row of before is gone", func() bool {
		n := 0
		for _, err := range r.kv.Scan(t.Context(), rs.OldWakes()) {
			must(t, err)
			n++
		}
		return n == 0
	})
	if at := r.wakeOf(id); at.IsZero() || at.After(alarm) {
		t.Errorf("its alarm is at %v, and it is to be started at %v", alarm, at)
	}
}
