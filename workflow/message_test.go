package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

func (r *rig) send(name string, body any) queue.ID {
	r.t.Helper()
	id, err := r.q.Enqueue(ctx, queue.Send{Name: name, Body: body})
	must(r.t, err)
	return id
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (string, error) {
			m, err := ReceiveWith[string](c, "answer", &ReceiveOptions{Names: []string{"yes", "no", "yes"}})
			if err != nil {
				return "", err
			}
			r.do(m.Name)
			all, err := ReceiveAll[int](c, "numbers", &ReceiveOptions{Names: []string{"n"}, Count: 3})
			if err != nil {
				return "", err
			}
			sum := 0
			for _, n := range all {
				sum += n.Body
			}
			c.Sleep("pause", time.Hour)
			return fmt.Sprint(m.Body, " ", m.ID, " ", sum, " ", len(all), " ", m.Created.IsZero()), nil
		}
		w := begin(r, fn, 0)
		s := status(r, w, Sleeping)
		if fmt.Sprint(s.Names) != "[no yes]" || s.AnyName || !s.Until.IsZero() {
			t.Errorf("%+v", s)
		}
		r.send("other", 1)
		status(r, w, Sleeping)
		r.wantDid()
		r.send("no", "never")
		for i := range 5 {
			r.send("n", i)
		}
		w = again(r, fn)
		n := r.counted(func() { status(r, w, Sleeping) })
		if n.Commits != 4 { // two receptions, the sleep, the state
			t.Errorf("%d commits", n.Commits)
		}
		r.wantDid("no")
		if got := r.q.Len(); got != 3 {
			t.Errorf("%d messages are left", got)
		}
		r.same(w.Workflow)
		later(time.Hour)
		w = again(r, fn)
		output(r, w, "never 2 3 3 false")
		want := "[answer:count answer:0 numbers:count numbers:0 numbers:1 numbers:2 pause]"
		if got := strings.ReplaceAll(fmt.Sprint(r.paths(w.Workflow)), `"`, ""); got != want {
			t.Errorf("recorded %s, want %s", got, want)
		}
	})
}

// TestReceiveLive: messages and deadlines wake a workflow in memory.
func TestReceiveLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (string, error) {
			m, err := Receive[string](c, "a")
			if err != nil {
				return "", err
			}
			_, err = ReceiveWith[string](c, "b", &ReceiveOptions{Timeout: time.Hour})
			if !errors.Is(err, ErrTimedOut) {
				t.Errorf("got %v", err)
			}
			none, err := ReceiveAll[string](c, "c", &ReceiveOptions{Until: time.Now().Add(time.Hour)})
			if len(none) > 0 || err != nil {
				t.Errorf("got %v, %v", none, err)
			}
			return m.Body, nil
		}
		w := begin(r, fn, 0)
		go func() {
			later(time.Minute)
			s := w.Status()
			if !s.AnyName || s.State != Sleeping {
				t.Errorf("%+v", s)
			}
			r.send("x", "hello")
		}()
		start := time.Now()
		output(r, w, "hello")
		if took := time.Since(start); took != 2*time.Hour+time.Minute {
			t.Errorf("took %v", took)
		}
		r.same(w.Workflow)
	})
}

// TestReceiveTimeout: a timeout is recorded, and a message that is there when the workflow
// looks is received, though the time is over.
func TestReceiveTimeout(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			fn := func(c *Context, _ int) (string, error) {
				out := "none"
				m, err := ReceiveWith[string](c, "a", &ReceiveOptions{Timeout: time.Hour})
				if err == nil {
					out = m.Body
				} else if !errors.Is(err, ErrTimedOut) {
					return "", err
				}
				c.Sleep("pause", time.Hour)
				return out, nil
			}
			w := begin(r, fn, 0)
			s := status(r, w, Sleeping)
			if !s.AnyName || time.Until(s.Until) != time.Hour {
				t.Errorf("%+v", s)
			}
			later(2 * time.Hour)
			want := "none"
			if late {
				r.send("m", "late")
				want = "late"
			}
			status(r, w, Sleeping)
			if !late {
				r.send("m", "too late")
			}
			w = again(r, fn)
			later(time.Hour)
			output(r, w, want)
			r.same(w.Workflow)
		})
	}
}

