package optimistic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

var ctx = context.Background()

// A fakeStore is a map. What Apply does a test can decide.
type fakeStore struct {
	sync.Mutex
	rows     map[string]string
	version  uint64
	applied  [][]kv.Op
	hold     func() // called by Apply, with the lock held
	fail     error
	waitErr  error
	outcomes map[kv.CommitID]kv.Outcome
}

func newFake() (*fakeStore, *Core) {
	s := &fakeStore{rows: map[string]string{}, outcomes: map[kv.CommitID]kv.Outcome{}}
	return s, New(s)
}

func (s *fakeStore) Enter(ctx context.Context) error { return ctx.Err() }
func (s *fakeStore) Leave()                          {}
func (s *fakeStore) Version() uint64                 { return s.version }
func (s *fakeStore) Record(id kv.CommitID, o kv.Outcome) {
	s.outcomes[id] = o
}

func (s *fakeStore) Pin(context.Context) (kv.Snapshot, error) { return &fakeSnapshot{}, nil }
func (s *fakeStore) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	return s.Pin(ctx)
}

func (s *fakeStore) Read(key, dst []byte) ([]byte, error) {
	v, ok := s.rows[string(key)]
	if !ok {
		return dst, kv.ErrNotFound
	}
	return append(dst, v...), nil
}

func (s *fakeStore) Valid(ops []kv.Op) error {
	for _, o := range ops {
		if len(o.Key) == 0 {
			return kv.ErrInvalid
		}
	}
	return nil
}

func (s *fakeStore) Apply(ops []kv.Op, version uint64) (func() error, error) {
	if s.hold != nil {
		s.hold()
	}
	if s.fail != nil {
		return nil, s.fail
	}
	for _, o := range ops {
		switch o.Kind {
		case kv.OpSet:
			s.rows[string(o.Key)] = string(o.Value)
		case kv.OpClear:
			delete(s.rows, string(o.Key))
		}
	}
	s.version = version
	s.applied = append(s.applied, append([]kv.Op(nil), ops...))
	return func() error { return s.waitErr }, nil
}

// A fakeSnapshot has nothing.
type fakeSnapshot struct{ kv.Snapshot }

func (*fakeSnapshot) Get(_ context.Context, _, dst []byte) ([]byte, error) {
	return dst, kv.ErrNotFound
}
func (*fakeSnapshot) Close() error { return nil }

