package host

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/metrics"
)

// storedUsage returns what the store says that the actor has used.
func (r *rig) storedUsage() (u actorstore.Usage) {
	r.Helper()
	for info, err := range r.Store().Actors(r.ctx, nil) {
		must(r, err)
		u = info.Usage
	}
	return u
}

// commits returns how many commits fn makes.
func (r *rig) commits(fn func()) int64 {
	r.engine.Reset()
	fn()
	return r.engine.Counts().Commits
}

// usingThing is a type whose actions write rows, read them all, and fail.
func usingThing() *Type {
	write := NewAction("write", func(c *Context, rows int) (int, error) {
		tx, err := c.SQL()
		if err != nil {
			return 0, err
		}
		for range rows {
			if _, err := tx.ExecContext(c, "INSERT INTO t VALUES (randomblob(100))"); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	read := NewAction("read", func(c *Context, _ int) (n int, err error) {
		tx, err := c.SQL()
		if err == nil {
			err = tx.QueryRowContext(c, "SELECT count(*) FROM t WHERE length(a) = 100").Scan(&n)
		}
		return n, err
	})
	fail := NewAction("fail", func(_ *Context, what string) (int, error) {
		if what == "" {
			panic("at once")
		}
		return 0, &Error{Code: what, Message: what}
	})
	kind := thing(write, read, fail)
	kind.Create = func(c *Context) error {
		tx, err := c.SQL()
		if err == nil {
			_, err = tx.ExecContext(c, "CREATE TABLE t(a)")
		}
		return err
	}
	return kind
}

// TestUsage: what an actor uses is stored in the commit by which it falls asleep, and in none of its own.
func TestUsage(t *testing.T) {
	bubble(t, Options{IdleTimeout: 10 * time.Second}, func(r *rig) {
		r.call(lobby, "write", 10)
		r.call(lobby, "read", 0)
		for _, code := range []string{"out", "out", ""} {
			if _, err := invoke[int](r.ctx, r.Host, lobby, "fail", code); err == nil {
				t.Error("it doesn't fail")
			}
		}
		if u := r.storedUsage(); !u.IsZero() {
			t.Errorf("stored while it is awake: %+v", u)
		}
		live := r.Usage()
		if len(live) != 1 || live[0].Name != lobby.String() || live[0].Turns != 6 || live[0].Failed() != 3 || live[0].Written < 1000 {
			t.Errorf("awake are %+v", live)
		}
		if n := r.commits(func() { pass(11 * time.Second) }); n != 1 {
			t.Errorf("it fell asleep with %d commits", n)
		}
		u := r.storedUsage()
		var failures []string
		for _, f := range u.Failures {
			failures = append(failures, fmt.Sprintf("%s %s %d", f.Code, f.Place, f.Count))
		}
		slices.Sort(failures)
		if want := []string{"actor_failed actor.action.fail 1", "out actor.action.fail 2"}; !slices.Equal(failures, want) {
			t.Errorf("failures %q, want %q", failures, want)
		}
		if u.Turns != 6 || u.Rows != 10 || u.Written < live[0].Written || u.Awake < 10*time.Second || u.Awake > 15*time.Second {
			t.Errorf("stored when it sleeps: %+v", u)
		}
		if live := r.Usage(); len(live) != 0 {
			t.Errorf("asleep, and %+v", live)
		}
	}, usingThing())
}

// TestUsageAwake: of an actor that stays awake for long, turns that write store what it uses, and not each; what calls use that only read, for a
// moment, is told to the metrics alone, which hear of everything.
func TestUsageAwake(t *testing.T) {
	y := &tally{n: map[*metrics.Metric]int64{}}
	bubble(t, Options{IdleTimeout: 10 * time.Second, Metrics: y}, func(r *rig) {
		r.call(lobby, "write", 10)
		pass(11 * time.Second)
		before := r.storedUsage()
		r.call(lobby, "read", 0)
		pass(11 * time.Second)
		if again := r.storedUsage(); before.Turns != 2 || again.Turns != before.Turns || again.Rows != before.Rows {
			t.Errorf("after a call that only read: %+v, before %+v", again, before)
		}
		for i := range 45 {
			if n := r.commits(func() { r.call(lobby, "read", 0) }); i > 0 && n != 0 { // the first takes the actor over
				t.Errorf("turn %d of those that only read makes %d commits", i, n)
			}
			pass(9 * time.Second)
		}
		for i := range 101 {
			if n := r.commits(func() { r.call(lobby, "write", 1) }); n != 1 {
				t.Errorf("a turn that writes makes %d commits", n)
			}
			if n := r.commits(func() { r.call(lobby, "read", 0) }); n != 0 {
				t.Errorf("turn %d, which reads, makes %d commits", i, n)
			}
			pass(9 * time.Second)
		}
		if u := r.storedUsage(); u.Turns < 47+2*60 || u.Turns > 47+2*101 || u.Awake < 10*time.Minute || u.Rows < 1000 {
			t.Errorf("awake for long: %+v", u)
		}
		pass(11 * time.Second)
		u, of := r.storedUsage(), usingThing().metrics()
		y.mu.Lock()
		defer y.mu.Unlock()
		var turns, failed int64
		for _, m := range slices.Concat(slices.Collect(maps.Values(of.actions)), slices.Collect(maps.Values(of.turns))) {
			turns, failed = turns+y.n[m.time], failed+y.n[m.failed]
		}
		if u.Turns != 47+202 || turns != u.Turns+1 || failed != 0 {
			t.Errorf("stored are %d turns, told %d, and %d that failed", u.Turns, turns, failed)
		}
		if more := y.n[of.rows] - u.Rows; more != 10 {
			t.Errorf("%d rows were told and not stored", more)
		}
		if awake := time.Duration(y.n[of.awake]); awake < u.Awake || awake > u.Awake+15*time.Second || y.n[of.written] < u.Written {
			t.Errorf("told are %s and %d bytes, stored %s and %d", awake, y.n[of.written], u.Awake, u.Written)
		}
	}, usingThing())
}
