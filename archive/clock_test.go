package archive

import (
	"maps"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// wrong returns by how much the clock of a model's Writers is wrong, which can be changed.
func (m *model) wrong() *atomic.Int64 {
	by := new(atomic.Int64)
	m.opts.now = func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
	return by
}

// TestClockBackBase tests that a base which is made after the clock was set back isn't of an earlier time than the commits in it: else what is too
// old would be told by it, and states be removed that are to be kept.
func TestClockBackBase(t *testing.T) {
	m := newModel(t, 61, folder(t))
	m.opts.baseBytes = 1
	m.start()
	m.commit(20)
	m.sync()
	m.stop()
	m.open()
	m.wrong().Store(int64(-time.Hour))
	m.start()
	m.commit(400)
	if err := m.w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	bases, err := readBases(t.Context(), m.bucket, 1)
	if err != nil || len(bases) < 2 {
		t.Fatalf("%d bases, %v", len(bases), err)
	}
	first, err := readBase(t.Context(), m.bucket, bases[0].name)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bases[1:] {
		l, err := readBase(t.Context(), m.bucket, b.name)
		if err != nil {
			t.Fatal(err)
		}
		if l.Time.Before(first.Time.Truncate(time.Millisecond)) {
			t.Errorf("the base of record %d is of %s, the first one of %s", l.Number, l.Time, first.Time)
		}
	}
}

// TestClockBackLineage tests a lineage that begins while the clock is years back, as that of a machine does which was just switched on: what is
// of before is found by its times, and isn't taken for older than it is.
func TestClockBackLineage(t *testing.T) {
	m := newModel(t, 62, folder(t))
	m.start()
	m.commit(20)
	m.sync()
	mark, made, err := m.archive().Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.stop()
	m.dir = filepath.Join(t.TempDir(), "again")
	if err := m.archive().Restore(t.Context(), mark, m.dir, nil); err != nil {
		t.Fatal(err)
	}
	m.open()
	wrong := m.wrong()
	wrong.Store(int64(-50 * 365 * 24 * time.Hour))
	m.start()
	m.sync()
	wrong.Store(0)
	m.commit(20)
	m.wantLines(2)
	if at, of, err := m.archive().At(t.Context(), made); err != nil || at != mark {
		t.Errorf("the state of then, %s, is %s of %s, want %s; %v", made, at, of, mark, err)
	}
	if last, _, err := m.archive().Last(t.Context()); err != nil || last.Number != m.db.Records().Last() || last.Line == mark.Line {
		t.Errorf("the last state is %s; %v", last, err)
	}
	if _, err := Collect(t.Context(), m.bucket, made.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := restored(t, m.archive(), mark); !maps.Equal(got, m.states[mark.Number]) {
		t.Error("a state of an hour ago isn't what it was")
	}
}

// TestFirstByItsTime tests that the first state is found by its time as it is shown, in milliseconds.
func TestFirstByItsTime(t *testing.T) {
	m := newModel(t, 63, folder(t))
	m.start()
	lines := m.wantLines(1)
	if at, _, err := m.archive().At(t.Context(), lines[0].Begun.Truncate(time.Millisecond)); err != nil || at != lines[0].First {
		t.Errorf("it is %s, want %s; %v", at, lines[0].First, err)
	}
}
