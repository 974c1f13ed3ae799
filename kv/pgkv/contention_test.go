//go:build unix

package pgkv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// together runs fn in n goroutines, at least once in each, until one fails or the time is
// up.
func together(t *testing.T, n int, fn func(w int) error) {
	t.Helper()
	var wg sync.WaitGroup
	end := time.Now().Add(1500 * time.Millisecond)
	var failed atomic.Bool
	for w := range n {
		wg.Go(func() {
			for again := true; again; again = time.Now().Before(end) && !failed.Load() {
				if err := fn(w); err != nil {
					failed.Store(true)
					t.Errorf("worker %d: %v", w, err)
				}
			}
		})
	}
	wg.Wait()
}

// Commits that take the same head, read other rows and write one of them: none of
// their updates is lost. A reader that took its state before it had the lock would
// lose some.
func TestHeads(t *testing.T) {
	t.Parallel()
	db := open(t)
	const actors = 2
	for a := range actors {
		if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{
			set(fmt.Sprintf("%d/head", a), "0"), set(fmt.Sprintf("%d/a", a), "0"), set(fmt.Sprintf("%d/b", a), "0"),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	var commits, conflicts atomic.Int64
	together(t, 16, func(w int) error {
		key := func(name string) string { return fmt.Sprintf("%d/%s", w%actors, name) }
		get := func(name string) (n int, s string, err error) {
			v, err := db.Get(ctx, []byte(key(name)), nil)
			if err == nil {
				_, err = fmt.Sscan(string(v), &n)
			}
			return n, string(v), err
		}
		head, text, err := get("head")
		if err != nil {
			return err
		}
		name := [...]string{"a", "b"}[rand.IntN(2)]
		n, _, err := get(name)
		if err != nil {
			return err
		}
		err = db.Commit(ctx, &kv.Commit{
			Checks: []kv.Check{is(key("head"), text)},
			Ops:    []kv.Op{set(key("head"), fmt.Sprint(head+1)), set(key(name), fmt.Sprint(n+1))},
		})
		switch {
		case err == nil:
			commits.Add(1)
		case errors.Is(err, kv.ErrConflict):
			conflicts.Add(1)
			err = nil
		}
		return err
	})
	total := int64(0)
	for a := range actors {
		sum := int64(0)
		for _, name := range []string{"a", "b", "head"} {
			v, err := db.Get(ctx, fmt.Appendf(nil, "%d/%s", a, name), nil)
			if err != nil {
				t.Fatal(err)
			}
			var n int64
			if _, err := fmt.Sscan(string(v), &n); err != nil {
				t.Fatal(err)
			}
			if name == "head" && n != sum {
				t.Errorf("actor %d: its head counts %d commits, its rows %d", a, n, sum)
			}
			sum += n
			if name == "head" {
				total += n
			}
		}
	}
	if total != commits.Load() || total == 0 {
		t.Errorf("%d commits are there, %d were acknowledged", total, commits.Load())
	}
	t.Logf("%d commits, %d conflicts", commits.Load(), conflicts.Load())
}

// Of all callers that want a key that must be absent, one gets it; any caller may release
// it, and blind writers and commits that clear ranges get in between.
func TestAbsent(t *testing.T) {
	t.Parallel()
	db := open(t)
	var held atomic.Int32
	together(t, 12, func(w int) error {
		switch w {
		case 0: // comes in between, with nothing that stays
			return db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("lockx", "x"), kv.ClearRange([]byte("lockx"), []byte("locky"))}})
		case 1:
			return db.Commit(ctx, &kv.Commit{Checks: []kv.Check{absent("lockx")}})
		}
		me := fmt.Sprint(w)
		err := db.Commit(ctx, &kv.Commit{Checks: []kv.Check{absent("lock")}, Ops: []kv.Op{set("lock", me)}, Durability: kv.Applied})
		if errors.Is(err, kv.ErrConflict) {
			return nil
		}
		if err != nil {
			return err
		}
		if n := held.Add(1); n != 1 {
			return fmt.Errorf("%d hold the lock", n)
		}
		held.Add(-1)
		return db.Commit(ctx, &kv.Commit{Checks: []kv.Check{is("lock", me)}, Ops: []kv.Op{kv.Clear([]byte("lock"))}, Durability: kv.Applied})
	})
}

