package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/kv"
)

// TestCrash crashes at writes, syncs and renames: what is left is a prefix with everything that was
// synced, and the log goes on behind it. Then it crashes again: what the first crash has torn doesn't come
// back behind what was written after it.
func TestCrash(t *testing.T) {
	for name, size := range map[string]struct{ file, record int }{"small": {4 << 10, 1500}, "several blocks": {100 << 10, 12_000}} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				testCrash(t, seed, size.file, size.record)
			}
		})
	}
}

func testCrash(t *testing.T, seed uint64, file, record int) {
	rnd := rand.New(rand.NewPCG(seed, 77))
	mem := vfs.NewCrashableMem()
	var synced, flushed atomic.Int64
	type crash struct {
		fs              *vfs.MemFS
		synced, flushed int64
		op              errorfs.Op
	}
	var crashes []crash
	on := false
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && len(crashes) < 400 && (op.Kind != errorfs.OpFileWriteAt || rnd.IntN(3) == 0) {
			crashes = append(crashes, crash{
				mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(5) * 25, RNG: rnd}),
				synced.Load(), flushed.Load(), op,
			})
		}
		return nil
	}))
	s := newSide(t, fs)
	s.opts.FileBytes = int64(file)
	on = true
	l := s.open(0, 0)
	for range 200 {
		n := s.add(l, 1+rnd.IntN(record)+max(0, rnd.IntN(20)-18)*6*record) // some are written at once
		switch rnd.IntN(4) {
		case 0:
			s.must(l.Sync(n))
			synced.Store(int64(n))
		case 1:
			s.must(l.Write(n))
		case 2:
			if k := n - min(n, uint64(rnd.IntN(12))); k > uint64(flushed.Load()) {
				flushed.Store(int64(k)) // the tables may be ahead of what is synced
				l.Release(k)
			}
		}
	}
	s.must(l.Close())
	if len(crashes) < 100 {
		t.Errorf("%d crashes", len(crashes))
	}
	for _, c := range crashes {
		left := &side{t: t, fs: c.fs, opts: s.opts, batches: slices.Clone(s.batches)}
		left.opts.FS = c.fs
		l, err := Open(left.opts, uint64(c.flushed), left.replay(int(c.flushed)))
		if err != nil {
			t.Fatalf("seed %d, crash at %v of %s: %v", seed, c.op.Kind, c.op.Path, err)
		}
		if int64(l.Last()) < max(c.synced, c.flushed) {
			t.Fatalf("seed %d, crash at %v of %s: %d records are left of %d", seed, c.op.Kind, c.op.Path, l.Last(), c.synced)
		}
		left.batches = left.batches[:l.Last()]
		last := int(l.Last())
		for range 12 {
			n := left.add(l, record)
			if rnd.IntN(2) == 0 {
				left.must(l.Sync(n))
				last = int(n)
			}
		}
		again := &side{t: t, fs: c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(5) * 25, RNG: rnd}), opts: left.opts, batches: left.batches}
		again.opts.FS = again.fs
		again.must(again.open(int(c.flushed), last).Close())
	}
}

// content returns what is in a file of the log.
func (s *side) content(name string) []byte {
	s.t.Helper()
	in, err := s.fs.Open("log/" + name)
	s.must(err)
	info, err := in.Stat()
	s.must(err)
	data := make([]byte, info.Size())
	if _, err = in.ReadAt(data, 0); len(data) == 0 {
		err = nil
	}
	s.must(errors.Join(err, in.Close()))
	return data
}

// TestDamage changes each byte of a log that was closed, or wasn't: it is refused, by the name of a file, or the byte says nothing.
// Then each file is removed, cut off at each length, replaced by each other one, or by an older copy of itself.
func TestDamage(t *testing.T) {
	for _, closed := range []bool{true, false} {
		t.Run(map[bool]string{true: "closed", false: "killed"}[closed], func(t *testing.T) { testDamage(t, closed) })
	}
}

