package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/kv"
)

// A side is what a test has of a log: its disk, and its batches as they must be read back.
type side struct {
	t       testing.TB
	fs      vfs.FS
	opts    Options
	batches [][]byte
}

// newSide returns one with files of some 4 KiB, so that there are many.
func newSide(t testing.TB, fs vfs.FS) *side {
	if err := errors.Join(fs.MkdirAll("log", 0o700), sync1(fs)); err != nil {
		t.Fatal(err)
	}
	return &side{t: t, fs: fs, opts: Options{FS: fs, Dir: "log", FileBytes: 4 << 10}}
}

// sync1 syncs the directory itself.
func sync1(fs vfs.FS) error {
	d, err := fs.OpenDir("")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// open opens the log, whose records behind after must be the batches from there on, the first least of
// them at least.
func (s *side) open(after, least int) *Log {
	s.t.Helper()
	l, err := Open(s.opts, uint64(after), s.replay(after))
	if err != nil {
		s.t.Fatal(err)
	}
	if n := int(l.Last()); n < least {
		s.t.Fatalf("%d records are left of %d", n, least)
	}
	s.batches = s.batches[:max(l.Last(), uint64(after))]
	return l
}

// replay returns a function that compares what is replayed.
func (s *side) replay(after int) func(uint64, []byte) error {
	next := after + 1
	return func(number uint64, batch []byte) error {
		if number != uint64(next) {
			return fmt.Errorf("record %d comes in place of %d", number, next)
		}
		if next > len(s.batches) || !bytes.Equal(batch, s.batches[next-1]) {
			return fmt.Errorf("record %d has %d other bytes", number, len(batch))
		}
		next++
		return nil
	}
}

// add appends a batch of n bytes that are like no others.
func (s *side) add(l *Log, n int) uint64 {
	s.t.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	number, err := l.Append(b)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.batches = append(s.batches, b); number != uint64(len(s.batches)) {
		s.t.Fatalf("record %d of %d", number, len(s.batches))
	}
	return number
}

func (s *side) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// files returns the names of the log's files.
func (s *side) files() []string {
	s.t.Helper()
	names, err := s.fs.List("log")
	s.must(err)
	slices.Sort(names)
	return slices.DeleteFunc(names, func(n string) bool { _, ok := fileSeq(n); return !ok })
}

// onSync returns fs with a function that is called before each sync of a file's data.
func onSync(fs vfs.FS, f func()) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData {
			f()
		}
		return nil
	}))
}

// TestLog writes many files, and reads them back: all, or what is behind a number.
func TestLog(t *testing.T) {
	s := newSide(t, vfs.NewMem())
	l := s.open(0, 0)
	for i := range 200 {
		n := s.add(l, 1+i*7)
		s.must([]func(uint64) error{l.Write, l.Sync, func(uint64) error { return nil }}[i%3](n))
	}
	s.add(l, 300_000) // many times the size of a file
	s.add(l, 3)
	s.must(l.Close())
	if _, err := l.Append([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("Append to a closed log: %v", err)
	}
	if n := len(s.files()); n < 30 {
		t.Errorf("%d files", n)
	}
	for _, after := range []int{0, 1, 100, 201, 202} {
		if n, err := Read(s.fs, "log", uint64(after), s.replay(after)); err != nil || n != 202 {
			t.Errorf("behind %d: up to %d, %v", after, n, err)
		}
	}
	// The tables can be ahead of the log, which goes on behind them.
	if n, err := Read(s.fs, "log", 300, s.replay(300)); err != nil || n != 300 {
		t.Errorf("behind 300: up to %d, %v", n, err)
	}
	s.batches = append(s.batches, make([][]byte, 98)...)
	l = s.open(300, 300)
	s.add(l, 10)
	s.must(l.Close())
	s.must(s.open(300, 301).Close())
	if _, err := Read(s.fs, "log", 202, s.replay(202)); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("behind 202, where records up to 300 are missing: %v", err)
	}
}

