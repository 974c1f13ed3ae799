package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// TestWakeRefused: actors fail to wake where only one may be awake: none takes the place of
// another, and each wakes when it can.
func TestWakeRefused(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	kind := thing(add)
	kind.Wake = func(c *Context) error {
		if c.Address().Key != "good" && broken.Load() {
			return errRefused
		}
		return nil
	}
	bubble(t, Options{MaxAwake: 1}, func(r *rig) {
		var wg sync.WaitGroup
		for _, key := range []string{"a", "b", "good", "a", "good", "b"} {
			wg.Go(func() {
				_, err := invoke[int](r.ctx, r.Host, Address{"thing", key}, "add", 1)
				if (key == "good") != (err == nil) || err != nil && !errors.Is(err, errRefused) {
					t.Errorf("%s: %v", key, err)
				}
			})
		}
		wg.Wait()
		pass(time.Minute)
		if s := r.Stats(); s != (Stats{}) {
			t.Errorf("%+v is left", s)
		}
		broken.Store(false)
		if n := r.call(Address{"thing", "a"}, "add", 1); n != 1 {
			t.Errorf("the state is %d", n)
		}
	}, kind)
}

// TestCallersLeaveWhileWaking: callers give up while their actor wakes. It wakes, runs none of
// their turns, and goes to sleep.
func TestCallersLeaveWhileWaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		kind := thing(add)
		kind.Wake = func(*Context) error { <-release; return nil }
		r := newRig(t, Options{MaxAwake: 1}, kind)
		ctx, cancel := context.WithCancel(r.ctx)
		errs := make(chan error, 5)
		for range 5 {
			go func() {
				_, err := invoke[int](ctx, r.Host, lobby, "add", 1)
				errs <- err
			}()
		}
		synctest.Wait()
		cancel()
		for range 5 {
			wantErr(t, <-errs, context.Canceled)
		}
		close(release)
		pass(time.Minute)
		if s := r.Stats(); s != (Stats{}) {
			t.Errorf("%+v is left", s)
		}
		if n := r.call(lobby, "add", 1); n != 1 {
			t.Errorf("the state is %d", n)
		}
		r.close()
	})
}

// TestCloseWhileWaking closes the host while an actor wakes for a call: that is answered.
func TestCloseWhileWaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		kind := thing(add)
		kind.Wake = func(*Context) error { <-release; return nil }
		r := newRig(t, Options{}, kind)
		done := make(chan error, 2)
		go func() {
			_, err := invoke[int](r.ctx, r.Host, lobby, "add", 1)
			done <- err
		}()
		synctest.Wait()
		go func() { done <- r.Host.Close(r.ctx) }()
		synctest.Wait()
		close(release)
		must(t, errors.Join(<-done, <-done))
		r.open()
		if n := r.call(lobby, "add", 0); n != 1 {
			t.Errorf("the state is %d", n)
		}
		r.close()
	})
}

// TestTurnWaitsForItself: a turn calls its own actor, which it must not: the call is refused, and the actor goes on.
func TestTurnWaitsForItself(t *testing.T) {
	var h *Host
	kind := thing(add, NewAction("loop", func(c *Context, _ struct{}) (int, error) {
		return invoke[int](c, h, c.Address(), "add", 1)
	}))
	bubble(t, Options{}, func(r *rig) {
		h = r.Host
		_, err := invoke[int](r.ctx, r.Host, lobby, "loop", nil)
		wantErr(t, err, greenroom.ErrNested)
		if n := r.call(lobby, "add", 1); n != 1 {
			t.Errorf("the state is %d: the refused turn ran", n)
		}
	}, kind)
}

// rows are the keys of the engine without some.
func (r *rig) rows(without func(key []byte) bool) (keys [][]byte) {
	r.Helper()
	for e, err := range r.engine.Scan(r.ctx, kv.Range{}) {
		must(r, err)
		if !without(e.Key) {
			keys = append(keys, bytes.Clone(e.Key))
		}
	}
	return keys
}

// TestDestroyLeavesNothing destroys an actor that has used everything, and checks that no row in
// the engine has its id or its name.
func TestDestroyLeavesNothing(t *testing.T) {
	kinds := talkers()
	kinds[0].Actions = append(kinds[0].Actions, wholeThing().Actions...)
	kinds[0].Create = func(*Context) error { return nil }
	bubble(t, Options{}, func(r *rig) {
		id, receiver := actorstore.IDFromName(lobby.String()), actorstore.IDFromName(ear.String())
		others := func(key []byte) bool { // the receiver remembers from whom it has got something
			return bytes.Contains(key, receiver.UUID[:]) || !bytes.Contains(key, id.UUID[:]) && !bytes.Contains(key, []byte(lobby.String()))
		}
		before := len(r.rows(others))
		s, _ := r.join()
		r.call(lobby, "everything", false)
		must(t, r.Do0(func(c *Context) error {
			return c.Send(ear, queue.Send{Name: "word", Delay: time.Hour})
		}))
		if n := len(r.rows(others)); n < before+10 {
			t.Errorf("the actor has %d rows", n-before)
		}
		pass(time.Second)
		must(t, r.Destroy(r.ctx, lobby))
		if keys := r.rows(others); len(keys) != before {
			t.Errorf("there were %d rows before, and are %d: %q", before, len(keys), keys)
		}
		if s.end() == "" {
			t.Error("its connection is open")
		}
	}, kinds...)
}