func testDamage(t *testing.T, closed bool) {
	d := newDamagedLog(t, closed)
	for i, name := range d.names[:d.newest+1] {
		d.changeBytes(i, name)
	}
	for i, name := range d.names {
		data := d.content(name)
		d.must(d.fs.Remove("log/" + name))
		if d.whole("without "+name) && i <= d.newest {
			t.Errorf("without %s: the log is whole", name)
		}
		d.cutOff(i, name, data)
		d.replace(i, name, data)
	}
	if !d.whole("restored") {
		t.Error("the log that is restored isn't whole")
	}
	for _, name := range d.names {
		d.must(d.fs.Remove("log/" + name))
	}
	if _, err := Read(d.fs, "log", 3, d.replay(3)); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("without any file: %v", err)
	}
	if n, err := Read(d.fs, "log", 0, d.replay(0)); n != 0 || err != nil {
		t.Errorf("where there was never one: %d, %v", n, err)
	}
}

// A damagedLog is a log of several files, which is damaged, read and restored again and again.
type damagedLog struct {
	*side
	closed bool
	names  []string          // of all files, those that wait for their use last
	newest int               // the last that is in use
	end    int               // of the newest file's records
	older  map[string][]byte // what files held before they had their last record
}

// damagedRecords is how many records a damaged log has, of damagedBytes each.
const damagedRecords, damagedBytes = 14, 700

func newDamagedLog(t *testing.T, closed bool) *damagedLog {
	t.Helper()
	d := &damagedLog{side: newSide(t, vfs.NewMem()), closed: closed, older: map[string][]byte{}}
	l := d.open(0, 0)
	for range damagedRecords {
		d.must(l.Sync(d.add(l, damagedBytes)))
		for _, name := range d.files()[:len(l.files)-1] {
			d.older[name] = d.content(name)
		}
	}
	if closed {
		d.must(l.Close())
	}
	d.names, d.newest, d.end = d.files(), len(l.files)-1, int(l.end)
	if d.newest < 2 || len(d.names) == len(l.files) {
		t.Fatalf("%d files, and %v", d.newest+1, d.names)
	}
	return d
}

// whole says whether the log is whole, or refused by the name of a file.
func (d *damagedLog) whole(what string) bool {
	d.t.Helper()
	n, err := Read(d.fs, "log", 0, d.replay(0))
	if err == nil && n == damagedRecords {
		return true
	}
	if !errors.Is(err, kv.ErrCorrupt) && !errors.As(err, new(*kv.FormatError)) || !strings.Contains(err.Error(), ".wal") {
		d.t.Fatalf("%s: %d records, %v", what, n, err)
	}
	return false
}

// changeBytes changes bytes of file i, each alone.
func (d *damagedLog) changeBytes(i int, name string) {
	d.t.Helper()
	data := d.content(name)
	f, err := d.fs.OpenReadWrite("log/"+name, vfs.WriteCategoryUnspecified)
	d.must(err)
	used := len(bytes.TrimRight(data, "\x00"))
	lastMark, lastRecord := used-recordHeader-8, used
	if i == d.newest {
		used = d.end
		lastMark = d.end - recordHeader
		if lastRecord = d.end - recordHeader - damagedBytes; d.closed {
			lastRecord -= recordHeader
		}
	}
	for at := 0; at < used; at += 1 + at%3 {
		if i == d.newest && !d.closed && at >= lastRecord {
			continue // nothing says that it was on stable storage
		}
		_, err := f.WriteAt([]byte{data[at] ^ 0x40}, int64(at))
		d.must(err)
		if d.whole(fmt.Sprintf("%s changed at %d", name, at)) && at < lastMark {
			d.t.Fatalf("%s changed at %d of %d: the log is whole", name, at, used)
		}
		_, err = f.WriteAt(data[at:at+1], int64(at))
		d.must(err)
	}
	d.must(f.Close())
}

