package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
)

var errRefused = errors.New("refused")

// everything writes to all that a Context has, and fails if it is told to.
var everything = NewAction("everything", func(c *Context, fail bool) (int, error) {
	tx, err := c.SQL()
	if err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(c, "create table if not exists t(x); insert into t values(1)"); err != nil {
		return 0, err
	}
	if err := c.Put([]byte("key"), []byte("value")); err != nil {
		return 0, err
	}
	if _, err := c.Enqueue(queue.Send{Name: "m"}); err != nil {
		return 0, err
	}
	if _, err := c.After(time.Hour, "later"); err != nil {
		return 0, err
	}
	for _, n := range c.Connections() {
		if err := errors.Join(n.SetState("changed"), n.Subscribe("news")); err != nil {
			return 0, err
		}
	}
	if err := greenroom.SetState(c, 7); err != nil {
		return 0, err
	}
	if err := c.Broadcast("told", 1); err != nil {
		return 0, err
	}
	if fail {
		return 0, errRefused
	}
	return 1, nil
})

// A landed is what a turn finds of everything.
type landed struct {
	Rows, Keys, Messages, Events, State, Conns int
}

var look = NewAction("look", func(c *Context, _ struct{}) (l landed, err error) {
	tx, err := c.SQL()
	if err != nil {
		return l, err
	}
	err = tx.QueryRowContext(c, "select count(*) from sqlite_schema").Scan(&l.Rows)
	if err != nil {
		return l, err
	}
	if l.Rows > 0 {
		if err := tx.QueryRowContext(c, "select count(*) from t").Scan(&l.Rows); err != nil {
			return l, err
		}
	}
	for _, err := range c.List(actorstore.ListOptions{}) {
		if err != nil {
			return l, err
		}
		l.Keys++
	}
	l.Messages = c.life.queue.Len()
	events, err := c.Events()
	if err != nil {
		return l, err
	}
	l.Events = len(events)
	if l.State, err = greenroom.State[int](c); err != nil {
		return l, err
	}
	for _, n := range c.Connections() {
		var s string
		if err := n.State(&s); err != nil {
			return l, err
		}
		if s == "changed" {
			l.Conns++
		}
	}
	return l, nil
})

func (r *rig) look() landed {
	r.Helper()
	l, err := invoke[landed](r.ctx, r.Host, lobby, "look", nil)
	must(r, err)
	return l
}

func wholeThing() *Type {
	return thing(everything, look,
		NewCommand("later", func(*Context, struct{}) error { return nil }))
}

// join connects a client that has subscribed to "told".
func (r *rig) join() (*sink, Joined) {
	r.Helper()
	s := &sink{}
	j, err := r.Join(r.ctx, &Join{Actor: lobby, Transport: s, Hibernate: true})
	must(r, err)
	must(r, r.Subscribe(r.ctx, lobby, j.ID, "told", true))
	return s, j
}

func TestTurnIsATransaction(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		s, _ := r.join()
		_, err := invoke[int](r.ctx, r.Host, lobby, "everything", true)
		wantErr(t, err, errRefused)
		if got := r.look(); got != (landed{}) {
			t.Errorf("a turn that failed has left %+v", got)
		}
		if got := s.names(); len(got) != 0 {
			t.Errorf("a turn that failed has sent %v", got)
		}
		r.engine.Reset()
		r.call(lobby, "everything", false)
		if n := r.engine.Counts().Commits; n != 1 {
			t.Errorf("the turn took %d commits, want 1", n)
		}
		want := landed{1, 1, 1, 1, 7, 1}
		if got := r.look(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := s.names(); !slices.Equal(got, []string{"told"}) {
			t.Errorf("sent %v", got)
		}
		r.reopen()
		if got := r.look(); got != want {
			t.Errorf("after a restart: got %+v, want %+v", got, want)
		}
	}, wholeThing())
}

// TestFailedCommit fails each engine operation of a turn, one after the other, and
// looks whether all of the turn has landed, or nothing.
func TestFailedCommit(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply, faultkv.AfterCommit, faultkv.BeforeSync, faultkv.BeforeGet, faultkv.BeforeScan} {
		for skip := 0; ; skip++ {
			var hit bool
			bubble(t, Options{}, func(r *rig) { hit = failedCommit(r, point, skip) }, wholeThing())
			if !hit {
				break
			}
		}
	}
}

