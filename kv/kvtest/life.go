package kvtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// testSnapshot: a snapshot shows the state it was made in, whatever comes later.
func testSnapshot(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	snap := func() kv.Snapshot {
		t.Helper()
		s, err := eng.Snapshot(ctx)
		if err != nil {
			t.Fatalf("Snapshot: %v", err)
		}
		return s
	}
	empty := snap()
	suite.Fill(t, eng, "a", "b", "c")
	full := snap()
	again := snap()
	suite.Commit(t, eng, suite.Set("a", "new"), suite.Del("b"), suite.Set("d", "new"))
	changed := snap()
	suite.Commit(t, eng, suite.DelRange("a", "z"))

	states := []struct {
		s    kv.Snapshot
		want string
	}{
		{empty, ""}, {full, "a=A b=B c=C"}, {again, "a=A b=B c=C"}, {changed, "a=new c=C d=new"},
	}
	for range 2 { // a read leaves a snapshot as it was
		for _, st := range states {
			suite.WantScan(t, st.s, kv.Range{}, st.want)
		}
	}
	suite.WantScan(t, full, kv.Range{Start: []byte("b"), Reverse: true}, "c=C b=B")
	suite.WantScan(t, full, kv.Range{Limit: 1}, "a=A")
	suite.WantGet(t, empty, "a", "-")
	suite.WantGet(t, full, "b", "B")
	suite.WantGet(t, changed, "b", "-")
	suite.WantGet(t, changed, "a", "new")
	suite.WantScan(t, eng, kv.Range{}, "")
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
		suite.WantErr(t, "Get of a closed snapshot", err, kv.ErrClosed)
		_, err = suite.ScanErr(t, st.s, ctx, kv.Range{})
		suite.WantErr(t, "Scan of a closed snapshot", err, kv.ErrClosed)
		for _, other := range states[i+1:] {
			suite.WantScan(t, other.s, kv.Range{}, other.want)
		}
	}
}

// testContext: a cancelled context stops calls before they do anything, and
// long scans on their way.
func testContext(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	var ops []kv.Op
	for i := range 5000 {
		ops = append(ops, kv.Set(fmt.Appendf(nil, "%05d", i), []byte("v")))
		if len(ops) == 100 {
			suite.Commit(t, eng, ops...)
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
		suite.WantErr(t, name+": Get", err, context.Canceled)
		n, err := suite.ScanErr(t, r, gone, kv.Range{})
		suite.WantErr(t, name+": Scan", err, context.Canceled)
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
		suite.WantErr(t, name+": Scan cancelled on its way", last, context.Canceled)
		if n == 0 || n == 5000 {
			t.Errorf("%s: Scan cancelled at its first entry yielded %d of 5000 entries", name, n)
		}
	}
	never := func() { t.Error("OnApply was called for a cancelled commit") }
	err = eng.Commit(gone, &kv.Commit{Ops: []kv.Op{suite.Set("new", "x")}, OnApply: never})
	wantRefused(t, "Commit", err, context.Canceled)
	suite.WantGet(t, eng, "new", "-")
	_, err = eng.Snapshot(gone)
	suite.WantErr(t, "Snapshot", err, context.Canceled)
	suite.WantErr(t, "Sync", eng.Sync(gone, 0), context.Canceled)
	_, err = eng.Outcome(gone, kv.CommitID{1})
	suite.WantErr(t, "Outcome", err, context.Canceled)
	if err := eng.Sync(ctx, eng.Incarnation()); err != nil {
		t.Errorf("Sync: %v", err)
	}
}

// testClosed: a closed engine says so, to every call and as often as asked.
func testClosed(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	suite.Fill(t, eng, "a")
	for range 2 {
		if err := eng.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	dst := []byte("head")
	v, err := eng.Get(ctx, []byte("a"), dst)
	suite.WantErr(t, "Get", err, kv.ErrClosed)
	if string(v) != "head" {
		t.Errorf("Get of a closed engine returned %q instead of dst", v)
	}
	_, err = suite.ScanErr(t, eng, ctx, kv.Range{})
	suite.WantErr(t, "Scan", err, kv.ErrClosed)
	_, err = eng.Snapshot(ctx)
	suite.WantErr(t, "Snapshot", err, kv.ErrClosed)
	never := func() { t.Error("OnApply was called on a closed engine") }
	wantRefused(t, "Commit", eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{suite.Set("a", "1")}, OnApply: never}), kv.ErrClosed)
	suite.WantErr(t, "Sync", eng.Sync(ctx, eng.Incarnation()), kv.ErrClosed)
	_, err = eng.Outcome(ctx, kv.CommitID{1})
	suite.WantErr(t, "Outcome", err, kv.ErrClosed)
}

// testCloseUnderLoad: Close beside running calls: each of them succeeds or says
// that the engine is closed, and none hangs.
func testCloseUnderLoad(t *testing.T, open suite.Opener) {
	eng := open(t)
	suite.Fill(t, eng, "a", "b", "c")
	calls := []func() error{
		func() error { _, err := eng.Get(ctx, []byte("a"), nil); return err },
		func() error { _, err := suite.ScanErr(t, eng, ctx, kv.Range{}); return err },
		func() error { return eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{suite.Set("d", "1")}}) },
		func() error {
			return eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{suite.Set("e", "1")}, Durability: kv.Applied})
		},
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
		suite.WantErr(t, "a call beside Close", <-done, kv.ErrClosed)
	}
	if err := eng.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// testShared: an engine that is a kv.Sharer has one map for the life of the store,
// and two stores have two.
func testShared(t *testing.T, open suite.Opener) {
	eng, other := suite.Start(t, open), suite.Start(t, open)
	shared := kv.Shared(eng)
	if shared == nil {
		t.Skip("the engine shares nothing")
	}
	type key struct{}
	if _, loaded := shared.LoadOrStore(key{}, 1); loaded {
		t.Error("a new store has something to share")
	}
	suite.Commit(t, eng, suite.Set("k", "v"))
	if v, ok := kv.Shared(eng).Load(key{}); !ok || v != 1 {
		t.Errorf("got %v, %v, want what was stored", v, ok)
	}
	if _, ok := kv.Shared(other).Load(key{}); ok {
		t.Error("two stores share a map")
	}
}
