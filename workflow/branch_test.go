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
)

func branchOf(name string, fn func(c *Context) (int, error)) Branch[int] {
	return Branch[int]{name, fn}
}

// TestJoin: branches sleep, wait for messages and are tried again, in Run and Live.
func TestJoin(t *testing.T) {
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprint("live ", live), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				fn := func(c *Context, _ int) (int, error) {
					outs, err := Join(c, "j",
						branchOf("sleeps", func(c *Context) (int, error) {
							c.Sleep("s", time.Hour)
							return Step(c, "s2", work(r, "slept", 1))
						}),
						branchOf("waits", func(c *Context) (int, error) {
							m, err := Receive[int](c, "m")
							if err != nil {
								return 0, err
							}
							r.do("received")
							return m.Body, nil
						}),
						branchOf("retries", func(c *Context) (int, error) {
							return StepWith(c, "s", &StepOptions{Backoff: 10 * time.Minute, MaxBackoff: time.Hour}, fails(r, "try", 2, 100))
						}))
					if err != nil {
						return 0, err
					}
					return outs[0] + outs[1] + outs[2], nil
				}
				w := begin(r, fn, 0)
				start := time.Now()
				if live {
					go func() {
						later(2 * time.Hour)
						r.send("x", 10)
					}()
					output(r, w, 111)
				} else {
					for range 10 {
						s, err := w.Run(ctx)
						must(t, err)
						if s.State != Sleeping {
							break
						}
						if !s.AnyName {
							t.Errorf("%+v", s)
						}
						r.same(w.Workflow)
						if s.Until.IsZero() {
							later(time.Until(start.Add(2 * time.Hour)))
							r.send("x", 10)
						} else {
							later(time.Until(s.Until))
						}
						w = again(r, fn)
					}
					output(r, w, 111)
				}
				r.wantDid("try1", "try2", "try3", "slept", "received")
				if took := time.Since(start); took != 2*time.Hour {
					t.Errorf("took %v", took)
				}
				r.same(w.Workflow)
			})
		})
	}
}

func TestJoinFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errDown := errors.New("down")
		r := newRigWith(t, Options{Errors: map[string]error{"down": errDown}})
		fn := func(c *Context, _ int) (int, error) {
			outs, err := Join(c, "j",
				branchOf("good", func(c *Context) (int, error) { return Step(c, "s", work(r, "good", 5)) }),
				branchOf("bad", func(c *Context) (int, error) {
					return Step(c, "s", func(context.Context) (int, error) { r.do("bad"); return 0, Permanent(errDown) })
				}),
				branchOf("panics", func(*Context) (int, error) { panic("oh") }),
			)
			var j *BranchesError
			if !errors.As(err, &j) || len(j.Branches) != 2 || j.Branches[0].Name != "bad" || j.Path != "j" ||
				!errors.Is(err, errDown) || !errors.Is(err, ErrPanic) || !strings.Contains(err.Error(), "down") {
				t.Errorf("got %v", err)
			}
			c.Sleep("pause", time.Hour)
			return outs[0], nil
		}
		w := begin(r, fn, 0)
		status(r, w, Sleeping)
		r.mu.Lock()
		if len(r.did) != 2 {
			t.Errorf("did %q", r.did)
		}
		r.did = nil
		r.mu.Unlock()
		w = again(r, fn)
		later(time.Hour)
		output(r, w, 5)
		r.wantDid()
	})
}

// TestGroup: results of different types.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (string, error) {
			g := NewGroup("g")
			a := Go(g, "a", func(c *Context) (int, error) { return Step(c, "s", work(r, "a", 7)) })
			b := Go(g, "b", func(c *Context) (map[string]bool, error) { return map[string]bool{"x": true}, nil })
			if err := g.Join(c); err != nil {
				return "", err
			}
			c.Sleep("pause", time.Hour)
			return fmt.Sprint(a.Value(), b.Value()), nil
		}
		w := begin(r, fn, 0)
		status(r, w, Sleeping)
		w = again(r, fn)
		later(time.Hour)
		output(r, w, "7 map[x:true]")
		r.wantDid("a")
	})
}

