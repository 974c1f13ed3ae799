package actorstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/quota"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestLengths: a key that is written again and again is not read, whatever happens to it
// between, and the quota counts what is stored.
func TestLengths(t *testing.T) {
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	must(t, a.Put(ctx, user("hot"), []byte("1")))
	eng.Reset()
	for i := range 10 {
		must(t, a.Put(ctx, user("hot"), make([]byte, i)))
		must(t, a.Delete(ctx, user("hot")))
	}
	if c := eng.Counts(); c.Gets+c.Scans != 0 {
		t.Errorf("10 puts and deletes of one key read: %+v", c)
	}
	// More keys than are remembered, with and without a prior, one by one and in ranges, and
	// commits that fail.
	sizes := map[string]int64{}
	rng := rand.New(rand.NewPCG(1, 2))
	for step := range 6000 {
		k := fmt.Sprint(rng.IntN(3 * 128))
		key := user(k)
		var b batch.Batch
		size := int64(rng.IntN(2 * layout.RowSize))
		prior := batch.Absent
		if was, there := sizes[k]; there {
			prior = batch.Stored(int(was))
		}
		lands := rng.IntN(8) > 0
		if !lands {
			eng.Hook(func(op faultkv.Op) error {
				if op.Point == faultkv.BeforeCommit {
					return kv.ErrTooLarge
				}
				return nil
			})
		}
		after := func() { sizes[k] = size }
		switch rng.IntN(6) {
		case 0:
			b.Delete(key)
			after = func() { delete(sizes, k) }
		case 1:
			b.DeleteRange(user(k), append(user(k), 0))
			after = func() { delete(sizes, k) }
		case 2:
			b.PutPrior(key, make([]byte, size), prior)
		case 3: // twice
			b.Put(key, nil)
			b.Put(key, make([]byte, size))
		default:
			b.Put(key, make([]byte, size))
		}
		err := a.Commit(ctx, &b)
		if lands {
			must(t, err)
			after()
		}
		eng.Hook(nil)
		var used int64
		for k, n := range sizes {
			used += quota.Cost(user(k), n)
		}
		if a.Used() != used {
			t.Fatalf("step %d: %d bytes are charged, %d are stored", step, a.Used(), used)
		}
	}
}
