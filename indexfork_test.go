package greenroom_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
	"github.com/greenroomdb/greenroom/workflow"
)

// asBefore returns the store on tape as a version without the index has made it.
func asBefore(t *testing.T, old kv.Engine) {
	t.Helper()
	var ops []kv.Op
	for e, err := range old.Scan(ctx, kv.Range{Start: []byte("\x02greenroom\x00"), End: []byte("\x02greenroom\x01")}) {
		must(t, err)
		part := bytes.HasSuffix(e.Key, []byte{0x15, 6}) && bytes.HasPrefix(e.Key, tuple.Tuple{"greenroom", int64(1), int64(1)}.Pack())
		if part || bytes.HasPrefix(e.Key, indexRows) || bytes.Equal(e.Key, builtRow) {
			ops = append(ops, kv.Clear(bytes.Clone(e.Key)))
		}
	}
	must(t, old.Commit(ctx, &kv.Commit{Ops: ops}))
}

func versioned(t *testing.T, s *taped, name string) {
	t.Helper()
	a, err := s.store.Actor(ctx, name, nil)
	must(t, err)
	must(t, a.Update(ctx, func(tx *greenroom.Tx) error { _, err := tx.Exec("pragma user_version = 5"); return err }))
	must(t, a.Close())
}

// TestForkOfBefore: a fork from a store whose index isn't built is found in a store whose index is.
func TestForkOfBefore(t *testing.T) {
	s := newTaped(t)
	versioned(t, s, "room/1")
	must(t, s.store.Close())
	old := s.tape.At(t, s.tape.Len())
	asBefore(t, old)
	from, err := greenroom.New(ctx, old, nil)
	must(t, err)
	defer func() { must(t, from.Close()) }()
	to := newTaped(t)
	id, err := from.ID(ctx, "room/1")
	must(t, err)
	v, err := from.Lower().View(ctx, id)
	must(t, err)
	_, err = to.store.Lower().Fork(ctx, v.Snapshot, &actorstore.ForkOptions{Name: "room/1", Attributes: attributes.SetReadable})
	must(t, err)
	must(t, v.Close())
	to.want("below 9", greenroom.ActorsOptions{SchemaBelow: 9}, "room/1")
	wantSound(t, to.store, "a fork of before")
}

// TestBuildIndexForked: an actor that is forked while the index is built is in the index then.
func TestBuildIndexForked(t *testing.T) {
	s := newTaped(t)
	for i := range 4 {
		versioned(t, s, fmt.Sprint("room/", i))
	}
	must(t, s.store.Close())
	old := s.tape.At(t, s.tape.Len())
	asBefore(t, old)
	store, err := greenroom.New(ctx, old, &greenroom.Options{IDs: true})
	must(t, err)
	defer func() { must(t, store.Close()) }()
	first := actorstore.ID{UUID: [16]byte{0, 1}}
	var last actorstore.ID
	for id, err := range store.Lower().IDs(ctx) {
		must(t, err)
		last = id
	}
	n := 0
	must(t, store.Lower().BuildIndex(ctx, false, func(ctx context.Context, id actorstore.ID) error {
		if n++; n == 1 {
			must(t, store.Fork(ctx, "id:"+last.String(), "id:"+first.String()))
		}
		a, err := store.Lower().Actor(ctx, id, nil)
		must(t, err)
		must(t, attributes.Repair(ctx, a))
		return a.Close()
	}))
	wantSound(t, store, "built meanwhile")
}

// TestStageOfDamage: a commit that stages what an actor is found by lands also if the actor's workflow can't be read.
func TestStageOfDamage(t *testing.T) {
	s := newTaped(t)
	a := s.actor("order/1")
	w, err := greenroom.OpenWorkflow(ctx, a, func(c *workflow.Context, _ int) (int, error) {
		c.SleepUntil("until later", time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC))
		return 0, nil
	}, &greenroom.WorkflowOptions{ShortWait: -1})
	must(t, err)
	must(t, w.Start(ctx, 1))
	_, err = w.Run(ctx)
	must(t, err)
	must(t, w.Close())
	var waits []byte
	for e, err := range a.Lower().List(ctx, actorstore.ListOptions{}) {
		must(t, err)
		if strings.Contains(actorstore.Describe(e.Key), "waits") {
			waits = bytes.Clone(e.Key)
		}
	}
	if waits == nil {
		t.Fatal("the workflow stores no waits")
	}
	var b, more batch.Batch
	b.Put(waits, []byte("\xff"))
	must(t, a.Lower().Apply(ctx, &b))
	v, err := s.store.Lower().View(ctx, a.Lower().ID())
	must(t, err)
	if _, _, err := attributes.Wrong(ctx, v); !errors.Is(err, actorstore.ErrCorrupt) {
		t.Errorf("the workflow can be read: %v", err)
	}
	must(t, v.Close())
	attributes.Stage(ctx, a.Lower(), &more)
	must(t, a.Lower().Apply(ctx, &more))
}
