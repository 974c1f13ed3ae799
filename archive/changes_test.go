package archive

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
)

// TestChanges: what was committed of an actor between two states is what its commits were, over segments, bases and merges, and in
// the segment of a base.
func TestChanges(t *testing.T) {
	p := newPopulation(t, 41, 5)
	p.opts.segmentBytes, p.opts.baseBytes, p.opts.mergeRuns = 8<<10, 64<<10, 3
	p.start()
	for range 300 {
		p.write()
		if p.rnd.IntN(20) == 0 {
			p.sync()
		}
	}
	p.sync()
	a, err := p.w.Archive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last, _, err := a.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if Of(p.db) != p.w {
		t.Error("the Writer isn't that of the engine")
	}
	for i, actor := range p.actors {
		for range 10 {
			after, until := last, last
			after.Number = uint64(p.rnd.IntN(int(last.Number)))
			until.Number = after.Number + uint64(p.rnd.IntN(int(last.Number-after.Number)+1))
			if _, err := a.plan(t.Context(), after); errors.Is(err, ErrNoState) {
				continue // from before the first base
			}
			var got, want []uint64
			for r, err := range a.Changes(t.Context(), actor.ID(), after, until) {
				if err != nil {
					t.Fatal(err)
				}
				for op, err := range r.Ops() {
					if err != nil {
						t.Fatal(err)
					}
					if id, _, ok := actorstore.RowActor(op.Key); ok && id == actor.ID() {
						got = append(got, r.Number)
						break
					}
				}
			}
			for n := after.Number + 1; n <= until.Number; n++ {
				if _, ok := p.then[i][n]; ok {
					want = append(want, n)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("actor %d, %s to %s: commits %d, want %d", i, after, until, got, want)
			}
		}
	}
	first := last
	first.Number--
	for _, refused := range [][2]Bookmark{{last, first}, {{last.Archive, last.Line + 1, 1}, last}} {
		for _, err := range a.Changes(t.Context(), p.actors[0].ID(), refused[0], refused[1]) {
			if !errors.Is(err, ErrNoState) {
				t.Errorf("%s: %v", refused, err)
			}
		}
	}
	db := p.db
	if err := p.w.Close(); err != nil || Of(db) != nil {
		t.Errorf("a Writer that is closed is that of the engine, %v", err)
	}
}
