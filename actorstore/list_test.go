package actorstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// TestList holds every combination of bounds, prefix, limit and direction against a
// filter over all keys.
func TestList(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		a := openActor(t, openStore(t, eng, batch.Limits{}))
		values := map[string]string{}
		for i, k := range []string{"\x04", "\x04\x00", "\x04\x00\xff", "\x04a", "\x04a\x00", "\x04a\xff", "\x04ab", "\x04b", "\x04\xff", "\x04\xff\xff", "\x05", "\x01", "\xff", "\xff\xff"} {
			values[k] = strings.Repeat("v", []int{0, 1, 10_000, 12_345}[i%4])
			must(t, a.Put(ctx, []byte(k), []byte(values[k])))
		}
		bounds := []string{"nil", "", "\x04", "\x04a", "\x04a\x00", "\x04b", "\x04\xff", "\x05", "\xff", "\xff\xff\xff"}
		for _, start := range bounds {
			for _, end := range bounds {
				for _, prefix := range []string{"nil", "\x04", "\x04a", "\xff", "\x07"} {
					for _, limit := range []int{0, 1, 3} {
						for _, reverse := range []bool{false, true} {
							checkList(t, a, values, actorstore.ListOptions{Start: bound(start), End: bound(end), Prefix: bound(prefix), Limit: limit, Reverse: reverse})
						}
					}
				}
			}
		}
	})
}

func bound(s string) []byte {
	if s == "nil" {
		return nil
	}
	return []byte(s)
}

func checkList(t *testing.T, r actorstore.Reader, values map[string]string, o actorstore.ListOptions) {
	t.Helper()
	var want []string
	for _, k := range sortedKeys(values) {
		if bytes.Compare([]byte(k), o.Start) >= 0 && (o.End == nil || bytes.Compare([]byte(k), o.End) < 0) && strings.HasPrefix(k, string(o.Prefix)) {
			want = append(want, k)
		}
	}
	if o.Reverse {
		slices.Reverse(want)
	}
	if o.Limit > 0 && len(want) > o.Limit {
		want = want[:o.Limit]
	}
	for _, o.KeysOnly = range []bool{false, true} {
		var got []string
		for e, err := range r.List(ctx, o) {
			if err != nil {
				t.Fatalf("%+v: %v", o, err)
			}
			got = append(got, string(e.Key))
			if v := values[string(e.Key)]; e.Size != len(v) || o.KeysOnly != (e.Value == nil) || !o.KeysOnly && string(e.Value) != v {
				t.Errorf("%q has %d bytes, size %d, want %d", e.Key, len(e.Value), e.Size, len(v))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: got %q, want %q", o, got, want)
		}
	}
}

// TestListIsOneScan: a list reads what its consumer takes, in one scan, however
// long it is.
func TestListIsOneScan(t *testing.T) {
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, batch.Limits{AtomicBatches: envlimits.Unlimited}))
	var b batch.Batch
	for i := range 20_000 {
		b.Put(user(fmt.Sprint(i)), nil)
	}
	must(t, a.Apply(ctx, &b))
	eng.Reset()
	if got := words(t, a, actorstore.ListOptions{KeysOnly: true}); len(got) != 20_000 {
		t.Errorf("%d of 20,000 entries", len(got))
	}
	if c := eng.Counts(); c != (faultkv.Counts{Scans: 1}) {
		t.Errorf("a list took %+v", c)
	}
	for range a.List(ctx, actorstore.ListOptions{}) {
		break // the sequence must take no for an answer
	}
	// It shows the state at its start, whatever its consumer writes.
	n := 0
	for e, err := range a.List(ctx, actorstore.ListOptions{Prefix: user("1999")}) {
		must(t, err)
		must(t, a.Delete(ctx, e.Key))
		must(t, a.Put(ctx, user("19990"+fmt.Sprint(n)), nil))
		n++
	}
	if n != 11 { // 1999, 19990 to 19999
		t.Errorf("the consumer's writes showed: %d entries", n)
	}
}

func TestListErrors(t *testing.T) {
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeScan || op.Point == faultkv.BeforeGet {
			return errTest
		}
		return nil
	})
	for e, err := range a.List(ctx, actorstore.ListOptions{}) {
		if !errors.Is(err, errTest) || e.Key != nil {
			t.Errorf("list: got %v", err)
		}
	}
	for name, err := range map[string]error{"get": testkit.Second(a.Get(ctx, user("k"), nil)), "page": testkit.Second(a.Page(ctx, user("k"), nil))} {
		if !errors.Is(err, errTest) || !strings.Contains(err.Error(), "user/k") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	must(t, a.Err()) // a failed read leaves nothing in doubt
}

