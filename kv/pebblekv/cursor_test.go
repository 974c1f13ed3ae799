package pebblekv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroomdb/greenroom/kv"
)

func TestFollows(t *testing.T) {
	for _, tt := range []struct {
		last, key string
		want      bool
	}{
		{"", "", false}, {"a", "b", true}, {"a", "a", false}, {"a", "c", false}, {"b", "a", false},
		{"a", "ab", false}, {"ab", "b", false}, {"xa", "yb", false},
		{"a1z", "a2z", true}, {"a1z", "a2y", false}, {"a1z", "b2z", false}, {"a\xfe", "a\xff", true},
		{"a\xff", "b\x00", false}, {"\xff", "\x00", false}, {"", "a", false}, {"a", "", false},
	} {
		if got := follows([]byte(tt.last), []byte(tt.key)); got != tt.want {
			t.Errorf("%q after %q: got %v", tt.key, tt.last, got)
		}
	}
}

// TestCursor reads keys through a snapshot's cursor, in order and at random, from memtables
// and tables, beside keys that are missing, were removed, or lie in between.
func TestCursor(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 7))
	db, err := Open(t.TempDir(), &Options{MemtableBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key := func(n uint32) []byte { return append(binary.BigEndian.AppendUint32([]byte("k"), n), "end"...) }
	want := map[string][]byte{}
	commit := func(ops ...kv.Op) {
		if err := db.Commit(t.Context(), &kv.Commit{Ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3000 {
		k, v := key(rng.Uint32N(700)), bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(200))
		switch rng.IntN(10) {
		case 0:
			commit(kv.Clear(k))
			delete(want, string(k))
			continue
		case 1:
			k = append(k, byte(rng.Uint32()))
		}
		commit(kv.Set(k, v))
		want[string(k)] = v
	}
	snap, err := db.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	n := uint32(0)
	for range 20_000 {
		if n++; rng.IntN(20) == 0 {
			n = rng.Uint32N(720)
		}
		k := key(n)
		if rng.IntN(50) == 0 {
			k = append(k, byte(rng.Uint32()))
		}
		v, there := want[string(k)]
		got, err := snap.Get(t.Context(), k, []byte("="))
		switch {
		case there && (err != nil || !bytes.Equal(got[1:], v)):
			t.Fatalf("seed %d: %x is %x, %v, not %x", seed, k, got, err, v)
		case !there && !errors.Is(err, kv.ErrNotFound):
			t.Fatalf("seed %d: %x is there: %x, %v", seed, k, got, err)
		}
	}
}

// TestCursorSteps: keys that follow each other are found without a search for each.
func TestCursorSteps(t *testing.T) {
	db, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for n := range uint32(1000) {
		if err := db.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set(key(n), nil)}}); err != nil {
			t.Fatal(err)
		}
	}
	it, err := db.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	c := &cursor{it: it}
	for n := range uint32(1000) {
		if !c.find(key(n)) {
			t.Fatalf("%d is missing", n)
		}
	}
	stats := it.Stats()
	if n := stats.ForwardSeekCount[pebble.InterfaceCall]; n > 10 { // there are no numbers of as many bytes between 255 and 256
		t.Errorf("%d searches for 1000 keys", n)
	}
}
