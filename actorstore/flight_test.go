package actorstore

import (
	"errors"
	"strconv"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestIdleFlights: however large batches are, and however many are under way, what flights
// keep until they are used again is bounded.
func TestIdleFlights(t *testing.T) {
	var l freeList
	var w rows.Writer
	w.Note(layout.ID{}, make([]byte, maxKept+1), nil)
	for what, f := range map[string]*flight{
		"keys":        {Writer: w},
		"writes":      {Change: reads.Change{Before: make([]int64, maxKeptOps+1)}},
		"sub-batches": {subs: make([]batch.Sub, maxKeptSubs+1)},
	} {
		if l.put(f); len(l.free) > 0 {
			t.Errorf("a flight with too many %s is kept", what)
		}
	}
	for range maxFree + 1 {
		l.put(new(flight))
	}
	if len(l.free) > maxFree {
		t.Errorf("%d flights are kept", len(l.free))
	}
}

// TestFlightForgets: nothing of others is kept alive by a flight that isn't used, also
// where what came last was smaller than what came first.
func TestFlightForgets(t *testing.T) {
	s, err := Open(t.Context(), memkv.New(), nil)
	testkit.Must(t, err)
	a, err := s.Actor(t.Context(), NewID(), nil)
	testkit.Must(t, err)
	for _, n := range []int{300, 100, 1} {
		for _, mode := range []batch.Mode{batch.Atomic, batch.Ordered} {
			b := batch.Batch{Mode: mode}
			for i := range n {
				b.Put(UserKey([]byte(strconv.Itoa(i))), make([]byte, 4096))
			}
			err := a.Apply(t.Context(), &b)
			if n <= 128 || mode == batch.Ordered {
				testkit.Must(t, err)
			}
		}
	}
	for _, f := range s.flights.free {
		for i, o := range f.Staged[:cap(f.Staged)] {
			if o.Key != nil || o.Value != nil {
				t.Fatalf("operation %d is kept", i)
			}
		}
		for i, c := range f.checks[:cap(f.checks)] {
			if c.Key != nil || c.Value != nil {
				t.Fatalf("check %d is kept", i)
			}
		}
		for i, s := range f.subs[:cap(f.subs)] {
			if s.Ops != nil {
				t.Fatalf("sub-batch %d is kept", i)
			}
		}
	}
	if len(s.flights.free) == 0 {
		t.Error("no flight is idle")
	}
	testkit.Must(t, errors.Join(a.Close(), s.Close()))
}