// TestDamagedRows: rows that no write leaves are ErrCorrupt with the key in words,
// for every way of reading that meets them, and nothing else is.
func TestDamagedRows(t *testing.T) {
	p := layout.NewPrefix(layout.ID(testID))
	base := p.AppendBase(nil, user("k"))
	data := func(i int) []byte { return layout.AppendData(slices.Clone(base), i) }
	meta := layout.AppendMetadata(slices.Clone(base))
	full, short := make([]byte, layout.RowSize), make([]byte, 5)
	metadata := layout.AppendMetadataValue(nil, layout.MetadataVersion, 1)
	tests := []struct {
		name string
		ops  []kv.Op
		size bool // also the size says so, for which a commit reads row 0, and of a large value the end
	}{
		{"METADATA missing", []kv.Op{kv.Clear(meta)}, false},
		{"METADATA of a longer value missing", []kv.Op{kv.Clear(meta), kv.Set(data(0), full), kv.Set(data(1), short)}, true},
		{"METADATA cut short", []kv.Op{kv.Set(meta, metadata[:9])}, false},
		{"METADATA with more", []kv.Op{kv.Set(meta, append(slices.Clone(metadata), 0))}, false},
		{"row 0 missing", []kv.Op{kv.Clear(data(0)), kv.Set(data(1), short)}, false},
		{"row 1 missing", []kv.Op{kv.Set(data(0), full), kv.Set(data(2), short)}, false},
		{"row 0 short", []kv.Op{kv.Set(data(1), short)}, false},
		{"row 1 short", []kv.Op{kv.Set(data(0), full), kv.Set(data(1), short), kv.Set(data(2), short)}, false},
		{"row empty", []kv.Op{kv.Set(data(0), nil)}, true},
		{"last row empty", []kv.Op{kv.Set(data(0), full), kv.Set(data(1), nil)}, true},
		{"row too long", []kv.Op{kv.Set(data(0), make([]byte, layout.RowSize+1))}, true},
		{"unknown column", []kv.Op{kv.Set(append(slices.Clone(base), 0x15, 0x05), short)}, false},
		{"column above", []kv.Op{kv.Set(append(slices.Clone(base), 0x15, 0x2d), short)}, false},
		{"row beyond all", []kv.Op{kv.Set(append(slices.Clone(base), 0x15, 0x04, 0x1c, 1, 0, 0, 0, 0, 0, 0, 0), short)}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eng := memkv.New()
			s := openStore(t, eng, batch.Limits{})
			a := openActor(t, s)
			for _, k := range []string{"j", "k", "l"} {
				must(t, a.Put(ctx, user(k), short))
			}
			must(t, a.Close())
			must(t, eng.Commit(ctx, &kv.Commit{Ops: tt.ops}))
			a = openActor(t, s) // which remembers nothing
			got := map[string]error{
				"get":          testkit.Second(a.Get(ctx, user("k"), nil)),
				"delete range": a.DeleteRange(ctx, user("k"), user("l")),
			}
			if tt.size {
				got["put"] = a.Put(ctx, user("k"), nil)
			}
			for _, o := range []actorstore.ListOptions{{}, {Reverse: true}, {KeysOnly: true}, {Reverse: true, KeysOnly: true}, {Prefix: user("k")}, {Prefix: user("k"), Reverse: true}} {
				name := fmt.Sprintf("list %+v", o)
				for _, err := range a.List(ctx, o) {
					got[name] = err
				}
			}
			for name, err := range got {
				if !errors.Is(err, actorstore.ErrCorrupt) || !strings.Contains(err.Error(), "user/k") {
					t.Errorf("%s: got %v, want %v about user/k", name, err, actorstore.ErrCorrupt)
				}
			}
			for _, k := range []string{"j", "l"} { // the neighbours are well
				if v, _ := get(t, a, user(k)); v != string(short) {
					t.Errorf("%s: %q", k, v)
				}
			}
			must(t, a.Err())
		})
	}
}

// TestForeignRows: a row in the actor's subspace that isn't an envelope is reported.
func TestForeignRows(t *testing.T) {
	eng := memkv.New()
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	p := layout.NewPrefix(layout.ID(testID))
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(append(p[:], 0x05, 0x01, 'k', 0, 0x15, 1, 0), nil)}}))
	for _, err := range a.List(ctx, actorstore.ListOptions{}) {
		if !errors.Is(err, actorstore.ErrCorrupt) {
			t.Errorf("got %v, want %v", err, actorstore.ErrCorrupt)
		}
	}
}

func TestPageDamaged(t *testing.T) {
	for _, n := range []int{0, layout.RowSize + 1} {
		eng := memkv.New()
		a := openActor(t, openStore(t, eng, batch.Limits{}))
		p := layout.NewPrefix(layout.ID(testID))
		key := layout.AppendData(p.AppendBase(nil, user("k")), 0)
		must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, make([]byte, n))}}))
		if got, err := a.Page(ctx, user("k"), []byte("x")); !errors.Is(err, actorstore.ErrCorrupt) || string(got) != "x" {
			t.Errorf("a row of %d bytes: got %d, %v", n, len(got), err)
		}
	}
}
