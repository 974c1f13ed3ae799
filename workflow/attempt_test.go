package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// TestStepCommits: a step is one engine commit, of its attempt and of the result before, whether its attempts are recorded or not. What is new, and isn't
// an attempt that is recorded, doesn't land with a result. Nothing is read.
func TestStepCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var counts []int64
		fn := func(c *Context, _ int) (int, error) {
			step := func(name string, o *StepOptions) {
				n := r.counted(func() {
					_, err := StepWith(c, name, o, work(r, name, 1))
					must(t, err)
				})
				if n.Gets+n.Scans > 0 {
					t.Errorf("step %s reads: %+v", name, n)
				}
				counts = append(counts, n.Commits)
			}
			step("first", nil)
			step("plain", nil)
			step("unrecorded", &StepOptions{Unrecorded: true})
			step("ephemeral", &StepOptions{Ephemeral: true})
			c.Now("now")
			step("after what was drawn", &StepOptions{Unrecorded: true})
			n := r.counted(func() {
				_, err := stepIn(c, "tx", nil, func(_ context.Context, b *batch.Batch) (int, error) { return 0, nil })
				must(t, err)
			})
			counts = append(counts, n.Commits)
			return 0, nil
		}
		output(r, begin(r, fn, 0), 0)
		if want := "[1 1 1 1 1 2]"; fmt.Sprint(counts) != want {
			t.Errorf("commits %v, want %s", counts, want)
		}
	})
}

func TestStepTimeout(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  StepOptions
		grace bool // the work returns when its context is over
		tries int
	}{
		{"", StepOptions{}, true, 1},
		{"stuck", StepOptions{}, false, 1},
		{"again", StepOptions{RetryTimeouts: true, Timeout: time.Minute, MaxAttempts: 3}, true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var went atomic.Bool
				fn := func(w *Context, _ int) (string, error) {
					_, err := stepIn(w, "slow", &c.opts, func(ctx context.Context, b *batch.Batch) (string, error) {
						r.do("slow")
						b.Put([]byte("\x04k"), []byte("late"))
						if c.grace {
							<-ctx.Done()
							return "late", nil // the attempt is over all the same
						}
						later(time.Hour)
						went.Store(true)
						return "late", nil
					})
					if !errors.Is(err, ErrStepTimeout) {
						t.Errorf("got %v", err)
					}
					return "on", nil
				}
				start := time.Now()
				output(r, begin(r, fn, 0), "on")
				if took := time.Since(start); took > 4*time.Minute {
					t.Errorf("it took %v", took)
				}
				r.mu.Lock()
				if len(r.did) != c.tries {
					t.Errorf("%d attempts, want %d", len(r.did), c.tries)
				}
				r.mu.Unlock()
				later(2 * time.Hour)
				if !c.grace && !went.Load() {
					t.Error("the step did not go on")
				}
				r.key("k", "")
			})
		})
	}
}

// TestUnlimited: a negative timeout means no timeout.
func TestUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		output(r, begin(r, func(c *Context, _ int) (int, error) {
			return StepWith(c, "long", &StepOptions{Timeout: -1}, func(context.Context) (int, error) { later(48 * time.Hour); return 1, nil })
		}, 0), 1)
	})
}

func TestStepPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (string, error) {
			_, err := StepWith(c, "s", &StepOptions{MaxAttempts: 1}, func(context.Context) (int, error) {
				return len(any(nil).(string)), nil
			})
			if !errors.Is(err, ErrPanic) || !strings.Contains(err.Error(), "interface conversion") {
				t.Errorf("got %v", err)
			}
			panic("the code too")
		}
		w := begin(r, fn, 0)
		_, err := w.Live(ctx)
		wantErr(t, "live", err, ErrFailed)
		wantErr(t, "live", err, ErrPanic)
		if f := w.Snapshot().Error; f == nil || !strings.Contains(f.Stack, "TestStepPanics") {
			t.Errorf("recorded %+v", f)
		}
		r.same(w.Workflow)
	})
}

