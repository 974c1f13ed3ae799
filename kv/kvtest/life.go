package kvtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// testSnapshot: a snapshot shows the state it was made in, whatever comes later.
func testSnapshot(t *testing.T, open Opener) {
	eng := start(t, open)
	snap := func() kv.Snapshot {
		t.Helper()
		s, err := eng.Snapshot(ctx)
		if err != nil {
			t.Fatalf("Snapshot: %v", err)
		}
		return s
	}
	empty := snap()
	fill(t, eng, "a", "b", "c")
	full := snap()
	again := snap()
	commit(t, eng, set("a", "new"), del("b"), set("d", "new"))
	changed := snap()
	commit(t, eng, delRange("a", "z"))

	states := []struct {
		s    kv.Snapshot
		want string
	}{
		{empty, ""}, {full, "a=A b=B c=C"}, {again, "a=A b=B c=C"}, {changed, "a=new c=C d=new"},
	}
	for range 2 { // a read leaves a snapshot as it was
		for _, st := range states {
			wantScan(t, st.s, kv.Range{}, st.want)
		}
	}
	wantScan(t, full, kv.Range{Start: []byte("b"), Reverse: true}, "c=C b=B")
	wantScan(t, full, kv.Range{Limit: 1}, "a=A")
	wantGet(t, empty, "a", "-")
	wantGet(t, full, "b", "B")
	wantGet(t, changed, "b", "-")
	wantGet(t, changed, "a", "new")
	wantScan(t, eng, kv.Range{}, "")
	buf, err := full.Get(ctx, []byte("a"), []byte("head:"))
	if err != nil || string(buf) != "head:A" {
		t.Errorf("Get of a snapshot: got %q, %v, want %q", buf, err, "head:A")
	}

	// Closing one leaves the others, and is idempotent.
	for i, st := range states {
		for range 2 {
			if err := st.s.Close(); err != nil {
				t.Errorf("closing snapshot %d: %v", i, err)
			}
		}
		_, err := st.s.Get(ctx, []byte("a"), nil)
		wantErr(t, "Get of a closed snapshot", err, kv.ErrClosed)
		_, err = scanErr(t, st.s, ctx, kv.Range{})
		wantErr(t, "Scan of a closed snapshot", err, kv.ErrClosed)
		for _, other := range states[i+1:] {
			wantScan(t, other.s, kv.Range{}, other.want)
		}
	}
}

// testContext: a cancelled context stops calls before they do anything, and
// long scans on their way.
func testContext(t *testing.T, open Opener) {
	eng := start(t, open)
	var ops []kv.Op
	for i := range 5000 {
		ops = append(ops, kv.Set(fmt.Appendf(nil, "%05d", i), []byte("v")))
		if len(ops) == 100 {
			commit(t, eng, ops...)
			ops = ops[:0]
		}
	}
	snap, err := eng.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := snap.Close(); err != nil {
			t.Error(err)
		}
	}()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	for name, r := range map[string]kv.Reader{"engine": eng, "snapshot": snap} {
		_, err := r.Get(gone, []byte("00000"), nil)
		wantErr(t, name+": Get", err, context.Canceled)
		n, err := scanErr(t, r, gone, kv.Range{})
		wantErr(t, name+": Scan", err, context.Canceled)
		if n != 0 {
			t.Errorf("%s: Scan with a cancelled context yielded %d entries", name, n)
		}

		soon, cancel := context.WithCancel(ctx)
		n, last := 0, error(nil)
		for _, err := range r.Scan(soon, kv.Range{}) {
			cancel()
			if last = err; err == nil {
				n++
			}
		}
		cancel()
		wantErr(t, name+": Scan cancelled on its way", last, context.Canceled)
		if n == 0 || n == 5000 {
			t.Errorf("%s: Scan cancelled at its first entry yielded %d of 5000 entries", name, n)
		}
	}
	never := func() { t.Error("OnApply was called for a cancelled commit") }
	err = eng.Commit(gone, &kv.Commit{Ops: []kv.Op{set("new", "x")}, OnApply: never})
	wantRefused(t, "Commit", err, context.Canceled)
	wantGet(t, eng, "new", "-")
	_, err = eng.Snapshot(gone)
	wantErr(t, "Snapshot", err, context.Canceled)
	wantErr(t, "Sync", eng.Sync(gone, 0), context.Canceled)
	_, err = eng.Outcome(gone, kv.CommitID{1})
	wantErr(t, "Outcome", err, context.Canceled)
	if err := eng.Sync(ctx, eng.Incarnation()); err != nil {
		t.Errorf("Sync: %v", err)
	}
}

