package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// wantLines tests how many lineages there are, and that the last state is the store's.
func (m *model) wantLines(n int) []Line {
	m.t.Helper()
	m.sync()
	a := m.archive()
	lines, err := a.Lines(m.t.Context())
	if err != nil || len(lines) != n {
		m.t.Fatalf("%d lineages, want %d; %v", len(lines), n, err)
	}
	last := lines[n-1].Last
	if want := m.db.Records().Last(); last.Number != want {
		m.t.Fatalf("the last state is %d, want %d", last.Number, want)
	}
	if got := restored(m.t, a, last); !maps.Equal(got, m.rows) {
		m.t.Fatalf("it has %d rows, want %d", len(got), len(m.rows))
	}
	return lines
}

// TestGoOn tests that a Writer goes on with the lineage of its store, after the store was closed, after it has changed without a Writer, and
// after the process crashed.
func TestGoOn(t *testing.T) {
	t.Parallel()
	m := newModel(t, 2, folder(t))
	m.commit(30)
	for round := range 5 {
		m.start()
		m.commit(40)
		if round%2 == 0 {
			m.sync()
		}
		m.stop()
		m.open()
		m.commit(20)
		if round == 3 {
			m.stop()
			m.open()
		}
	}
	m.start()
	lines := m.wantLines(1)
	if lines[0].Bases != 1 {
		t.Errorf("%d bases were made", lines[0].Bases)
	}
}