// TestRace: the first to succeed wins, also with null, and what the others recorded is
// removed.
func TestRace(t *testing.T) {
	for _, live := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			fn := func(c *Context, _ int) (string, error) {
				winner, out, err := Race(c, "r",
					Branch[*int]{"slow", func(c *Context) (*int, error) {
						if err := Do(c, "s", func(context.Context) error { r.do("slow"); return nil }); err != nil {
							return nil, err
						}
						c.Sleep("long", time.Hour)
						r.do("slow slept")
						return new(int), nil
					}},
					Branch[*int]{"fails", func(c *Context) (*int, error) { return nil, errors.New("no") }},
					Branch[*int]{"fast", func(c *Context) (*int, error) { c.Sleep("short", time.Minute); return nil, nil }},
				)
				c.Sleep("pause", 2*time.Hour)
				return fmt.Sprint(winner, out == nil, err), nil
			}
			w := begin(r, fn, 0)
			if live {
				output(r, w, "fasttrue <nil>")
			} else {
				s := status(r, w, Sleeping)
				if time.Until(s.Until) != time.Minute {
					t.Errorf("%+v", s)
				}
				later(time.Minute)
				w = again(r, fn)
				status(r, w, Sleeping)
				later(2 * time.Hour)
				w = again(r, fn)
				output(r, w, "fasttrue <nil>")
			}
			r.wantDid("slow")
			if got := fmt.Sprint(r.paths(w.Workflow)); got != "[r r/fast/short pause]" {
				t.Errorf("recorded %s", got)
			}
			e, _ := r.entry(w.Workflow, "r")
			k := e.Kind.(RaceEntry)
			if *k.Winner != "fast" || k.Branches[0].Status != BranchCancelled || k.Branches[2].Status != BranchCompleted {
				t.Errorf("%+v", k)
			}
			r.same(w.Workflow)
		})
	}
}

func TestRaceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (int, error) {
			_, _, err := Race(c, "r",
				branchOf("a", func(c *Context) (int, error) { return Step(c, "s", fails(r, "a", 9, 1)) }),
				branchOf("b", func(c *Context) (int, error) { return 0, errors.New("b") }))
			var all *BranchesError
			if !errors.As(err, &all) || len(all.Branches) != 2 || all.Branches[1].Failure.Message != "b" {
				t.Errorf("got %v", err)
			}
			c.Sleep("pause", time.Hour)
			return 1, nil
		}
		w := begin(r, fn, 0)
		for {
			s := status(r, w, Sleeping)
			if _, ok := r.entry(w.Workflow, "pause"); ok {
				break
			}
			later(time.Until(s.Until))
		}
		r.wantDid("a1", "a2", "a3", "a4")
		w = again(r, fn)
		later(time.Hour)
		output(r, w, 1)
		r.wantDid()
	})
}

// TestRaceStuck: a branch that has lost and doesn't return doesn't keep the race, and has
// no effect any more.
func TestRaceStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		release := make(chan struct{})
		var late atomic.Bool
		fn := func(c *Context, _ int) (int, error) {
			_, n, err := Race(c, "r",
				branchOf("stuck step", func(c *Context) (int, error) {
					return Step(c, "s", func(context.Context) (int, error) { <-release; return 1, nil })
				}),
				branchOf("stuck code", func(c *Context) (int, error) {
					<-release
					defer late.Store(true)
					return Step(c, "s", work(r, "late", 2))
				}),
				branchOf("quick", func(c *Context) (int, error) { c.Sleep("s", time.Second); return 3, nil }))
			c.Sleep("pause", time.Hour)
			return n, err
		}
		w := begin(r, fn, 0)
		start := time.Now()
		output(r, w, 3)
		if took := time.Since(start); took > time.Hour+20*time.Second {
			t.Errorf("took %v", took)
		}
		close(release)
		synctest.Wait()
		if !late.Load() {
			t.Error("the branch did not go on")
		}
		r.wantDid()
		if got := len(r.paths(w.Workflow)); got != 3 {
			t.Errorf("recorded %q", r.paths(w.Workflow))
		}
		r.same(w.Workflow)
	})
}