// TestCrashingStep: a step that ends its process is not tried for ever. Its attempts are
// recorded before they are made.
func TestCrashingStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		crashed := make(chan struct{}, 1)
		fn := func(c *Context, _ int) (string, error) {
			_, err := StepWith(c, "killer", &StepOptions{MaxAttempts: 3, Backoff: -1}, func(ctx context.Context) (int, error) {
				r.do("killer")
				r.engine.Tear(0) // nothing lands any more
				crashed <- struct{}{}
				return 0, nil
			})
			if err != nil && !errors.Is(err, ErrInterrupted) {
				t.Errorf("got %v", err)
			}
			return "survived", nil // which isn't stored as long as nothing lands
		}
		w := begin(r, fn, 0)
		for range 3 {
			_, err := w.Run(ctx)
			wantErr(t, "run", err, ErrStorage)
			wantErr(t, "run", err, faultkv.ErrTorn)
			<-crashed
			w = again(r, fn)
		}
		output(r, w, "survived")
		r.wantDid("killer", "killer", "killer")
	})
}

// TestStorageErrors: a failure of the store ends the run, and doesn't count as a failed attempt.
func TestStorageErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := range 4 {
			r := newRig(t)
			fn := func(c *Context, _ int) (int, error) {
				sum := 0
				for _, name := range []string{"a", "b", "c"} {
					v, err := StepWith(c, name, &StepOptions{MaxAttempts: 2, Backoff: -1}, work(r, name, 1))
					if err != nil {
						t.Errorf("failure %d: the code is told: %v", n, err)
						return 0, err
					}
					sum += v
				}
				return sum, nil
			}
			w := begin(r, fn, 0)
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: n, Err: errors.New("disk on fire")})
			s, err := w.Run(ctx)
			wantErr(t, "run", err, ErrStorage)
			if s.State == Failed || s.State == Completed {
				t.Errorf("failure %d: %v", n, s.State)
			}
			w = again(r, fn)
			output(r, w, 3)
			r.same(w.Workflow)
			r.close()
		}
	})
}

// TestEvictedStep: what a step returns after its run was stopped is recorded, and an
// attempt that is cut off doesn't count.
func TestEvictedStep(t *testing.T) {
	for _, obeys := range []bool{false, true} {
		t.Run(fmt.Sprint(obeys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				begun := make(chan struct{})
				block := true
				fn := func(c *Context, _ int) (int, error) {
					v, err := StepWith(c, "s", &StepOptions{MaxAttempts: 1}, func(ctx context.Context) (int, error) {
						r.do("s")
						if block {
							close(begun)
							<-ctx.Done()
							if obeys {
								return 0, errors.New("shop: connection closed")
							}
						}
						return 7, nil
					})
					c.SleepUntil("long ago", time.Now())
					return v, err
				}
				w := begin(r, fn, 0)
				done := make(chan error)
				go func() {
					_, err := w.Live(ctx)
					done <- err
				}()
				<-begun
				w.Evict()
				wantErr(t, "live", <-done, ErrEvicted)
				if w.Status().State != Running {
					t.Errorf("it is %v", w.Status().State)
				}
				block = false
				w = again(r, fn)
				output(r, w, 7)
				if obeys {
					r.wantDid("s", "s")
				} else {
					r.wantDid("s")
				}
			})
		})
	}
}

// TestContextEnds: the end of the context that a run was given is an eviction.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (int, error) {
			c.Sleep("long", time.Hour)
			return 1, nil
		}
		w := begin(r, fn, 0)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := w.Live(short)
		wantErr(t, "live", err, ErrEvicted)
		wantErr(t, "live", err, context.DeadlineExceeded)
		output(r, w, 1)
	})
}

