//go:build unix

package pgkv

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
)

// A crowd are commits that wait for one that is on its way, because another session has
// locked its row.
type crowd struct {
	t     *testing.T
	p     *pgtest.Proxy
	db    *DB
	other *conn
	first chan error
	done  []chan error
	trips int64
}

// newCrowd opens a store with one connection for commits, in which each of a, b, c and d is
// "0", and begins the commit that the others are to wait for.
func newCrowd(t *testing.T, opts Options) *crowd {
	t.Helper()
	url := newURL(t)
	p, through := pgtest.NewProxy(t, url)
	opts.Calls = 1
	c := &crowd{t: t, p: p, db: openAt(t, through, &opts), first: make(chan error, 1)}
	for _, key := range []string{"first", "a", "b", "c", "d"} {
		if err := c.db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set(key, "0")}}); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if c.other, err = openAt(t, url, nil).dial(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.other.close)
	c.lock("first")
	go func() {
		c.first <- c.db.Commit(ctx, &kv.Commit{ID: kv.CommitID{0xff}, Ops: []kv.Op{set("first", "1")}})
	}()
	c.blocked()
	return c
}

// lock has the other session lock a row, unlock all that it has locked.
func (c *crowd) lock(key string) {
	c.t.Helper()
	if err := c.other.simple(ctx, `begin; select from `+quote(c.db.target.schema)+`.kv where key = '`+key+`' for update`); err != nil {
		c.t.Fatal(err)
	}
}

func (c *crowd) unlock() {
	c.t.Helper()
	if err := c.other.simple(ctx, `rollback`); err != nil {
		c.t.Fatal(err)
	}
}

