package actorstore_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestDurableAfterReopening: what a handle applied, and no call waited for, isn't
// durable because another handle was opened since: the next promise waits for it.
func TestDurableAfterReopening(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	a, err := s.Actor(ctx, testID, nil)
	must(t, err)
	var b batch.Batch
	b.Put(user("k"), []byte("v"))
	must(t, a.Apply(ctx, &b))
	must(t, a.Close())
	a = openActor(t, s)
	for _, want := range []int64{1, 0} {
		eng.Reset()
		must(t, a.Commit(ctx, new(batch.Batch)))
		if c := eng.Counts(); c.Syncs+c.Durable != want {
			t.Errorf("an empty durable batch made %d syncs, want %d", c.Syncs+c.Durable, want)
		}
	}
}
