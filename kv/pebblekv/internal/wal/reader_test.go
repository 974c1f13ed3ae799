package wal

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestReader follows a log from its beginning and from its middle, as it is written.
func TestReader(t *testing.T) {
	s := newSide(t, vfs.NewMem())
	s.opts.KeepBytes = 1 << 30
	l := s.open(0, 0)
	const records = 300
	batch := func(n uint64) []byte { return bytes.Repeat([]byte{byte(n)}, int(n*5)) }
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	follow := func(from uint64) {
		r, err := l.NewReader(from)
		s.must(err)
		all.Go(func() {
			for n := from; n <= records; n++ {
				number, got, err := r.Next(ctx)
				if err != nil || number != n || !bytes.Equal(got, batch(n)) {
					t.Errorf("reading %d: %d, %d bytes, %v", n, number, len(got), err)
					break
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	follow(1)
	for n := range uint64(records) {
		number, err := l.Append(batch(n + 1))
		s.must(err)
		if n == 10 {
			follow(7) // before files are released
		}
		if n%7 == 6 {
			s.must(l.Sync(number))
		}
		if n > 20 {
			l.Release(number)
		}
	}
	s.must(l.Sync(records))
	all.Wait()
	r, err := l.NewReader(records + 1)
	s.must(err)
	cancel()
	if _, _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next of what isn't there: %v", err)
	}
	s.must(l.Close())
	if _, _, err := r.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Next of a closed log: %v", err)
	}
	if _, err := l.NewReader(1); !errors.Is(err, ErrClosed) {
		t.Errorf("NewReader of a closed log: %v", err)
	}
	s.must(r.Close())
}

// TestReaderBehind: what is kept for a reader is bounded, and one that comes too late is told.
func TestReaderBehind(t *testing.T) {
	s := newSide(t, vfs.NewMem())
	s.opts.KeepBytes = 32 << 10 // of files of 4 KiB
	l := s.open(0, 0)
	r, err := l.NewReader(1)
	s.must(err)
	add := func(n int) {
		for range n {
			number := s.add(l, 500)
			s.must(l.Sync(number))
			l.Release(number)
		}
	}
	add(20) // in three files
	for n := range uint64(10) {
		if number, _, err := r.Next(t.Context()); number != n+1 || err != nil {
			t.Fatal(number, err)
		}
	}
	add(200)
	if n := len(s.files()); n > 8+2+maxSpare {
		t.Errorf("%d files are kept", n)
	}
	next, err := uint64(11), error(nil)
	for ; err == nil; next++ { // some are in its memory
		var number uint64
		if number, _, err = r.Next(t.Context()); err == nil && number != next {
			t.Fatalf("read %d, want %d", number, next)
		}
	}
	if !errors.Is(err, ErrGone) || next > 20 {
		t.Errorf("a reader of what is gone, at %d: %v", next-1, err)
	}
	if _, _, err := r.Next(t.Context()); !errors.Is(err, ErrGone) {
		t.Errorf("it goes on: %v", err)
	}
	for _, n := range []uint64{0, 1, 242} {
		if _, err := l.NewReader(n); !errors.Is(err, ErrGone) {
			t.Errorf("a reader from %d: %v", n, err)
		}
	}
	s.must(r.Close())
	add(1)
	if n := len(s.files()); n > 2+maxSpare {
		t.Errorf("%d files are kept without a reader", n)
	}
	s.must(l.Close())
}

// TestReaderApart: records that a reader has in memory take no lock of the log, which commits need, and none takes memory of its own.
func TestReaderApart(t *testing.T) {
	s := newSide(t, vfs.NewMem())
	s.opts.FileBytes, s.opts.KeepBytes = 1<<20, 1<<30
	l := s.open(0, 0)
	const records = 200
	for range records {
		s.add(l, 10) // all in one file
	}
	s.must(l.Sync(records))
	r, err := l.NewReader(1)
	s.must(err)
	next := func() {
		if _, _, err := r.Next(t.Context()); err != nil {
			t.Error(err)
		}
	}
	next()
	read := make(chan struct{})
	l.mu.Lock()
	go func() {
		defer close(read)
		for range records / 2 {
			next()
		}
	}()
	select {
	case <-read:
		l.mu.Unlock()
	case <-time.After(testkit.Patience(time.Second)):
		l.mu.Unlock()
		<-read
		t.Error("the reader waits for the lock of the log")
	}
	if n := testing.AllocsPerRun(records/4, next); n > 0 {
		t.Errorf("%.1f allocations for a record", n)
	}
	s.must(errors.Join(r.Close(), l.Close()))
}

// TestReaderAfterCrash: a record that a crash has left to the tables alone isn't skipped.
func TestReaderAfterCrash(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := newSide(t, mem)
	l := s.open(0, 0)
	s.must(l.Sync(s.add(l, 10)))
	s.add(l, 10) // no call waits for it, and the tables have it
	s.fs = mem.CrashClone(vfs.CrashCloneCfg{})
	s.opts.FS, s.opts.KeepBytes = s.fs, 1<<20
	l = s.open(2, 2)
	r, err := l.NewReader(1)
	s.must(err)
	s.must(l.Sync(s.add(l, 10)))
	if n, _, err := r.Next(t.Context()); n != 1 || err != nil {
		t.Error(n, err)
	}
	if _, _, err := r.Next(t.Context()); !errors.Is(err, ErrGone) {
		t.Errorf("the record that is lost: %v", err)
	}
	s.must(errors.Join(r.Close(), l.Close()))
}

// TestReaderGone: a file is used again between the moment at which a reader finds it and opens it.
func TestReaderGone(t *testing.T) {
	var hook func()
	mem := vfs.NewMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpOpen && strings.HasSuffix(op.Path, suffix) && hook != nil {
			h := hook
			hook = nil
			h()
		}
		return nil
	}))
	s := newSide(t, fs)
	s.opts.KeepBytes = 16 << 10
	l := s.open(0, 0)
	add := func(n int) {
		for range n {
			number := s.add(l, 500)
			s.must(l.Sync(number))
			l.Release(number)
		}
	}
	add(10)
	r, err := l.NewReader(8)
	s.must(err)
	hook = func() { add(200) }
	_, _, err = r.Next(t.Context())
	if !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want %v", err, ErrGone)
	}
	s.must(errors.Join(r.Close(), l.Close()))
}
