package archive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// sizeOf returns how many bytes the files below a folder have.
func sizeOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
		t.Fatal(err)
	}
	return n
}

// heap returns how much memory is in use.
func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// commitLarge makes some commits of 256 KiB, to a few rows.
func (m *model) commitLarge(n int) {
	m.t.Helper()
	for i := range n {
		key, value := fmt.Sprint("large/", i%8), make([]byte, 256<<10)
		c := &kv.Commit{Ops: []kv.Op{{Kind: kv.OpSet, Key: []byte(key), Value: value}}}
		for i := 0; i < len(value); i += 8 {
			binary.LittleEndian.PutUint64(value[i:], m.rnd.Uint64())
		}
		copy(c.ID[:], value)
		if err := m.db.Commit(m.t.Context(), c); err != nil {
			m.t.Fatal(err)
		}
		m.rows[key] = string(value)
	}
}

// clock gives the Writer a clock that goes on when it waits after an error.
func (m *model) clock() *atomic.Int64 {
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	m.opts.now = func() time.Time { return time.Unix(0, clock.Load()) }
	m.opts.sleep = func(ctx context.Context, d time.Duration) error {
		clock.Add(int64(d))
		return sleep(ctx, time.Millisecond)
	}
	return &clock
}

// TestOutage tests what a bucket costs that goes away for an hour, while a base is being made: memory, goroutines and, but for MaxLocal and
// the store itself, room on the disk stay as they are, and so many minutes later the files of the base are given up.
func TestOutage(t *testing.T) {
	const local, own = 4 << 20, 20 << 20
	for _, from := range []string{basesOf(1), tablePrefix}[:testkit.Pick(1, 1, 2)] {
		t.Run(strings.Trim(from, "/"), func(t *testing.T) {
			b := buckettest.NewFaulty(buckettest.NewMemory(), nil)
			m := newModel(t, 14, b)
			clock := m.clock()
			m.opts.MaxLocal, m.opts.baseBytes = local, 30_000
			m.start()
			m.sync()
			var away atomic.Bool
			b.Set(func(op, name string) buckettest.Fault {
				if away.Load() || op == "put" && strings.HasPrefix(name, from) {
					away.Store(true)
					return buckettest.Refused
				}
				return buckettest.None
			})
			for !away.Load() {
				m.commit(10)
			}
			began, goroutines, memory := clock.Load(), runtime.NumGoroutine(), heap()
			for rounds := 0; rounds < 12 || clock.Load()-began < int64(time.Hour); rounds++ {
				m.commit(5)
				m.commitLarge(10)
				clear(m.states) // they take memory
				if n := runtime.NumGoroutine(); n > goroutines+20 {
					t.Fatalf("%d goroutines, %d before", n, goroutines)
				}
				// What the tables have taken in goes behind the commits' backs: on a fast disk these are ahead of it for a while.
				for until := time.Now().Add(testkit.Patience(time.Second)); sizeOf(t, m.dir) > local+own; <-time.After(5 * time.Millisecond) {
					if time.Now().After(until) {
						t.Fatalf("the store takes %d bytes, and goes on taking them", sizeOf(t, m.dir))
					}
				}
			}
			if more := heap() - memory; more > 32<<20 {
				t.Errorf("%d bytes more are in use", more)
			}
			if _, err := os.Stat(filepath.Join(m.dir, "base.tmp")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the files of the base are still kept: %v", err)
			}
			if s := m.w.Status(); !errors.Is(s.Err, buckettest.ErrInjected) || s.Lag < time.Hour || s.Fatal != nil {
				t.Errorf("%+v", s)
			}
			t.Logf("the store takes %d bytes, %d goroutines", sizeOf(t, m.dir), runtime.NumGoroutine()-goroutines)
			b.Set(nil)
			m.wantLines(2)
		})
	}
}

// TestFirstBaseGivenUp tests that a lineage has no hole when its first base was stored, and the Writer wasn't told so until it gave that up.
func TestFirstBaseGivenUp(t *testing.T) {
	b := buckettest.NewFaulty(buckettest.NewMemory(), nil)
	m := newModel(t, 16, b)
	clock := m.clock()
	m.commit(10)
	began, tried := clock.Load(), 0
	b.Set(func(op, name string) buckettest.Fault {
		switch {
		case op != "put" || !strings.Contains(name, "/base/"):
			return buckettest.None
		case tried == 0:
			tried++
			m.commit(10) // the next base has more
			return buckettest.Lost
		case clock.Load()-began < int64(2*maxSilence):
			return buckettest.Refused
		}
		return buckettest.None
	})
	m.start()
	m.sync()
	m.commit(10)
	m.sync()
	b.Set(nil)
	lines := m.wantLines(1)
	if _, err := m.archive().Verify(t.Context(), func(err error) { t.Error(err) }, nil); err != nil {
		t.Error(err)
	}
	for n := lines[0].First.Number; n <= lines[0].Last.Number; n++ {
		if got := look(t, m.archive(), m.archive().manifest.bookmark(lines[0].Number, n)); !maps.Equal(got, m.states[n]) {
			t.Errorf("as of %d it has %d rows, want %d", n, len(got), len(m.states[n]))
		}
	}
	if tried == 0 || clock.Load()-began < int64(maxSilence) {
		t.Error("no base was given up")
	}
}
