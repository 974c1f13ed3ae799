package reads_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// An actor is Reads on an engine in memory, and the handle that they belong to.
type actor struct {
	testing.TB
	reads.Reads
	eng   *faultkv.Engine
	space rows.Space
	seq   atomic.Uint64
	phase atomic.Uint64
}

func open(t testing.TB, eng kv.Engine, cacheBytes int64) *actor {
	a := &actor{TB: t, eng: faultkv.New(eng)}
	var id layout.ID
	a.space = rows.Space{Source: a.eng, Prefix: layout.NewPrefix(id), Pool: rows.NewPool(func(key []byte) string { return string(key) })}
	a.Reads = reads.New(reads.Actor{ID: id, Rows: a.space, Engine: a.eng, Handle: a}, cache.New(cacheBytes))
	return a
}

func (a *actor) Seq() uint64                            { return a.seq.Load() }
func (a *actor) Phase() uint64                          { return a.phase.Load() }
func (a *actor) Usable() error                          { return nil }
func (a *actor) Err() error                             { return nil }
func (a *actor) Owned(context.Context, kv.Reader) error { return nil }
func (a *actor) StateOwned(context.Context) error       { return nil }
func (a *actor) Pin(ctx context.Context) (kv.Snapshot, uint64, error) {
	s, err := a.eng.Snapshot(ctx)
	return s, a.Seq(), err
}

// put commits values of one row.
func (a *actor) put(value byte, keys ...string) error {
	c := reads.Change{Seq: a.Seq() + 1, Publish: func() { a.seq.Add(1) }}
	var ops []kv.Op
	for _, k := range keys {
		v := make([]byte, 4096)
		v[0] = value
		old, err := a.space.Size(a.Context(), []byte(k))
		if err != nil {
			return err
		}
		c.Plan, c.Before = append(c.Plan, batch.Op{Kind: batch.Put, Key: []byte(k), Value: v}), append(c.Before, old)
		base := a.space.Prefix.AppendBase(nil, []byte(k))
		ops = append(ops, kv.Set(layout.AppendData(append([]byte{}, base...), 0), v),
			kv.Set(layout.AppendMetadata(append([]byte{}, base...)), layout.AppendMetadataValue(nil, layout.MetadataVersion, 0)))
	}
	c.To = len(c.Plan)
	if err := a.Depart(a.Context(), &c); err != nil {
		return err
	}
	a.phase.Add(1)
	defer a.phase.Add(1)
	if err := a.eng.Commit(a.Context(), &kv.Commit{Ops: ops, OnApply: func() { a.Land(&c) }}); err != nil {
		a.Abort(&c)
		return err
	}
	return nil
}

// is checks that a state, or the newest one if s is nil, has value under key.
func (a *actor) is(s *reads.State, key string, value byte) {
	a.Helper()
	read := a.Read
	if s != nil {
		read = s.Read
	}
	if v, err := read(a.Context(), []byte(key), nil, false); err != nil || v[0] != value {
		a.Errorf("%s is %d, %v, want %d", key, v[:min(1, len(v))], err, value)
	}
}

func (a *actor) pin(lists bool) *reads.State {
	a.Helper()
	s := new(reads.State)
	if err := a.Open(a.Context(), s, lists); err != nil {
		a.Fatal(err)
	}
	return s
}

// TestStates: a state stays what it was, on every kind of engine.
func TestStates(t *testing.T) {
	for what, a := range map[string]*actor{
		"plain": open(t, memkv.New(), -1), "near": open(t, memkv.New(), 1<<20),
		"far": open(t, engines.Far(memkv.New()), 1<<20), "far without a cache": open(t, engines.Far(memkv.New()), -1),
	} {
		t.Run(what, func(t *testing.T) {
			a.TB = t
			var states []*reads.State
			for i := range byte(10) {
				testkit.Must(t, a.put(i, "a", fmt.Sprint("b", i%2)))
				for range 3 { // it is kept then, where anything is
					a.is(nil, "a", i)
				}
				states = append(states, a.pin(i%3 == 0))
			}
			for range 3 {
				a.is(nil, "a", 9)
				for i, s := range states {
					a.is(s, "a", byte(i))
					a.is(s, fmt.Sprint("b", i%2), byte(i))
				}
			}
			a.Retire(nil)
			for i, s := range states {
				a.is(s, "a", byte(i))
				testkit.Must(t, errors.Join(s.Close(), s.Close()))
				if err := s.Err(); !errors.Is(err, reads.ErrClosed) {
					t.Errorf("a closed state: %v", err)
				}
			}
		})
	}
}