// testClosed: a closed engine says so, to every call and as often as asked.
func testClosed(t *testing.T, open Opener) {
	eng := start(t, open)
	fill(t, eng, "a")
	for range 2 {
		if err := eng.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	dst := []byte("head")
	v, err := eng.Get(ctx, []byte("a"), dst)
	wantErr(t, "Get", err, kv.ErrClosed)
	if string(v) != "head" {
		t.Errorf("Get of a closed engine returned %q instead of dst", v)
	}
	_, err = scanErr(t, eng, ctx, kv.Range{})
	wantErr(t, "Scan", err, kv.ErrClosed)
	_, err = eng.Snapshot(ctx)
	wantErr(t, "Snapshot", err, kv.ErrClosed)
	never := func() { t.Error("OnApply was called on a closed engine") }
	wantRefused(t, "Commit", eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "1")}, OnApply: never}), kv.ErrClosed)
	wantErr(t, "Sync", eng.Sync(ctx, eng.Incarnation()), kv.ErrClosed)
	_, err = eng.Outcome(ctx, kv.CommitID{1})
	wantErr(t, "Outcome", err, kv.ErrClosed)
}

// testCloseUnderLoad: Close beside running calls: each of them succeeds or says
// that the engine is closed, and none hangs.
func testCloseUnderLoad(t *testing.T, open Opener) {
	eng := open(t)
	fill(t, eng, "a", "b", "c")
	calls := []func() error{
		func() error { _, err := eng.Get(ctx, []byte("a"), nil); return err },
		func() error { _, err := scanErr(t, eng, ctx, kv.Range{}); return err },
		func() error { return eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("d", "1")}}) },
		func() error { return eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("e", "1")}, Durability: kv.Applied}) },
		func() error { return eng.Sync(ctx, eng.Incarnation()) },
		func() error {
			s, err := eng.Snapshot(ctx)
			if err != nil {
				return err
			}
			_, err = s.Get(ctx, []byte("a"), nil)
			return errors.Join(err, s.Close())
		},
	}
	started, done := make(chan struct{}, len(calls)), make(chan error, len(calls))
	for _, call := range calls {
		go func() {
			err := call()
			started <- struct{}{}
			for err == nil {
				err = call()
			}
			done <- err
		}()
	}
	for range calls {
		<-started
	}
	// An engine may complain about a snapshot that was open just then.
	_ = eng.Close()
	for range calls {
		wantErr(t, "a call beside Close", <-done, kv.ErrClosed)
	}
	if err := eng.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// testShared: an engine that is a kv.Sharer has one map for the life of the store,
// and two stores have two.
func testShared(t *testing.T, open Opener) {
	eng, other := start(t, open), start(t, open)
	shared := kv.Shared(eng)
	if shared == nil {
		t.Skip("the engine shares nothing")
	}
	type key struct{}
	if _, loaded := shared.LoadOrStore(key{}, 1); loaded {
		t.Error("a new store has something to share")
	}
	commit(t, eng, set("k", "v"))
	if v, ok := kv.Shared(eng).Load(key{}); !ok || v != 1 {
		t.Errorf("got %v, %v, want what was stored", v, ok)
	}
	if _, ok := kv.Shared(other).Load(key{}); ok {
		t.Error("two stores share a map")
	}
}
