package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
		opts := *smallStore
		opts.MinFree = -1
		engine, err := pebblekv.Open(filepath.Join(dir, "store"), &opts)
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
	acked := fillWhile(t, testkit.Pick(8, 40, 40), fill, []func(context.Context, int) error{actorInsert, hostInsert}, []func(context.Context) (int, error){actorNewest, hostNewest})
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

// fillWhile fills and frees the disk so many times, while workers write and others read. After each result a worker
// waits until fillWhile takes it. fillWhile returns the newest row of each writer that was acknowledged; all begin
// with 1.
func fillWhile(t *testing.T, rounds int, fill func(full bool), inserts []func(context.Context, int) error, newests []func(context.Context) (int, error)) []int {
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
	acked := slices.Repeat([]int{1}, len(inserts))
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
				more = tell(len(inserts)+i, err)
			}
		})
	}
	// until waits until each worker has done something so many times: writers as they should, readers in any case.
	until := func(full bool) {
		left := slices.Concat(slices.Repeat([]int{2}, len(inserts)), slices.Repeat([]int{3}, len(newests)))
		for slices.Max(left) > 0 {
			d := <-news
			if d.err != nil && (d.worker >= len(inserts) || !errors.Is(d.err, greenroom.ErrNoSpace) || errors.Is(d.err, greenroom.ErrPoisoned)) {
				t.Fatalf("worker %d: %v", d.worker, d.err)
			}
			if d.worker >= len(inserts) || (d.err != nil) == full {
				left[d.worker]--
			}
		}
	}
	for range rounds {
		fill(true)
		until(true)
		fill(false)
		until(false)
	}
	stop()
	all.Wait()
	return acked
}

// minFree is what a store keeps free in tests of that.
const minFree = 16 << 20

// TestMinFreeMounted has the free space of a file system of its own fall below the mark, and rise again, under load by several
// actors: writes are refused before the disk is full, reads go on, writes go on by themselves, and what is stored is what was
// acknowledged.
func TestMinFreeMounted(t *testing.T) {
	s := openSmall(t)
	ballast := filepath.Join(s.dir, "ballast")
	fill := func(full bool) {
		if !full {
			if free := s.free(); free < minFree/2 {
				t.Errorf("%d bytes are free, and %d should be kept", free, minFree)
			}
			must(t, os.Remove(ballast))
			return
		}
		must(t, os.WriteFile(ballast, make([]byte, s.free()-minFree+1), 0o600))
	}
	names := []string{"a", "b", "c", "d", "e"}
	var inserts []func(context.Context, int) error
	var newests []func(context.Context) (int, error)
	for _, name := range names {
		must(t, s.insert(t.Context(), name, 1))
		inserts = append(inserts, func(ctx context.Context, n int) error { return s.insert(ctx, name, n) })
		newests = append(newests, func(ctx context.Context) (int, error) { return s.newest(ctx, name) })
	}
	acked := fillWhile(t, testkit.Pick(1, 3, 20), fill, inserts, newests)
	for range 2 {
		for i, name := range names {
			if n, err := s.newest(t.Context(), name); n != acked[i] || err != nil {
				t.Errorf("the newest row of %s is %d, %v, and %d was acknowledged", name, n, err, acked[i])
			}
		}
		s.close()
		s.open()
	}
	s.close()
}

// TestDropMakesRoom: where the store itself has filled its disk up to the mark, dropping actors makes room, and writes go on.
func TestDropMakesRoom(t *testing.T) {
	s := openSmall(t)
	last := ""
	for n, err := 1, error(nil); err == nil; n++ {
		last = strconv.Itoa(n)
		err = s.add(t.Context(), last)
		if err != nil && !errors.Is(err, greenroom.ErrNoSpace) {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"1", "2", "3"} {
		// Meanwhile a compaction may take what is left of the disk, which it gives back.
		for err := greenroom.ErrNoSpace; errors.Is(err, greenroom.ErrNoSpace); {
			if err = s.host.Store().Drop(t.Context(), "thing/"+name); err != nil && !errors.Is(err, greenroom.ErrNoSpace) {
				t.Fatal(err)
			}
		}
	}
	for err := greenroom.ErrNoSpace; err != nil; err = s.add(t.Context(), last) {
		if !errors.Is(err, greenroom.ErrNoSpace) {
			t.Fatal(err)
		}
	}
	s.close()
}

// A small is a host whose store is on a file system of its own, of 96 MiB.
type small struct {
	t      *testing.T
	dir    string
	engine kv.Engine
	host   *Host

	insertIn *Action[int, struct{}]
	newestIn *Action[struct{}, int]
	addTo    *Action[struct{}, struct{}]
}

func openSmall(t *testing.T) *small {
	t.Helper()
	s := &small{t: t, dir: t.TempDir()}
	mountSmall(t, s.dir)
	s.insertIn = NewAction("insert", func(c *Context, n int) (struct{}, error) {
		return struct{}{}, insertRow(func(text string, args ...any) error { _, err := c.Exec(text, args...); return err }, n)
	})
	s.newestIn = NewAction("newest", func(c *Context, _ struct{}) (n int, err error) {
		return n, c.QueryRow("select max(n) from t").Scan(&n)
	})
	s.addTo = NewAction("add", func(c *Context, _ struct{}) (struct{}, error) {
		_, err := c.Exec("create table large (b blob)")
		if err == nil {
			_, err = c.Exec("insert into large values (randomblob(2000000))")
		}
		return struct{}{}, err
	})
	s.open()
	return s
}

func (s *small) open() {
	s.t.Helper()
	opts := *smallStore
	opts.MinFree = minFree
	var err error
	s.engine, err = pebblekv.Open(filepath.Join(s.dir, "store"), &opts)
	must(s.t, err)
	s.host, err = Open(s.t.Context(), s.engine, []*Type{thing(s.insertIn, s.newestIn, s.addTo)}, &Options{Logger: quiet, MaxAwake: 4})
	must(s.t, err)
}

func (s *small) close() {
	s.t.Helper()
	must(s.t, errors.Join(s.host.Close(s.t.Context()), s.engine.Close()))
}

func (s *small) free() int64 {
	s.t.Helper()
	n, _, err := kv.FreeSpace(s.engine)
	must(s.t, err)
	return n
}

func (s *small) insert(ctx context.Context, name string, n int) error {
	_, err := s.insertIn.Call(ctx, s.host, name, n)
	return err
}

func (s *small) newest(ctx context.Context, name string) (int, error) {
	return s.newestIn.Call(ctx, s.host, name, struct{}{})
}

// add stores some megabytes in an actor.
func (s *small) add(ctx context.Context, name string) error {
	_, err := s.addTo.Call(ctx, s.host, name, struct{}{})
	return err
}