// TestDecided: what was decided is recorded before work begins that depends on it: after a
// crash in the middle of it a message that has come doesn't change it, nor new code.
func TestDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		latest := 1
		fn := func(c *Context, _ int) (string, error) {
			out := fmt.Sprint(Version(c, "version", latest))
			if _, err := ReceiveWith[string](c, "a", &ReceiveOptions{Timeout: time.Hour}); errors.Is(err, ErrTimedOut) {
				out += " timed out"
			}
			return StepWith(c, "tells", &StepOptions{Unrecorded: true}, func(context.Context) (string, error) {
				r.do(out)
				if len(r.did) == 1 {
					r.engine.Tear(0)
				}
				return out, nil
			})
		}
		w := begin(r, fn, 0)
		_, err := w.Live(ctx)
		wantErr(t, "live", err, ErrStorage)
		r.reopen()
		latest = 2
		r.send("m", "late")
		output(r, attach(r, fn), "1 timed out")
		r.wantDid("1 timed out", "1 timed out")
	})
}

// TestReceiveFailure: a failure between reception and record loses no message: both are
// one commit.
func TestReceiveFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply} {
			r := newRig(t)
			fn := func(c *Context, _ int) (string, error) {
				m, err := Receive[string](c, "a")
				if err != nil {
					t.Errorf("the code is told: %v", err)
					return "", err
				}
				return m.Body, nil
			}
			w := begin(r, fn, 0)
			r.send("m", "precious")
			r.engine.Fail(faultkv.Rule{Point: point})
			_, err := w.Run(ctx)
			wantErr(t, "run", err, ErrStorage)
			w = again(r, fn)
			output(r, w, "precious")
			if r.q.Len() != 0 {
				t.Error("the message is still there")
			}
			r.close()
		}
	})
}

func TestCompletable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (string, error) {
			m, err := ReceiveWith[string](c, "a", &ReceiveOptions{Completable: true})
			if err != nil {
				return "", err
			}
			c.Sleep("long", 48*time.Hour) // longer than any lease
			_, err = Receive[string](c, "before it is completed")
			wantErr(t, "receive", err, ErrPrevious)
			var invalid *queue.InvalidError
			if err := m.Complete(c, func() {}); !errors.As(err, &invalid) {
				t.Errorf("complete: %v", err)
			}
			if err := m.Complete(c, "done"); err != nil {
				return "", err
			}
			wantErr(t, "complete", m.Complete(c, "done"), ErrCompleted)
			n, err := Receive[string](c, "b")
			if err != nil {
				return "", err
			}
			c.Sleep("again", time.Hour)
			return m.Body + n.Body, nil
		}
		w := begin(r, fn, 0)
		id := r.send("m", "x")
		status(r, w, Sleeping)
		later(24 * time.Hour)
		if msgs, err := r.q.TryReceive(ctx, nil); err != nil || len(msgs) > 0 {
			t.Fatalf("somebody else gets %v, %v", msgs, err)
		}
		w = again(r, fn)
		status(r, w, Sleeping)
		later(24 * time.Hour)
		a, err := r.q.Expect(id)
		must(t, err)
		status(r, w, Sleeping)
		raw, err := a.Wait(ctx)
		must(t, err)
		var response string
		must(t, raw.Decode(&response))
		if response != "done" || r.q.Len() != 0 {
			t.Errorf("answered %q, %d messages are left", response, r.q.Len())
		}
		r.send("m", "y")
		w = again(r, fn)
		status(r, w, Sleeping)
		later(time.Hour)
		w = again(r, fn)
		output(r, w, "xy")
		r.same(w.Workflow)
	})
}

// TestGiveBack: messages that are not completed are visible again when the workflow is
// over, however that came.
func TestGiveBack(t *testing.T) {
	for _, how := range []string{"completes", "fails", "cancelled", "iteration", "lost race", "continues"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				receive := func(c *Context) (int, error) {
					_, err := ReceiveWith[string](c, "a", &ReceiveOptions{Completable: true, Names: []string{"m"}})
					return 1, err
				}
				fn := func(c *Context, n int) (int, error) {
					if n == 1 {
						return 0, nil
					}
					switch how {
					case "iteration":
						return Loop(c, "l", 0, func(c *Context, _ *int) (int, bool, error) { n, err := receive(c); return n, true, err })
					case "lost race":
						_, n, err := Race(c, "r", Branch[int]{"l", func(c *Context) (int, error) {
							_, _ = receive(c)
							c.Sleep("long", time.Hour)
							return 0, nil
						}}, Branch[int]{"w", func(c *Context) (int, error) { c.Sleep("long", time.Minute); return 1, nil }})
						return n, err
					}
					n, err := receive(c)
					c.Sleep("long", time.Hour)
					switch how {
					case "fails":
						return 0, errors.New("failed")
					case "continues":
						ContinueAsNew(c, 1)
					}
					return n, err
				}
				w := begin(r, fn, 0)
				r.send("m", "x")
				if how == "iteration" {
					status(r, w, Completed)
				} else {
					status(r, w, Sleeping)
				}
				later(time.Hour)
				if how == "cancelled" {
					must(t, w.Cancel(ctx))
				} else {
					_, err := w.Run(ctx)
					must(t, err)
				}
				msgs, err := r.q.TryReceive(ctx, nil)
				must(t, err)
				if len(msgs) != 1 {
					t.Errorf("%d messages", len(msgs))
				}
				r.same(w.Workflow)
			})
		})
	}
}

