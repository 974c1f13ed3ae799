package kvtest

import (
	"testing"

	"github.com/greenroomdb/greenroom/kv"
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
		commit(t, tape, set("a", "1"), set("b", "1"))
		commit(t, tape, set("a", "2"))
		if err := tape.Sync(ctx, tape.Incarnation()); err != nil {
			t.Fatal(err)
		}
		commit(t, tape, del("b"))
		wantErr(t, "a check that fails", tape.Commit(ctx, &kv.Commit{Checks: []kv.Check{absent("a")}, Ops: []kv.Op{set("a", "3")}}), kv.ErrConflict)
		if tape.Len() != 3 || tape.Durable() != 2 || len(tape.Commits(1)) != 2 || string(tape.Commits(1)[0].Ops[0].Value) != "2" {
			t.Errorf("%d commits, %d durable, %v", tape.Len(), tape.Durable(), tape.Commits(1))
		}
		keep(tape)
		for n, want := range []string{"", "a=1 b=1", "a=2 b=1", "a=2"} {
			at := tape.At(t, n)
			wantScan(t, at, kv.Range{}, want)
			commit(t, at, set("c", "x"))
			keep(at)
			wantScan(t, at.At(t, 0), kv.Range{}, want)
			wantGet(t, at.At(t, 1), "c", "x")
		}
		wantScan(t, tape, kv.Range{}, "a=2")
	}
}