// TestReuse: the log reuses files whose records are in the tables, so there are never many
// files.
func TestReuse(t *testing.T) {
	s := newSide(t, vfs.NewMem())
	l := s.open(0, 0)
	most := 0
	for i := range 500 {
		n := s.add(l, 500)
		s.must(l.Sync(n))
		if l.Release(n - min(n, 10)); l.Size() > 3*(minAhead+5<<10) {
			t.Fatalf("the tables lack %d bytes", l.Size())
		}
		if most = max(most, len(s.files())); i == 400 {
			s.must(l.Close())
			after := len(s.batches) - 10
			l = s.open(after, len(s.batches))
		}
	}
	if most > 3+maxSpare {
		t.Errorf("there were %d files", most)
	}
	l.Release(500)
	if n := l.Size(); n != 0 {
		t.Errorf("the tables have everything, and lack %d bytes", n)
	}
	s.must(l.Close())
	s.must(s.open(490, 500).Close())
}

// TestGrowsSeldom: a file grows once for many records, and one that is used again never.
func TestGrowsSeldom(t *testing.T) {
	grown := 0
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWriteAt {
			grown++
		}
		return nil
	}))
	s := newSide(t, fs)
	s.opts.FileBytes = 1 << 20
	writes := 0
	s.opts.Wrote = func(int) { writes++ }
	l := s.open(0, 0)
	for range 5000 { // in five files
		n := s.add(l, 1000)
		s.must(l.Sync(n))
		l.Release(n)
	}
	// Beside the records five headers, and up to eight pieces of zeros for three files.
	if n := grown - writes; n > 5+3*8 {
		t.Errorf("%d writes beside %d records", n, writes)
	}
	s.must(l.Close())
}

