package actorstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func TestCommitLimits(t *testing.T) {
	limits := smallLimits
	limits.AtomicBatches = 2
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, limits))
	many := func(n int) *batch.Batch {
		var b batch.Batch
		for i := range n {
			b.Put(user(fmt.Sprint(i)), nil)
		}
		return &b
	}
	tests := []struct {
		name string
		b    *batch.Batch
		want error
	}{
		{"key", put(string(make([]byte, 62)), ""), batch.ErrKeyTooLong},
		{"value", put("k", string(make([]byte, 30_001))), batch.ErrValueTooLarge},
		{"three sub-batches", many(9), batch.ErrTooLarge},
	}
	for _, tt := range tests {
		var j journal
		eng.Reset()
		if err := a.Commit(ctx, j.watch(tt.b, "b")); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		j.check(t, "b abort")
		if c := eng.Counts(); c != (faultkv.Counts{}) {
			t.Errorf("%s: refused with %+v", tt.name, c)
		}
	}
	must(t, a.Commit(ctx, many(8)))
	if a.Seq() != 1 {
		t.Errorf("two sub-batches of an atomic batch took %d commits", a.Seq())
	}
	ordered := many(9)
	ordered.Mode = batch.Ordered
	must(t, a.Commit(ctx, ordered))
	if a.Seq() != 4 {
		t.Errorf("three sub-batches of an ordered batch took %d commits", a.Seq()-1)
	}
}

// A narrow engine has limits of its own.
type narrow struct {
	*faultkv.Engine
	limits kv.Limits
}

func (n narrow) Limits() kv.Limits { return n.limits }

func TestEngineLimits(t *testing.T) {
	small, large := make([]byte, 100), make([]byte, 25_000)
	tests := []struct {
		name   string
		limits kv.Limits
		ok     bool
		want   error
	}{
		{"none", kv.Limits{}, true, nil},
		{"operations", kv.Limits{Ops: 11}, true, nil},
		{"too many operations", kv.Limits{Ops: 10}, false, batch.ErrTooLarge},
		{"bytes", kv.Limits{Bytes: 26_000}, true, nil},
		{"too many bytes", kv.Limits{Bytes: 25_000}, false, batch.ErrTooLarge},
		{"key", kv.Limits{Bytes: 1 << 30, Key: 30}, false, batch.ErrTooLarge},
		{"value", kv.Limits{Bytes: 1 << 30, Value: 9_999}, false, batch.ErrTooLarge},
	}
	for _, tt := range tests {
		for _, mode := range []batch.Mode{batch.Atomic, batch.Ordered} {
			t.Run(tt.name+" "+mode.String(), func(t *testing.T) {
				eng := narrow{faultkv.New(memkv.New()), tt.limits}
				a := openActor(t, openStore(t, eng, smallLimits))
				var b batch.Batch
				b.Mode = mode
				for i := range 3 { // with the next, 2+2+2+4 rows and a head
					b.Put(user(fmt.Sprint(i)), small)
				}
				b.Put(user("3"), large)
				if mode == batch.Ordered { // whose second part alone would fit
					b.Put(user("4"), nil)
				}
				eng.Reset()
				err := a.Commit(ctx, &b)
				var limit *batch.LimitError
				if !errors.Is(err, tt.want) || tt.want != nil && !errors.As(err, &limit) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if c := eng.Counts(); !tt.ok && c.Commits != 0 {
					t.Errorf("refused after %d commits", c.Commits)
				}
				must(t, a.Err())
				must(t, a.Apply(ctx, new(batch.Batch)))
			})
		}
	}
}