// TestRaceLoserCompletes: a loser that completes late stays one that has lost.
func TestRaceBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			r := newRig(t)
			fn := func(c *Context, _ int) (string, error) {
				b := func(name string) Branch[int] {
					return branchOf(name, func(c *Context) (int, error) {
						n, err := Step(c, "s", func(context.Context) (int, error) { later(time.Second); return 1, nil })
						c.Now("t")
						return n, err
					})
				}
				winner, _, err := Race(c, "r", b("a"), b("b"), b("c"))
				return winner, err
			}
			w := begin(r, fn, 0)
			winner, err := w.Live(ctx)
			must(t, err)
			e, _ := r.entry(w.Workflow, "r")
			for _, b := range e.Kind.(RaceEntry).Branches {
				if (b.Status == BranchCompleted) != (b.Name == winner) {
					t.Errorf("%s has won, and %s is %v", winner, b.Name, b.Status)
				}
			}
			for _, p := range r.paths(w.Workflow) {
				if p != "r" && !strings.HasPrefix(p, "r/"+winner+"/") {
					t.Errorf("%s is left", p)
				}
			}
			r.same(w.Workflow)
			r.close()
		}
	})
}

// TestRaceInside: nested races and joins whose losers wait, so that nothing hangs and
// nothing is counted twice.
func TestRaceInside(t *testing.T) {
	for _, live := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			wait := func(d time.Duration) Branch[int] {
				return branchOf(fmt.Sprint(d), func(c *Context) (int, error) { c.Sleep("s", d); return int(d / time.Minute), nil })
			}
			race := func(name string, bs ...Branch[int]) Branch[int] {
				return branchOf(name, func(c *Context) (int, error) {
					_, n, err := Race(c, "race", bs...)
					return n, err
				})
			}
			join := func(name string, bs ...Branch[int]) Branch[int] {
				return branchOf(name, func(c *Context) (int, error) {
					ns, err := Join(c, "join", bs...)
					sum := 0
					for _, n := range ns {
						sum += n
					}
					return sum, err
				})
			}
			fn := func(c *Context, _ int) (int, error) {
				_, n, err := Race(c, "r", join("j", wait(time.Hour), wait(time.Minute)),
					race("deep", join("j2", wait(time.Hour), wait(2*time.Hour)), race("deeper", wait(5*time.Minute), wait(time.Hour))))
				if err != nil {
					return 0, err
				}
				m, err := Join(c, "after", race("again", wait(time.Minute), wait(time.Hour)), wait(2*time.Minute))
				return n*100 + m[0]*10 + m[1], err
			}
			w := begin(r, fn, 0)
			start := time.Now()
			for !live {
				s, err := w.Run(ctx)
				must(t, err)
				if s.State == Completed {
					break
				}
				later(time.Until(s.Until))
				w = again(r, fn)
			}
			output(r, w, 512)
			if took := time.Since(start); took != 7*time.Minute {
				t.Errorf("took %v", took)
			}
			r.same(w.Workflow)
		})
	}
}

// TestParallelNames: workflows of the same names in parallel branches don't meet.
func TestParallelNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (int, error) {
			var bs []Branch[int]
			for i := range 20 {
				bs = append(bs, branchOf(fmt.Sprint(i), func(c *Context) (int, error) {
					return LoopWith(c, "l", 0, &LoopOptions{Commit: 2, Keep: 1}, func(c *Context, n *int) (int, bool, error) {
						v, err := Step(c, "s", func(context.Context) (int, error) { return i, nil })
						*n += v
						return *n, *n >= 3*i, err
					})
				}))
			}
			outs, err := Join(c, "j", bs...)
			for i, n := range outs {
				if n != 3*i {
					t.Errorf("branch %d returned %d", i, n)
				}
			}
			return len(outs), err
		}
		w := begin(r, fn, 0)
		output(r, w, 20)
		r.same(w.Workflow)
	})
}
