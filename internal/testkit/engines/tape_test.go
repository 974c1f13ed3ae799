package engines_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// set commits one value.
func set(t *testing.T, e kv.Engine, key, value string) {
	t.Helper()
	testkit.Must(t, e.Commit(t.Context(), &kv.Commit{Durability: kv.Applied, Ops: []kv.Op{kv.Set([]byte(key), []byte(value))}}))
}

// has wants these entries in the engine.
func has(t *testing.T, e kv.Engine, want string) {
	t.Helper()
	var got []string
	for e, err := range e.Scan(t.Context(), kv.Range{}) {
		testkit.Must(t, err)
		got = append(got, string(e.Key)+"="+string(e.Value))
	}
	if all := strings.Join(got, " "); all != want {
		t.Errorf("the engine has %q, want %q", all, want)
	}
}

// TestTape goes back to each state, also of a tape that is one itself, and by the operations where there are no clones.
func TestTape(t *testing.T) {
	for _, cloned := range []bool{true, false} {
		tape := engines.NewTape()
		keep := func(tape *engines.Tape) {
			if !cloned {
				tape.Unclone()
			}
		}
		testkit.Must(t, tape.Commit(t.Context(), &kv.Commit{Durability: kv.Applied, Ops: []kv.Op{kv.Set([]byte("a"), []byte("1")), kv.Set([]byte("b"), []byte("1"))}}))
		set(t, tape, "a", "2")
		testkit.Must(t, tape.Sync(t.Context(), tape.Incarnation()))
		testkit.Must(t, tape.Commit(t.Context(), &kv.Commit{Durability: kv.Applied, Ops: []kv.Op{kv.Clear([]byte("b"))}}))
		refused := &kv.Commit{Checks: []kv.Check{{Key: []byte("a"), Absent: true}}, Ops: []kv.Op{kv.Set([]byte("a"), []byte("3"))}}
		if err := tape.Commit(t.Context(), refused); !errors.Is(err, kv.ErrConflict) {
			t.Errorf("a check that fails: got %v, want %v", err, kv.ErrConflict)
		}
		if tape.Len() != 3 || tape.Durable() != 2 || len(tape.Commits(1)) != 2 || string(tape.Commits(1)[0].Ops[0].Value) != "2" {
			t.Errorf("%d commits, %d durable, %v", tape.Len(), tape.Durable(), tape.Commits(1))
		}
		keep(tape)
		for n, want := range []string{"", "a=1 b=1", "a=2 b=1", "a=2"} {
			at := tape.At(t, n)
			has(t, at, want)
			set(t, at, "c", "x")
			keep(at)
			has(t, at.At(t, 0), want)
			has(t, at.At(t, 1), strings.TrimSpace(want+" c=x"))
		}
		has(t, tape, "a=2")
	}
}

// TestDecorators: what the engines say and pass on.
func TestDecorators(t *testing.T) {
	below := memkv.New()
	for name, tt := range map[string]struct {
		eng         kv.Engine
		far, shared bool
	}{
		"far":            {engines.Far(below), true, false},
		"shared":         {engines.Shared(below), false, true},
		"far and shared": {engines.Shared(engines.Far(below)), true, true},
		"shared and far": {engines.Far(engines.Shared(below)), true, true},
	} {
		if got := tt.eng.Limits().Far; got != tt.far {
			t.Errorf("%s: far %v", name, got)
		}
		if got := kv.Shared(tt.eng) == nil; got != tt.shared {
			t.Errorf("%s: shared %v", name, got)
		}
		if (kv.ScanRanges(t.Context(), tt.eng, []kv.Range{{}}) == nil) != (kv.ScanRanges(t.Context(), below, []kv.Range{{}}) == nil) {
			t.Errorf("%s: whether it reads several ranges at once isn't passed on", name)
		}
	}
}
