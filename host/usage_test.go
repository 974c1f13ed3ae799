package host

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/metrics"
)

// TestUsage: what an actor uses is stored in the commit by which it falls asleep, and in one of a turn when it stays awake for long, and
// never in one of its own.
func TestUsage(t *testing.T) {
	stored := func(r *rig) (u actorstore.Usage) {
		for info, err := range r.Store().Actors(r.ctx, nil) {
			must(r, err)
			u = info.Usage
		}
		return u
	}
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
	y := &tally{n: map[*metrics.Metric]int64{}}
	bubble(t, Options{IdleTimeout: 10 * time.Second, Metrics: y}, func(r *rig) {
		r.call(lobby, "write", 10)
		r.call(lobby, "read", 0)
		for _, code := range []string{"out", "out", ""} {
			_, err := invoke[int](r.ctx, r.Host, lobby, "fail", code)
			if err == nil {
				t.Error("it doesn't fail")
			}
		}
		if u := stored(r); !u.IsZero() {
			t.Errorf("stored while it is awake: %+v", u)
		}
		live := r.Usage()
		if len(live) != 1 || live[0].Name != lobby.String() || live[0].Turns != 6 || live[0].Failed() != 3 || live[0].Written < 1000 {
			t.Errorf("awake are %+v", live)
		}
		r.engine.Reset()
		pass(11 * time.Second)
		if n := r.engine.Counts().Commits; n != 1 {
			t.Errorf("it fell asleep with %d commits", n)
		}
		u := stored(r)
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
		// Calls that only read, for a moment, are told to the metrics alone.
		r.call(lobby, "read", 0)
		pass(11 * time.Second)
		if again := stored(r); again.Turns != 6 || again.Rows != 10 {
			t.Errorf("after a call that only read: %+v", again)
		}
		// It stays awake: only turns that write store something, and not each.
		r.call(lobby, "write", 1)
		for i := range 100 {
			r.engine.Reset()
			r.call(lobby, "write", 1)
			if n := r.engine.Counts().Commits; n != 1 {
				t.Errorf("a turn that writes makes %d commits", n)
			}
			r.engine.Reset()
			r.call(lobby, "read", 0)
			if n := r.engine.Counts().Commits; n != 0 {
				t.Errorf("turn %d, which reads, makes %d commits", i, n)
			}
			pass(9 * time.Second)
		}
		if u := stored(r); u.Turns < 6+2*60 || u.Turns > 6+2*100 || u.Awake < 10*time.Minute || u.Rows < 1000 {
			t.Errorf("awake for a quarter of an hour: %+v", u)
		}
		pass(11 * time.Second)
		u = stored(r)
		of := metricsOf("thing")
		y.mu.Lock()
		defer y.mu.Unlock()
		if u.Turns != 6+201 || y.n[of.turns] != u.Turns+1 || y.n[of.failed] != 3 {
			t.Errorf("stored are %d turns, told %d, and %d that failed", u.Turns, y.n[of.turns], y.n[of.failed])
		}
		if more := y.n[of.rows] - u.Rows; more != 10 {
			t.Errorf("%d rows were told and not stored", more)
		}
		if ms := u.Awake.Milliseconds(); y.n[of.awake] < ms || y.n[of.awake] > ms+15_000 || y.n[of.written] < u.Written {
			t.Errorf("told are %d ms and %d bytes, stored %d and %d", y.n[of.awake], y.n[of.written], ms, u.Written)
		}
	}, kind)
}

// TestUsageMark: from a newer mark to an older one an actor has used nothing.
func TestUsageMark(t *testing.T) {
	older, newer := mark{time.Unix(1, 0), 10, 20}, mark{time.Unix(2, 0), 11, 22}
	if u := older.since(&newer); !u.IsZero() {
		t.Errorf("got %+v", u)
	}
	if u := newer.since(&older); u.Awake != time.Second || u.Written != 1 || u.Rows != 2 {
		t.Errorf("got %+v", u)
	}
}
