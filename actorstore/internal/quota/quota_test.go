package quota_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/quota"
	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A store is the lengths of an actor's values, by key.
type store map[string]int

// lengths answers what a Resolver asks for single keys, and counts that.
type lengths struct {
	reads.Reads
	of    store
	asked int
}

func (l *lengths) Size(_ context.Context, key []byte, empty bool) (int64, error) {
	l.asked++
	if empty != (len(l.of) == 0) {
		return 0, fmt.Errorf("%d keys are stored, and the actor is said to be empty: %v", len(l.of), empty)
	}
	return l.of.before(key), nil
}

// before returns what a write of the key finds.
func (s store) before(key []byte) int64 {
	if n, ok := s[string(key)]; ok {
		return int64(n)
	}
	return -1
}

// apply does a write, and returns what it finds.
func (s store) apply(o *batch.Op) (before int64) {
	switch o.Kind {
	case batch.Put:
		before = s.before(o.Key)
		s[string(o.Key)] = len(o.Value)
	case batch.Delete:
		before = s.before(o.Key)
		delete(s, string(o.Key))
	default:
		for k, n := range s {
			if reads.Covers(o, []byte(k)) {
				before += quota.Cost([]byte(k), int64(n))
				delete(s, k)
			}
		}
	}
	return before
}

func (s store) used() (n int64) {
	for k, size := range s {
		n += quota.Cost([]byte(k), int64(size))
	}
	return n
}

// engine returns an engine with the values.
func (s store) engine(t testing.TB, p layout.Prefix) kv.Engine {
	t.Helper()
	var ops []kv.Op
	for k, n := range s {
		base := p.AppendBase(nil, []byte(k))
		if n > 0 {
			ops = append(ops, kv.Set(layout.AppendData(slices.Clone(base), 0), make([]byte, n)))
		}
		ops = append(ops, kv.Set(layout.AppendMetadata(base), layout.AppendMetadataValue(nil, layout.MetadataVersion, 0)))
	}
	eng := memkv.New()
	testkit.Must(t, eng.Commit(t.Context(), &kv.Commit{Ops: ops}))
	return eng
}

// resolve holds what r says of a batch against what one write after the other finds, and returns how often it asked for a
// key. The first split writes are ordinary, the others final.
func resolve(t *testing.T, r *quota.Resolver, stored store, ops []batch.Op, split int) (asked int) {
	t.Helper()
	prefix := layout.NewPrefix(layout.ID{})
	l := &lengths{of: stored}
	space := rows.Space{Source: stored.engine(t, prefix), Prefix: prefix, Pool: rows.NewPool(func(key []byte) string { return string(key) })}
	c := &reads.Change{Plan: ops[:split], Final: ops[split:]}
	testkit.Must(t, r.Resolve(t.Context(), c, quota.Actor{Reads: l, Rows: &space, Empty: len(stored) == 0}))
	now := store{}
	for k, n := range stored {
		now[k] = n
	}
	for i := range ops {
		used := now.used()
		want := now.apply(&ops[i])
		if grown := now.used() - used; c.Before[i] != want || quota.Delta(c, i) != grown {
			t.Errorf("write %d of %+v on %v: it finds %d and changes %d bytes, want %d and %d", i, ops, stored, c.Before[i], quota.Delta(c, i), want, grown)
		}
	}
	return l.asked
}

func put(key string, n int, p batch.Prior) batch.Op {
	return batch.Op{Kind: batch.Put, Key: []byte(key), Value: make([]byte, n), Prior: p}
}

func del(key string, p batch.Prior) batch.Op {
	return batch.Op{Kind: batch.Delete, Key: []byte(key), Prior: p}
}

// clearing deletes [start, end); an end of "" means no end.
func clearing(start, end string, p batch.Prior) batch.Op {
	o := batch.Op{Kind: batch.DeleteRange, Key: []byte(start), Prior: p}
	if end != "" {
		o.Value = []byte(end)
	}
	return o
}

