package faultkv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn/txntest"
)

var errThrown = errors.New("thrown")

// set commits value under key, and says whether OnApply ran.
func set(ctx context.Context, eng kv.Engine, key, value string) (applied bool, err error) {
	err = eng.Commit(ctx, &kv.Commit{
		Ops: []kv.Op{kv.Set([]byte(key), []byte(value))}, OnApply: func() { applied = true },
	})
	return applied, err
}

func get(t testing.TB, r kv.Reader, key string) string {
	t.Helper()
	v, err := r.Get(ctx, []byte(key), nil)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		t.Fatal(err)
	}
	return string(v)
}

// TestConformanceWithFaults: rules that match no call change nothing.
func TestConformanceWithFaults(t *testing.T) {
	open := func(testing.TB) kv.Engine {
		eng := faultkv.New(memkv.New())
		for p := range faultkv.BeforeEntry + 1 {
			eng.Fail(faultkv.Rule{Point: p, Skip: 1 << 30})
			eng.Pause(faultkv.Rule{Point: p, Match: func(faultkv.Op) bool { return false }})
		}
		eng.Tear(1 << 30)
		return eng
	}
	kvtest.Run(t, open)
	txntest.Run(t, open)
}

// TestFailPoints: an error at a point fails the calls of that kind, and no others.
func TestFailPoints(t *testing.T) {
	for p := range faultkv.BeforeEntry + 1 {
		eng := faultkv.New(memkv.New())
		f := eng.Fail(faultkv.Rule{Point: p, Times: faultkv.Forever, Match: func(op faultkv.Op) bool { return !op.Snapshot }})
		failed := p
		switch p {
		case faultkv.AfterApply, faultkv.AfterCommit:
			failed = faultkv.BeforeCommit
		case faultkv.BeforeEntry:
			failed = faultkv.BeforeScan
		}
		for point, err := range drive(t, eng) {
			want := error(nil)
			switch {
			case point == failed:
				want = faultkv.ErrInjected
			case p == faultkv.BeforeCommit && point == faultkv.BeforeGet:
				want = kv.ErrNotFound
			}
			if !errors.Is(err, want) {
				t.Errorf("fault at %d: call at %d returned %v, want %v", p, point, err, want)
			}
		}
		if f.Hits() != 1 || f.Seen() != 1 {
			t.Errorf("fault at %d: %d hits of %d", p, f.Hits(), f.Seen())
		}
	}
}

// TestOccurrence: which of seven calls fail.
func TestOccurrence(t *testing.T) {
	for _, tt := range []struct {
		skip, times int
		want        []int
	}{
		{0, 0, []int{0}},
		{0, 1, []int{0}},
		{2, 0, []int{2}},
		{2, 3, []int{2, 3, 4}},
		{5, 9, []int{5, 6}},
		{7, 1, nil},
		{-3, 1, []int{0}},
		{4, faultkv.Forever, []int{4, 5, 6}},
		{0, faultkv.Forever, []int{0, 1, 2, 3, 4, 5, 6}},
	} {
		eng := faultkv.New(memkv.New())
		f := eng.Fail(faultkv.Rule{Point: faultkv.BeforeSync, Skip: tt.skip, Times: tt.times, Err: errThrown})
		var got []int
		for i := range 7 {
			if err := eng.Sync(ctx, eng.Incarnation()); errors.Is(err, errThrown) {
				got = append(got, i)
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, tt.want) || f.Hits() != len(tt.want) || f.Seen() != 7 {
			t.Errorf("skip %d, times %d: failed were %v, want %v; %d hits of %d", tt.skip, tt.times, got, tt.want, f.Hits(), f.Seen())
		}
	}
}

// TestSeveralFaults: the first one that yields an error hides the operation from
// those after it, and each can be taken away by itself.
func TestSeveralFaults(t *testing.T) {
	eng := faultkv.New(memkv.New())
	first := eng.Fail(faultkv.Rule{Point: faultkv.BeforeSync})
	second := eng.Fail(faultkv.Rule{Point: faultkv.BeforeSync, Times: faultkv.Forever, Err: errThrown})
	hooked := 0
	eng.Hook(func(faultkv.Op) error { hooked++; return nil })
	for i, want := range []error{faultkv.ErrInjected, errThrown, errThrown} {
		if err := eng.Sync(ctx, eng.Incarnation()); !errors.Is(err, want) {
			t.Errorf("call %d: got %v, want %v", i, err, want)
		}
	}
	if first.Seen() != 3 || second.Seen() != 2 || hooked != 0 {
		t.Errorf("the first saw %d, the second %d, the hook %d; want 3, 2, 0", first.Seen(), second.Seen(), hooked)
	}
	second.Remove()
	second.Remove()
	if err := eng.Sync(ctx, eng.Incarnation()); err != nil || second.Seen() != 2 || hooked != 1 {
		t.Errorf("after Remove: %v, %d seen, %d hooked", err, second.Seen(), hooked)
	}
}

// TestLostAcknowledgement: both points after a commit leave it applied; only
// AfterApply comes before anybody knows.
func TestLostAcknowledgement(t *testing.T) {
	for point, known := range map[faultkv.Point]bool{faultkv.AfterApply: false, faultkv.AfterCommit: true} {
		for _, thrown := range []error{errThrown, fmt.Errorf("the line is cut: %w", kv.ErrUnknownOutcome)} {
			eng := faultkv.New(memkv.New())
			eng.Fail(faultkv.Rule{Point: point, Match: faultkv.Key([]byte("k")), Err: thrown})
			if applied, err := set(ctx, eng, "other", "v"); err != nil || !applied {
				t.Errorf("another key: %v", err)
			}
			applied, err := set(ctx, eng, "k", "v")
			if err != thrown || applied != known {
				t.Errorf("point %d: got %v, OnApply called: %v; want %v, %v", point, err, applied, thrown, known)
			}
			if got := get(t, eng, "k"); got != "v" {
				t.Errorf("point %d: the store holds %q", point, got)
			}
			if applied, err := set(ctx, eng, "k", "w"); err != nil || !applied {
				t.Errorf("the commit after it: %v, OnApply called: %v", err, applied)
			}
		}
	}
}

// TestRefusedCommitIsNotMet: what the engine below refuses was never applied.
func TestRefusedCommitIsNotMet(t *testing.T) {
	eng := faultkv.New(memkv.New())
	apply, commit := eng.Fail(faultkv.Rule{Point: faultkv.AfterApply}), eng.Fail(faultkv.Rule{Point: faultkv.AfterCommit})
	err := eng.Commit(ctx, &kv.Commit{Checks: []kv.Check{{Key: []byte("k")}}})
	if !errors.Is(err, kv.ErrConflict) || apply.Seen() != 0 || commit.Seen() != 0 {
		t.Errorf("got %v, %d and %d seen", err, apply.Seen(), commit.Seen())
	}
}

// TestScanFailsInTheMiddle: what came before the entry was yielded.
func TestScanFailsInTheMiddle(t *testing.T) {
	eng := faultkv.New(memkv.New())
	for _, k := range []string{"a", "b", "c"} {
		if _, err := set(ctx, eng, k, ""); err != nil {
			t.Fatal(err)
		}
	}
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeEntry, Match: faultkv.Key([]byte("c")), Err: errThrown})
	var got []string
	var last error
	for e, err := range eng.Scan(ctx, kv.Range{}) {
		if last = err; err == nil {
			got = append(got, string(e.Key))
		} else if e.Key != nil || e.Value != nil {
			t.Errorf("the error comes with an entry, %q", e.Key)
		}
	}
	if !slices.Equal(got, []string{"a", "b"}) || last != errThrown {
		t.Errorf("got %q, %v", got, last)
	}
}

