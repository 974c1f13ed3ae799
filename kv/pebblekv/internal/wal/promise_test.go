package wal

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A slowDisk stops before each sync of a file's data, once it is on, until it is told how that ends.
type slowDisk struct {
	t     *testing.T
	on    bool // not changed while something syncs
	begun chan struct{}
	end   chan error
}

func (d *slowDisk) inject(op errorfs.Op) error {
	if !d.on || op.Kind != errorfs.OpFileSyncData {
		return nil
	}
	d.begun <- struct{}{}
	return <-d.end
}

// wait waits for a sync to begin, before which nothing is done.
func (d *slowDisk) wait(done <-chan error) {
	d.t.Helper()
	select {
	case <-d.begun:
	case err := <-done:
		d.t.Fatalf("promised without a sync: %v", err)
	case <-time.After(testkit.Patience(time.Second)):
		d.t.Fatal("no sync has begun")
	}
}

// await waits for a sync to begin.
func await(t *testing.T, begun <-chan struct{}) {
	t.Helper()
	select {
	case <-begun:
	case <-time.After(testkit.Patience(time.Second)):
		t.Fatal("no sync has begun")
	}
}

// until waits for what the log knows.
func until(t *testing.T, l *Log, what string, is func() bool) {
	t.Helper()
	for over := time.Now().Add(testkit.Patience(time.Second)); ; {
		l.mu.Lock()
		ok := is()
		l.mu.Unlock()
		switch {
		case ok:
			return
		case time.Now().After(over):
			t.Fatal(what)
		}
		runtime.Gosched()
	}
}

// TestPromise: a goroutine that waits for the sync of another one is promised its record when that sync is over
// and not before, whatever is appended and written meanwhile, and gets its error.
func TestPromise(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		// meanwhile is what happens while the disk syncs. It returns how many records there are more.
		meanwhile func(t *testing.T, s *side, l *Log) int
		err       error
	}{
		{"nothing else", func(*testing.T, *side, *Log) int { return 0 }, nil},
		{"appended", func(_ *testing.T, s *side, l *Log) int { s.add(l, 10); return 1 }, nil},
		{"written", func(_ *testing.T, s *side, l *Log) int { s.must(l.Write(s.add(l, 10))); return 1 }, nil},
		{"written at once", func(_ *testing.T, s *side, l *Log) int { s.add(l, directBytes); return 1 }, nil},
		{"broken", func(*testing.T, *side, *Log) int { return 0 }, broken},
		{"broken, appended", func(_ *testing.T, s *side, l *Log) int { s.add(l, 10); return 1 }, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &slowDisk{t: t, begun: make(chan struct{}, 10), end: make(chan error)}
			s := newSide(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(d.inject)))
			s.opts.FileBytes = 4 * directBytes
			l := s.open(0, 0)
			s.must(l.Sync(s.add(l, 10)))
			d.on = true
			n := s.add(l, 10)
			const waiting = 3
			done := make(chan error, waiting)
			go func() { done <- l.Sync(n) }()
			d.wait(done)
			for range waiting - 1 {
				go func() { done <- l.Sync(n) }()
			}
			until(t, l, "no call waits", func() bool { return l.syncer.atWork != nil && l.syncer.atWork.done != nil })
			more := tt.meanwhile(t, s, l)
			go func() { done <- l.Sync(n) }() // one that comes late waits, too
			select {
			case err := <-done:
				t.Fatalf("promised before the sync is over: %v", err)
			case <-time.After(5 * time.Millisecond):
			}
			d.end <- tt.err
			for range waiting + 1 {
				select {
				case err := <-done:
					if !errors.Is(err, tt.err) {
						t.Errorf("got %v, want %v", err, tt.err)
					}
				case <-time.After(testkit.Patience(time.Second)):
					t.Fatal("a call still waits after the sync")
				}
			}
			l.mu.Lock()
			synced := l.syncer.synced
			l.mu.Unlock()
			if tt.err != nil {
				if synced >= n {
					t.Errorf("up to %d is promised by a sync that failed", synced)
				}
				return
			}
			if synced != n {
				t.Fatalf("up to %d is promised, want %d", synced, n)
			}
			if more > 0 { // which needs a sync of its own
				go func() { done <- l.Sync(n + uint64(more)) }()
				d.wait(done)
				d.end <- nil
				s.must(<-done)
			}
		})
	}
}
