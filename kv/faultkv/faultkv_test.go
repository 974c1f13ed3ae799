package faultkv_test

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn/txntest"
)

var ctx = context.Background()

func TestConformance(t *testing.T) {
	open := func(testing.TB) kv.Engine { return faultkv.New(memkv.New()) }
	kvtest.Run(t, open)
	txntest.Run(t, open)
}

// drive makes one call of every kind and returns what each returned.
func drive(t *testing.T, eng kv.Engine) map[faultkv.Point]error {
	t.Helper()
	got := map[faultkv.Point]error{}
	got[faultkv.BeforeCommit] = eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("abc"), []byte("de")), kv.Clear([]byte("x"))}})
	_, got[faultkv.BeforeGet] = eng.Get(ctx, []byte("abc"), nil)
	for _, err := range eng.Scan(ctx, kv.Range{}) {
		got[faultkv.BeforeScan] = err
	}
	_, got[faultkv.BeforeOutcome] = eng.Outcome(ctx, kv.CommitID{1})
	got[faultkv.BeforeSync] = eng.Sync(ctx, eng.Incarnation())
	s, err := eng.Snapshot(ctx)
	if got[faultkv.BeforeSnapshot] = err; err == nil {
		if _, err := s.Get(ctx, []byte("abc"), nil); err != nil && !errors.Is(err, kv.ErrNotFound) {
			t.Error(err)
		}
		for range s.Scan(ctx, kv.Range{}) {
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	return got
}

func TestCounts(t *testing.T) {
	eng := faultkv.New(memkv.New())
	drive(t, eng)
	if err := eng.Commit(ctx, &kv.Commit{Durability: kv.Applied}); err != nil {
		t.Fatal(err)
	}
	want := faultkv.Counts{Gets: 2, Scans: 2, Snapshots: 1, Commits: 2, Durable: 1, Ops: 2, Bytes: 6, Syncs: 1}
	if got := eng.Counts(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	eng.Reset()
	if got := eng.Counts(); got != (faultkv.Counts{}) {
		t.Errorf("after Reset: got %+v", got)
	}
	// A sequence that is not iterated doesn't count as a scan.
	eng.Scan(ctx, kv.Range{})
	if got := eng.Counts().Scans; got != 0 {
		t.Errorf("got %d scans for a sequence that nobody iterated", got)
	}
}

func TestHook(t *testing.T) {
	thrown := errors.New("thrown")
	for _, p := range []faultkv.Point{
		faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeSnapshot, faultkv.BeforeCommit, faultkv.BeforeOutcome, faultkv.BeforeSync,
	} {
		eng := faultkv.New(memkv.New())
		eng.Hook(func(op faultkv.Op) error {
			if op.Point == p && !op.Snapshot {
				return thrown
			}
			return nil
		})
		for point, err := range drive(t, eng) {
			want := error(nil)
			switch {
			case point == p:
				want = thrown
			case p == faultkv.BeforeCommit && point == faultkv.BeforeGet:
				want = kv.ErrNotFound
			}
			if !errors.Is(err, want) {
				t.Errorf("hook at %d: call at %d returned %v, want %v", p, point, err, want)
			}
		}
	}
}

func TestHookAfterCommit(t *testing.T) {
	eng := faultkv.New(memkv.New())
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.AfterCommit {
			return kv.ErrUnknownOutcome
		}
		return nil
	})
	id := kv.CommitID{1}
	err := eng.Commit(ctx, &kv.Commit{ID: id, Ops: []kv.Op{kv.Set([]byte("k"), nil)}})
	if !errors.Is(err, kv.ErrUnknownOutcome) {
		t.Errorf("got %v, want %v", err, kv.ErrUnknownOutcome)
	}
	if o, err := eng.Outcome(ctx, id); err != nil || o != kv.OutcomeApplied {
		t.Errorf("the outcome is %v, %v, want %v", o, err, kv.OutcomeApplied)
	}
	eng.Hook(nil)
	if err := eng.Commit(ctx, &kv.Commit{}); err != nil {
		t.Errorf("without a hook: %v", err)
	}
}

func TestDoesNotAllocate(t *testing.T) {
	for name, prepare := range map[string]func(*faultkv.Engine){
		"nothing set": func(*faultkv.Engine) {},
		"a hook":      func(eng *faultkv.Engine) { eng.Hook(func(faultkv.Op) error { return nil }) },
		"a rule": func(eng *faultkv.Engine) {
			eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Match: faultkv.Key([]byte("other"))})
		},
	} {
		t.Run(name, func(t *testing.T) { testAllocs(t, prepare) })
	}
}

func testAllocs(t *testing.T, prepare func(*faultkv.Engine)) {
	eng := faultkv.New(memkv.New())
	prepare(eng)
	if err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("k"), []byte("v"))}}); err != nil {
		t.Fatal(err)
	}
	key, dst, c := []byte("k"), make([]byte, 0, 8), &kv.Commit{Checks: []kv.Check{{Key: []byte("k"), Value: []byte("v")}}}
	if got := testing.AllocsPerRun(100, func() {
		if _, err := eng.Get(ctx, key, dst); err != nil {
			t.Fatal(err)
		}
		if err := eng.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("got %v allocations for a Get and a Commit, want 0", got)
	}
}