func failedCommit(r *rig, point faultkv.Point, skip int) bool {
	s, _ := r.join()
	fault := r.engine.Fail(faultkv.Rule{Point: point, Skip: skip})
	_, err := invoke[int](r.ctx, r.Host, lobby, "everything", false)
	fault.Remove()
	hit := fault.Hits() > 0
	if !hit && err != nil {
		r.Fatal(err)
	}
	sent := len(s.names())
	got, want := r.look(), landed{}
	switch {
	case err == nil:
		want = landed{1, 1, 1, 1, 7, 1}
	case errors.Is(err, ErrUnknownOutcome) && got != (landed{}):
		want = landed{1, 1, 1, 1, 7, 1}
	}
	if got != want {
		r.Errorf("fault %d at %v: error %v, and landed %+v", skip, point, err, got)
	}
	if (err == nil) != (sent == 1) {
		r.Errorf("fault %d at %v: error %v, and %d events were sent", skip, point, err, sent)
	}
	return hit
}

func TestPanic(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		_, err := invoke[int](r.ctx, r.Host, lobby, "panic", nil)
		wantErr(t, err, ErrPanic)
		if code := Code(err); code != "actor_failed" {
			t.Errorf("code %q", code)
		}
		if got := r.call(lobby, "add", 1); got != 1 {
			t.Errorf("the state is %d after a panic and an addition", got)
		}
	}, thing(add, NewAction("panic", func(c *Context, _ struct{}) (int, error) {
		if err := greenroom.SetState(c, 100); err != nil {
			return 0, err
		}
		if _, err := c.SQL(); err != nil {
			return 0, err
		}
		panic("no")
	})))
}

func TestTurnTimeout(t *testing.T) {
	bubble(t, Options{TurnTimeout: time.Second}, func(r *rig) {
		_, err := invoke[int](r.ctx, r.Host, lobby, "wait", nil)
		wantErr(t, err, context.DeadlineExceeded)
		if got := r.call(lobby, "add", 1); got != 1 {
			t.Errorf("the state is %d", got)
		}
	}, thing(add, NewAction("wait", func(c *Context, _ struct{}) (int, error) {
		if err := greenroom.SetState(c, 100); err != nil {
			return 0, err
		}
		<-c.Done()
		return 1, nil // it doesn't care, and lands nothing all the same
	})))
}

// TestCallerLeaves: callers leave before and during their turns.
func TestCallerLeaves(t *testing.T) {
	begun, release := make(chan bool, 1), make(chan bool)
	synctest.Test(t, func(t *testing.T) {
		begun, release = make(chan bool, 1), make(chan bool)
		r := newRig(t, Options{}, thing(add, NewAction("wait", func(c *Context, n int) (int, error) {
			begun <- true
			<-release
			return n, greenroom.SetState(c, n)
		})))
		ctx, cancel := context.WithCancel(r.ctx)
		first := make(chan error)
		go func() {
			_, err := invoke[int](ctx, r.Host, lobby, "wait", 5)
			first <- err
		}()
		<-begun
		second := make(chan error)
		go func() {
			_, err := invoke[int](ctx, r.Host, lobby, "add", 100)
			second <- err
		}()
		synctest.Wait()
		cancel()
		wantErr(t, <-first, ErrUnknownOutcome)
		if err := <-second; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("a turn that had not begun: %v", err)
		}
		close(release)
		if got := r.call(lobby, "add", 1); got != 6 {
			t.Errorf("the state is %d, want the 5 of the turn that went on, and 1", got)
		}
		r.close()
	})
}

func TestOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		r := newRig(t, Options{Mailbox: 2}, thing(NewAction("wait", func(*Context, struct{}) (int, error) {
			<-release
			return 0, nil
		})))
		errs := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := invoke[int](r.ctx, r.Host, lobby, "wait", nil)
				errs <- err
			}()
		}
		synctest.Wait()
		close(release)
		refused := 0
		for range 10 {
			if err := <-errs; errors.Is(err, ErrOverloaded) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused == 0 || refused > 8 {
			t.Errorf("%d calls of 10 were refused, with room for 2 beside the one that runs", refused)
		}
		r.close()
	})
}

// TestContextAfterTurn uses a Context that was kept.
func TestContextAfterTurn(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		var kept *Context
		must(r, r.Do0(func(c *Context) error { kept = c; return nil }))
		_, err := kept.SQL()
		wantErr(t, err, greenroom.ErrClosed)
		wantErr(t, kept.Put(nil, nil), greenroom.ErrClosed)
		wantErr(t, greenroom.SetState(kept, 1), greenroom.ErrClosed)
		wantErr(t, kept.Broadcast("x", nil), greenroom.ErrClosed)
		_, err = kept.Schedule(persist.Job{})
		wantErr(t, err, greenroom.ErrClosed)
		_, err = kept.Enqueue(queue.Send{})
		wantErr(t, err, greenroom.ErrClosed)
	}, thing())
}

// Do0 runs a function in a turn of the lobby.
func (r *rig) Do0(fn func(c *Context) error) error {
	return r.turn(r.ctx, lobby, &birth{}, newTurn("test", fn))
}