// blocked waits until a transaction waits for the other session.
func (c *crowd) blocked() {
	c.t.Helper()
	for n := ""; n != "t"; {
		var err error
		n, _, err = c.other.one(ctx, `select exists (select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid)))`)
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// A waiting context says when it is first waited for.
type waiting struct {
	context.Context
	begins func()
}

func (w waiting) Done() <-chan struct{} {
	w.begins()
	return w.Context.Done()
}

// add begins a commit, and returns when it waits.
func (c *crowd) add(ctx context.Context, commit *kv.Commit) {
	done, waits := make(chan error, 1), make(chan struct{})
	c.done = append(c.done, done)
	commit.ID = kv.CommitID{byte(len(c.done))}
	go func() { done <- c.db.Commit(waiting{ctx, sync.OnceFunc(func() { close(waits) })}, commit) }()
	<-waits
}

// move begins a commit that sets key from one value to another.
func (c *crowd) move(ctx context.Context, key, from, to string) {
	c.add(ctx, &kv.Commit{Checks: []kv.Check{is(key, from)}, Ops: []kv.Op{set(key, to)}})
}

// let lets the first commit land, and the others begin.
func (c *crowd) let() {
	c.t.Helper()
	c.trips = c.db.RoundTrips()
	c.unlock()
	if err := <-c.first; err != nil {
		c.t.Fatal(err)
	}
}

// want waits for the commits, compares their errors with errs, and what is stored with values.
func (c *crowd) want(errs []error, values map[string]string) {
	c.t.Helper()
	for i, done := range c.done {
		if err := <-done; !errors.Is(err, errs[i]) {
			c.t.Errorf("commit %d: got %v, want %v", i+1, err, errs[i])
		}
	}
	for key, value := range values {
		wantGet(c.t, c.db, key, value)
	}
}

// TestShare holds that commits that wait share the next transaction, unless they have a key in
// common or don't wait for the same.
func TestShare(t *testing.T) {
	c := newCrowd(t, Options{})
	c.move(ctx, "a", "0", "1")
	c.move(ctx, "b", "0", "1")
	c.move(ctx, "a", "1", "2")
	c.add(ctx, &kv.Commit{Checks: []kv.Check{is("c", "0"), {Key: []byte("new"), Absent: true}}, Ops: []kv.Op{kv.Clear([]byte("c")), set("new", "1")}})
	c.add(ctx, &kv.Commit{Ops: []kv.Op{set("d", "1")}, Durability: kv.Applied})
	c.let()
	c.want(make([]error, 5), map[string]string{"a": "2", "b": "1", "new": "1", "d": "1"})
	if trips := c.db.RoundTrips() - c.trips; trips != 3+4 { // and those of the reads
		t.Errorf("five commits took %d round trips, want 3", trips-4)
	}
	if _, err := c.db.Get(ctx, []byte("c"), nil); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("Get: got %v, want %v", err, kv.ErrNotFound)
	}
	for i := range c.done {
		if o, err := c.db.Outcome(ctx, kv.CommitID{byte(i + 1)}); o != kv.OutcomeApplied || err != nil {
			t.Errorf("Outcome of commit %d: %v, %v", i+1, o, err)
		}
	}
}

// TestShareRefused holds that a commit that is refused takes no other one with it.
func TestShareRefused(t *testing.T) {
	c := newCrowd(t, Options{})
	c.move(ctx, "a", "0", "1")
	c.move(ctx, "b", "other", "1")
	c.add(ctx, &kv.Commit{In: c.db.Incarnation() + 1, Ops: []kv.Op{set("c", "1")}})
	c.move(ctx, "d", "0", "1")
	c.let()
	c.want([]error{nil, kv.ErrConflict, kv.ErrIncarnation, nil}, map[string]string{"a": "1", "b": "0", "c": "0", "d": "1"})
}

// TestShareGivenUp holds that a commit whose context ends takes no other one with it, while it
// waits and on its way.
func TestShareGivenUp(t *testing.T) {
	c := newCrowd(t, Options{})
	early, giveUp := context.WithCancel(ctx)
	c.move(early, "a", "0", "1")
	giveUp()
	if err := <-c.done[0]; !errors.Is(err, context.Canceled) || !errors.Is(err, kv.ErrNotApplied) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	c.done = nil
	late, giveUp := context.WithCancel(ctx)
	c.move(ctx, "b", "0", "1")
	c.move(late, "c", "0", "1")
	c.move(ctx, "d", "0", "1")
	c.p.Set(pgtest.Hold, pgtest.Pass) // until the row is locked
	c.let()
	c.lock("c")
	c.p.Resume()
	c.blocked()
	giveUp()
	c.want([]error{nil, context.Canceled, nil}, map[string]string{"a": "0", "b": "1", "c": "0", "d": "1"})
	c.unlock()
}

// loseAnswer lets a request that is held through, and loses the answer to it.
func (c *crowd) loseAnswer() {
	c.lock("b")
	c.p.Resume()
	c.blocked()
	c.p.Set(pgtest.Pass, pgtest.Hold)
	c.unlock()
	for value := ""; value != `\x31`; {
		var err error
		value, _, err = c.other.one(ctx, `select value from `+quote(c.db.target.schema)+`.kv where key = 'b'`)
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestShareInDoubt holds that each commit of a transaction without an answer learns what became
// of it, when it has reached the server and when it comes there too late.
func TestShareInDoubt(t *testing.T) {
	for name, f := range map[string]struct {
		lose    func(c *crowd) // begins when the request is on its way
		outcome kv.Outcome
		value   string
	}{
		"applied": {(*crowd).loseAnswer, kv.OutcomeApplied, "1"},
		"late":    {func(*crowd) {}, kv.OutcomeNotApplied, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, Options{RetryFor: -1})
			c.move(ctx, "a", "0", "1")
			c.move(ctx, "b", "0", "1")
			c.p.Set(pgtest.Hold, pgtest.Pass)
			c.let()
			c.p.Await()
			f.lose(c)
			links := c.p.Cut(false)
			c.want([]error{kv.ErrUnknownOutcome, kv.ErrUnknownOutcome}, nil)
			c.p.Set(pgtest.Pass, pgtest.Pass)
			for range 2 { // the first one ends the doubt
				for _, i := range []int{1, 0} {
					if o, err := c.db.Outcome(ctx, kv.CommitID{byte(i + 1)}); o != f.outcome || err != nil {
						t.Errorf("Outcome of commit %d: %v, %v, want %v", i+1, o, err, f.outcome)
					}
				}
			}
			for _, k := range links {
				if err := k.LetGo(); err != nil {
					t.Fatal(err)
				}
			}
			c.done = nil
			c.want(nil, map[string]string{"a": f.value, "b": f.value})
		})
	}
}
