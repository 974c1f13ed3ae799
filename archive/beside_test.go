package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/kv"
)

// A listed is a Bucket that calls then, a few times, when segments were listed.
type listed struct {
	bucket.Bucket
	then func()
	left int
}

func (l *listed) List(ctx context.Context, prefix string) iter.Seq2[bucket.Object, error] {
	return func(yield func(bucket.Object, error) bool) {
		for o, err := range l.Bucket.List(ctx, prefix) {
			if !yield(o, err) {
				return
			}
		}
		if l.left > 0 && prefix == logOf(1) {
			l.left--
			l.then()
		}
	}
}

// A hasty is a Bucket whose next lists of segments have the last one alone, as if the others were put together meanwhile. If gone is n, the
// nth that is read isn't there, and the lists before that are whole.
type hasty struct {
	bucket.Bucket
	gone int
	left int
}

func (h *hasty) List(ctx context.Context, prefix string) iter.Seq2[bucket.Object, error] {
	if h.gone > 0 || h.left == 0 || prefix != logOf(1) {
		return h.Bucket.List(ctx, prefix)
	}
	h.left--
	return func(yield func(bucket.Object, error) bool) {
		var last bucket.Object
		for o, err := range h.Bucket.List(ctx, prefix) {
			if last = o; err != nil {
				yield(o, err)
				return
			}
		}
		yield(last, nil)
	}
}

func (h *hasty) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	if h.gone > 0 && strings.HasPrefix(name, logOf(1)) {
		if h.gone--; h.gone == 0 {
			return nil, bucket.Object{}, fs.ErrNotExist
		}
	}
	return h.Bucket.Get(ctx, name, offset, length)
}

