package keys_test

import (
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

// nowhere is a Writer of which nothing is kept.
type nowhere struct{}

func (nowhere) Set(_, _ []byte) error                    { return nil }
func (nowhere) Clear([]byte) error                       { return nil }
func (nowhere) ClearRange(_, _ []byte) error             { return nil }
func (nowhere) Atomic(_ txn.Mutation, _, _ []byte) error { return nil }
func (nowhere) SetVersionstampedKey(_, _ []byte) error   { return nil }
func (nowhere) SetVersionstampedValue(_, _ []byte) error { return nil }

// TestNoAllocations: with values of fixed size nothing is allocated but what the store
// itself allocates.
func TestNoAllocations(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector makes sync.Pool forget things")
	}
	d := mixed(t)
	u := under{"b"}
	w, v := workflowKey{tuple.UUID{1}, 2}, visitsKey{u}
	must(t, keys.Put(d, w, 7))
	must(t, keys.Put(d, v, 7))
	scope := keys.In(readWriter{d.Engine, nowhere{}}, sub())
	var r kv.Reader = d.Engine
	for name, f := range map[string]func() error{
		"get": func() error { _, err := keys.Get(ctx, r, w); return err },
		"get of many": func() error {
			_, err := keys.Get(ctx, r, v)
			_, err2 := keys.Get(ctx, r, wakeKey{u})
			return orErr(err, err2)
		},
		"find nothing": func() error { _, _, err := keys.Find(ctx, r, wakeKey{under{"nobody"}}); return err },
		"exists":       func() error { _, err := keys.Exists(ctx, r, profileKey{u}); return err },
		"get in scope": func() error { _, err := keys.Get(ctx, scope, w); return err },
		"put":          func() error { return keys.Put(nowhere{}, w, 8) },
		"put a time":   func() error { return keys.Put(nowhere{}, wakeKey{u}, time.UnixMilli(5)) },
		"put a stamp":  func() error { return keys.Put(nowhere{}, changedKey{}, tuple.IncompleteVersionstamp(0)) },
		"add":          func() error { return keys.Add(nowhere{}, v, 8) },
		"delete":       func() error { return keys.Delete(nowhere{}, w) },
	} {
		if got := testing.AllocsPerRun(200, func() { must(t, f()) }); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
}

func orErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// BenchmarkKeys compares typed keys with the same bytes by hand.
func BenchmarkKeys(b *testing.B) {
	d := memkv.New()
	k := workflowKey{tuple.UUID{1}, 2}
	must(b, keys.Put(&direct{Engine: d}, k, 7))
	b.Run("typed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if v, err := keys.Get(ctx, d, k); v != 7 || err != nil {
				b.Fatal(v, err)
			}
		}
	})
	b.Run("bytes", func(b *testing.B) {
		b.ReportAllocs()
		var key, dst []byte
		for b.Loop() {
			key = tuple.AppendInt(tuple.AppendInt(key[:0], actor), data)
			key = tuple.AppendInt(tuple.AppendID(key, k.UUID, k.Label), workflowID)
			var err error
			if dst, err = d.Get(ctx, key, dst[:0]); len(dst) != 8 || err != nil {
				b.Fatal(dst, err)
			}
		}
	})
}
