package faultkv_test

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestTear: n commits land, and nothing works until the engine is revived.
func TestTear(t *testing.T) {
	for n := range 4 {
		eng := faultkv.New(memkv.New())
		snap, err := eng.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		eng.Tear(n)
		for i := range n {
			if got := get(t, eng, "k"); got != "" && i == 0 {
				t.Errorf("before the first commit: %q", got)
			}
			// A refused commit doesn't count toward n.
			if err := eng.Commit(ctx, &kv.Commit{Checks: []kv.Check{{Key: []byte("none")}}}); !errors.Is(err, kv.ErrConflict) {
				t.Errorf("a conflict: %v", err)
			}
			if applied, err := set(ctx, eng, "k", string(rune('0'+i))); err != nil || !applied {
				t.Errorf("commit %d of %d: %v", i, n, err)
			}
		}
		for point, err := range drive(t, eng) {
			if !errors.Is(err, faultkv.ErrTorn) {
				t.Errorf("torn after %d: call at %d returned %v", n, point, err)
			}
		}
		if _, err := snap.Get(ctx, []byte("k"), nil); !errors.Is(err, faultkv.ErrTorn) {
			t.Errorf("torn after %d: a read of a snapshot returned %v", n, err)
		}
		if err := snap.Close(); err != nil {
			t.Error(err)
		}
		left := ""
		if n > 0 {
			left = string(rune('0' + n - 1))
		}
		if got := get(t, eng.Unwrap(), "k"); got != left {
			t.Errorf("torn after %d: the engine below holds %q", n, got)
		}
		eng.Heal()
		if _, err := set(ctx, eng, "k", "revived"); err != nil || get(t, eng, "k") != "revived" {
			t.Errorf("revived: %v", err)
		}
	}
}

// TestTearWhilePaused: what was on its way when the engine died doesn't arrive.
func TestTearWhilePaused(t *testing.T) {
	eng := faultkv.New(memkv.New())
	p := eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	done := make(chan error)
	go func() {
		_, err := set(ctx, eng, "k", "v")
		done <- err
	}()
	<-p.Reached()
	eng.Tear(0)
	p.Release()
	if err := <-done; !errors.Is(err, faultkv.ErrTorn) || get(t, eng.Unwrap(), "k") != "" {
		t.Errorf("got %v", err)
	}
}

// TestTearAndLoseTheLast: a torn write of which the last part isn't known to have
// landed.
func TestTearAndLoseTheLast(t *testing.T) {
	eng := faultkv.New(memkv.New())
	eng.Tear(2)
	eng.Fail(faultkv.Rule{Point: faultkv.AfterApply, Skip: 1, Err: kv.ErrUnknownOutcome})
	if _, err := set(ctx, eng, "a", "1"); err != nil {
		t.Fatal(err)
	}
	if applied, err := set(ctx, eng, "b", "2"); !errors.Is(err, kv.ErrUnknownOutcome) || applied {
		t.Errorf("got %v, OnApply called: %v", err, applied)
	}
	if _, err := set(ctx, eng, "c", "3"); !errors.Is(err, faultkv.ErrTorn) {
		t.Errorf("got %v", err)
	}
	if got := get(t, eng.Unwrap(), "b"); got != "2" {
		t.Errorf("got %q", got)
	}
}

// TestTearConcurrently: of commits that run beside each other exactly n land.
func TestTearConcurrently(t *testing.T) {
	eng := faultkv.New(memkv.New())
	eng.Tear(10)
	errs := make(chan error)
	for i := range 40 {
		go func() {
			_, err := set(ctx, eng, string(rune('A'+i)), "")
			errs <- err
		}()
	}
	acked := 0
	for range 40 {
		switch err := <-errs; {
		case err == nil:
			acked++
		case !errors.Is(err, faultkv.ErrTorn):
			t.Error(err)
		}
	}
	landed := 0
	for _, err := range eng.Unwrap().Scan(ctx, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		landed++
	}
	if acked != 10 || landed != 10 {
		t.Errorf("%d acknowledged, %d landed, want 10", acked, landed)
	}
}