// cutOff leaves file i, which held data, cut off.
func (d *damagedLog) cutOff(i int, name string, data []byte) {
	d.t.Helper()
	for n := 0; n < len(data); n += 1 + n%9*100 {
		write(d.t, d.fs, name, data[:n])
		if d.whole(fmt.Sprintf("%s cut off at %d", name, n)) && i == d.newest && n < d.end {
			d.t.Fatalf("%s cut off at %d: the log is whole", name, n)
		}
	}
}

// replace puts each other file in the place of file i, and an older copy, and restores data.
func (d *damagedLog) replace(i int, name string, data []byte) {
	d.t.Helper()
	for _, other := range d.names {
		write(d.t, d.fs, name, d.content(other))
		if other != name && d.whole(other+" in place of "+name) && i <= d.newest {
			d.t.Errorf("%s in place of %s: the log is whole", other, name)
		}
		write(d.t, d.fs, name, data)
	}
	if b := d.older[name]; b != nil && i < d.newest {
		write(d.t, d.fs, name, b)
		d.whole("an older copy of " + name)
		write(d.t, d.fs, name, data)
	}
}

// damage changes five bytes of the first file.
func (s *side) damage(at int64) {
	s.t.Helper()
	f, err := s.fs.OpenReadWrite("log/"+s.files()[0], vfs.WriteCategoryUnspecified)
	s.must(err)
	_, err = f.WriteAt([]byte{1, 2, 3, 4, 5}, at)
	s.must(errors.Join(err, f.Close()))
}

// TestDamageFar: the header that says that a damaged record was on stable storage is found wherever it is, also
// where one piece of the file that is read ends in it.
func TestDamageFar(t *testing.T) {
	for _, into := range []int{1, recordHeader / 2, recordHeader - 1} {
		s := newSide(t, vfs.NewMem())
		s.opts.FileBytes = 1 << 20
		l := s.open(0, 0)
		s.must(l.Sync(s.add(l, window-recordHeader-into)))
		s.must(l.Write(s.add(l, 100)))
		s.damage(headerSize + recordHeader)
		if n, err := Read(s.fs, "log", 0, s.replay(0)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%d bytes of the header are in the first piece: %d records, %v", into, n, err)
		}
		s.must(l.Close())
	}
}

// TestRefusal has what finds room for a record fail for a while, at each such operation: the record is refused, and nothing else
// has happened.
func TestRefusal(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		kinds []errorfs.OpKind
	}{
		"no space":       {syscall.ENOSPC, []errorfs.OpKind{errorfs.OpCreate, errorfs.OpRename, errorfs.OpFileWriteAt}},
		"quota":          {syscall.EDQUOT, []errorfs.OpKind{errorfs.OpCreate, errorfs.OpRename, errorfs.OpFileWriteAt}},
		"no descriptor":  {syscall.EMFILE, []errorfs.OpKind{errorfs.OpCreate, errorfs.OpOpen, errorfs.OpOpenDir}},
		"of all systems": {syscall.ENFILE, []errorfs.OpKind{errorfs.OpCreate, errorfs.OpOpen, errorfs.OpOpenDir}},
		"next file":      {syscall.EIO, []errorfs.OpKind{errorfs.OpFileSync}},
	} {
		t.Run(name, func(t *testing.T) {
			refused := 0
			for step, more := 0, true; more; step += 1 + step/10 {
				var n int
				n, more = testRefusal(t, step, tt.err, tt.kinds)
				refused += n
			}
			if refused == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// testRefusal has the operations fail from a step on, and returns how many records were refused, and whether there was such a
// step.
func testRefusal(t *testing.T, step int, cause error, kinds []errorfs.OpKind) (refused int, reached bool) {
	n := 0
	mem := vfs.NewMem()
	on := false
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !on || !slices.Contains(kinds, op.Kind) {
			return nil
		}
		if op.Kind == errorfs.OpFileWriteAt {
			info, err := mem.Stat(op.Path)
			if err != nil || op.Offset < info.Size() {
				return nil // it has its place
			}
		}
		if n++; n > step && n <= step+3 {
			reached = true
			return cause
		}
		return nil
	}))
	s := newSide(t, fs)
	s.opts.Failed = func(err error) { t.Errorf("step %d: the log has failed: %v", step, err) }
	l := s.open(0, 0)
	on = true
	for i := range 60 {
		b := bytes.Repeat([]byte{byte(i)}, 300*(1+i%40))
		number, err := l.Append(b)
		if errors.Is(err, cause) {
			refused++
			continue
		}
		s.must(err)
		s.batches = append(s.batches, b)
		s.must(l.Sync(number))
		if i%5 == 0 {
			l.Release(number)
		}
	}
	s.must(l.Close())
	on = false
	s.must(s.open(int(l.released), len(s.batches)).Close())
	return refused, reached
}

