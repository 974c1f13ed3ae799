package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
)

// withoutManifest removes what says which tables a store has.
func withoutManifest(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"MANIFEST-*", "marker.*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v %v", pattern, names, err)
		}
		for _, name := range names {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// churn commits n changes of all kinds to a store, of rows that live in many tables.
func churn(t *testing.T, db *DB, rnd *rand.Rand, n int) {
	t.Helper()
	random := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // it never fails
	for i := range n {
		var ops []kv.Op
		for range 1 + rnd.IntN(4) {
			key := fmt.Appendf(nil, "row %03d", rnd.IntN(500))
			switch rnd.IntN(10) {
			case 0:
				ops = append(ops, kv.Clear(key))
			case 1:
				ops = append(ops, kv.ClearRange(key, fmt.Appendf(key[:len(key):len(key)], "~")))
			case 2:
				n := rnd.IntN(490)
				ops = append(ops, kv.ClearRange(fmt.Appendf(nil, "row %03d", n), fmt.Appendf(nil, "row %03d", n+1+rnd.IntN(9))))
			default:
				value := random[:4000] // of which a change is a patch
				if rnd.IntN(3) == 0 {
					value = random[rnd.IntN(len(random)-4000):][:4000]
				}
				value = bytes.Clone(value)
				copy(value[rnd.IntN(3900):], fmt.Sprintf("change %d", i))
				ops = append(ops, kv.Set(key, value))
			}
		}
		if err := db.Commit(ctx, &kv.Commit{Ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
}

// rebuilt returns the rows of a store that is rebuilt, and what is damaged of it.
func rebuilt(t *testing.T, dir string) (rows map[string]string, damage []error) {
	t.Helper()
	to := t.TempDir()
	damage, err := Rebuild(ctx, dir, to)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenSalvage(filepath.Join(to, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string]string{}
	err = s.Rows(ctx, func(e kv.Entry) error { rows[string(e.Key)] = string(e.Value); return nil }, func(g Gap) error {
		damage = append(damage, g.Cause)
		return nil
	})
	if log := s.LogDamage(); log != nil {
		damage = append(damage, log)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return rows, damage
}

// TestRebuild loses the MANIFEST of stores that were closed, or not: all that was committed is in the rebuilt ones, and nothing in the old ones is changed. Without a log, or with a table that
// is damaged, the rest is there.
func TestRebuild(t *testing.T) {
	most := 0
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		from, dir := t.TempDir(), filepath.Join(t.TempDir(), "s")
		opts := &Options{MemtableBytes: 64 << 10}
		db, err := Open(from, opts)
		if err != nil {
			t.Fatal(err)
		}
		churn(t, db, rnd, 600)
		if seed%2 == 0 {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			copyStore(t, from, dir)
		} else {
			if err := errors.Join(db.Checkpoint(ctx, dir), db.Close()); err != nil { // its log has more than its tables
				t.Fatal(err)
			}
		}
		want, err := readStore(from, opts)
		if err != nil {
			t.Fatal(err)
		}
		withoutManifest(t, dir)
		if _, err := OpenSalvage(dir, nil); !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrNotAStore) {
			t.Errorf("opened without a MANIFEST: %v", err)
		}
		if rows, damage := rebuilt(t, dir); !maps.Equal(rows, want) || len(rows) < 50 || damage != nil {
			t.Errorf("seed %d: %d rows, want %d; damage %v", seed, len(rows), len(want), damage)
		}
		tables, err := tablesIn(dir)
		if err != nil || len(tables) == 0 {
			t.Fatalf("tables %v: %v", tables, err)
		}
		most = max(most, len(tables))
		name := filepath.Join(dir, fmt.Sprintf("%06d.sst", tables[len(tables)/2]))
		b := readFile(t, name)
		b[len(b)/4] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if rows, damage := rebuilt(t, dir); len(rows) == 0 || len(damage) == 0 || !strings.Contains(damage[0].Error(), name) || !errors.Is(damage[0], kv.ErrCorrupt) {
			t.Errorf("a damaged table: %v", damage)
		}
	}
	if most < 2 {
		t.Errorf("no store had more than %d tables", most)
	}
}

// TestRebuildNothing: a directory that isn't a store, or is in use, isn't rebuilt.
func TestRebuildNothing(t *testing.T) {
	if _, err := Rebuild(ctx, t.TempDir(), t.TempDir()); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("an empty directory: %v", err)
	}
	dir := t.TempDir()
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Rebuild(ctx, dir, t.TempDir()); !errors.Is(err, kv.ErrStoreInUse) {
		t.Errorf("a store in use: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRebuildReplaced: tables with patches that a crash has left, although the table with their results is there, change nothing; patches that
// belong to nothing are damage, and stop nothing.
func TestRebuildReplaced(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(db.store.db.Flush(), db.Close())
	below, err := pebble.Open(dir, &pebble.Options{
		Merger: workaround.Patches(), DisableAutomaticCompactions: true, FormatMajorVersion: pebble.FormatNewest,
		DisableWAL: true, WALDir: ownLog, Logger: workaround.Logger{},
	})
	must(err)
	rows := []string{"doubted", "gone", "row"}
	value := bytes.Repeat([]byte("value "), 1000)
	for _, row := range rows {
		must(below.Set([]byte(row), value, pebble.NoSync))
	}
	must(below.Flush())
	before, err := tablesIn(dir)
	must(err)
	for _, change := range []string{"one", "two"} {
		next := bytes.Clone(value)
		copy(next[100:], change)
		patch, ok := workaround.AppendPatch(nil, value, next, len(value))
		if !ok {
			t.Fatal("no patch")
		}
		for _, row := range rows {
			must(below.Merge([]byte(row), patch, pebble.NoSync))
		}
		must(below.Flush())
		value = next
	}
	all, err := tablesIn(dir)
	must(err)
	patched := map[string][]byte{}
	for _, n := range all[len(before):] {
		name := filepath.Join(dir, fmt.Sprintf("%06d.sst", n))
		patched[name] = readFile(t, name)
	}
	must(below.Delete([]byte("gone"), pebble.NoSync), below.Set([]byte("doubted"), []byte("newer"), pebble.NoSync), below.Flush())
	must(below.Compact(ctx, []byte{0}, []byte{0xff}, false), below.Close())
	for name, b := range patched {
		if _, err := os.Stat(name); err == nil {
			t.Fatalf("the table %s was not replaced", name)
		}
		must(os.WriteFile(name, b, 0o600))
	}
	if len(patched) != 2 {
		t.Fatalf("%d tables", len(patched))
	}
	withoutManifest(t, dir)
	got, damage := rebuilt(t, dir)
	if len(got) != 1 || got["row"] != string(value) || len(damage) != 2 ||
		!strings.Contains(damage[0].Error(), `row "doubted"`) || !strings.Contains(damage[1].Error(), `row "gone"`) {
		t.Errorf("%d rows, damage %v", len(got), damage)
	}
}