// copyFolder copies the files of a closed store.
func copyFolder(t *testing.T, from string) string {
	t.Helper()
	for tries := 0; ; tries++ {
		to := filepath.Join(t.TempDir(), "copy")
		err := os.CopyFS(to, os.DirFS(from))
		if errors.Is(err, fs.ErrNotExist) && tries < 20 { // an open store has removed a file that it doesn't need any more
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
}

// TestCopies tests that two copies of a store never mix, whichever of them writes when: each that doesn't go on where the last one ended
// begins a lineage.
func TestCopies(t *testing.T) {
	m := newModel(t, 3, folder(t))
	m.start()
	m.commit(50)
	m.sync()
	m.stop()
	other := &model{t: t, dir: copyFolder(t, m.dir), bucket: m.bucket, opts: m.opts, rnd: m.rnd, rows: maps.Clone(m.rows), states: maps.Clone(m.states)}
	m.open()
	m.start()
	m.commit(20)
	m.wantLines(1)
	other.open()
	other.commit(20) // as many
	other.start()
	other.wantLines(2)
	m.commit(1)
	if err := m.w.Sync(t.Context()); err != nil && !errors.Is(err, ErrFenced) {
		t.Fatal(err)
	}
	_ = m.w.Close()
	m.w = nil
	m.stop()
	m.open()
	m.start()
	m.wantLines(3)
}

// TestOtherStore tests that a store doesn't write where another one has its backups, unless it is told to.
func TestOtherStore(t *testing.T) {
	m := newModel(t, 4, folder(t))
	m.start()
	m.commit(10)
	m.sync()
	m.stop()
	other := newModel(t, 5, m.bucket)
	other.commit(10)
	other.start()
	if err := other.w.Sync(t.Context()); !errors.Is(err, ErrOtherStore) {
		t.Fatal(err)
	}
	if err := other.w.Close(); !errors.Is(err, ErrOtherStore) {
		t.Fatal(err)
	}
	if held := other.db.Records().Held(); held != (pebblekv.Held{}) {
		t.Errorf("a store that was never backed up keeps its log: %+v", held)
	}
	other.opts.TakeOver = true
	other.start()
	other.wantLines(2)
}

// TestElsewhere tests that a destination which the store has left is told from that of another store, also by a Writer of later, and that the store can go on there.
func TestElsewhere(t *testing.T) {
	m := newModel(t, 9, folder(t))
	first, second, third := m.bucket, folder(t), folder(t)
	for _, b := range []bucket.Bucket{first, second, third} {
		m.bucket = b
		m.start()
		m.commit(10)
		m.sync()
		m.stop()
		m.open()
	}
	refused := func(want bool) {
		t.Helper()
		m.start()
		if err := m.w.Sync(t.Context()); !errors.Is(err, ErrOtherStore) || errors.Is(err, ErrElsewhere) != want {
			t.Errorf("it says %v", err)
		}
		if err := m.w.Close(); !errors.Is(err, ErrOtherStore) {
			t.Error(err)
		}
	}
	for _, b := range []bucket.Bucket{first, second, first} {
		m.bucket = b
		refused(true)
	}
	m.bucket, m.opts.TakeOver = first, true
	m.start()
	m.commit(1)
	m.wantLines(2)
	m.stop()
	m.open()
	m.opts.TakeOver = false
	m.start()
	m.commit(1)
	m.wantLines(2)
	m.stop()
	m.open()
	m.bucket = third
	refused(true)
	other := newModel(t, 10, third)
	m.t, m.db, m.dir, m.opts = other.t, other.db, other.dir, other.opts
	refused(false)
}

// TestFenced tests that of two Writers at once the earlier one ends, and says so.
func TestFenced(t *testing.T) {
	m := newModel(t, 6, folder(t))
	m.start()
	m.commit(10)
	m.sync()
	first := m.w
	m.start()
	m.commit(10)
	m.sync()
	if err := first.Close(); err != nil && !errors.Is(err, ErrFenced) {
		t.Fatal(err)
	}
	m.wantLines(1)
}

// TestGap tests that a lineage begins if the log has gone on for too long while the bucket was away.
func TestGap(t *testing.T) {
	t.Parallel()
	b := buckettest.NewFaulty(folder(t), nil)
	m := newModel(t, 7, b)
	m.opts.MaxLocal = 1 << 20
	m.start()
	m.commit(10)
	m.sync()
	b.Set(func(op, name string) buckettest.Fault { return buckettest.Refused })
	for range 40 {
		m.commit(100)
	}
	if s := m.w.Status(); s.Err == nil || s.Lag == 0 || s.Stored == s.Last {
		t.Errorf("%+v", s)
	}
	size := int64(0)
	entries, err := os.ReadDir(filepath.Join(m.dir, "log.2"))
	for _, e := range entries {
		info, ierr := e.Info()
		err = errors.Join(err, ierr)
		size += info.Size()
	}
	if err != nil || size > 8<<20 {
		t.Errorf("the log has %d bytes, %v", size, err)
	}
	b.Set(nil)
	m.wantLines(2)
	if s := m.w.Status(); s.Err != nil || s.Lag != 0 || s.Stored != s.Last {
		t.Errorf("%+v", s)
	}
}

// TestRestoredGoesOn tests that a restored store may write to the archive it is from, with a history of its own.
func TestRestoredGoesOn(t *testing.T) {
	m := newModel(t, 8, folder(t))
	m.start()
	m.commit(50)
	lines := m.wantLines(1)
	m.commit(10)
	m.sync()
	m.stop()
	mark := lines[0].Last
	m.dir = filepath.Join(t.TempDir(), "again")
	if err := m.archive().Restore(t.Context(), mark, m.dir, nil); err != nil {
		t.Fatal(err)
	}
	m.rows = maps.Clone(m.states[mark.Number])
	m.open()
	m.commit(30)
	m.start()
	m.wantLines(2)
}

// TestResume tests that a base which was cut short goes on with the tables that aren't in the bucket.
func TestResume(t *testing.T) {
	t.Parallel()
	b := buckettest.NewFaulty(folder(t), nil)
	m := newModel(t, 9, b)
	for i := range 8 { // some tables
		c := &kv.Commit{ID: kv.CommitID{byte(i), 1}}
		for k := range 800 {
			value := make([]byte, 2000)
			for at := range value {
				value[at] = byte(m.rnd.Uint32())
			}
			key := fmt.Sprintf("%d/%03d", i, k)
			c.Ops = append(c.Ops, kv.Set([]byte(key), value))
			m.rows[key] = string(value)
		}
		if err := m.db.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		m.stop()
		m.open()
	}
	var sent, refused atomic.Int32
	b.Set(func(op, name string) buckettest.Fault {
		if op != "put" || !strings.HasPrefix(name, tablePrefix) {
			return buckettest.None
		}
		if sent.Add(1) > 2 {
			refused.Add(1)
			return buckettest.Refused
		}
		return buckettest.None
	})
	m.start()
	stored := func() (n int32) { // a call that is under way when the Writer is closed may be done later
		for _, err := range b.Bucket.List(t.Context(), tablePrefix) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	for deadline := time.Now().Add(testkit.Patience(time.Minute)); refused.Load() == 0 || stored() < sent.Load()-refused.Load(); {
		if time.Now().After(deadline) {
			t.Fatalf("%d tables were sent", sent.Load())
		}
		runtime.Gosched()
	}
	_ = m.w.Close()
	again := map[string]bool{}
	var mu sync.Mutex
	b.Set(func(op, name string) buckettest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if op == "put" && strings.HasPrefix(name, tablePrefix) {
			// The bucket isn't asked for a small one, and refuses it.
			if in, o, err := b.Bucket.Get(t.Context(), name, 0, 0); err == nil {
				again[name] = o.Size >= minAsked
				if err := in.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		return buckettest.None
	})
	m.start()
	m.wantLines(1)
	mu.Lock()
	defer mu.Unlock()
	for name, large := range again {
		if large {
			t.Errorf("%s was sent again", name)
		}
	}
}
