package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// farRig returns a rig whose engine takes its time.
func farRig(t *testing.T, opts Options, limits batch.Limits) *rig {
	r := newRigWith(t, opts, limits)
	r.engine.Delay(5 * time.Millisecond)
	t.Cleanup(func() { r.engine.Delay(0) }) // before the rig is closed
	return r
}

// atOnce calls fn on n goroutines at the same time, and returns the errors.
func atOnce(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = fn(i) })
	}
	all.Wait()
	return errs
}

// TestTogether: calls that wait for the commit of another one have one commit, and each its own result.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 50
		r := farRig(t, Options{Names: []string{"a"}}, whole)
		ids := make([]ID, n)
		r.engine.Reset()
		for i, err := range atOnce(n, func(i int) (err error) {
			name := "a"
			if i%10 == 5 {
				name = "unknown"
			}
			ids[i], err = r.q.Enqueue(ctx, Send{Name: name, Body: i})
			return err
		}) {
			if (i%10 == 5) != errors.Is(err, ErrUnknownName) || i%10 != 5 && err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if c := r.engine.Counts(); c.Commits > 2 { // one, if all come before the first one's begins
			t.Errorf("%d commits", c.Commits)
		}
		slices.Sort(ids)
		if ids = slices.Compact(ids); len(ids) != n/10*9+1 || ids[len(ids)-1] != n/10*9 { // 0 for those that were refused
			t.Errorf("ids %v", ids)
		}
		got := make([]*Message, n)
		r.engine.Reset()
		for _, err := range atOnce(n, func(i int) error {
			msgs, err := r.q.TryReceive(ctx, nil)
			if len(msgs) > 0 {
				got[i] = msgs[0]
			}
			return err
		}) {
			must(t, err)
		}
		for _, err := range atOnce(n, func(i int) error {
			if got[i] == nil {
				return nil
			}
			return errors.Join(r.q.Extend(ctx, got[i].Receipt(), time.Hour), got[i].Complete(ctx, nil))
		}) {
			must(t, err)
		}
		if c := r.engine.Counts(); c.Commits > 8 {
			t.Errorf("%d commits", c.Commits)
		}
		if r.q.Len() != 0 {
			t.Errorf("%d messages are left", r.q.Len())
		}
		r.engine.Delay(0)
		r.reopen()
		if r.q.Len() != 0 {
			t.Errorf("%d messages are left", r.q.Len())
		}
	})
}

// TestTogetherRefused: a batch of several calls that doesn't land is tried again, call by call, and each call hears of its own.
func TestTogetherRefused(t *testing.T) {
	for name, c := range map[string]struct {
		breaks  func(r *rig)
		refused func(i int) error
	}{
		"not applied once": {func(r *rig) {
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1, Err: kv.NotApplied(errkind.ErrNoSpace)})
		}, func(int) error { return nil }},
		"one is too large for the actor": {func(*rig) {}, func(i int) error {
			if i == 7 {
				return errkind.ErrQuota
			}
			return nil
		}},
		"poisoned": {func(r *rig) {
			r.engine.Fail(faultkv.Rule{Point: faultkv.AfterApply, Skip: 1, Err: errors.New("broken")})
		}, func(i int) error {
			if i > 0 {
				return errkind.ErrPoisoned
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := whole
				limits.Storage = 100_000
				r := farRig(t, Options{}, limits)
				c.breaks(r)
				first := make(chan struct{})
				errs := atOnce(20, func(i int) error {
					body := []byte("x")
					switch {
					case i > 0:
						<-first // is on its way
					default:
						time.AfterFunc(time.Millisecond, func() { close(first) })
					}
					if i == 7 && name == "one is too large for the actor" {
						body = make([]byte, 90_000+20_000)
					}
					_, err := r.q.Enqueue(ctx, Send{Name: "a", Body: body, Key: fmt.Sprint(i)})
					return err
				})
				landed := 0
				for i, err := range errs {
					if want := c.refused(i); !errors.Is(err, want) {
						t.Errorf("call %d: %v, not %v", i, err, want)
					}
					if err == nil {
						landed++
					}
				}
				r.engine.Delay(0)
				r.engine.Heal()
				if name != "poisoned" {
					r.enqueue("b", nil)
					landed++
					if r.q.Len() != landed {
						t.Errorf("%d messages, %d landed", r.q.Len(), landed)
					}
					r.reopen()
					if r.q.Len() != landed {
						t.Errorf("%d messages are stored, %d landed", r.q.Len(), landed)
					}
				}
			})
		})
	}
}

