package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
)

// A followed is a store of which every state is remembered.
type followed struct {
	t      *testing.T
	mem    *vfs.MemFS
	db     *DB
	rnd    *rand.Rand
	now    time.Time
	states map[uint64]map[string]string // by the number of the last commit
	times  map[uint64]time.Time
	model  map[string]string
}

func newFollowed(t *testing.T, seed uint64) *followed {
	f := &followed{
		t: t, mem: vfs.NewCrashableMem(), rnd: rand.New(rand.NewPCG(seed, 1)), now: time.UnixMilli(1_700_000_000_000),
		states: map[uint64]map[string]string{}, times: map[uint64]time.Time{}, model: map[string]string{},
	}
	f.open()
	if err := f.db.Records().Hold(Held{From: 1, Most: 1 << 30}, false); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *followed) open() {
	f.t.Helper()
	db, err := open("store", tiny, f.mem)
	if err != nil {
		f.t.Fatal(err)
	}
	db.commits.clock.now = func() time.Time { return f.now }
	f.db = db
}

func (f *followed) close() {
	f.t.Helper()
	if err := f.db.Close(); err != nil {
		f.t.Fatal(err)
	}
}

// commit makes a random commit: values that are patched, whole ones, ranges that are cleared.
func (f *followed) commit() {
	f.t.Helper()
	c := &kv.Commit{ID: kv.CommitID{byte(f.rnd.Uint32()), byte(f.rnd.Uint32()), byte(len(f.states))}}
	for range 1 + f.rnd.IntN(4) {
		key := fmt.Sprintf("%c/%03d", 'a'+f.rnd.IntN(3), f.rnd.IntN(200))
		switch n := f.rnd.IntN(20); {
		case n == 0:
			end := key + "~"
			c.Ops = append(c.Ops, kv.Op{Kind: kv.OpClearRange, Key: []byte(key[:3]), Value: []byte(end)})
			maps.DeleteFunc(f.model, func(k, _ string) bool { return k >= key[:3] && k < end })
		case n < 3:
			c.Ops = append(c.Ops, kv.Op{Kind: kv.OpClear, Key: []byte(key)})
			delete(f.model, key)
		default:
			value := []byte(f.model[key])
			if len(value) == 0 || n < 6 {
				value = bytes.Repeat([]byte{byte(f.rnd.Uint32())}, f.rnd.IntN(3000))
			} else {
				value[f.rnd.IntN(len(value))]++
			}
			c.Ops = append(c.Ops, kv.Op{Kind: kv.OpSet, Key: []byte(key), Value: value})
			f.model[key] = string(value)
		}
	}
	before := f.db.Records().Last()
	f.now = f.now.Add(time.Duration(f.rnd.IntN(30)-5) * time.Millisecond)
	if f.rnd.IntN(3) == 0 {
		c.Durability = kv.Durable
	}
	if err := f.db.Commit(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
	if last := f.db.Records().Last(); last != before {
		f.states[last], f.times[last] = maps.Clone(f.model), f.now
	}
}

// records reads the records from..to.
func (f *followed) records(from, to uint64) []Record {
	f.t.Helper()
	if err := f.db.Sync(f.t.Context(), 0); err != nil {
		f.t.Fatal(err)
	}
	in, err := f.db.Records().Follow(from)
	if err != nil {
		f.t.Fatal(err)
	}
	defer in.Close()
	var all []Record
	for n := from; n <= to; n++ {
		r, err := in.Next(f.t.Context())
		if err != nil || r.Number != n {
			f.t.Fatalf("record %d is %d, %v", n, r.Number, err)
		}
		r.Batch = bytes.Clone(r.Batch)
		all = append(all, r)
	}
	return all
}

// yielding yields records.
func yielding(all []Record) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// kept copies the files of a base.
func (f *followed) kept(b *Base, records []Record) Archived {
	f.t.Helper()
	a := Archived{Small: map[string][]byte{}, Tables: map[string]*io.SectionReader{}, Records: yielding(records), CacheBytes: 1 << 20}
	for _, file := range b.Files {
		in, err := b.Open(file.Name)
		if err != nil {
			f.t.Fatal(err)
		}
		data, err := io.ReadAll(io.NewSectionReader(in, 0, file.Size+1))
		if err := errors.Join(err, in.Close()); err != nil || int64(len(data)) != file.Size {
			f.t.Fatalf("%s of %d bytes has %d: %v", file.Name, file.Size, len(data), err)
		}
		if file.Table {
			a.Tables[file.Name] = io.NewSectionReader(bytes.NewReader(data), 0, file.Size)
		} else {
			a.Small[file.Name] = data
		}
	}
	return a
}

// restored makes a store of a, and returns what is in it.
func (f *followed) restored(a Archived) (map[string]string, error) {
	f.t.Helper()
	mem := vfs.NewMem()
	files := maps.Clone(a.Small)
	for name, t := range a.Tables {
		data, err := io.ReadAll(io.NewSectionReader(t, 0, t.Size()))
		if err != nil {
			f.t.Fatal(err)
		}
		files[name] = data
	}
	for name, data := range files {
		path := mem.PathJoin("new", name)
		if err := mem.MkdirAll(mem.PathDir(path), workaround.DirMode); err != nil {
			f.t.Fatal(err)
		}
		out, err := mem.Create(path, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = out.Write(bytes.Clone(data))
			err = errors.Join(err, out.Close())
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	if _, err := restore("new", a.Records, mem); err != nil {
		return nil, err
	}
	db, err := open("new", tiny, mem)
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	return all(f.t, db), nil
}

// TestBase tests that a base, and the records behind it up to any number, are the state of the store then: as files of a new store, and
// read where they are.
func TestBase(t *testing.T) {
	f := newFollowed(t, 1)
	defer f.close()
	for range 300 {
		f.commit()
	}
	base, err := f.db.Records().Base(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		f.commit()
	}
	after, last := base.Number, f.db.Records().Last()
	records := f.records(after-5, last) // some that the base has, too
	a := f.kept(base, nil)
	if err := base.Close(); err != nil {
		t.Fatal(err)
	}
	for n := after; n <= last; n += 1 + uint64(f.rnd.IntN(40)) {
		a.Records = yielding(records[:n-(after-5)+1])
		if got, err := f.restored(a); err != nil || !maps.Equal(got, f.states[n]) {
			t.Fatalf("restored as of %d of %d to %d: %d rows, want %d; %v", n, after, last, len(got), len(f.states[n]), err)
		}
		db, err := OpenArchived(a)
		if err != nil {
			t.Fatal(err)
		}
		if got := all(t, db); !maps.Equal(got, f.states[n]) {
			t.Errorf("read as of %d of %d to %d: %d rows, want %d", n, after, last, len(got), len(f.states[n]))
		}
		if err := db.Commit(t.Context(), &kv.Commit{}); !errors.Is(err, errReadOnly) {
			t.Errorf("a commit: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a.Records = yielding(slices.Delete(slices.Clone(records), 50, 51))
	if _, err := f.restored(a); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("with a record missing: %v", err)
	}
}

// TestPartOfRecords tests that the rows below a prefix are read from what of the records concerns them alone.
func TestPartOfRecords(t *testing.T) {
	f := newFollowed(t, 2)
	defer f.close()
	for range 200 {
		f.commit()
	}
	base, err := f.db.Records().Base(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		f.commit()
	}
	last := f.db.Records().Last()
	var part []Record
	for _, r := range f.records(base.Number+1, last) {
		var raw []byte
		for op, err := range r.Ops() {
			if err != nil {
				t.Fatal(err)
			}
			if op.Key[0] == 'b' {
				raw = append(raw, op.Raw...)
			}
		}
		if r.Batch, err = JoinOps(raw); err != nil {
			t.Fatal(err)
		}
		if raw != nil {
			part = append(part, r)
		}
	}
	db, err := OpenArchived(f.kept(base, part))
	if err != nil {
		t.Fatal(err)
	}
	got, want := all(t, db), f.states[last]
	for _, m := range []map[string]string{got, want} {
		maps.DeleteFunc(m, func(k, _ string) bool { return k[0] != 'b' })
	}
	if len(want) == 0 || !maps.Equal(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	if err := errors.Join(db.Close(), base.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestNoOp tests that a record that does nothing keeps its number.
func TestNoOp(t *testing.T) {
	f := newFollowed(t, 8)
	defer f.close()
	for range 20 {
		f.commit()
	}
	base, err := f.db.Records().Base(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := f.kept(base, nil)
	if err := base.Close(); err != nil {
		t.Fatal(err)
	}
	var records []Record
	for n := range uint64(3) {
		batch, err := JoinOps([]byte(NoOp))
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, Record{Number: base.Number + 1 + n, Batch: batch})
	}
	for op := range records[0].Ops() {
		t.Errorf("it has the operation %+v", op)
	}
	a.Records = yielding(records)
	if got, err := f.restored(a); err != nil || !maps.Equal(got, f.states[base.Number]) {
		t.Errorf("%d rows, %v", len(got), err)
	}
}

// TestRecordTimes tests that a record says when its commit was made, never later, and at most stampEvery too early.
func TestRecordTimes(t *testing.T) {
	f := newFollowed(t, 3)
	defer f.close()
	for range 300 {
		f.commit()
	}
	var latest, before time.Time
	for _, r := range f.records(1, f.db.Records().Last()) {
		is := f.times[r.Number]
		if is.IsZero() {
			continue // one that reserves versions
		}
		if is.After(latest) {
			latest = is
		}
		if r.Time.After(latest) || latest.Sub(r.Time) > stampEvery || r.Time.Before(before) {
			t.Errorf("record %d says %v, it was made at %v, the latest before that at %v", r.Number, r.Time, is, latest)
		}
		before = r.Time
	}
}

// TestHold tests that records are there from a number on, also when the store was closed or has crashed meanwhile, whatever the tables
// have; and that it takes no more than it may.
func TestHold(t *testing.T) {
	f := newFollowed(t, 4)
	for range 20 {
		f.commit()
	}
	if err := f.db.Records().Hold(Held{From: 10, Most: 1 << 30, For: "a test"}, true); err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		for range 300 {
			f.commit()
		}
		if round%2 == 0 {
			f.close()
		} else {
			if err := f.db.Sync(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			crashed := f.mem.CrashClone(vfs.CrashCloneCfg{})
			f.close()
			f.mem = crashed
		}
		f.open()
		if h := f.db.Records().Held(); h != (Held{10, 1 << 30, "a test"}) {
			t.Fatalf("it holds %+v", h)
		}
		last := f.db.Records().Last()
		if records := f.records(10, last); uint64(len(records)) != last-9 {
			t.Fatalf("round %d: %d records of %d", round, len(records), last)
		}
	}
	if err := f.db.Records().Hold(Held{From: 10, Most: 1 << 20}, true); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		f.commit()
	}
	f.close()
	f.open()
	f.commit()
	defer f.close()
	if in, err := f.db.Records().Follow(10); err == nil {
		_, err := in.Next(t.Context())
		if cerr := in.Close(); !errors.Is(err, ErrGone) || cerr != nil {
			t.Errorf("the record is still there: %v, %v", err, cerr)
		}
	} else if !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	size := int64(0)
	names, err := f.mem.List("store/" + logDir)
	for _, name := range names {
		info, serr := f.mem.Stat("store/" + logDir + "/" + name)
		err = errors.Join(err, serr)
		size += info.Size()
	}
	if most := int64(1<<20 + 5*f.db.commits.fileBytes); err != nil || size > most {
		t.Errorf("the log takes %d bytes, more than %d; %v", size, most, err)
	}
}

// TestFollowEnds tests that a Follower ends with its context, and with its store.
func TestFollowEnds(t *testing.T) {
	f := newFollowed(t, 5)
	f.commit()
	in, err := f.db.Records().Follow(f.db.Records().Last() + 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := in.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	f.close()
	if _, err := in.Next(t.Context()); !errors.Is(err, kv.ErrClosed) {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnreadableHold tests that a file which doesn't say what is held costs what is held alone.
func TestUnreadableHold(t *testing.T) {
	f := newFollowed(t, 6)
	f.commit()
	f.close()
	out, err := f.mem.Create("store/"+logDir+"/"+holdName, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = out.Write([]byte(`{"from":`))
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	f.open()
	if f.db.commits.held != (Held{}) {
		t.Errorf("it holds %+v", f.db.commits.held)
	}
	f.close()
}

// TestCutOps tests that operations which are cut off are errors, whatever is behind them in memory.
func TestCutOps(t *testing.T) {
	all := []byte{0, 0, 0, 0}
	ends := map[int]bool{len(all): true}
	for _, op := range []string{"\x01\x03key\x05value", "\x00\x03key", "\x02\x03key\x05value", "\x0f\x03key\x03kez", NoOp, "\x01\x00\x00"} {
		all = append(all, op...)
		ends[len(all)] = true
	}
	for n := range len(all) + 1 {
		failed := false
		for _, err := range (Record{Number: 1, Batch: all[:n]}).Ops() {
			failed = failed || errors.Is(err, kv.ErrCorrupt)
		}
		if failed == ends[n] {
			t.Errorf("of %d bytes %d: an error %v", len(all), n, failed)
		}
	}
	for _, kind := range []byte{4, 16, 18, 255} {
		if _, err := JoinOps([]byte{kind, 1, 'k', 1, 'v'}); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("an operation of kind %d: %v", kind, err)
		}
	}
}

// TestTimeOf tests that the time of a record is what stamp has added to it, and no value that looks like that.
func TestTimeOf(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_123)
	for _, value := range []string{"", "v", "\x03\x09t\x00\x00\x00\x00\x00\x00\x00\x01", "vv\x03\x09t\x00\x00\x00\x00\x00\x00\x00\x01"} {
		for stamped, want := range map[bool]time.Time{false: {}, true: at} {
			b := new(pebble.Batch)
			err := b.Set([]byte("k"), []byte(value), nil)
			if c := (&clock{now: func() time.Time { return at }}); err == nil && stamped {
				err = c.stamp(b)
			}
			if got := timeOf(b.Repr()[8:]); err != nil || !got.Equal(want) {
				t.Errorf("of a value %q, stamped %v: %v, %v, want %v", value, stamped, got, err, want)
			}
		}
	}
}

// FuzzRecordOps tests that operations of any bytes are errors, or those of a batch.
func FuzzRecordOps(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 1, 1, 'k', 1, 'v'})
	f.Add([]byte{1, 0, 0, 0, 15, 1, 'k', 1, 'v'})
	f.Add([]byte{0, 0, 0, 0, 3, 9, 't', 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, batch []byte) {
		r := Record{Number: 1, Batch: batch}
		raw, failed := []byte(nil), false
		for op, err := range r.Ops() {
			if failed = err != nil; failed && !errors.Is(err, kv.ErrCorrupt) {
				t.Fatal(err)
			}
			raw = append(raw, op.Raw...)
		}
		_ = timeOf(batch)
		if failed {
			return
		}
		joined, err := JoinOps(raw)
		if err != nil {
			t.Fatal(err)
		}
		var again []byte
		for op := range (Record{Batch: joined}).Ops() {
			again = append(again, op.Raw...)
		}
		if !bytes.Equal(again, raw) {
			t.Fatalf("%x became %x", raw, again)
		}
	})
}