// TestEveryFailure has each operation fail, and all after it or it alone: everything that was synced is
// there, and the log says what has happened.
func TestEveryFailure(t *testing.T) {
	broken := errors.New("broken")
	for _, forever := range []bool{true, false} {
		refusals, failures := 0, 0
		for step := 0; ; step++ {
			n := 0
			mem := vfs.NewCrashableMem()
			fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpMkdirAll || op.Path == "" {
					return nil
				}
				if n++; n == step+1 || forever && n > step {
					return broken
				}
				return nil
			}))
			s := newSide(t, fs)
			failed := false
			s.opts.Failed = func(error) { failed = true }
			l := s.open(0, 0)
			synced := 0
			for i := range 30 {
				b := bytes.Repeat([]byte{byte(i)}, 500)
				number, err := l.Append(b)
				if err == nil {
					s.batches = append(s.batches, b)
					err = l.Sync(number)
				}
				if err == nil {
					synced = int(number)
					continue
				}
				if !errors.Is(err, broken) {
					t.Fatal(err)
				}
				if failed {
					failures++
					if _, err := l.Append(b); !errors.Is(err, broken) {
						t.Fatalf("step %d: Append to a log that has failed: %v", step, err)
					}
					break
				}
				refusals++
			}
			err := l.Close()
			if n <= step {
				s.must(err)
				break
			}
			if err != nil && !errors.Is(err, broken) {
				t.Errorf("Close: %v", err)
			}
			left := &side{t: t, fs: mem.CrashClone(vfs.CrashCloneCfg{}), opts: s.opts, batches: s.batches}
			left.opts.FS = left.fs
			left.must(left.open(0, synced).Close())
		}
		if refusals == 0 || failures == 0 {
			t.Errorf("%d refusals, %d failures", refusals, failures)
		}
	}
}

// TestMarkWithoutRoom: closing leaves its mark where the file ends with the last record, too, and a crash
// doesn't take it away.
func TestMarkWithoutRoom(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := newSide(t, mem)
	s.opts.FileBytes = 1 << 20
	l := s.open(0, 0)
	s.must(l.Sync(s.add(l, 100)))
	n := int(l.room-l.end) - recordHeader - 10
	s.must(l.Sync(s.add(l, n)))
	at := l.end - 5
	s.must(l.Close())
	s.fs = mem.CrashClone(vfs.CrashCloneCfg{})
	s.damage(at)
	k, err := Read(s.fs, "log", 0, s.replay(0))
	if !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("damage of the last record of a closed log: %d records, %v", k, err)
	}
}

// TestWriteOutlivesProcess: what is written is what a crash of the process leaves, and a log that is
// created, or read after that, is there after one of the machine.
func TestWriteOutlivesProcess(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := newSide(t, mem)
	s.must(Create(Options{FS: mem, Dir: "log"}, 0))
	if names := (&side{t: t, fs: mem.CrashClone(vfs.CrashCloneCfg{})}).files(); len(names) != 1 {
		t.Errorf("a crash has left %v", names)
	}
	l := s.open(0, 0)
	s.must(l.Write(s.add(l, 100)))
	l = s.open(0, 1) // as the next process does
	r, err := l.NewReader(1)
	s.must(err)
	if n, _, err := r.Next(t.Context()); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n, err := Read(mem.CrashClone(vfs.CrashCloneCfg{}), "log", 0, s.replay(0)); n != 1 || err != nil {
		t.Errorf("a reader has seen a record that a crash takes away: %d, %v", n, err)
	}
	s.must(r.Close())
}