// behind calls fn on n goroutines, one after the other, while a call is on its way to the engine, and returns the errors of fn.
func (r *rig) behind(n int, fn func(i int) error) []error {
	first := make(chan error, 1)
	go func() {
		_, err := r.q.Enqueue(ctx, Send{Name: "first"})
		first <- err
	}()
	synctest.Wait()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = fn(i) })
		synctest.Wait() // it waits
	}
	all.Wait()
	must(r.t, <-first)
	return errs
}

// TestTogetherSame: of two calls that settle the same message at the same time one finds that it is gone.
func TestTogetherSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := farRig(t, Options{}, whole)
		r.enqueue("a", 1)
		m := r.try(ReceiveOptions{})[0]
		errs := r.behind(4, func(i int) error {
			if i == 3 {
				return r.q.Extend(ctx, m.Receipt(), time.Hour)
			}
			return r.q.Complete(ctx, m.Receipt(), i)
		})
		must(t, errs[0])
		for _, err := range errs[1:] {
			if !errors.Is(err, ErrGone) {
				t.Errorf("%v", errs)
			}
		}
	})
}

// TestTogetherLeft: a call whose context ends while it waits leaves nothing behind, and keeps no other from its turn. One that leads isn't cut off.
func TestTogetherLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := farRig(t, Options{}, whole)
		waits, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
		defer cancel()
		leads, cancel := context.WithTimeout(ctx, 7*time.Millisecond)
		defer cancel()
		r.engine.Reset()
		for i, err := range r.behind(10, func(i int) error {
			with := ctx
			switch {
			case i == 0:
				with = leads
			case i >= 5:
				with = waits
			}
			_, err := r.q.Enqueue(with, Send{Name: fmt.Sprint(i)})
			return err
		}) {
			if (i < 5) != (err == nil) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if c := r.engine.Counts(); c.Commits != 2 || r.q.Len() != 6 {
			t.Errorf("%d commits, %d messages", c.Commits, r.q.Len())
		}
	})
}

// A bomb is a value that panics when it is encoded.
type bomb struct{}

func (bomb) MarshalCBOR() ([]byte, error) { panic("a value") }
func (*bomb) UnmarshalCBOR([]byte) error  { return nil }

// TestTogetherPanics: a value that panics does so on the goroutine of its call, and touches no other call.
func TestTogetherPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, at := range []int{0, 3} { // the one that leads, and one that joins
			r := farRig(t, Options{}, whole)
			panicked := make([]bool, 6)
			for i, err := range r.behind(6, func(i int) (err error) {
				defer func() { panicked[i] = recover() != nil }()
				var body any
				if i == at {
					body = bomb{}
				}
				_, err = r.q.Enqueue(ctx, Send{Name: "a", Body: body})
				return err
			}) {
				must(t, err)
				if panicked[i] != (i == at) {
					t.Errorf("call %d: panicked %v", i, panicked[i])
				}
			}
			if r.q.Len() != 6 {
				t.Errorf("%d messages", r.q.Len())
			}
		}
	})
}

// TestTogetherNone: a batch for which no call stages anything doesn't end the line.
func TestTogetherNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := farRig(t, Options{Names: []string{"first"}}, whole)
		for _, err := range r.behind(3, func(int) error { _, err := r.q.Enqueue(ctx, Send{Name: "unknown"}); return err }) {
			if !errors.Is(err, ErrUnknownName) {
				t.Error(err)
			}
		}
		r.enqueue("first", nil)
	})
}

// TestCallsApart: nothing of a call is left in the memory that the next one uses.
func TestCallsApart(t *testing.T) {
	r := newRig(t, Options{})
	for range 3 {
		r.enqueue("a", "x")
	}
	msgs := r.try(ReceiveOptions{Count: 3})
	must(t, msgs[0].Complete(ctx, nil))
	must(t, r.q.Complete(ctx, msgs[1].Receipt(), nil))
	must(t, r.q.Nack(ctx, msgs[2].Receipt(), 0, nil))
	wantIDs(t, "left", ids(r.try(ReceiveOptions{Count: 3})), msgs[2].ID)
}