// TestTooLarge: a result that can't be stored is a failure for good: the work isn't done
// once more.
func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		most := 0
		fn := func(c *Context, n int) (string, error) {
			v, err := Step(c, "large", func(context.Context) (string, error) {
				r.do("large")
				return strings.Repeat("x", n), nil
			})
			if err != nil {
				if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "large") || !strings.Contains(err.Error(), "131072") {
					t.Errorf("got %v", err)
				}
				return "refused", nil
			}
			most = max(most, len(v))
			return "stored", nil
		}
		// The entry has a version, an id, a location and its lengths beside the value.
		overhead := 2 + 1 + 36 + 1 + 1 + 4 + 1 + 1 + 3 + 5 + 1
		for _, c := range []struct {
			n    int
			want string
		}{{128<<10 - overhead, "stored"}, {128<<10 - overhead + 1, "refused"}, {1 << 20, "refused"}} {
			w := begin(r, fn, c.n)
			output(r, w, c.want)
			r.wantDid("large")
			r.same(w.Workflow)
			r.close()
			r.engine = faultkv.New(newRig(t).engine.Unwrap())
			r.open()
		}
	})
}

// TestStepIn: what a step stages lands with its result, once.
func TestStepIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (int, error) {
			n := 0
			return stepIn(c, "tx", nil, func(_ context.Context, b *batch.Batch) (int, error) {
				b.Put([]byte("\x04k"), fmt.Append(nil, n))
				if n++; n < 3 {
					return 0, errors.New("not yet")
				}
				return n, nil
			})
		}
		w := begin(r, fn, 0)
		output(r, w, 3)
		r.key("k", "2")
		r.same(w.Workflow)
	})
}

// TestStepWithin: SQL is done once, with the result.
func TestStepWithin(t *testing.T) {
	// Files of SQLite wait outside of a bubble.
	r := newRig(t)
	db, err := vfs.Open(ctx, r.actor, &vfs.Options{Env: part.Env{Logger: r.opts.Logger}})
	must(t, err)
	defer func() { must(t, db.Close()) }()
	_, err = db.ExecContext(ctx, "create table t(x integer check (x < 2))")
	must(t, err)
	fn := func(c *Context, _ int) (int64, error) {
		n := 0
		insert := func(ctx context.Context, land func(*batch.Batch, int64) error) error {
			n++
			return db.Update(ctx, func(tx *vfs.Tx) error {
				res, err := tx.ExecContext(ctx, "insert into t values (?)", 3-n)
				if err != nil {
					return err
				}
				id, err := res.LastInsertId()
				if err != nil {
					return err
				}
				return land(tx.Batch(), id+int64(n))
			})
		}
		v, err := StepWithinWith(c, "book", &StepOptions{Backoff: -1}, insert)
		if err != nil {
			return 0, err
		}
		_, err = StepWithin(c, "forgets", func(context.Context, func(*batch.Batch, int) error) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "did not land") {
			t.Errorf("a step that didn't land: %v", err)
		}
		return v, nil
	}
	w := begin(r, fn, 0)
	output(r, w, 3) // the first was refused by SQLite
	var count int
	must(t, db.QueryRowContext(ctx, "select count(*) from t").Scan(&count))
	if count != 1 {
		t.Errorf("%d rows", count)
	}
	r.same(w.Workflow)
}

// TestStepTriedAgain: an attempt whose commit is refused, to be tried in another form, is
// not given up in between, and goes on when the history knows of its result.
func TestStepTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		refused, again := make(chan struct{}), make(chan struct{})
		w := begin(r, func(c *Context, _ int) (int, error) {
			return StepWithin(c, "s", func(ctx context.Context, land func(*batch.Batch, int) error) error {
				r.do("s")
				var own, spare batch.Batch
				own.Put([]byte("\x04k"), []byte("done"))
				if err := land(&own, 7); err != nil {
					return err
				}
				own.Mark(&spare)
				if err := own.Seal(); err != nil {
					return err
				}
				own.Rewind(nil)
				close(refused)
				<-again
				own.OnCommit(func() { later(time.Second) }) // the history hears of it later
				return r.actor.Commit(context.WithoutCancel(ctx), &own)
			})
		}, 0)
		done := make(chan error, 1)
		go func() {
			_, err := w.Run(ctx)
			done <- err
		}()
		<-refused
		w.Evict()
		later(defaultGrace + time.Second)
		close(again)
		must(t, <-done)
		output(r, w, 7)
		r.key("k", "done")
		if r.mu.Lock(); len(r.did) != 1 {
			t.Errorf("did %q", r.did)
		}
		r.mu.Unlock()
	})
}