// attempt returns one that has read key, or, for "", nothing.
func (c *Core) test(t *testing.T, key string, maxAge time.Duration, now func() time.Time) txn.Attempt {
	t.Helper()
	if now == nil {
		now = time.Now
	}
	a, err := c.Attempt(ctx, txn.AttemptOptions{MaxAge: maxAge, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		if _, err := a.Get(ctx, []byte(key), nil); !errors.Is(err, kv.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return a
}

func span(key string) []txn.Span { return []txn.Span{{Start: []byte(key), End: []byte(key + "\x00")}} }

// TestGroupWithInvalid: an invalid commit fails alone, and leaves nothing that others
// could conflict with.
func TestGroupWithInvalid(t *testing.T) {
	s, c := newFake()
	set := func(key string) []txn.Op { return []txn.Op{{Key: []byte(key), Value: []byte("1")}} }
	reader := c.test(t, "b", 0, nil)
	var group []*request
	for i, ops := range [][]txn.Op{set("a"), append(set("b"), set("")...), set("c")} {
		group = append(group, &request{attempt: &attempt{core: c}, commit: &txn.Commit{ID: kv.CommitID{byte(i + 1)}, Ops: ops}})
	}
	if err := c.commit(group)(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, kv.ErrInvalid, nil} {
		if r := group[i]; !errors.Is(r.err, want) || (r.stamp == txn.Stamp{}) != (want != nil) {
			t.Errorf("commit %d: stamp %x, %v, want %v", i, r.stamp, r.err, want)
		}
	}
	if len(s.applied) != 1 || len(s.applied[0]) != 2 || s.outcomes[kv.CommitID{2}] != kv.OutcomeNotApplied {
		t.Errorf("applied %v, outcomes %v", s.applied, s.outcomes)
	}
	if _, err := reader.Commit(ctx, &txn.Commit{ID: kv.CommitID{9}, Reads: span("b"), Ops: set("d")}); err != nil {
		t.Errorf("what was not written conflicts: %v", err)
	}
}

// TestGroup: commits that come while another is being applied are one commit of the
// engine, in which each sees what those before it did.
func TestGroup(t *testing.T) { synctest.Test(t, testGroup) }

func testGroup(t *testing.T) {
	s, c := newFake()
	const n = 20
	applying, release := make(chan struct{}), make(chan struct{})
	s.hold = sync.OnceFunc(func() { close(applying); <-release })
	var wg sync.WaitGroup
	commit := func(a txn.Attempt, id byte, tc txn.Commit) (txn.Stamp, error) {
		tc.ID = kv.CommitID{id}
		stamp, err := a.Commit(ctx, &tc)
		return stamp, errors.Join(err, a.Close())
	}
	add := func(key string) []txn.Op {
		return []txn.Op{{Kind: txn.OpAtomic, Mutation: txn.MutationAdd, Key: []byte(key), Value: []byte{1}}}
	}
	first := c.test(t, "", 0, nil)
	wg.Go(func() {
		if _, err := commit(first, 1, txn.Commit{Ops: add("n")}); err != nil {
			t.Error(err)
		}
	})
	<-applying
	// Two that have read what the other writes: one of them must fail, in one group.
	// The lock is held by the first, so these can't pin; they read nothing but declare.
	stamps := make(chan txn.Stamp, n)
	for i := range n {
		wg.Go(func() {
			stamp, err := commit(&attempt{core: c}, byte(i+2), txn.Commit{Ops: add("n")})
			if err != nil {
				t.Error(err)
			}
			stamps <- stamp
		})
	}
	synctest.Wait()
	close(release)
	wg.Wait()
	if len(s.applied) != 2 || len(s.applied[1]) != n {
		t.Fatalf("%d commits of the engine, the second of %d operations", len(s.applied), len(s.applied[len(s.applied)-1]))
	}
	if s.rows["n"] != string([]byte{n + 1}) {
		t.Errorf("%d additions made %q", n+1, s.rows["n"])
	}
	seen := map[txn.Stamp]bool{}
	for range n {
		stamp := <-stamps
		if seen[stamp] || stamp[7] != 2 {
			t.Errorf("stamp %x", stamp)
		}
		seen[stamp] = true
	}
	for i := range n + 1 {
		if o := s.outcomes[kv.CommitID{byte(i + 1)}]; o != kv.OutcomeApplied {
			t.Errorf("outcome of commit %d: %v", i+1, o)
		}
	}
}

// TestGroupConflicts: of two in one group, the second fails if it has read what the
// first writes.
func TestGroupConflicts(t *testing.T) {
	for _, second := range []string{"a", "b"} {
		s, c := newFake()
		ops := func(key string) []txn.Op { return []txn.Op{{Kind: kv.OpSet, Key: []byte(key)}} }
		x, y := c.test(t, "r", 0, nil).(*attempt), c.test(t, "r", 0, nil).(*attempt)
		rx := &request{attempt: x, commit: &txn.Commit{ID: kv.CommitID{1}, Reads: span("r"), Ops: ops("a")}}
		ry := &request{attempt: y, commit: &txn.Commit{ID: kv.CommitID{2}, Reads: span(second), Ops: ops("y")}}
		if err := c.commit([]*request{rx, ry})(); err != nil || rx.err != nil {
			t.Fatal(err, rx.err)
		}
		want, outcome := second == "a", kv.OutcomeApplied
		if want {
			outcome = kv.OutcomeNotApplied
		}
		if errors.Is(ry.err, kv.ErrConflict) != want || s.outcomes[kv.CommitID{2}] != outcome {
			t.Errorf("having read %s: %v, %v", second, ry.err, s.outcomes[kv.CommitID{2}])
		}
		if _, ok := s.rows["y"]; ok == want || s.rows["a"] != "" {
			t.Errorf("having read %s: the store has %q", second, s.rows)
		}
		if c.Busy() {
			t.Error("busy with nothing")
		}
	}
}

// TestFailures: an error of the engine reaches every member of the group, and an
// operation that makes no sense harms no other commit.
func TestFailures(t *testing.T) {
	broken := errors.New("broken")
	for _, durable := range []bool{false, true} {
		s, c := newFake()
		if durable {
			s.waitErr = broken
		} else {
			s.fail = broken
		}
		var rs []*request
		for i := range 3 {
			rs = append(rs, &request{attempt: &attempt{core: c}, commit: &txn.Commit{
				ID: kv.CommitID{byte(i + 1)}, Ops: []txn.Op{{Kind: kv.OpSet, Key: []byte("k")}}}})
		}
		err := c.commit(rs)()
		for i, r := range rs {
			if durable && (!errors.Is(err, broken) || s.outcomes[r.commit.ID] != kv.OutcomeApplied) ||
				!durable && (!errors.Is(r.err, broken) || s.outcomes[r.commit.ID] != kv.OutcomeNotApplied) {
				t.Errorf("request %d: %v, %v, outcome %v", i, r.err, err, s.outcomes[r.commit.ID])
			}
		}
	}
	s, c := newFake()
	s.rows["n"] = "\x05"
	one := func(o txn.Op) *request {
		return &request{attempt: &attempt{core: c}, commit: &txn.Commit{Ops: []txn.Op{{Kind: kv.OpSet, Key: []byte("with"), Value: []byte("it")}, o}}}
	}
	add := txn.Op{Kind: txn.OpAtomic, Key: []byte("n"), Value: []byte{1}}
	good := []*request{one(add), one(add)}
	bad := []*request{
		one(txn.Op{Kind: txn.OpStampValue + 1}), one(txn.Op{Kind: txn.OpAtomic, Mutation: 99}),
		one(txn.Op{Kind: txn.OpStampKey, Key: make([]byte, 10), Offset: 1}),
		one(txn.Op{Kind: txn.OpStampValue, Value: make([]byte, 10), Offset: -1}),
	}
	if err := c.commit([]*request{good[0], bad[0], bad[1], bad[2], bad[3], good[1]})(); err != nil {
		t.Fatal(err)
	}
	for i, r := range bad {
		if !errors.Is(r.err, kv.ErrInvalid) || r.stamp != (txn.Stamp{}) {
			t.Errorf("bad request %d: %v", i, r.err)
		}
	}
	if good[0].err != nil || good[1].err != nil || s.rows["n"] != "\x07" {
		t.Errorf("the others: %v, %v, %q", good[0].err, good[1].err, s.rows)
	}
}

// TestWindow: an attempt that is too old is dropped, with the history kept for it,
// even if its caller never ends it.
func TestWindow(t *testing.T) {
	s, c := newFake()
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	old := c.test(t, "r", 5*time.Second, clock)
	plain := func(i int) {
		s.Lock()
		defer s.Unlock()
		if s.version++; c.Busy() {
			c.Applied([]kv.Op{kv.Set(fmt.Appendf(nil, "%d", i), nil)}, s.version)
		}
	}
	for i := range 100 {
		plain(i)
	}
	if c.history.size < 100 || !c.Busy() {
		t.Fatalf("%d boundaries of 100 writes", c.history.size)
	}
	now = now.Add(5*time.Second + 1)
	plain(100)
	if c.history.size != 0 || c.Busy() || len(c.pinned) != 0 {
		t.Errorf("%d boundaries, %d attempts after the window", c.history.size, len(c.pinned))
	}
	tc := &txn.Commit{Reads: span("r"), Ops: []txn.Op{{Kind: kv.OpSet, Key: []byte("k")}}}
	if _, err := old.Commit(ctx, tc); !errors.Is(err, txn.ErrTooOld) {
		t.Errorf("Commit after the window: %v", err)
	}
	// What it has written blindly needs no history.
	blind := c.test(t, "r", 5*time.Second, clock)
	now = now.Add(time.Hour)
	tc.Reads = nil
	if _, err := blind.Commit(ctx, tc); err != nil {
		t.Errorf("blind commit after the window: %v", err)
	}
	if err := errors.Join(old.Close(), old.Close(), blind.Close()); err != nil {
		t.Error(err)
	}
	if _, err := old.Get(ctx, []byte("r"), nil); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Get of a closed attempt: %v", err)
	}
}

// TestReadOnly: attempts that only read are no reason to keep anything.
func TestReadOnly(t *testing.T) {
	s, c := newFake()
	a, err := c.Attempt(ctx, txn.AttemptOptions{ReadOnly: true, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Get(ctx, []byte("r"), nil); !errors.Is(err, kv.ErrNotFound) {
		t.Fatal(err)
	}
	s.Lock()
	if c.Busy() {
		t.Error("busy with a reader")
	}
	s.Unlock()
	if _, err := a.Commit(ctx, &txn.Commit{}); err != nil {
		t.Error(err)
	}
	_, err = a.Commit(ctx, &txn.Commit{Ops: []txn.Op{{Key: []byte("k")}}})
	if !errors.Is(err, txn.ErrReadOnly) {
		t.Errorf("Commit of changes: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestWatches: registering and stopping leave nothing behind.
func TestWatches(t *testing.T) {
	s, c := newFake()
	one, stopOne, _ := c.Watch([]byte("k"))
	two, stopTwo, _ := c.Watch([]byte("k"))
	other, stopOther, _ := c.Watch([]byte("l"))
	tell := func(op kv.Op) {
		s.Lock()
		defer s.Unlock()
		s.version++
		c.Applied([]kv.Op{op}, s.version)
	}
	got := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	for _, step := range []struct {
		op              kv.Op
		one, two, other bool
	}{
		{kv.Set([]byte("k"), nil), true, true, false},
		{kv.Clear([]byte("l")), false, false, true},
		{kv.ClearRange([]byte("a"), []byte("l")), true, true, false},
		{kv.ClearRange([]byte("k\x00"), []byte("z")), false, false, true},
		{kv.ClearRange([]byte("z"), []byte("a")), false, false, false},
	} {
		tell(step.op)
		tell(step.op) // merged
		if a, b, o := got(one), got(two), got(other); a != step.one || b != step.two || o != step.other {
			t.Errorf("%v: told %v, %v, %v", step, a, b, o)
		}
		if got(one) || got(other) {
			t.Error("told twice")
		}
	}
	stopOne()
	stopOne()
	tell(kv.Set([]byte("k"), nil))
	if got(one) || !got(two) {
		t.Error("the wrong one was stopped")
	}
	stopTwo()
	stopOther()
	if c.Busy() || c.watches.len() != 0 {
		t.Error("busy with watches that are over")
	}
}
