package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/workflow"
)

// modelTime is how long a call of a language model takes, much longer than an actor without calls stays awake.
const modelTime = 2 * time.Minute

// model is a call of one.
func model(ctx context.Context, question string) (string, error) {
	select {
	case <-time.After(modelTime):
		return "re: " + question, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// answered is an action that returns the answers.
var answered = NewAction("answered", func(c *Context, _ struct{}) (string, error) { return greenroom.State[string](c) })

func note(c *Context, answer string) error {
	return greenroom.Mutate(c, func(all *string) error { *all += answer + "\n"; return nil })
}

// wantAnswers wants these lines among the answers, in any order, and no others.
func (r *rig) wantAnswers(want string) {
	r.Helper()
	got, err := invoke[string](r.ctx, r.Host, lobby, "answered", nil)
	must(r, err)
	if !slices.Equal(slices.Sorted(strings.Lines(got)), slices.Sorted(strings.Lines(want))) {
		r.Errorf("the answers are %q, want %q", got, want)
	}
}

func (r *rig) wantAwake(n int) {
	r.Helper()
	if s := r.Stats(); s.Awake != n {
		r.Errorf("%d actors are awake, want %d", s.Awake, n)
	}
}

// TestKeepAwake: work in Run that takes two minutes is done, and then the actor sleeps. Without KeepAwake it is ended.
func TestKeepAwake(t *testing.T) {
	for _, kept := range []bool{true, false} {
		ended := make(chan error, 2)
		kind := thing(answered)
		kind.Run = func(ctx context.Context) error {
			if kept {
				release, err := KeepAwake(ctx)
				if err != nil {
					return err
				}
				defer release()
			}
			answer, err := model(ctx, "why?")
			if ended <- err; err != nil {
				return err
			}
			return Turn(ctx, func(c *Context) error { return note(c, answer) })
		}
		bubble(t, Options{IdleTimeout: 30 * time.Second}, func(r *rig) {
			r.wantAnswers("")
			pass(modelTime - time.Second)
			if !kept {
				r.wantAwake(0)
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("it ended with %v", err)
				}
				return
			}
			r.wantAwake(1)
			var awake *AwakeError
			if err := r.Sleep(r.ctx, idOf(lobby)); !errors.As(err, &awake) || awake.Tasks != 1 || awake.Connections != 0 || !errors.Is(err, greenroom.ErrInUse) {
				t.Errorf("it can be put to sleep: %v", err)
			}
			pass(time.Second + 30*time.Second + time.Second)
			r.wantAwake(0)
			r.wantAnswers("re: why?\n")
		}, kind)
	}
}

// TestRunAgain: a Run that fails is counted, and called again, later each time, while the actor is awake.
func TestRunAgain(t *testing.T) {
	var at []time.Duration
	begin := time.Now()
	kind := thing(add)
	kind.Run = func(context.Context) error {
		if at = append(at, time.Since(begin)); len(at) == 2 {
			panic("on purpose")
		}
		if len(at) < 5 {
			return errors.New("not yet")
		}
		return nil
	}
	bubble(t, Options{IdleTimeout: time.Hour}, func(r *rig) {
		begin = time.Now()
		r.call(lobby, "add", 1)
		pass(30 * time.Minute)
		if got := fmt.Sprint(at); got != "[0s 1s 3s 7s 15s]" {
			t.Errorf("Run was called after %s", got)
		}
		pass(time.Hour)
		fails := map[string]int64{}
		for _, f := range r.storedUsage().Failures {
			fails[f.Place+" "+f.Code] += f.Count
		}
		if got := fmt.Sprint(fails); got != "map[actor.run actor_failed:1 actor.run internal:3]" {
			t.Errorf("counted are %s", got)
		}
	}, kind)
}

// TestKeepAwakeTurn: a turn may begin work that goes on beside it; a context of no actor, or of one that ends, keeps nothing awake.
func TestKeepAwakeTurn(t *testing.T) {
	var ended error
	kind := thing(answered, NewCommand("begin", func(c *Context, q string) error {
		release, err := KeepAwake(c)
		if err != nil {
			return err
		}
		a, h := c.Address(), c.life.host
		go func() {
			defer release()
			defer release()
			answer, err := model(h.ctx, q)
			if err == nil {
				_, err = invoke[any](h.ctx, h, a, "note", answer)
			}
			if err != nil {
				ended = err
			}
		}()
		return nil
	}), NewCommand("note", note))
	var late error
	kind.Sleep = func(c *Context) error { _, late = KeepAwake(c); return nil }
	bubble(t, Options{IdleTimeout: 30 * time.Second}, func(r *rig) {
		if _, err := KeepAwake(r.ctx); !errors.Is(err, ErrNotAwake) {
			t.Errorf("a context of no actor: %v", err)
		}
		_, err := invoke[any](r.ctx, r.Host, lobby, "begin", "why?")
		must(r, err)
		pass(modelTime - time.Second)
		r.wantAwake(1)
		pass(time.Minute)
		r.wantAwake(0)
		r.wantAnswers("re: why?\n")
		_, err = invoke[any](r.ctx, r.Host, lobby, "begin", "how?")
		must(r, err)
		r.reopen() // which doesn't wait for it
		pass(time.Hour)
		r.wantAnswers("re: why?\n")
		if !errors.Is(ended, context.Canceled) && !errors.Is(ended, ErrClosed) || !errors.Is(late, ErrNotAwake) {
			t.Errorf("the work ended with %v, and an actor that goes to sleep is kept awake: %v", ended, late)
		}
	}, kind)
}

// TestSlowStep: a step of a workflow may take as long as it likes.
func TestSlowStep(t *testing.T) {
	kind := thing(answered, NewCommand("begin", func(c *Context, q string) error { return c.StartWorkflow(q) }))
	kind.Workflow = NewWorkflow(func(c *workflow.Context, q string) (string, error) {
		answer, err := workflow.StepWith(c, "model", &workflow.StepOptions{Timeout: -1}, func(ctx context.Context) (string, error) { return model(ctx, q) })
		if err == nil {
			_, err = StepTurn(c, "note", func(c *Context) (any, error) { return nil, note(c, answer) })
		}
		return answer, err
	}, nil)
	bubble(t, Options{IdleTimeout: 30 * time.Second}, func(r *rig) {
		_, err := invoke[any](r.ctx, r.Host, lobby, "begin", "why?")
		must(r, err)
		pass(modelTime - time.Second)
		r.wantAwake(1)
		pass(time.Minute)
		r.wantAwake(0)
		r.wantAnswers("re: why?\n")
	}, kind)
}

// TestHandOverKeptAwake: an actor that KeepAwake keeps stays where it is, and answers, while its host gives the others away; when its work is done it goes, too.
func TestHandOverKeptAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		ended := make(chan error, 1)
		f := newPeers(t, func() []*Type {
			kinds := counters()
			kinds[0].Run = func(ctx context.Context) error {
				if runs.Add(1) > 1 {
					return nil
				}
				release, err := KeepAwake(ctx)
				if err != nil {
					return err
				}
				defer release()
				_, err = model(ctx, "why?")
				ended <- err
				return err
			}
			return kinds
		})
		a, b := f.open("a:1", func(o *Options) { o.Peers.Here = true }), f.open("b:1")
		ctx := t.Context()
		must(t, testkit.Second(invoke[int](ctx, a, lobby, "add", 1)))
		synctest.Wait()
		must(t, testkit.Second(invoke[int](ctx, a, Address{"thing", "idle"}, "add", 1)))
		over := make(chan error, 1)
		go func() { over <- a.HandOver(ctx) }()
		pass(modelTime - time.Second)
		for key, want := range map[string]string{"lobby": "a:1", "idle": "b:1"} {
			if where, err := invoke[string](ctx, b, Address{"thing", key}, "host", nil); where != want || err != nil {
				t.Errorf("%s is at %s, want %s: %v", key, where, want, err)
			}
		}
		if len(over)+len(ended) != 0 {
			t.Error("the work wasn't waited for")
		}
		pass(2 * time.Second)
		must(t, errors.Join(<-ended, <-over))
		if where, err := invoke[string](ctx, a, lobby, "host", nil); where != "b:1" || err != nil {
			t.Errorf("afterwards it is at %s: %v", where, err)
		}
		f.close()
	})
}