func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (int, error) {
			id, err := Send(c, "send", queue.Send{Name: "m", Body: 5})
			if err != nil || id != 1 {
				t.Errorf("sent %v, %v", id, err)
			}
			c.Sleep("pause", time.Hour)
			m, err := Receive[int](c, "receive")
			return m.Body, err
		}
		w := begin(r, fn, 0)
		status(r, w, Sleeping)
		if r.q.Len() != 1 {
			t.Errorf("%d messages", r.q.Len())
		}
		w = again(r, fn)
		status(r, w, Sleeping)
		later(time.Hour)
		output(r, w, 5)
		if r.q.Len() != 0 {
			t.Errorf("%d messages", r.q.Len())
		}
	})
}

// TestQueueCloses: the workflow doesn't fail if a queue is closed too early.
func TestQueueCloses(t *testing.T) {
	for _, what := range []string{"send", "receive", "complete", "wait", "end"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				closes := true
				fn := func(c *Context, _ int) (int, error) {
					shut := func(when string) {
						if closes && what == when {
							must(t, r.q.Close())
						}
					}
					shut("send")
					if _, err := Send(c, "send", queue.Send{Name: "a"}); err != nil {
						return 0, err
					}
					shut("receive")
					m, err := ReceiveWith[any](c, "receive", &ReceiveOptions{Completable: true})
					if err != nil {
						return 0, err
					}
					shut("complete")
					if what != "end" {
						if err := m.Complete(c, nil); err != nil {
							return 0, err
						}
					}
					shut("end")
					if what == "wait" {
						_, err = Receive[any](c, "wait")
					}
					return 1, err
				}
				w := begin(r, fn, 0)
				if what == "wait" {
					go func() {
						later(time.Hour)
						must(t, r.q.Close())
					}()
				}
				_, err := w.Live(ctx)
				wantErr(t, "live", err, ErrStorage)
				wantErr(t, "live", err, queue.ErrClosed)
				closes = false
				w = again(r, fn)
				if what == "wait" {
					r.send("m", 1)
				}
				output(r, w, 1)
				r.same(w.Workflow)
			})
		})
	}
}

// TestMessageBody: a body that is of another type comes with the error, in every run.
func TestMessageBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (string, error) {
			m, err := Receive[int](c, "m")
			if m == nil || err == nil {
				t.Fatalf("got %v, %v", m, err)
			}
			var s string
			return s, m.Raw.Decode(&s)
		}
		w := begin(r, fn, 0)
		r.send("m", "text")
		status(r, w, Completed)
	})
}

// TestLargeMessage: a message that the history has no room for stays in the queue.
func TestLargeMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (string, error) {
			_, err := Receive[string](c, "m")
			wantErr(t, "receive", err, ErrTooLarge)
			return "", nil
		}
		w := begin(r, fn, 0)
		r.send("m", strings.Repeat("x", 128<<10-60))
		status(r, w, Completed)
		if r.q.Len() != 1 {
			t.Error("the message is gone")
		}
	})
}

// TestOtherMessages: what another program has recorded without a marker is a message, too.
func TestOtherMessages(t *testing.T) {
	d := delivery{name: "m"}
	must(t, d.parse(history.Message{Name: "m", Data: []byte{0x05}}))
	if !d.data.Completed || string(d.data.Body) != "\x05" || d.data.Name != "m" {
		t.Errorf("%+v", d)
	}
	if d.parse(history.Message{Name: "m", Data: []byte{0xff}}) == nil {
		t.Error("damaged data are a message")
	}
}
