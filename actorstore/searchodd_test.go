package actorstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// odd makes a store of n actors with attributes.
func odd(t *testing.T, n int, at actorstore.Attributes) (*actorstore.Store, *faultkv.Engine) {
	t.Helper()
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	for i := range n {
		a, err := s.Named(ctx, fmt.Sprintf("room:%05d", i), nil)
		must(t, err)
		b := put("k", "v")
		stage(a, b, at)
		must(t, a.Apply(ctx, b))
		must(t, a.Close())
	}
	return s, eng
}

// TestSearchStateTwice: a state that is named twice yields its actors once, over several pages too.
func TestSearchStateTwice(t *testing.T) {
	const n = 300
	s, _ := odd(t, n, actorstore.Attributes{Workflow: "failed", Since: clock()})
	seen := map[actorstore.ID]bool{}
	for info, err := range s.Actors(ctx, &actorstore.ActorsOptions{Workflow: []string{"failed", "failed"}}) {
		must(t, err)
		if seen[info.ID] {
			t.Fatalf("actor %s is yielded twice, after %d", info.Name, len(seen))
		}
		seen[info.ID] = true
	}
	if len(seen) != n {
		t.Errorf("%d actors, want %d", len(seen), n)
	}
}

// TestSearchNoState: no state is met by no actor, and none is read.
func TestSearchNoState(t *testing.T) {
	s, eng := odd(t, 2000, actorstore.Attributes{})
	eng.Reset()
	for range s.Actors(ctx, &actorstore.ActorsOptions{Workflow: []string{}}) {
		t.Error("an actor is found")
	}
	if c := eng.Counts(); c.Scans > 1 {
		t.Errorf("a search for none of the states cost %+v", c)
	}
}

// TestSearchWithinMillisecond: a time between two milliseconds selects the same by the index as among others.
func TestSearchWithinMillisecond(t *testing.T) {
	s, _ := odd(t, 1, actorstore.Attributes{Slept: clock(), Labels: map[string]string{"a": "b"}})
	a, err := s.Named(ctx, "room:00000", nil)
	must(t, err)
	must(t, a.SetWake(ctx, actorstore.Wake{At: clock()}))
	must(t, a.Close())
	before := clock().Add(time.Microsecond)
	for name, o := range map[string]actorstore.ActorsOptions{
		"slept":              {SleptBefore: before},
		"slept, among names": {SleptBefore: before, Order: actorstore.OrderName},
		"wakes":              {WakesBefore: before},
		"wakes, among names": {WakesBefore: before, Order: actorstore.OrderName},
	} {
		n := 0
		for _, err := range s.Actors(ctx, &o) {
			must(t, err)
			n++
		}
		if n != 1 {
			t.Errorf("%s: %d actors, want 1", name, n)
		}
	}
}

// TestAttributesSameWritten: an edit that stores what is stored already makes no commit.
func TestAttributesSameWritten(t *testing.T) {
	s, _ := odd(t, 1, actorstore.Attributes{Slept: clock(), Labels: map[string]string{"a": "b"}})
	a, err := s.Named(ctx, "room:00000", nil)
	must(t, err)
	defer func() { must(t, a.Close()) }()
	for name, edit := range map[string]func(*actorstore.Attributes){
		"slept within the ms": func(at *actorstore.Attributes) { at.Slept = at.Slept.Add(time.Microsecond) },
		"stuck, no workflow":  func(at *actorstore.Attributes) { at.Stuck = true },
		"since, no workflow":  func(at *actorstore.Attributes) { at.Since = clock() },
	} {
		seq := a.Seq()
		var b batch.Batch
		a.StageAttributes(&b, func(at *actorstore.Attributes) error { edit(at); return nil })
		must(t, a.Apply(ctx, &b))
		if a.Seq() != seq {
			t.Errorf("%s: a commit was made", name)
		}
	}
}

// TestLabelsSwapped: at their limit, labels that come and go in one batch are counted when all of them have.
func TestLabelsSwapped(t *testing.T) {
	labels := map[string]string{}
	for i := range actorstore.MaxLabels {
		labels[fmt.Sprint(i)] = "v"
	}
	s, _ := odd(t, 1, actorstore.Attributes{Labels: labels})
	a, err := s.Named(ctx, "room:00000", nil)
	must(t, err)
	defer func() { must(t, a.Close()) }()
	label := func(b *batch.Batch, key, value string) {
		a.StageAttributes(b, func(at *actorstore.Attributes) error {
			at.Labels[key] = value
			return nil
		})
	}
	var b, more batch.Batch
	label(&b, "new", "v")
	label(&b, "0", "")
	must(t, a.Apply(ctx, &b))
	if at := a.Attributes(); len(at.Labels) != actorstore.MaxLabels || at.Labels["new"] != "v" {
		t.Errorf("the labels are %v", at.Labels)
	}
	label(&more, "one more", "v")
	if err := a.Apply(ctx, &more); !errors.Is(err, actorstore.ErrLabel) {
		t.Errorf("one too many: got %v", err)
	}
}