// TestPause: a step without attempts waits for Resume, in memory or not.
func TestPause(t *testing.T) {
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprint("live ", live), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				broken := true
				fn := func(c *Context, _ int) (int, error) {
					return StepWith(c, "s", &StepOptions{MaxAttempts: 2, Pause: true}, func(context.Context) (int, error) {
						r.do("s")
						if broken {
							return 0, errors.New("down")
						}
						return 5, nil
					})
				}
				w := begin(r, fn, 0)
				done := make(chan error, 1)
				if live {
					go func() { done <- second(w.Live(ctx)) }()
					synctest.Wait()
					later(time.Minute)
				} else {
					status(r, w, Sleeping)
					later(time.Minute)
					status(r, w, Sleeping)
				}
				if s := w.Status(); s.State != Sleeping || fmt.Sprint(s.Paused) != "[s]" || !s.Until.IsZero() {
					t.Errorf("%+v", s)
				}
				r.wantDid("s", "s")
				if !live {
					w = again(r, fn)
					status(r, w, Sleeping)
					r.wantDid()
				}
				broken = false
				must(t, w.Resume(ctx))
				if live {
					must(t, <-done)
				}
				output(r, w, 5)
				r.wantDid("s")
				r.same(w.Workflow)
			})
		})
	}
}

func second[A, B any](_ A, b B) B { return b }

// TestJitter: waits are shorter, differ between attempts, and are the same after a restart.
func TestJitter(t *testing.T) {
	s := &stepCall{place: &place{entry: history.Entry{ID: "1234"}}}
	s.opts = first((&StepOptions{Backoff: time.Hour, MaxBackoff: time.Hour, Jitter: 0.5}).check())
	seen := map[time.Duration]bool{}
	for n := range uint32(100) {
		s.m.Attempts = n + 1
		d := s.backoff()
		if d < 30*time.Minute || d > time.Hour || d != s.backoff() {
			t.Errorf("attempt %d: %v", n, d)
		}
		seen[d/(3*time.Minute)] = true
	}
	if len(seen) < 8 {
		t.Errorf("waits are all about the same: %v", seen)
	}
}

// TestClockBack: a clock that goes back doesn't keep a step waiting longer than it may.
func TestClockBack(t *testing.T) {
	s := &stepCall{place: &place{c: &Context{r: &run{wf: &Workflow{clock: newClock(time.UnixMilli(1e12))}}}}}
	s.opts = first((&StepOptions{}).check())
	s.m.Attempts, s.m.LastAttemptAt = 1, 2e12
	if at := s.retryAt(); at != 1e12+30_000 {
		t.Errorf("tried again at %d", at)
	}
}

// TestResultNotStored: a step doesn't fail because the store once refuses its result and then
// goes on.
func TestResultNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		w := begin(r, func(c *Context, _ int) (int, error) {
			return Step(c, "s", work(r, "work", 1))
		}, 0)
		fault := r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1, Err: kv.ErrTooLarge})
		wantErr(t, "live", second(w.Live(ctx)), ErrStorage)
		fault.Remove()
		output(r, w, 1)
		r.wantDid("work", "work")
		if e, _ := r.entry(w.Workflow, "s"); e.Metadata.Attempts != 2 || e.Metadata.Error != nil {
			t.Errorf("%+v", e.Metadata)
		}
	})
}
