package remotekv_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/remotekv"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/kv/txn/txntest"
)

// serve returns an engine in this process over connections in memory.
func serve(t testing.TB, below kv.Engine, guard remotekv.Guard) *remotekv.Engine {
	t.Helper()
	var serving sync.WaitGroup
	e, err := remotekv.Open(t.Context(), func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		serving.Go(func() { remotekv.Serve(context.WithoutCancel(t.Context()), far, below, guard) })
		return near, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		serving.Wait()
	})
	return e
}

func TestConformance(t *testing.T) {
	open := func(t testing.TB) kv.Engine { return serve(t, memkv.New(), nil) }
	kvtest.Run(t, open)
	txntest.Run(t, open)
}

// TestGuard: what the guard doesn't allow is refused, of commits and of transactions.
func TestGuard(t *testing.T) {
	below := memkv.New()
	guard := func(start, end []byte) bool { return string(start) >= "m" }
	e := serve(t, below, guard)
	db, err := txn.New(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		do   func() error
		err  error
	}{
		{"a key", func() error { return e.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set([]byte("n"), []byte("1"))}}) }, nil},
		{"a forbidden key", func() error {
			return e.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set([]byte("n"), []byte("2")), kv.Clear([]byte("a"))}})
		}, errkind.ErrReadOnly},
		{"a forbidden range", func() error {
			return e.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.ClearRange(nil, []byte("z"))}})
		}, errkind.ErrReadOnly},
		{"a forbidden key of a transaction", func() error {
			return db.Update(t.Context(), func(tx *txn.Tx) error { tx.Set([]byte("a"), []byte("3")); return nil })
		}, errkind.ErrReadOnly},
		{"a key of a transaction", func() error {
			return db.Update(t.Context(), func(tx *txn.Tx) error { tx.Set([]byte("o"), []byte("4")); return nil })
		}, nil},
	} {
		err := test.do()
		if (err == nil) != (test.err == nil) || err != nil && !(errors.Is(err, test.err) && errors.Is(err, kv.ErrNotApplied)) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	want := []string{"n=1", "o=4"}
	var got []string
	for e, err := range below.Scan(t.Context(), kv.Range{}) {
		got = append(got, string(e.Key)+"="+string(e.Value))
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the store has %q, want %q", got, want)
	}
}

// A line is a connection that can be cut, and counts what is open at its other end.
type line struct {
	net.Conn
	cut func() error
}

// TestGone: an engine whose process ends says so; of a commit it doesn't know what became of it. A connection that
// was closed while it waited is replaced, and what it had pinned is let go of.
func TestGone(t *testing.T) {
	below := faultkv.New(memkv.New())
	var mu sync.Mutex
	var lines []line
	down := false
	var serving sync.WaitGroup
	e, err := remotekv.Open(t.Context(), func(context.Context) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if down {
			return nil, errors.New("nothing listens")
		}
		near, far := net.Pipe()
		lines = append(lines, line{near, far.Close})
		serving.Go(func() { remotekv.Serve(context.WithoutCancel(t.Context()), far, below, nil) })
		return near, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cut := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range lines {
			l.cut()
		}
		serving.Wait()
	}
	set := &kv.Commit{Ops: []kv.Op{kv.Set([]byte("a"), []byte("1"))}}
	if err := e.Commit(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	cut()
	if v, err := e.Get(t.Context(), []byte("a"), nil); err != nil || string(v) != "1" {
		t.Errorf("after a connection was closed: %q, %v", v, err)
	}
	s, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cut()
	if _, err := s.Get(t.Context(), []byte("a"), nil); err == nil || errors.Is(err, kv.ErrNotFound) {
		t.Errorf("a snapshot that is gone: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("its Close: %v", err)
	}
	// The commit is applied, and its answer is lost.
	below.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.AfterCommit {
			mu.Lock()
			defer mu.Unlock()
			lines[len(lines)-1].cut()
		}
		return nil
	})
	if err := e.Commit(t.Context(), set); !errors.Is(err, kv.ErrUnknownOutcome) {
		t.Errorf("a commit whose answer is lost: %v", err)
	}
	below.Hook(nil)
	serving.Wait()
	down = true
	if err := e.Commit(t.Context(), set); errors.Is(err, kv.ErrUnknownOutcome) || !errors.Is(err, kv.ErrNotApplied) {
		t.Errorf("a commit that nothing listens to: %v", err)
	}
	if err := errors.Join(e.Close(), below.Close()); err != nil { // with snapshots open it would complain
		t.Error(err)
	}
	if err := e.Commit(t.Context(), set); !errors.Is(err, kv.ErrClosed) || !errors.Is(err, kv.ErrNotApplied) {
		t.Errorf("a commit after Close: %v", err)
	}
}