// TestOneTurnAtATime makes turns from every source at once: calls, events, messages of others,
// connections, the workflow, and what the actor does by itself.
func TestOneTurnAtATime(t *testing.T) {
	var busy atomic.Bool
	var turns [6]atomic.Int32
	alone := func(source int) error {
		if !busy.CompareAndSwap(false, true) {
			t.Error("two turns at once")
		}
		turns[source].Add(1)
		<-time.After(time.Millisecond)
		busy.Store(false)
		return nil
	}
	kind := &Type{
		Name: "thing",
		Actions: []AnyAction{
			NewAction("call", func(c *Context, _ struct{}) (string, error) {
				err := c.StartWorkflow(nil)
				if errors.Is(err, workflow.ErrOver) { // its twenty turns came before this one
					err = nil
				}
				if err = errors.Join(alone(0), err); err != nil {
					return "", err
				}
				return c.After(time.Millisecond, "ring")
			}),
			NewAction("ring", func(*Context, struct{}) (int, error) { return 0, alone(1) }),
		},
		Message:      func(*Context, *greenroom.Message) error { return alone(2) },
		MessageNames: []string{"word"},
		Connect:      func(*Context, *Conn) error { return alone(3) },
		Run: func(ctx context.Context) error {
			for range 20 {
				if err := Turn(ctx, func(*Context) error { return alone(4) }); err != nil {
					return err
				}
			}
			return nil
		},
		Workflow: NewWorkflow(func(c *workflow.Context, _ struct{}) (struct{}, error) {
			return workflow.Loop(c, "loop", 0, func(c *workflow.Context, n *int) (none struct{}, done bool, err error) {
				*n++
				return none, *n == 20, workflow.Do(c, "step", func(ctx context.Context) error {
					return Turn(ctx, func(*Context) error { return alone(5) })
				})
			})
		}, nil),
	}
	talker := &Type{Name: "talker", Actions: []AnyAction{
		NewAction("tell", func(c *Context, _ struct{}) (int, error) { return 0, c.Send(lobby, queue.Send{Name: "word"}) }),
	}}
	bubble(t, Options{}, func(r *rig) {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := invoke[string](r.ctx, r.Host, lobby, "call", nil); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() { r.call(Address{"talker", "x"}, "tell", nil) })
			wg.Go(func() {
				if _, err := r.Join(r.ctx, &Join{Actor: lobby, Transport: &sink{}, Hibernate: true}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		pass(10 * time.Second)
		for i := range turns {
			if n := turns[i].Load(); n < 20 {
				t.Errorf("source %d has made %d turns, want 20", i, n)
			}
		}
	}, kind, talker)
}

// TestWakeMissesAnother: a Wake that fails since another actor doesn't exist is not run again and again, and what waits for its own actor is not given up.
func TestWakeMissesAnother(t *testing.T) {
	var woken, got atomic.Int32
	bad := thing(add)
	bad.MustCreate = true
	bad.Wake = func(*Context) error {
		if n := woken.Add(1); n == 2 || n == 3 {
			return fmt.Errorf("of another actor: %w", ErrNoActor)
		}
		return nil
	}
	bad.Message = func(*Context, *greenroom.Message) error { got.Add(1); return nil }
	sender := &Type{Name: "sender", Actions: []AnyAction{NewCommand("send", func(c *Context, _ struct{}) error { return c.Send(lobby, queue.Send{Name: "letter"}) })}}
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		must(t, r.Create(r.ctx, lobby, nil))
		pass(time.Minute)
		err := r.Create(r.ctx, lobby, nil) // which would create it
		if wantErr(t, err, ErrNoActor); woken.Load() != 2 {
			t.Errorf("it was woken %d times", woken.Load())
		}
		_, err = invoke[struct{}](r.ctx, r.Host, Address{"sender", "1"}, "send", nil)
		must(t, err)
		pass(10 * time.Minute)
		if got.Load() != 1 {
			t.Errorf("the message has come %d times", got.Load())
		}
	}, bad, sender)
}