// TestFarHeld: what a far engine's readers hold for states is bounded, and given back.
func TestFarHeld(t *testing.T) {
	const bytes = 1 << 20
	a := open(t, engines.Far(memkv.New()), bytes)
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint(i))
	}
	testkit.Must(t, a.put(0, keys...))
	s, later := a.pin(false), a.pin(false)
	for i, k := range keys {
		testkit.Must(t, a.put(byte(i+1), k))
		if _, held := reads.Held(a.Reads); held > bytes/8 {
			t.Fatalf("%d bytes are held", held)
		}
	}
	if n := a.eng.Counts().Snapshots; n != 1 {
		t.Errorf("%d snapshots, want 1", n)
	}
	testkit.Must(t, s.Close())
	for _, k := range keys {
		a.is(later, k, 0)
	}
	testkit.Must(t, later.Close())
	if n, held := reads.Held(a.Reads); n != 0 || held != 0 {
		t.Errorf("%d undos and states are left, of %d bytes", n, held)
	}
}

// TestFarRefused: a commit that the engine refuses leaves nothing behind.
func TestFarRefused(t *testing.T) {
	a := open(t, engines.Far(memkv.New()), 1<<20)
	testkit.Must(t, a.put(1, "a"))
	s := a.pin(false)
	a.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	if err := a.put(2, "a"); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if n, held := reads.Held(a.Reads); n != 1 || held != 0 { // the state
		t.Errorf("%d undos and states are left, of %d bytes", n, held)
	}
	a.is(nil, "a", 1)
	a.is(s, "a", 1)
	testkit.Must(t, s.Close())
}

// TestLengths: a write needs no read of what an earlier one wrote, of so many keys.
func TestLengths(t *testing.T) {
	a := open(t, memkv.New(), -1)
	for i := range 2 * reads.MaxLengths {
		_, err := a.Size(t.Context(), fmt.Append(nil, i), i == 0)
		testkit.Must(t, err)
		testkit.Must(t, a.put(0, fmt.Sprint(i)))
		if n := reads.Lengths(a.Reads); n != min(i+1, reads.MaxLengths) {
			t.Fatalf("%d lengths are remembered after %d writes", n, i+1)
		}
	}
	a.eng.Reset()
	if n, err := a.Size(t.Context(), fmt.Append(nil, 2*reads.MaxLengths-1), false); n != 4096 || err != nil || a.eng.Counts().Gets > 0 {
		t.Errorf("the length of what was written last is %d, %v, after %d reads", n, err, a.eng.Counts().Gets)
	}
}

// TestNearLandedSince: an answer isn't kept if a commit has landed just before it would be.
func TestNearLandedSince(t *testing.T) {
	a := open(t, memkv.New(), 1<<20)
	testkit.Must(t, a.put(1, "a"))
	old := a.pin(false)
	for range 3 { // it is asked for from now on
		a.is(old, "a", 1)
	}
	a.Part().Remove([]byte("a"))
	unlock := reads.LockNear(a.Reads)
	read := make(chan error)
	go func() {
		_, err := old.Read(t.Context(), []byte("a"), nil, false)
		read <- err
	}()
	awaitLocked(t, "(*near).learn")
	a.seq.Add(1) // as Land does, with the lock
	unlock()
	testkit.Must(t, <-read)
	if e := a.Part().Peek([]byte("a")); e != nil {
		t.Errorf("an answer of state %d is kept in state %d", e.From, a.Seq())
	}
	testkit.Must(t, old.Close())
}

// awaitLocked waits until a goroutine that is in fn waits for a Mutex.
func awaitLocked(t *testing.T, fn string) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for end := time.Now().Add(testkit.Patience(time.Second)); time.Now().Before(end); runtime.Gosched() {
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if head, calls, _ := strings.Cut(g, "\n"); strings.Contains(head, "[sync.Mutex.Lock") && strings.Contains(calls, fn) {
				return
			}
		}
	}
	t.Fatalf("no goroutine in %s waits for a lock", fn)
}

// TestNearEntering: what a commit that isn't over enters may be a value that a later write
// of it replaces, and isn't to be seen yet.
func TestNearEntering(t *testing.T) {
	a := open(t, memkv.New(), 1<<20)
	testkit.Must(t, a.put(1, "a"))
	a.Part().Put(&cache.Entry{Key: "a", Value: []byte{7}, From: a.Seq() + 1, Kind: cache.Page}, false)
	a.is(nil, "a", 1)
	s := a.pin(false)
	a.is(s, "a", 1)
	testkit.Must(t, s.Close())
}

// TestNearClosedKeeps: what a handle had is gone when it is closed, although a snapshot goes on.
func TestNearClosedKeeps(t *testing.T) {
	a := open(t, memkv.New(), 1<<20)
	testkit.Must(t, a.put(1, "a"))
	for range 3 {
		a.is(nil, "a", 1)
	}
	if a.Part().Peek([]byte("a")) == nil {
		t.Error("what was read thrice isn't there")
	}
	s := a.pin(false)
	a.Retire(nil)
	if a.Part().Peek([]byte("a")) != nil {
		t.Error("the entries are kept")
	}
	testkit.Must(t, s.Close())
}
