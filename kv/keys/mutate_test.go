package keys_test

import (
	"errors"
	"math"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

func TestAdd(t *testing.T) {
	d := store()
	k := visitsKey{under{"u"}}
	for _, c := range []struct{ n, want int64 }{
		{42, 42}, {10, 52}, {-60, -8}, {math.MaxInt64, math.MaxInt64 - 8}, {9, math.MinInt64},
	} {
		must(t, keys.Add(d, k, c.n))
		if v, err := keys.Get(ctx, d, k); v != c.want || err != nil {
			t.Errorf("after adding %d: got %d, %v, want %d", c.n, v, err, c.want)
		}
	}
	if err := keys.Add(d, workflowKey{}, 1); !errors.Is(err, keys.ErrMisuse) {
		t.Errorf("a codec that can't: got %v, want %v", err, keys.ErrMisuse)
	}
	if len(d.rows(t)) != 1 {
		t.Errorf("there are %q", d.rows(t))
	}
}

func TestMutate(t *testing.T) {
	d := store()
	k := wakeKey{under{"u"}}
	for _, c := range []struct{ v, want int64 }{{5, 5}, {3, 5}, {1000, 1000}, {999, 1000}} {
		must(t, keys.Mutate(d, txn.MutationByteMax, k, at(c.v)))
		if v, err := keys.Get(ctx, d, k); !v.Equal(at(c.want)) || err != nil {
			t.Errorf("max with %d: got %v, %v, want %v", c.v, v, err, at(c.want))
		}
	}
	must(t, keys.Mutate(d, txn.MutationCompareAndClear, k, at(999)))
	if ok, err := keys.Exists(ctx, d, k); !ok || err != nil {
		t.Errorf("another value: got %v, %v", ok, err)
	}
	must(t, keys.Mutate(d, txn.MutationCompareAndClear, k, at(1000)))
	if ok, err := keys.Exists(ctx, d, k); ok || err != nil {
		t.Errorf("the value: got %v, %v", ok, err)
	}
}

// A stamper records what it is given, and stores nothing.
type stamper struct {
	keys.Ops
	key, value []byte
}

func (s *stamper) SetVersionstampedKey(key, value []byte) error {
	s.key, s.value = append([]byte(nil), key...), append([]byte(nil), value...)
	return nil
}

func (s *stamper) SetVersionstampedValue(key, value []byte) error {
	return s.SetVersionstampedKey(key, value)
}

// TestStamps: incomplete versionstamps are left to the store, in its form; complete
// ones are elements and values as others are.
func TestStamps(t *testing.T) {
	var w stamper
	must(t, keys.Put(&w, logKey{tuple.IncompleteVersionstamp(7)}, "hello"))
	want, err := tuple.PackWithVersionstamp(nil, tuple.Tuple{"log", tuple.IncompleteVersionstamp(7)})
	must(t, err)
	if string(w.key) != string(want) || string(w.value) != "hello" || len(w.Ops) != 0 {
		t.Errorf("got %x, %q, %v, want %x", w.key, w.value, w.Ops, want)
	}
	must(t, keys.Put(&w, changedKey{}, tuple.IncompleteVersionstamp(8)))
	if string(w.key) != string(pack("changed")) || string(w.value) != "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x08\x00\x00\x00\x00" {
		t.Errorf("got %x, %x", w.key, w.value)
	}
	d := store()
	done := tuple.Versionstamp{Transaction: [10]byte{1}, User: 2}
	must(t, keys.Put(d, logKey{done}, "hello"))
	must(t, keys.Put(d, changedKey{}, done))
	v, err := keys.Get(ctx, d, logKey{done})
	c, err2 := keys.Get(ctx, d, changedKey{})
	if v != "hello" || c != done || err != nil || err2 != nil {
		t.Errorf("got %q, %v, %v, %v", v, c, err, err2)
	}
}

func TestStampsMisuse(t *testing.T) {
	d := store()
	k := logKey{tuple.IncompleteVersionstamp(0)}
	_, get := keys.Get(ctx, d, k)
	_, exists := keys.Exists(ctx, d, k)
	for name, err := range map[string]error{"get": get, "exists": exists, "delete": keys.Delete(d, k), "mutate": keys.Mutate(d, 0, k, ""),
		"both": keys.Put(&stamper{}, twiceStamped{k}, tuple.IncompleteVersionstamp(0))} {
		if !errors.Is(err, keys.ErrMisuse) {
			t.Errorf("%s: got %v, want %v", name, err, keys.ErrMisuse)
		}
	}
	for name, err := range map[string]error{"key": keys.Put(d, k, ""), "value": keys.Put(d, changedKey{}, tuple.IncompleteVersionstamp(0))} {
		if !errors.Is(err, kv.ErrUnsupported) {
			t.Errorf("%s: got %v, want %v", name, err, kv.ErrUnsupported)
		}
	}
	if err := keys.Put(&stamper{}, twoStamps{}, ""); !errors.Is(err, tuple.ErrUnsupported) {
		t.Errorf("two in a key: got %v", err)
	}
}

// A twiceStamped key is one whose value is a versionstamp as well.
type twiceStamped struct{ logKey }

func (twiceStamped) Value() keys.Codec[tuple.Versionstamp] { return keys.Versionstamp() }

// A twoStamps key has two.
type twoStamps struct{}

func (twoStamps) Value() keys.Codec[string] { return keys.String() }
func (*twoStamps) Elements(e *keys.Elements) {
	at := tuple.IncompleteVersionstamp(0)
	e.Versionstamp(&at)
	e.Versionstamp(&at)
}

// TestOps: the changes of a commit, in order, in memory of their own.
func TestOps(t *testing.T) {
	db := memkv.New()
	var ops keys.Ops
	must(t, keys.Put(&ops, under{"u"}.image(1), pattern(3)))
	must(t, keys.Put(&ops, under{"u"}.member(1), struct{}{}))
	must(t, keys.Put(&ops, under{"u"}.member(2), struct{}{}))
	must(t, keys.Delete(&ops, under{"u"}.member(1)))
	must(t, db.Commit(ctx, &kv.Commit{Ops: ops}))
	equal(t, "members", words(t, keys.All[memberKey](ctx, db, sub(), nil)), "{{u} 2}")
	if v, err := keys.Get(ctx, db, under{"u"}.image(1)); string(v) != string(pattern(3)) || err != nil {
		t.Errorf("got %x, %v", v, err)
	}
	if err := ops.ClearRange([]byte("a"), nil); !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("without an end: got %v", err)
	}
	key := []byte("a")
	ops = nil
	must(t, ops.ClearRange(key, []byte("b")))
	must(t, ops.Clear(key))
	must(t, ops.Set(key, key))
	key[0] = 'x'
	for i, o := range ops {
		if string(o.Key) != "a" {
			t.Errorf("op %d has the key %q", i, o.Key)
		}
	}
}