// TestFailedLog: behind the first failure nothing is written, and a reader that waits is told of it.
func TestFailedLog(t *testing.T) {
	broken, failing, after := errors.New("broken"), false, 0
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch {
		case failing && op.Kind == errorfs.OpFileSyncData:
			return broken
		case failing && op.Kind == errorfs.OpFileWriteAt:
			after++
		}
		return nil
	}))
	s := newSide(t, fs)
	l := s.open(0, 0)
	s.must(l.Sync(s.add(l, 10)))
	r, err := l.NewReader(2)
	s.must(err)
	told := make(chan error)
	go func() {
		_, _, err := r.Next(t.Context())
		told <- err
	}()
	n := s.add(l, 10)
	for waits := false; !waits; {
		l.mu.Lock()
		waits = l.news != nil
		l.mu.Unlock()
	}
	failing = true
	if err := l.Sync(n); !errors.Is(err, broken) || after != 1 {
		t.Errorf("%v, %d writes", err, after)
	}
	if err := <-told; !errors.Is(err, broken) {
		t.Errorf("a reader gets %v", err)
	}
	_, err = l.Append([]byte("more"))
	for _, err := range []error{err, l.Write(n + 1), l.Sync(n + 1), l.Close()} {
		if !errors.Is(err, broken) || after != 1 {
			t.Errorf("%v, %d writes", err, after)
		}
	}
}

// TestRefusedHeader: the header of a file in which the log didn't go on, since a record was refused then, hides no record that came after
// it, whether the file could be removed or a crash brings it back.
func TestRefusedHeader(t *testing.T) {
	for seed := range uint64(20) {
		machine := seed > 0
		mem, broken, failing := vfs.NewCrashableMem(), errors.New("broken"), false
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if failing && (op.Kind == errorfs.OpFileSync && strings.HasSuffix(op.Path, ".wal") || !machine && op.Kind == errorfs.OpRemove) {
				return broken
			}
			return nil
		}))
		s := newSide(t, fs)
		s.opts.Failed = func(err error) { t.Errorf("the log has failed: %v", err) }
		l := s.open(0, 0)
		for range 2 {
			s.must(l.Sync(s.add(l, 300)))
		}
		failing = true
		if _, err := l.Append(make([]byte, 4000)); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		failing = false
		after := int(l.Last())
		l.Release(uint64(after))
		for range 2 {
			s.must(l.Sync(s.add(l, 20)))
		}
		left := *s
		left.opts.Failed, left.opts.FS = nil, mem
		if machine {
			left.opts.FS = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, 1))})
		}
		left.fs = left.opts.FS
		l = left.open(after, after+2)
		left.must(l.Sync(left.add(l, 4000)))
		left.must(l.Close())
		left.must(left.open(after, after+3).Close())
	}
}

// TestReserve: a log that was closed behind a record at the end of the room goes on in another file on a disk that is full.
func TestReserve(t *testing.T) {
	mem, full := vfs.NewMem(), false
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full && op.Kind == errorfs.OpFileWriteAt {
			if info, err := mem.Stat(op.Path); err == nil && op.Offset+1 > info.Size() {
				return syscall.ENOSPC
			}
		}
		return nil
	}))
	s := newSide(t, fs)
	s.opts.FileBytes = 1 << 20
	s.opts.Failed = func(err error) { t.Errorf("the log has failed: %v", err) }
	l := s.open(0, 0)
	s.must(l.Sync(s.add(l, 100)))
	s.must(l.Sync(s.add(l, int(l.room-l.end)-recordHeader-reserve)))
	s.must(l.Close())
	write(t, mem, fileName(behind(l.files)), make([]byte, 1<<20)) // a prepared file with room
	l = s.open(0, 2)
	full = true
	s.must(l.Sync(s.add(l, 100)))
	full = false
	s.must(l.Close())
	s.must(s.open(0, 3).Close())
}
