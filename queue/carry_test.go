package queue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

// TestCarryIDs: a queue that is what it was goes on with the ids that it has given since, whatever became of its metadata, and counts its messages.
func TestCarryIDs(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, a *actorstore.Actor){
		"sound":   func(*testing.T, *actorstore.Actor) {},
		"missing": func(t *testing.T, a *actorstore.Actor) { testkit.Must(t, a.Delete(t.Context(), metadata())) },
		"damaged": func(t *testing.T, a *actorstore.Actor) { testkit.Must(t, a.Put(t.Context(), metadata(), []byte("?"))) },
	} {
		t.Run(name, func(t *testing.T) {
			store, err := actorstore.Open(t.Context(), memkv.New(), nil)
			testkit.Must(t, err)
			defer store.Close()
			a, err := store.Named(t.Context(), "a", nil)
			testkit.Must(t, err)
			defer a.Close()
			send := func(n int) (last queue.ID) {
				q, err := queue.Open(t.Context(), a, nil)
				testkit.Must(t, err)
				for range n {
					last, err = q.Enqueue(t.Context(), queue.Send{Name: "m"})
					testkit.Must(t, err)
				}
				testkit.Must(t, q.Close())
				return last
			}
			send(3)
			from, err := a.Snapshot(t.Context())
			testkit.Must(t, err)
			defer from.Close()
			last := send(4)
			if name != "sound" {
				last-- // of a message that is gone nothing is known then
				testkit.Must(t, a.Delete(t.Context(), actorstore.LayoutGreenroom.AppendQueueMessage(nil, uint64(last+1))))
			}
			damage(t, a)
			testkit.Must(t, (&actorstore.Restoration{From: from, Amend: carry(0)}).Apply(t.Context(), a))
			if got := send(1); got != last+1 {
				t.Errorf("the next message is %d, want %d", got, last+1)
			}
			q, err := queue.Open(t.Context(), a, nil)
			testkit.Must(t, err)
			if q.Len() != 4 {
				t.Errorf("%d messages", q.Len())
			}
			testkit.Must(t, q.Close())
			v, err := store.View(t.Context(), a.ID())
			testkit.Must(t, err)
			for f, err := range queue.Check(t.Context(), v) {
				t.Errorf("%v, %v", f, err)
			}
			testkit.Must(t, v.Close())
		})
	}
}

// TestCarryNoIDs: an actor without a queue gets none.
func TestCarryNoIDs(t *testing.T) {
	store, err := actorstore.Open(t.Context(), memkv.New(), nil)
	testkit.Must(t, err)
	defer store.Close()
	a, err := store.Named(t.Context(), "a", nil)
	testkit.Must(t, err)
	defer a.Close()
	testkit.Must(t, a.User().Put(t.Context(), []byte("k"), nil))
	from, err := a.Snapshot(t.Context())
	testkit.Must(t, err)
	defer from.Close()
	var b batch.Batch
	testkit.Must(t, queue.CarryIDs(t.Context(), a, from, 0, &b))
	if !b.Empty() {
		t.Error("something is staged")
	}
	b.Abort(errors.New("it was a test"))
}

func carry(least queue.ID) func(ctx context.Context, now, from actorstore.Reader, b *batch.Batch) error {
	return func(ctx context.Context, now, from actorstore.Reader, b *batch.Batch) error {
		return queue.CarryIDs(ctx, now, from, least, b)
	}
}

func metadata() []byte { return actorstore.LayoutGreenroom.AppendQueueMetadata(nil) }