// A key is absent until a commit that checked it has ended: a blind write comes
// after. So the number that both also write is 2 whenever the key is there.
func TestAbsentHolds(t *testing.T) {
	db := open(t)
	for i := range 60 {
		k := fmt.Sprintf("k%d", i)
		var wg sync.WaitGroup
		var checked error
		wg.Go(func() {
			ops := []kv.Op{set("x"+k, "1")}
			for j := range 20 {
				ops = append(ops, set(fmt.Sprintf("a%d/%d", i, j), "fill"))
			}
			checked = db.Commit(ctx, &kv.Commit{Checks: []kv.Check{absent(k)}, Ops: ops, Durability: kv.Applied})
		})
		wg.Go(func() {
			if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set(k, "there"), set("x"+k, "2")}, Durability: kv.Applied}); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if checked != nil && !errors.Is(checked, kv.ErrConflict) {
			t.Fatal(checked)
		}
		wantGet(t, db, "x"+k, "2")
	}
}

// Commits that lock rows crosswise are tried again by the engine, not by the caller.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	db := open(t)
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "1"), set("b", "1")}}); err != nil {
		t.Fatal(err)
	}
	together(t, 4, func(w int) error {
		lock, write := "a", "b"
		if w%2 == 1 {
			lock, write = write, lock
		}
		return db.Commit(ctx, &kv.Commit{Checks: []kv.Check{is(lock, "1")}, Ops: []kv.Op{set(write, "1")}, Durability: kv.Applied})
	})
}

// Many goroutines with few connections: none waits for ever.
func TestPools(t *testing.T) {
	db := openAt(t, newURL(t), &Options{Calls: 4, Pins: 4, PinWait: time.Minute})
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("n", "0")}}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 100 {
		wg.Go(func() {
			s, err := db.Snapshot(ctx)
			if err != nil {
				t.Errorf("snapshot: %v", err)
				return
			}
			// What is committed and read while a snapshot is held needs others.
			err = db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set(fmt.Sprint(w), "x")}, OnApply: func() {
				if _, err := db.Get(ctx, []byte("n"), nil); err != nil {
					t.Error(err)
				}
				if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set(fmt.Sprint("again", w), "x")}}); err != nil {
					t.Error(err)
				}
			}})
			_, gerr := s.Get(ctx, []byte("n"), nil)
			if err := errors.Join(err, gerr, exhaust(s, kv.Range{}), exhaust(db, kv.Range{Limit: 10}), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A caller that holds all snapshots and wants one more gets ErrBusy.
func TestBusy(t *testing.T) {
	db := openAt(t, newURL(t), &Options{Pins: 2, PinWait: time.Millisecond})
	var open []kv.Snapshot
	for range 2 {
		s, err := db.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, s)
	}
	if _, err := db.Snapshot(ctx); !errors.Is(err, ErrBusy) {
		t.Errorf("one too many: got %v, want %v", err, ErrBusy)
	}
	if err := open[0].Close(); err != nil {
		t.Error(err)
	}
	s, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), open[1].Close()); err != nil {
		t.Error(err)
	}
}

// A range that is cleared and written to by the same commit keeps its rows in place,
// so that a commit waiting for one of them sees what became of it, not that it is
// gone.
func TestClearKeepsRows(t *testing.T) {
	db := open(t)
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("r/a", "0"), set("r/b", "0"), set("r/head", "h")}}); err != nil {
		t.Fatal(err)
	}
	together(t, 6, func(w int) error {
		if w%2 == 0 {
			return db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.ClearRange([]byte("r/"), []byte("r0")), set("r/head", "h"), set("r/a", "1")}, Durability: kv.Applied})
		}
		return db.Commit(ctx, &kv.Commit{Checks: []kv.Check{is("r/head", "h")}, Ops: []kv.Op{set("r/b", "1")}, Durability: kv.Applied})
	})
}

// What a commit stores is what is read, for values of all sizes around PostgreSQL's
// own bounds.
func TestSizes(t *testing.T) {
	db := open(t)
	for _, n := range []int{0, 1, 1000, 1990, 2000, 2040, 8150, 8192, 10_000, maxRequest + 5} {
		v := bytes.Repeat([]byte{byte(n), 7}, n/2+1)[:n]
		if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("k"), v), kv.Set([]byte("l"), v)}}); err != nil {
			t.Fatal(err)
		}
		got, err := db.Get(ctx, []byte("k"), nil)
		if err != nil || !bytes.Equal(got, v) {
			t.Errorf("a value of %d bytes: got %d bytes, %v", n, len(got), err)
		}
	}
}

// Unused connections are closed.
func TestIdle(t *testing.T) {
	db := openAt(t, newURL(t), &Options{IdleFor: time.Millisecond})
	if _, err := db.Get(ctx, []byte("k"), nil); !errors.Is(err, kv.ErrNotFound) {
		t.Fatal(err)
	}
	await(t, func() bool {
		db.reads.mu.Lock()
		defer db.reads.mu.Unlock()
		return len(db.reads.idle) == 0
	})
	wantGet(t, db, "k", "-")
}
