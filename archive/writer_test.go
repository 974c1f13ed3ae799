package archive

import (
	"maps"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestRestore tests that each state of a lineage can be restored, whatever segments, bases and merges it is made of.
func TestRestore(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1, folder(t))
	m.opts.baseBytes, m.opts.mergeRuns = 20_000, 4
	m.commit(50)
	m.start()
	m.sync()
	first := m.db.Records().Last()
	for range 60 {
		m.commit(10)
		if m.rnd.IntN(3) == 0 {
			m.sync()
		}
	}
	m.sync()
	a := m.archive()
	lines, err := a.Lines(t.Context())
	for deadline := time.Now().Add(testkit.Patience(time.Minute)); err == nil && len(lines) == 1 && (lines[0].Bases < 2 || lines[0].Segments < 2) && time.Now().Before(deadline); {
		m.commit(10) // commits may be quicker than bases, and all segments may be merged
		m.sync()
		lines, err = a.Lines(t.Context())
	}
	last := m.db.Records().Last()
	if err != nil || len(lines) != 1 || lines[0].Last.Number != last || lines[0].First.Number > first || lines[0].Bases < 2 || lines[0].Segments < 2 {
		t.Fatalf("%+v, %v", lines, err)
	}
	for n := lines[0].First.Number; n <= last; n += 1 + m.rnd.Uint64N(60) {
		mark := a.manifest.bookmark(1, n)
		if got := restored(t, a, mark); !maps.Equal(got, m.states[n]) {
			t.Fatalf("as of %s it has %d rows, want %d", mark, len(got), len(m.states[n]))
		}
	}
	if got := restored(t, a, lines[0].Last); !maps.Equal(got, m.states[last]) {
		t.Fatalf("the last state has %d rows, want %d", len(got), len(m.states[last]))
	}
}