// TestResolve: what is known isn't asked for, nor what an earlier write of the batch says.
func TestResolve(t *testing.T) {
	var no batch.Prior
	stored := store{"a": 3, "b": 0, "d": 7}
	for name, tt := range map[string]struct {
		on    store
		ops   []batch.Op
		asked int
	}{
		"nothing":                   {stored, nil, 0},
		"known, in order":           {stored, []batch.Op{put("a", 1, batch.Stored(3)), del("b", batch.Stored(0)), put("c", 2, batch.Absent)}, 0},
		"known, one of them twice":  {stored, []batch.Op{put("a", 1, batch.Stored(3)), put("c", 2, batch.Absent), del("a", batch.Stored(3))}, 0},
		"unknown":                   {stored, []batch.Op{put("a", 1, no), put("c", 2, no)}, 2},
		"unknown, twice":            {stored, []batch.Op{put("a", 1, no), put("a", 2, no), del("a", no), put("a", 4, no)}, 1},
		"an empty actor":            {store{}, []batch.Op{put("a", 1, no), clearing("", "", no), del("a", no)}, 1},
		"a range":                   {stored, []batch.Op{clearing("a", "c", no)}, 0},
		"a range without an end":    {stored, []batch.Op{clearing("b", "", no)}, 0},
		"a known range":             {stored, []batch.Op{put("b", 5, batch.Stored(0)), clearing("a", "c", batch.Freed(quota.Cost([]byte("a"), 3)+quota.Cost([]byte("b"), 0)))}, 0},
		"a known one that overlaps": {stored, []batch.Op{clearing("a", "c", no), clearing("b", "z", batch.Freed(quota.Cost([]byte("b"), 0)+quota.Cost([]byte("d"), 7)))}, 0},
		"a write behind a range":    {stored, []batch.Op{clearing("a", "c", no), put("a", 1, no), put("b", 1, no), clearing("b", "z", no)}, 0},
		"ranges that overlap":       {stored, []batch.Op{clearing("a", "c", no), clearing("b", "z", no), clearing("", "", no)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var r quota.Resolver
			for split := range len(tt.ops) + 1 {
				if asked := resolve(t, &r, tt.on, tt.ops, split); asked != tt.asked {
					t.Errorf("%d final writes: it asks for %d keys, want %d", len(tt.ops)-split, asked, tt.asked)
				}
			}
		})
	}
}

// FuzzResolve: three bytes are a write, and four of them what is stored. The same Resolver does the batch twice.
func FuzzResolve(f *testing.F) {
	f.Add([]byte("\x05\x01\x09\x00"), []byte("\x00\x01\x02\x02\x00\x03\x04\x01\x05"))
	f.Add([]byte{}, []byte("\x02\x00\x07\x05\x01\x04\x02\x03\x00"))
	f.Fuzz(func(t *testing.T, sizes, writes []byte) {
		stored := store{}
		for i, n := range sizes[:min(len(sizes), 6)] {
			if n%4 > 0 {
				stored[string(rune('a'+i))] = int(n / 4)
			}
		}
		key := func(b byte) string { return string(rune('a' + b%6)) }
		var ops []batch.Op
		for w := range slices.Chunk(writes[:min(len(writes), 60)], 3) {
			if len(w) < 3 {
				break
			}
			o := put(key(w[1]), int(w[2]), 0)
			switch w[0] % 3 {
			case 1:
				o = del(key(w[1]), 0)
			case 2:
				o = clearing(key(w[1]), key(w[1]+w[2]%6)+"+", 0)
			}
			if w[0]&64 != 0 { // it is known, from before the batch
				before := store{}
				for k, n := range stored {
					before[k] = n
				}
				if n := before.apply(&o); o.Kind == batch.DeleteRange || n >= 0 {
					o.Prior = batch.Freed(n)
				} else {
					o.Prior = batch.Absent
				}
			}
			ops = append(ops, o)
		}
		var r quota.Resolver
		for range 2 {
			resolve(t, &r, stored, ops, len(ops)/2)
		}
	})
}