// TestListBesideMerges tests that an archive is read rightly although lists of its segments lacked some that a Writer was about to replace. If the
// next lists lack them, too, the archive is damaged.
func TestListBesideMerges(t *testing.T) {
	t.Parallel()
	m := newModel(t, 13, folder(t))
	m.start()
	for range 5 {
		m.commit(3)
		m.sync()
		<-time.After(3 * time.Millisecond) // so that a time tells the segments apart
	}
	number := m.db.Records().Last()
	m.stop()
	whole := m.archive()
	last := whole.manifest.bookmark(1, number)
	_, made, err := whole.At(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	made = made.Add(-time.Millisecond) // of a segment before the last one, or of that
	want, _, err := whole.At(t.Context(), made)
	if err != nil {
		t.Fatal(err)
	}
	verified, err := whole.Verify(t.Context(), nil, nil)
	if err != nil || verified.Segments < 3 {
		t.Fatalf("%+v, %v", verified, err)
	}
	for gone := range 5 {
		for left := range 3 {
			b := &hasty{Bucket: m.bucket}
			a, err := Open(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			b.gone, b.left = gone, left
			if got := restored(t, a, last); !maps.Equal(got, m.states[number]) {
				t.Errorf("gone %d, %d lists: %d rows are restored, want %d", gone, left, len(got), len(m.states[number]))
			}
			b.gone, b.left = gone, left
			if got, _, err := a.At(t.Context(), made); err != nil || got != want {
				t.Errorf("gone %d, %d lists: the state of then is %v, %v, want %v", gone, left, got, err, want)
			}
			b.gone, b.left = gone, left
			if v, err := a.Verify(t.Context(), func(err error) { t.Error(err) }, nil); err != nil || v != verified {
				t.Errorf("gone %d, %d lists: verified are %+v, %v, want %+v", gone, left, v, err, verified)
			}
		}
		if gone > 1 {
			continue // all may have been read by then
		}
		b := &hasty{Bucket: m.bucket}
		a, err := Open(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		b.gone, b.left = gone, 100
		if err := a.Restore(t.Context(), last, filepath.Join(t.TempDir(), "to"), nil); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("gone %d: restored without most records: %v", gone, err)
		}
		b.gone, b.left = gone, 100
		problems := 0
		if v, err := a.Verify(t.Context(), func(error) { problems++ }, nil); err != nil || problems != 1 || v.Problems != 1 || v.Segments != 1 {
			t.Errorf("gone %d: verified are %+v, %v", gone, v, err)
		}
	}
}

// merge commits until the Writer has put its last segment together with others. Each time it waits until nothing is due: segments
// can come faster than they are merged.
func (m *model) merge() {
	m.t.Helper()
	log, err := readLog(m.t.Context(), m.bucket, 1)
	if err != nil {
		m.t.Fatal(err)
	}
	for last := log[len(log)-1]; ; {
		m.commit(1)
		if err := m.w.Settle(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
		if _, _, err := m.bucket.Get(m.t.Context(), last.name, 0, 0); err != nil {
			return
		}
	}
}

// TestReadBesideMerges tests that what reads an archive finds everything while the Writer puts together the segments of the list that was just read.
func TestReadBesideMerges(t *testing.T) {
	t.Parallel()
	m := newModel(t, 12, folder(t))
	m.opts.mergeRuns = 4
	m.start()
	for range 10 {
		m.commit(3)
		m.sync()
	}
	rowsAre := func(got map[string]string, number uint64) error {
		if !maps.Equal(got, m.states[number]) {
			return fmt.Errorf("as of %d it has %d rows, want %d", number, len(got), len(m.states[number]))
		}
		return nil
	}
	for name, read := range map[string]func(a *Archive, last Bookmark) error{
		"Lines": func(a *Archive, last Bookmark) error {
			lines, err := a.Lines(t.Context())
			if err == nil && (len(lines) != 1 || lines[0].Last.Number < last.Number) {
				err = fmt.Errorf("%+v", lines)
			}
			return err
		},
		"At": func(a *Archive, last Bookmark) error {
			mark, _, err := a.At(t.Context(), time.Now().Add(time.Hour))
			if err == nil && mark.Number < last.Number {
				err = fmt.Errorf("at %s", mark)
			}
			return err
		},
		"View": func(a *Archive, last Bookmark) error { return rowsAre(look(t, a, last), last.Number) },
		"Restore": func(a *Archive, last Bookmark) error {
			return rowsAre(restored(t, a, last), last.Number)
		},
		"Verify": func(a *Archive, last Bookmark) error {
			var problems error
			v, err := a.Verify(t.Context(), func(err error) { problems = errors.Join(problems, err) }, nil)
			if err == nil && v.Segments == 0 {
				err = fmt.Errorf("%+v", v)
			}
			return errors.Join(err, problems)
		},
	} {
		b := &listed{m.bucket, m.merge, 3}
		a, err := Open(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if err := read(a, a.manifest.bookmark(1, m.db.Records().Last())); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if b.left == 3 {
			t.Errorf("%s has listed no segments", name)
		}
	}
	// The records are read last, when the files are there.
	a, last, left := m.archive(), m.db.Records().Last(), 1
	err := a.Restore(t.Context(), a.manifest.bookmark(1, last), filepath.Join(t.TempDir(), "restored"), &RestoreOptions{Progress: func(int64, int64) {
		if left > 0 {
			left--
			m.merge()
		}
	}})
	if err != nil || left > 0 {
		t.Error(err)
	}
}

// TestVerifyBesideCollect tests that Verify doesn't take what is removed meanwhile for damage, but what is missing.
func TestVerifyBesideCollect(t *testing.T) {
	t.Parallel()
	memory := buckettest.NewMemory()
	b := buckettest.NewFaulty(memory, nil)
	m := newModel(t, 13, b)
	m.opts.baseBytes = 20_000
	m.start()
	bases := func() []numbered {
		all, err := readBases(t.Context(), memory, 1)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for len(bases()) < 4 {
		m.commit(10)
		m.sync()
	}
	if err := m.w.Close(); err != nil {
		t.Fatal(err)
	}
	first, err := readBase(t.Context(), memory, bases()[1].name)
	if err != nil || len(first.Files) == 0 {
		t.Fatal(first, err)
	}
	var table string
	for i := range first.Files {
		if first.Files[i].table() {
			table = first.Files[i].object()
		}
	}
	// remove removes some objects when the first table is read.
	verify := func(remove ...string) (problems []error) {
		a, err := Open(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		b.Set(func(op, name string) buckettest.Fault {
			if op == "get" && strings.HasPrefix(name, tablePrefix) {
				for _, object := range remove {
					if err := memory.Delete(t.Context(), object); err != nil {
						t.Error(err)
					}
				}
			}
			return buckettest.None
		})
		v, err := a.Verify(t.Context(), func(err error) { problems = append(problems, err) }, nil)
		if err != nil || v.Problems != len(problems) || v.Tables == 0 {
			t.Fatalf("%+v, %v", v, err)
		}
		return problems
	}
	if got := verify(); len(got) > 0 {
		t.Error(got)
	}
	whole := memory.Copy()
	if got := verify(table); len(got) != 1 || !errors.Is(got[0], kv.ErrCorrupt) || !strings.Contains(got[0].Error(), table) {
		t.Errorf("a table is missing: %v", got)
	}
	b.Bucket, memory = whole, whole
	remove := []string{table}
	for _, base := range bases() {
		l, err := readBase(t.Context(), memory, base.name)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(l.Files, func(f baseFile) bool { return f.table() && f.object() == table }) {
			remove = append(remove, base.name)
		}
	}
	if got := verify(remove...); len(got) > 0 {
		t.Errorf("a base was removed with its table: %v", got)
	}
}

// TestMergeBesideCollect tests that a Writer goes on putting segments together after something else has removed those that it was about to.
func TestMergeBesideCollect(t *testing.T) {
	b := buckettest.NewFaulty(buckettest.NewMemory(), nil)
	m := newModel(t, 15, b)
	m.opts.mergeRuns = 4
	m.start()
	m.sync()
	var removed atomic.Bool
	b.Set(func(op, name string) buckettest.Fault {
		if op == "get" && strings.HasPrefix(name, logOf(1)) && removed.CompareAndSwap(false, true) {
			if err := b.Bucket.Delete(t.Context(), name); err != nil {
				t.Error(err)
			}
		}
		return buckettest.None
	})
	for !removed.Load() {
		m.commit(1)
		m.sync()
	}
	m.merge()
	m.merge()
	if s := m.w.Status(); s.Err != nil || s.Fatal != nil {
		t.Errorf("%+v", s)
	}
}

// TestFirstBaseBesideCollect tests that nothing is removed of the first base while it is being made, however long that takes.
func TestFirstBaseBesideCollect(t *testing.T) {
	b := &watched{Bucket: buckettest.NewMemory(), before: func(string) {}} // its objects are old
	var collected atomic.Bool
	m := newModel(t, 15, buckettest.NewFaulty(b, func(op, name string) buckettest.Fault {
		if op == "put" && strings.HasPrefix(name, basesOf(1)) && !collected.Swap(true) {
			if c, err := Collect(t.Context(), b, time.Now()); err != nil || c.Objects > 0 {
				t.Errorf("%+v, %v", c, err)
			}
		}
		return buckettest.None
	}))
	m.commit(20)
	m.start()
	m.wantLines(1)
	if v, err := m.archive().Verify(t.Context(), func(err error) { t.Error(err) }, nil); err != nil || v.Tables == 0 || !collected.Load() {
		t.Errorf("%+v, %v", v, err)
	}
}
