package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// smallStore are options with which a disk is full soon.
var smallStore = &pebblekv.Options{MemtableBytes: 1 << 20, CacheBytes: 1 << 20}

// TestDiskFull has the disk below an engine be full, and free again, forty times, while an actor and a host write and read: no read
// fails, the same handles go on, and what is stored is what was acknowledged.
func TestDiskFull(t *testing.T) {
	disk := pebblekv.NewCrashDisk()
	testDiskFull(t, disk.SetFull, func() kv.Engine {
		engine, err := disk.Open(smallStore)
		must(t, err)
		return engine
	})
}

// TestDiskFullMounted is TestDiskFull on a file system of its own, that a file fills.
func TestDiskFullMounted(t *testing.T) {
	testkit.OnlyLong(t, "the real file system takes a minute")
	dir := t.TempDir()
	mountSmall(t, dir)
	ballast := filepath.Join(dir, "ballast")
	fill := func(full bool) {
		if !full {
			must(t, os.Remove(ballast))
			return
		}
		f, err := os.Create(ballast)
		must(t, err)
		for _, n := range []int{1 << 20, 4096, 1} {
			for b := make([]byte, n); err == nil; {
				_, err = f.Write(b)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			err = nil
		}
		must(t, f.Close())
	}
	testDiskFull(t, fill, func() kv.Engine {
		engine, err := pebblekv.Open(filepath.Join(dir, "store"), smallStore)
		must(t, err)
		return engine
	})
}

// A done is what a worker of testDiskFull has done.
type done struct {
	worker int
	err    error
}

// insertRow inserts the row after the newest in a table of few rows.
func insertRow(exec func(text string, args ...any) error, n int) error {
	return errors.Join(
		exec("create table if not exists t (n integer primary key, b blob)"),
		exec("insert into t values (?, randomblob(20000))", n),
		exec("delete from t where n < ?", n-5),
	)
}

func testDiskFull(t *testing.T, fill func(full bool), open func() kv.Engine) {
	engine := open()
	lives := 0
	insert := NewAction("insert", func(c *Context, n int) (struct{}, error) {
		return struct{}{}, insertRow(func(text string, args ...any) error { _, err := c.Exec(text, args...); return err }, n)
	})
	newest := NewAction("newest", func(c *Context, _ struct{}) (n int, err error) {
		return n, c.QueryRow("select max(n) from t").Scan(&n)
	})
	typ := thing(insert, newest)
	typ.Wake = func(*Context) error { lives++; return nil }
	opts := &Options{Logger: quiet}
	h, err := Open(t.Context(), engine, []*Type{typ}, opts)
	must(t, err)
	store, err := greenroom.New(t.Context(), engine, &greenroom.Options{Logger: quiet})
	must(t, err)
	a, err := store.Actor(t.Context(), "alone", nil)
	must(t, err)
	actorInsert := func(ctx context.Context, n int) error {
		return a.Update(ctx, func(tx *greenroom.Tx) error {
			err := insertRow(func(text string, args ...any) error { _, err := tx.Exec(text, args...); return err }, n)
			return errors.Join(err, tx.Put([]byte("n"), strconv.AppendInt(nil, int64(n), 10)))
		})
	}
	actorNewest := func(ctx context.Context) (n int, err error) {
		return n, a.View(ctx, func(v *greenroom.View) error { return v.QueryRow("select max(n) from t").Scan(&n) })
	}
	hostInsert := func(ctx context.Context, n int) error {
		_, err := insert.Call(ctx, h, "lobby", n)
		return err
	}
	hostNewest := func(ctx context.Context) (int, error) { return newest.Call(ctx, h, "lobby", struct{}{}) }
	must(t, errors.Join(actorInsert(t.Context(), 1), hostInsert(t.Context(), 1)))
	acked := fillWhile(t, fill, [2]func(context.Context, int) error{actorInsert, hostInsert}, [2]func(context.Context) (int, error){actorNewest, hostNewest})
	if must(t, a.Err()); lives != 1 {
		t.Errorf("the host's actor has been awake %d times", lives)
	}
	same := func(n int, err error, want int) {
		t.Helper()
		if must(t, err); n != want {
			t.Errorf("the newest row is %d, and %d was acknowledged", n, want)
		}
	}
	for range 2 {
		n, err := actorNewest(t.Context())
		same(n, err, acked[0])
		n, err = hostNewest(t.Context())
		same(n, err, acked[1])
		must(t, errors.Join(a.Close(), store.Close(), h.Close(t.Context()), engine.Close()))
		engine = open()
		h, err = Open(t.Context(), engine, []*Type{typ}, opts)
		must(t, err)
		store, err = greenroom.New(t.Context(), engine, &greenroom.Options{Logger: quiet})
		must(t, err)
		a, err = store.Actor(t.Context(), "alone", nil)
		must(t, err)
	}
	must(t, errors.Join(a.Close(), store.Close(), h.Close(t.Context()), engine.Close()))
}

// fillWhile fills and frees the disk several times, while two workers write and two read. After each result a worker
// waits until fillWhile takes it. fillWhile returns the newest row of each writer that was acknowledged; both begin
// with 1.
func fillWhile(t *testing.T, fill func(full bool), inserts [2]func(context.Context, int) error, newests [2]func(context.Context) (int, error)) (acked [2]int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	news := make(chan done)
	tell := func(worker int, err error) bool {
		select {
		case news <- done{worker, err}:
			return true
		case <-ctx.Done():
			return false
		}
	}
	acked = [2]int{1, 1}
	for i, insert := range inserts {
		all.Go(func() {
			for more := true; more; {
				err := insert(t.Context(), acked[i]+1)
				if err == nil {
					acked[i]++
				}
				more = tell(i, err)
			}
		})
	}
	for i, newest := range newests {
		all.Go(func() {
			for last, more := 0, true; more; {
				n, err := newest(t.Context())
				if err == nil && n < last {
					t.Errorf("reader %d: %d after %d", i, n, last)
				}
				last = n
				more = tell(2+i, err)
			}
		})
	}
	// until waits until each worker has done something so many times: writers as they should, readers in any case.
	until := func(full bool) {
		for left := [4]int{2, 2, 3, 3}; left[0] > 0 || left[1] > 0 || left[2] > 0 || left[3] > 0; {
			d := <-news
			if d.err != nil && (d.worker >= 2 || !errors.Is(d.err, greenroom.ErrNoSpace) || errors.Is(d.err, greenroom.ErrPoisoned)) {
				t.Fatalf("worker %d: %v", d.worker, d.err)
			}
			if d.worker >= 2 || (d.err != nil) == full {
				left[d.worker]--
			}
		}
	}
	for range testkit.Pick(8, 40, 40) {
		fill(true)
		until(true)
		fill(false)
		until(false)
	}
	stop()
	all.Wait()
	return acked
}
