package workflow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// An op is a piece of a random workflow.
type op struct {
	kind string
	n    int
	subs [][]op
}

// program makes a random workflow of a depth.
func program(rng *rand.Rand, depth int) (ops []op) {
	kinds := []string{"step", "tx", "sleep", "draw", "fails", "drop", "ask"}
	if depth > 0 {
		kinds = append(kinds, "loop", "join", "race", "loop", "join")
	}
	for range 1 + rng.IntN(4) {
		o := op{kind: kinds[rng.IntN(len(kinds))], n: 1 + rng.IntN(5)}
		switch o.kind {
		case "loop":
			o.subs = append(o.subs, program(rng, depth-1))
		case "join", "race":
			for range 1 + rng.IntN(3) {
				o.subs = append(o.subs, program(rng, depth-1))
			}
		}
		ops = append(ops, o)
	}
	return ops
}

// play runs a program, and returns a number that follows from everything that it did.
func (r *rig) play(c *Context, ops []op) (sum int, err error) {
	for i, o := range ops {
		v, err := r.playOne(c, fmt.Sprint(o.kind, "/", i), o)
		if err != nil {
			return 0, err
		}
		sum = (sum*31 + v) % 1_000_003
	}
	return sum, nil
}

func (r *rig) playOne(c *Context, name string, o op) (int, error) {
	switch o.kind {
	case "step":
		return StepWith(c, name, &StepOptions{
			MaxAttempts: -1, Unrecorded: o.n%2 == 0, Ephemeral: o.n == 3,
		}, func(context.Context) (int, error) { return o.n, nil })
	case "fails":
		return StepWith(c, name, &StepOptions{MaxAttempts: -1, Backoff: time.Duration(o.n) * time.Second, Jitter: 0.5}, func(ctx context.Context) (int, error) {
			if info, _ := StepInfoOf(ctx); int(info.Attempt) <= o.n%3 {
				return 0, errors.New("not yet")
			}
			return o.n, nil
		})
	case "drop":
		err := DoWith(c, name, &StepOptions{MaxAttempts: -1}, func(context.Context) error { return Permanent(errors.New("for good")) })
		var s *StepError
		if !errors.As(err, &s) {
			return 0, fmt.Errorf("a step that fails: %w", err)
		}
		return o.n, nil
	case "tx":
		key := strings.ReplaceAll(c.Path(), "/", ".") + name
		return stepIn(c, name, &StepOptions{MaxAttempts: -1}, func(_ context.Context, b *batch.Batch) (int, error) {
			n, err := r.counter(key)
			b.Put([]byte("\x04"+key), []byte{byte(n + 1)})
			return n + 1, err
		}) // those that a stop has cut off count
	case "sleep":
		c.Sleep(name, time.Duration(o.n*o.n)*time.Second)
		return 1, nil
	case "ask":
		_, err := ReceiveWith[int](c, name, &ReceiveOptions{Names: []string{"x", "y"}[:o.n%3], Timeout: time.Duration(o.n) * time.Minute})
		if !errors.Is(err, ErrTimedOut) {
			return 0, fmt.Errorf("a message that wasn't sent: %w", err)
		}
		return o.n, nil
	case "draw":
		return min(c.Rand(name).IntN(100), 0), nil
	case "loop":
		return LoopWith(c, name, 0, &LoopOptions{Commit: 1 + o.n%3, Keep: o.n%3 - 1}, func(c *Context, s *int) (int, bool, error) {
			v, err := r.play(c, o.subs[0])
			*s++
			return v, *s >= o.n, err
		})
	}
	var bs []Branch[int]
	for i, sub := range o.subs {
		bs = append(bs, branchOf(fmt.Sprint(i), func(c *Context) (int, error) {
			if o.kind == "race" && i > 0 { // the first one always wins
				c.Sleep("handicap", 1000*time.Hour)
			}
			return r.play(c, sub)
		}))
	}
	if o.kind == "race" {
		_, v, err := Race(c, name, bs...)
		return v, err
	}
	vs, err := Join(c, name, bs...)
	sum := 0
	for _, v := range vs {
		sum = sum*7 + v
	}
	return sum, err
}

// TestRandom runs random workflows that are stopped after random commits, again and again,
// and ends them as if they weren't.
func TestRandom(t *testing.T) {
	seeds := testkit.Pick(20, 40, 600)
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			ops := program(rng, 3)
			calm := newRig(t)
			fn := func(r *rig) Func[int, int] { return func(c *Context, _ int) (int, error) { return r.play(c, ops) } }
			want, err := begin(calm, fn(calm), 0).Live(ctx)
			must(t, err)
			calm.close()

			r := newRig(t)
			stops := 0
			for {
				w := attach(r, fn(r))
				must(t, w.Start(ctx, 0))
				if stops < 40 {
					r.engine.Tear(1 + rng.IntN(6))
				}
				var got int
				var err error
				rested := Status{}
				if rng.IntN(2) == 0 { // which may be evicted
					short, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(40))*time.Second)
					got, err = w.Live(short)
					cancel()
				} else if _, err = w.Run(ctx); err == nil {
					if got, err = w.Output(); errors.Is(err, ErrUnfinished) {
						rested = w.Status()
						later(max(0, time.Until(rested.Until)))
					}
				}
				if err == nil {
					if got != want {
						t.Errorf("seed %d, after %d stops: %d, want %d", seed, stops, got, want)
					}
					r.reopen()
					r.same(attach(r, fn(r)).Workflow)
					for u, err := range r.actor.User().List(ctx, userList("")) {
						must(t, err)
						if u.Value[0] != 1 {
							t.Errorf("seed %d, after %d stops: %s was done %d times", seed, stops, u.Key, u.Value[0])
						}
					}
					break
				}
				if !errors.Is(err, ErrStorage) && !errors.Is(err, ErrUnfinished) && !errors.Is(err, ErrEvicted) {
					t.Fatalf("seed %d, after %d stops: %v", seed, stops, err)
				}
				stops++
				r.reopen()
				if w := attach(r, fn(r)); rested.State == Sleeping {
					snap, err := r.actor.Snapshot(ctx)
					must(t, err)
					stored, _, err := Read(ctx, snap)
					must(t, err)
					must(t, snap.Close())
					if got := w.Status(); !reflect.DeepEqual(got, rested) || !reflect.DeepEqual(stored.Waits(), rested.Waits) || len(got.Waits) == 0 {
						t.Errorf("seed %d, after %d stops: it waited for %+v, and after a restart for %+v, stored %+v", seed, stops, rested, got, stored.Waits())
					}
				}
				r.reopen()
			}
			r.close()
		})
	}
}