func TestOrdered(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, smallLimits)
	a := openActor(t, s)
	ordered := func() *batch.Batch {
		var b batch.Batch
		b.Mode = batch.Ordered
		for i := range 10 { // 4 + 4 + 2
			b.Put(user(fmt.Sprint(i)), []byte("v"))
		}
		return &b
	}
	eng.Reset()
	must(t, a.Commit(ctx, ordered()))
	if c := eng.Counts(); c.Commits != 3 || c.Durable != 1 || a.Seq() != 3 {
		t.Errorf("%+v, seq %d, want 3 commits, the last one durable", c, a.Seq())
	}
	must(t, a.DeleteRange(ctx, nil, nil))

	// The third one is refused: two landed, exactly, and the handle is healthy.
	canceled, cancel := context.WithCancel(ctx)
	n := 0
	eng.Hook(func(op faultkv.Op) error {
		if n++; op.Point == faultkv.BeforeCommit && n == 3 {
			cancel()
			return canceled.Err()
		}
		if op.Point != faultkv.BeforeCommit {
			n--
		}
		return nil
	})
	var j journal
	err := a.Commit(canceled, j.watch(ordered(), "b"))
	var partly *batch.OrderedError
	if !errors.As(err, &partly) || partly.Landed != 2 || partly.Total != 3 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want 2 of 3", err)
	}
	j.check(t, "b abort")
	eng.Hook(nil)
	if got := words(t, a, actorstore.ListOptions{KeysOnly: true}); len(got) != 8 || a.Used() != 8*5 {
		t.Errorf("%q landed, %d used", got, a.Used())
	}
	must(t, a.Close())
	a = openActor(t, s)
	if a.Used() != 8*5 || a.Seq() != 6 {
		t.Errorf("the head says %d used, seq %d", a.Used(), a.Seq())
	}
	must(t, a.Commit(ctx, ordered()))
}

// TestOrderedQuota: the whole batch is charged before the first part is written,
// and a part in the middle may be over.
func TestOrderedQuota(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), smallLimits))
	page := make([]byte, 20_000)
	for _, keep := range []bool{true, false} {
		var b batch.Batch
		b.Mode = batch.Ordered
		for i := range 11 {
			b.Put(user(fmt.Sprint(i)), page)
		}
		if !keep {
			b.DeleteRange(user("1"), nil)
		}
		err := a.Commit(ctx, &b)
		var quota *actorstore.QuotaError
		if keep && (!errors.As(err, &quota) || quota.Wanted <= quota.Limit || quota.Used != 0 || a.Seq() != 0) {
			t.Errorf("got %v after %d commits, want %v", err, a.Seq(), actorstore.ErrQuota)
		}
		if !keep && (err != nil || a.Used() != 20_004) {
			t.Errorf("got %v, %d used", err, a.Used())
		}
	}
}

func TestQuota(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		l := batch.Limits{Storage: 1000}
		s := openStore(t, eng, l)
		a := openActor(t, s)
		must(t, a.Put(ctx, user("a"), make([]byte, 996))) // 2 + 2 + 996: full
		if a.Used() != 1000 {
			t.Fatalf("%d used", a.Used())
		}
		var quota *actorstore.QuotaError
		var j journal
		err := a.Commit(ctx, j.watch(put("b", ""), "b"))
		if !errors.As(err, &quota) || !errors.Is(err, actorstore.ErrQuota) || *quota != (actorstore.QuotaError{Used: 1000, Wanted: 1004, Limit: 1000}) {
			t.Errorf("got %v", err)
		}
		j.check(t, "b abort")
		must(t, a.Put(ctx, user("a"), make([]byte, 996))) // an overwrite in place
		var swap batch.Batch
		swap.Put(user("b"), make([]byte, 996))
		swap.Delete(user("a"))
		must(t, a.Commit(ctx, &swap)) // net zero
		must(t, a.Close())

		// Under a smaller quota the actor can shrink, and can't grow.
		s = openStore(t, eng, batch.Limits{Storage: 100})
		a = openActor(t, s)
		must(t, a.Put(ctx, user("b"), make([]byte, 900)))
		if err := a.Put(ctx, user("b"), make([]byte, 901)); !errors.Is(err, actorstore.ErrQuota) {
			t.Errorf("growing: got %v, want %v", err, actorstore.ErrQuota)
		}
		var over batch.Batch
		over.OverQuota = true
		over.Put(user("b"), make([]byte, 901))
		must(t, a.Commit(ctx, &over))
		must(t, a.Delete(ctx, user("none")))
		must(t, a.Delete(ctx, user("b")))
		if a.Used() != 0 {
			t.Errorf("%d used by nothing", a.Used())
		}
	})
}

// TestWrongPrior: what would make the use negative is refused.
func TestWrongPrior(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	var b batch.Batch
	b.DeletePrior(user("k"), batch.Stored(10))
	if err := a.Commit(ctx, &b); !errors.Is(err, actorstore.ErrCorrupt) {
		t.Errorf("got %v, want %v", err, actorstore.ErrCorrupt)
	}
	must(t, a.Err())
}