// TestConcurrent: many goroutines wait for the same syncs, and none waits for another's
// record.
func TestConcurrent(t *testing.T) {
	var syncs atomic.Int64
	s := newSide(t, onSync(vfs.NewMem(), func() { syncs.Add(1) }))
	l := s.open(0, 0)
	var appending sync.Mutex
	var all sync.WaitGroup
	const workers, each = 16, 200
	for w := range workers {
		all.Go(func() {
			for i := range each {
				appending.Lock()
				n := s.add(l, 1+i)
				appending.Unlock()
				err := l.Sync(n)
				if w%4 == 0 {
					err = l.Write(n)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if l.mu.Lock(); w%4 != 0 && l.syncer.synced < n || l.writer.wrote < n {
					t.Errorf("record %d is promised, and up to %d and %d they are written and synced", n, l.writer.wrote, l.syncer.synced)
				}
				l.mu.Unlock()
				if i%50 == 0 {
					l.Release(n / 2)
				}
			}
		})
	}
	all.Wait()
	if n, files := syncs.Load(), l.files[len(l.files)-1].seq; n > workers*each+2*int64(files) { // for the marks of a file, and for its growth
		t.Errorf("%d syncs of %d files", n, files)
	}
	s.must(l.Close())
	s.must(s.open(workers*each/2, workers*each).Close())
}

// TestRotateBesideSync: the log doesn't close a full file while a sync of it is running.
func TestRotateBesideSync(t *testing.T) {
	var syncs atomic.Int64
	fs := onSync(vfs.Default, func() {
		if syncs.Add(1)%2 == 0 {
			for range 10_000 { // the others go on
				runtime.Gosched()
			}
		}
	})
	s := &side{t: t, fs: fs, opts: Options{FS: fs, Dir: t.TempDir(), FileBytes: 4 << 10}}
	l := s.open(0, 0)
	var all sync.WaitGroup
	for range 100 {
		n := s.add(l, 1000)
		all.Go(func() {
			if err := l.Sync(n); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.must(l.Close())
}

// TestLargeBesideSync: a sync that comes while a large batch is appended doesn't promise it.
func TestLargeBesideSync(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := newSide(t, mem)
	s.opts.FileBytes = 256 << 10
	l := s.open(0, 0)
	s.must(l.Sync(s.add(l, 1)))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := l.Sync(l.Last()); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 200 {
		n := s.add(l, directBytes)
		s.must(l.Sync(n))
		left := *s
		left.opts.FS = mem.CrashClone(vfs.CrashCloneCfg{})
		s.must(left.open(int(n)-1, int(n)).Close())
		l.Release(n)
	}
	close(stop)
	<-stopped
	s.must(l.Close())
}

// TestSpare: what a burst of records took in memory isn't kept.
func TestSpare(t *testing.T) {
	s := newSide(t, vfs.NewMem())
	s.opts.FileBytes = 64 << 20
	l := s.open(0, 0)
	n := uint64(0)
	for range 100 {
		n = s.add(l, directBytes-1)
	}
	s.must(l.Sync(n))
	s.must(l.Sync(s.add(l, 1)))
	l.mu.Lock()
	if got := cap(l.writer.buf) + cap(l.writer.spare); got > 2*maxAhead {
		t.Errorf("%d bytes are kept", got)
	}
	l.mu.Unlock()
	s.must(l.Close())
}

// TestCrowd: the goroutine that syncs lets others append first, if several waited for the last sync.
func TestCrowd(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	syncs := 0
	s := newSide(t, onSync(vfs.NewMem(), func() { syncs++ }))
	l := s.open(0, 0)
	s.must(l.Sync(s.add(l, 10)))
	pairs := func(crowd bool) int {
		before := syncs
		for range 20 {
			l.mu.Lock()
			l.syncer.crowd, l.syncer.patience = crowd, patience{}
			l.mu.Unlock()
			// No call waits for these two.
			s.add(l, 10)
			s.add(l, 10)
			n, done := s.add(l, 10), make(chan error)
			go func() { done <- l.Sync(s.add(l, 10)) }()
			s.must(l.Sync(n))
			s.must(<-done)
		}
		return syncs - before
	}
	if n := pairs(false); n != 40 {
		t.Errorf("%d syncs for 20 pairs one after the other", n)
	}
	// Now and then Go's scheduler goes on with the goroutine that yields.
	if n := pairs(true); n > 30 {
		t.Errorf("%d syncs for 20 pairs that came together", n)
	}
	s.must(l.Close())
}

// TestCrowdNoticed: the log notices a crowd when one caller waits for a sync that another asked for,
// however many records the sync covers.
func TestCrowdNoticed(t *testing.T) {
	begun, goOn := make(chan struct{}, 10), make(chan struct{}, 10)
	var on atomic.Bool
	s := newSide(t, onSync(vfs.NewMem(), func() {
		if on.Load() {
			begun <- struct{}{}
			<-goOn
		}
	}))
	l := s.open(0, 0)
	crowd := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.syncer.crowd
	}
	s.add(l, 10)
	s.must(l.Sync(s.add(l, 10)))
	if crowd() {
		t.Error("one goroutine that waits for two records is a crowd")
	}
	on.Store(true)
	n, done := s.add(l, 10), make(chan error, 2)
	for range 2 {
		go func() { done <- l.Sync(n) }()
	}
	await(t, begun)
	for waits := false; !waits; {
		l.mu.Lock()
		waits = l.syncer.atWork.done != nil
		l.mu.Unlock()
	}
	goOn <- struct{}{}
	s.must(errors.Join(<-done, <-done))
	if !crowd() {
		t.Error("two goroutines that wait for one sync are no crowd")
	}
	goOn <- struct{}{}
	s.must(l.Sync(s.add(l, 10)))
	goOn <- struct{}{}
	s.must(l.Close())
}

// TestPatience: where others take long, and append little, they are seldom waited for.
func TestPatience(t *testing.T) {
	var p patience
	tried := func(syncs int, took time.Duration, records uint64) (n int) {
		for range syncs {
			if p.any() {
				n++
				p.learn(took, records)
			}
		}
		return n
	}
	if n := tried(1000, 5*time.Millisecond, 60); n != 1000 {
		t.Errorf("tried %d times where many append", n)
	}
	if n := tried(100_000, 40*time.Millisecond, 2); n < 20 || n > 40 {
		t.Errorf("tried %d times where others are busy", n)
	}
	p.left = 0
	if n := tried(10_000, 5*time.Millisecond, 60); n != 10_000 {
		t.Errorf("tried %d times where many append again", n)
	}
}

// TestBusyNoticed: a leader that lets others go on notices that they compute for long and append nothing.
func TestBusyNoticed(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := newSide(t, vfs.NewMem())
	l := s.open(0, 0)
	noticed := false
	for range 200 { // now and then Go's scheduler goes on with the goroutine that yields
		if noticed {
			break
		}
		l.mu.Lock()
		l.syncer.crowd = true
		l.mu.Unlock()
		n := s.add(l, 10)
		go func() {
			for begin := time.Now(); time.Since(begin) < 5*maxWait; {
			}
		}()
		s.must(l.Sync(n))
		l.mu.Lock()
		noticed = l.syncer.patience.left > 0
		l.mu.Unlock()
	}
	if !noticed {
		t.Error("it waits for a goroutine that is busy, before each sync")
	}
	s.must(l.Close())
}

// TestLateRecord: a record that is appended while the disk syncs isn't promised by that sync.
func TestLateRecord(t *testing.T) {
	begun, goOn := make(chan struct{}, 10), make(chan struct{}, 10)
	on := false
	s := newSide(t, onSync(vfs.NewMem(), func() {
		if on {
			begun <- struct{}{}
			<-goOn
		}
	}))
	l := s.open(0, 0)
	s.must(l.Sync(s.add(l, 10)))
	on = true
	first, second := s.add(l, 10), uint64(0)
	done := make(chan error, 2)
	go func() { done <- l.Sync(first) }()
	await(t, begun)
	second = s.add(l, 10)
	late := make(chan error, 1)
	go func() { late <- l.Sync(second) }()
	for waits := false; !waits; {
		l.mu.Lock()
		waits = l.syncer.waiting.led || l.syncer.atWork != nil && l.syncer.atWork.done != nil
		l.mu.Unlock()
	}
	goOn <- struct{}{}
	s.must(<-done)
	l.mu.Lock()
	if l.syncer.synced != first {
		t.Errorf("synced up to %d, want %d", l.syncer.synced, first)
	}
	l.mu.Unlock()
	select {
	case <-late:
		t.Fatal("promised by the sync that had begun before")
	case <-begun:
	}
	goOn <- struct{}{}
	s.must(<-late)
}

// TestReuseReads: to find the end of a file that was used before takes no longer than to read it, whatever
// an earlier use has left there.
func TestReuseReads(t *testing.T) {
	read := int64(0)
	for _, piece := range []string{"any text will do ", "\x02\x00\x00\x00\x00\x00\x00\x00", "\xa9\x17\x03\x9e\x55\xf1\x80\x2c\x71\x0d\xee"} {
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileReadAt {
				read++
			}
			return nil
		}))
		s := newSide(t, fs)
		s.opts.FileBytes = 1 << 20
		l := s.open(0, 0)
		batch := bytes.Repeat([]byte(piece), 30_000/len(piece))
		for range 182 {
			n, err := l.Append(batch)
			s.must(err)
			s.must(l.Sync(n))
			l.Release(n)
		}
		s.must(l.Close())
		read = 0
		_, err := Read(s.fs, "log", 182, nil)
		if s.must(err); read > 30 {
			t.Errorf("%q: %d reads", piece[:8], read)
		}
	}
}

// TestRefused: a record that is larger than the disk has room leaves no zeros there.
func TestRefused(t *testing.T) {
	mem := vfs.NewMem()
	used := func() (n int64) {
		names, err := mem.List("log")
		for _, name := range names {
			info, serr := mem.Stat("log/" + name)
			if err = errors.Join(err, serr); err == nil {
				n += info.Size()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	full := false
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full && op.Kind == errorfs.OpFileWriteAt && used() > 8<<20 {
			return syscall.ENOSPC
		}
		return nil
	}))
	s := newSide(t, fs)
	s.opts.FileBytes = 256 << 10
	l := s.open(0, 0)
	s.must(l.Sync(s.add(l, 1000)))
	before := used()
	full = true
	if _, err := l.Append(make([]byte, 16<<20)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if n := used(); n > before {
		t.Errorf("%d bytes are used after %d", n, before)
	}
	for range 20 {
		s.must(l.Sync(s.add(l, 30_000)))
	}
	s.must(l.Close())
	s.must(s.open(0, 21).Close())
}