// TestPause: a held operation waits, and the rest goes on beside it.
func TestPause(t *testing.T) {
	for _, tt := range []struct {
		name         string
		point        faultkv.Point
		thrown       error
		during, left string // what the store holds while it is paused, and then
	}{
		{"before", faultkv.BeforeCommit, nil, "old", "new"},
		{"before, then fail", faultkv.BeforeCommit, errThrown, "old", "old"},
		{"applied", faultkv.AfterApply, nil, "new", "new"},
		{"applied, then lost", faultkv.AfterApply, kv.ErrUnknownOutcome, "new", "new"},
		{"returned", faultkv.AfterCommit, nil, "new", "new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eng := faultkv.New(memkv.New())
			if _, err := set(ctx, eng, "k", "old"); err != nil {
				t.Fatal(err)
			}
			p := eng.Pause(faultkv.Rule{Point: tt.point, Match: faultkv.Key([]byte("k")), Err: tt.thrown})
			done := make(chan error)
			go func() {
				_, err := set(ctx, eng, "k", "new")
				done <- err
			}()
			<-p.Reached()
			if got := get(t, eng, "k"); got != tt.during {
				t.Errorf("while it is paused: %q, want %q", got, tt.during)
			}
			if _, err := set(ctx, eng, "other", "v"); err != nil {
				t.Errorf("beside it: %v", err)
			}
			select {
			case err := <-done:
				t.Fatalf("the paused commit returned %v", err)
			default:
			}
			p.Release()
			if err := <-done; err != tt.thrown {
				t.Errorf("got %v, want %v", err, tt.thrown)
			}
			if got := get(t, eng, "k"); got != tt.left || p.Hits() != 1 || p.Seen() != 1 {
				t.Errorf("then: %q, want %q; %d hits of %d", got, tt.left, p.Hits(), p.Seen())
			}
			p.Release()
			if _, err := set(ctx, eng, "k", "again"); err != nil {
				t.Errorf("after Release: %v", err)
			}
		})
	}
}

// TestPauseHoldsMany: what comes while others are held is held too, as far as
// Times goes, and one Release lets go of all.
func TestPauseHoldsMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := faultkv.New(memkv.New())
		p := eng.Pause(faultkv.Rule{Point: faultkv.BeforeSync, Skip: 1, Times: 2})
		done := make(chan error, 4)
		for range 4 {
			go func() { done <- eng.Sync(context.Background(), eng.Incarnation()) }()
		}
		synctest.Wait()
		if len(done) != 2 || p.Hits() != 2 || p.Seen() != 4 {
			t.Errorf("%d went on, %d of %d are held", len(done), p.Hits(), p.Seen())
		}
		eng.Heal()
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestPauseEndsWithContext: where nothing was done, nothing will be; a commit that
// was applied waits on.
func TestPauseEndsWithContext(t *testing.T) {
	for point, waits := range map[faultkv.Point]bool{
		faultkv.BeforeCommit: false, faultkv.AfterApply: true, faultkv.AfterCommit: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			eng := faultkv.New(memkv.New())
			p := eng.Pause(faultkv.Rule{Point: point})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := set(ctx, eng, "k", "v")
				done <- err
			}()
			<-p.Reached()
			cancel()
			synctest.Wait()
			if !waits {
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("point %d: got %v, want %v", point, err, context.Canceled)
				}
				p.Release()
				if got := get(t, eng, "k"); got != "" {
					t.Errorf("point %d: %q was committed", point, got)
				}
				return
			}
			if len(done) != 0 {
				t.Errorf("point %d: returned %v", point, <-done)
			}
			p.Release()
			if err := <-done; err != nil || get(t, eng, "k") != "v" {
				t.Errorf("point %d: got %v", point, err)
			}
		})
	}
}
