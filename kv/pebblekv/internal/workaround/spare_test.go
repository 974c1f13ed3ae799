package workaround

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// memtable is the size of the memtables of a rig, in bytes.
const memtable = 16 << 10

// A rig is a Pebble in memory, as a store has it.
type rig struct {
	*testing.T
	db     *pebble.DB
	fault  *Fault
	life   *Life
	newest *Newest
}

// newRig opens one on a disk. It is to be closed.
func newRig(t *testing.T, disk vfs.FS) *rig {
	t.Helper()
	r := &rig{T: t, fault: NewFault(), life: NewLife()}
	gate := NewGate(r.fault, r.life.Closing(), memtable, 0)
	fence := NewFence(disk, "store", 0, r.fault, gate, func(string) {})
	db, err := pebble.Open("store", &pebble.Options{FS: fence, DisableWAL: true, MemTableSize: memtable, Logger: Logger{Fault: r.fault}, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	fence.Arm()
	r.db, r.newest = db, NewNewest(db, r.fault, memtable)
	r.newest.spare.keep = time.Hour
	return r
}

func (r *rig) close() {
	r.Helper()
	r.life.Close()
	r.newest.Close()
	if err := r.db.Close(); err != nil {
		r.Error(err)
	}
}

// count returns how many snapshots are open.
func (r *rig) count() int { return r.db.Metrics().Snapshots.Count }

// unpin gives snapshots back, in that order.
func (r *rig) unpin(pins ...Pin) {
	r.Helper()
	for _, p := range pins {
		if err := r.newest.Unpin(p); err != nil {
			r.Error(err)
		}
	}
}

// TestSpare: one snapshot is kept when it is given back, no second one, and none beyond the store.
func TestSpare(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	n := r.newest
	for range 3 {
		a, b := n.Pin(), n.Pin()
		r.unpin(b, a)
		if got := r.count(); got != 1 {
			t.Errorf("%d snapshots are open when all are given back, want the spare", got)
		}
	}
	n.spare.drop() // as the timer does
	if got := r.count(); got != 0 {
		t.Errorf("%d snapshots are open without the spare", got)
	}
	if r.unpin(n.Pin()); r.count() != 1 {
		t.Errorf("%d snapshots, want the spare again", r.count())
	}
	n.Close()
	if got := r.count(); got != 0 {
		t.Errorf("%d snapshots are open at the end", got)
	}
	if r.unpin(n.Pin()); r.count() != 0 {
		t.Errorf("%d snapshots after the end", r.count())
	}
	r.close()
}

// TestSpareTimer: the timer closes the spare, each time anew.
func TestSpareTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vfs.NewMem())
		r.newest.spare.keep = spareTime
		for turn := range 2 {
			if r.unpin(r.newest.Pin()); r.count() != 1 {
				t.Errorf("%d snapshots", r.count())
			}
			<-time.After(2 * spareTime) // of the bubble's own time
			synctest.Wait()
			if n := r.count(); n != 0 {
				t.Errorf("turn %d: %d snapshots are kept for long", turn, n)
			}
		}
		r.close()
	})
}

// TestSpareGuard: snapshots are closed in the guard, which stops what panics in Pebble.
func TestSpareGuard(t *testing.T) {
	for by, end := range map[string]func(*spare){
		"give": func(s *spare) { _ = s.give(Pin{Snapshot: new(pebble.Snapshot), number: 2}) },
		"drop": (*spare).drop,
	} {
		guarded := 0
		s := spare{keep: time.Hour, guard: func(func() error) error { guarded++; return nil }}
		_ = s.give(Pin{Snapshot: new(pebble.Snapshot), number: 1})
		end(&s)
		if guarded != 1 {
			t.Errorf("%s closes %d times in the guard", by, guarded)
		}
		s.timer.Stop()
	}
}

// TestSpareFullDisk: while Pebble waits for room for its list of tables, snapshots are taken and closed in any order,
// and a large batch is applied. Only the spare's own timer waits.
func TestSpareFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		r := newRig(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if full.Load() && strings.Contains(op.Path, "MANIFEST-") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return syscall.ENOSPC
			}
			return nil
		})))
		n := r.newest
		snapshot := func() Pin { // of a state of its own, or closing it frees nothing
			if err := r.db.Set([]byte("row"), nil, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
			return n.Pin()
		}
		old, young := snapshot(), snapshot()
		r.unpin(snapshot()) // the spare is younger than both
		full.Store(true)
		flushed, err := r.db.AsyncFlush()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it waits for room
		r.unpin(young, old)
		dropped := make(chan struct{})
		go func() {
			defer close(dropped)
			n.spare.drop() // as the timer does, of an older snapshot than what follows
		}()
		synctest.Wait()
		n.begin() // as a large batch does
		n.end()
		for range 100 {
			a, b, c := snapshot(), snapshot(), snapshot()
			r.unpin(b, a, c)
		}
		select {
		case <-dropped:
			t.Error("the spare was closed without room")
		default:
		}
		full.Store(false)
		<-dropped
		<-flushed
		r.close()
	})
}
