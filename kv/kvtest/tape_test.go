package kvtest

import (
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// TestTape goes back to each state, also of a tape that is one itself, and by the operations where there are no clones.
func TestTape(t *testing.T) {
	for _, cloned := range []bool{true, false} {
		tape := NewTape()
		keep := func(tape *Tape) {
			if !cloned {
				clear(tape.states)
			}
		}
		suite.Commit(t, tape, suite.Set("a", "1"), suite.Set("b", "1"))
		suite.Commit(t, tape, suite.Set("a", "2"))
		if err := tape.Sync(ctx, tape.Incarnation()); err != nil {
			t.Fatal(err)
		}
		suite.Commit(t, tape, suite.Del("b"))
		suite.WantErr(t, "a check that fails", tape.Commit(ctx, &kv.Commit{Checks: []kv.Check{suite.Absent("a")}, Ops: []kv.Op{suite.Set("a", "3")}}), kv.ErrConflict)
		if tape.Len() != 3 || tape.Durable() != 2 || len(tape.Commits(1)) != 2 || string(tape.Commits(1)[0].Ops[0].Value) != "2" {
			t.Errorf("%d commits, %d durable, %v", tape.Len(), tape.Durable(), tape.Commits(1))
		}
		keep(tape)
		for n, want := range []string{"", "a=1 b=1", "a=2 b=1", "a=2"} {
			at := tape.At(t, n)
			suite.WantScan(t, at, kv.Range{}, want)
			suite.Commit(t, at, suite.Set("c", "x"))
			keep(at)
			suite.WantScan(t, at.At(t, 0), kv.Range{}, want)
			suite.WantGet(t, at.At(t, 1), "c", "x")
		}
		suite.WantScan(t, tape, kv.Range{}, "a=2")
	}
}
