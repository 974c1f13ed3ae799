package greenroom_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
)

// runs has the actor of a rig run, in a bubble, and returns what ends that and returns
// what Run has returned.
func (r *rig) runs(t testing.TB) (end func() error) {
	over, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.actor.Run(over) }()
	synctest.Wait()
	return func() error { cancel(); return <-done }
}

// pass lets d pass in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// note is a handler that appends its argument, its attempt and the time since the start to the key "notes".
func note(tx *greenroom.Tx, d *greenroom.Delivery) error {
	var arg string
	if err := d.Decode(&arg); err != nil {
		return err
	}
	notes, err := tx.Get([]byte("notes"))
	if err != nil && !errors.Is(err, greenroom.ErrNotFound) {
		return err
	}
	return tx.Put([]byte("notes"), fmt.Appendf(notes, "%s %s %d;", d.Name, arg, d.Attempt))
}

// notes returns what note has written.
func (r *rig) notes(t testing.TB) string {
	t.Helper()
	var notes []byte
	must(t, r.actor.View(ctx, func(v *greenroom.View) (err error) {
		if notes, err = v.Get([]byte("notes")); errors.Is(err, greenroom.ErrNotFound) {
			err = nil
		}
		return err
	}))
	return string(notes)
}

// left returns how many messages and events the actor has stored.
func (r *rig) left(t testing.TB) (messages, events int) {
	t.Helper()
	must(t, r.actor.View(ctx, func(v *greenroom.View) error {
		for _, err := range v.Messages(nil) {
			if messages++; err != nil {
				return err
			}
		}
		all, err := v.Events()
		events = len(all)
		return err
	}))
	return messages, events
}

// TestRun: messages and events are given to their handlers, each with one commit, and what
// comes with a handler's own transaction, too.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		r.actor.Handle("m", note)
		r.actor.Handle("e", func(tx *greenroom.Tx, d *greenroom.Delivery) error {
			if d.Message != nil || d.Event == nil || d.Event.Action != "e" {
				t.Errorf("an event came as %+v", d)
			}
			_, err := tx.Enqueue(queue.Send{Name: "m", Body: "of the event"})
			return errors.Join(err, note(tx, d))
		})
		r.actor.Handle("cron", note)
		r.update(t, func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: "m", Body: "first"})
			_, err2 := tx.After(time.Second, "e", "arg", "another")
			_, err3 := tx.Schedule(persist.Job{ID: "c", Action: "cron", Cron: "@every 10s"})
			return errors.Join(err, err2, err3)
		})
		r.engine.Reset()
		end := r.runs(t)
		wantErr(t, "run twice", r.actor.Run(ctx), persist.ErrStarted)
		pass(15 * time.Second)
		if got, want := r.notes(t), "m first 1;e arg 1;m of the event 1;cron  1;"; got != want {
			t.Errorf("handled %s, want %s", got, want)
		}
		if m, e := r.left(t); m != 0 || e != 1 {
			t.Errorf("%d messages and %d events are left", m, e)
		}
		if c := r.engine.Counts(); c.Commits != 4 || c.Durable != 4 {
			t.Errorf("four deliveries took %+v", c)
		}
		must(t, end())
		r.update(t, func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: "m", Body: "later"})
			return err
		})
		pass(time.Hour)
		if m, e := r.left(t); m != 1 || e != 1 {
			t.Errorf("after the end %d messages and %d events are left", m, e)
		}
		end = r.runs(t)
		wantErr(t, "run twice", r.actor.Run(ctx), persist.ErrStarted)
		pass(15 * time.Second)
		if m, e := r.left(t); m != 0 || e != 1 {
			t.Errorf("run again, %d messages and %d events are left", m, e)
		}
		if got := r.notes(t); strings.Count(got, "cron") != 3 || !strings.Contains(got, "m later 1;") {
			t.Errorf("run again, it has handled %s", got)
		}
		must(t, end())
	})
}

// TestRunFails: what a handler fails for comes again later, with nothing of it done, and
// keeps nothing else waiting.
func TestRunFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		var called []string
		began := time.Now()
		fails := func(tx *greenroom.Tx, d *greenroom.Delivery) error {
			called = append(called, fmt.Sprintf("%s%d@%v", d.Name, d.Attempt, time.Since(began)))
			if err := errors.Join(note(tx, d), greenroom.SetState(tx, "failed")); err != nil {
				return err
			}
			switch d.Attempt {
			case 1:
				return errors.New("no")
			case 2:
				panic("boom")
			case 3:
				return tx.Put([]byte("large"), make([]byte, 1<<20))
			}
			return greenroom.SetState(tx, "")
		}
		r.actor.Handle("m", fails)
		r.actor.Handle("e", fails)
		r.actor.Handle("good", note)
		r.update(t, func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: "m", Body: "x"})
			_, err2 := tx.Enqueue(queue.Send{Name: "good", Body: "x"})
			_, err3 := tx.After(0, "e", "x")
			return errors.Join(err, err2, err3)
		})
		end := r.runs(t)
		if got := r.notes(t); got != "good x 1;" {
			t.Errorf("at first handled %s", got)
		}
		pass(20 * time.Second)
		must(t, end())
		slices.Sort(called)
		if got, want := strings.Join(called, " "), "e1@0s e2@1s e3@3s e4@7s m1@0s m2@1s m3@3s m4@7s"; got != want {
			t.Errorf("called %s, want %s", got, want)
		}
		if m, e := r.left(t); m != 0 || e != 0 {
			t.Errorf("%d messages and %d events are left", m, e)
		}
		if n := r.log.lines("handler failed"); n != 3 {
			t.Errorf("%d failures of messages are logged", n)
		}
		if got := r.notes(t); !strings.Contains(got, "m x 4;") || !strings.Contains(got, "e x 4;") || strings.Contains(got, "3") {
			t.Errorf("handled %s", got)
		}
	})
}

// TestRunSettled: a handler may complete its message, give it back, or answer it itself.
func TestRunSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		r.actor.Handle("answers", func(tx *greenroom.Tx, d *greenroom.Delivery) error { return d.Message.Complete("yes") })
		r.actor.Handle("waits", func(tx *greenroom.Tx, d *greenroom.Delivery) error {
			if d.Attempt < 3 {
				return d.Message.Nack(time.Minute, nil)
			}
			return note(tx, d)
		})
		end := r.runs(t)
		q, err := r.actor.Queue(ctx)
		must(t, err)
		answer, err := q.EnqueueAndWait(ctx, queue.Send{Name: "answers"}, time.Minute)
		if got := string(answer); err != nil || !strings.Contains(got, "yes") {
			t.Errorf("answered %s, %v", got, err)
		}
		_, err = q.Enqueue(ctx, queue.Send{Name: "waits", Body: "x"})
		must(t, err)
		pass(time.Hour)
		if got := r.notes(t); got != "waits x 3;" {
			t.Errorf("handled %s", got)
		}
		must(t, end())
	})
}

// TestRunUnhandled: what has no handler stays, is logged once, and is handled when there is
// one.
func TestRunUnhandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		send := func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: "m", Body: "x"})
			_, err2 := tx.After(0, "e", "x")
			return errors.Join(err, err2)
		}
		r.update(t, send)
		end := r.runs(t)
		r.update(t, send)
		_, err := r.actor.Queue(ctx)
		must(t, err)
		r.update(t, func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: "later", Body: "x"})
			return err
		})
		r.engine.Reset()
		pass(30 * time.Minute) // before the spans are written
		if c := r.engine.Counts(); c.Commits != 0 {
			t.Errorf("waiting for handlers took %+v", c)
		}
		if m, e := r.left(t); m != 3 || e != 2 {
			t.Errorf("%d messages and %d events are left", m, e)
		}
		for what, want := range map[string]int{"no handler": 2, "no action": 1} {
			if n := r.log.lines(what); n != want {
				t.Errorf("%q is logged %d times, want %d:\n%s", what, n, want, &r.log.b)
			}
		}
		if next := r.actor.Clock().Next(); !next.IsZero() {
			t.Errorf("the actor must be open at %v", next)
		}
		for _, name := range []string{"m", "e", "later"} {
			r.actor.Handle(name, note)
			synctest.Wait()
		}
		if got, want := r.notes(t), "m x 1;m x 1;e x 1;e x 1;later x 1;"; got != want {
			t.Errorf("handled %s, want %s", got, want)
		}
		must(t, end())
	})
}

// TestRunEnds: Run says why it ends, and Close waits for the handler that is called.
func TestRunEnds(t *testing.T) {
	boom := errors.New("boom")
	for name, kind := range map[string]string{"message": "m", "event": "e"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, batch.Limits{})
				entered, leave := make(chan struct{}), make(chan struct{})
				r.actor.Handle(kind, func(tx *greenroom.Tx, d *greenroom.Delivery) error {
					wantErr(t, "an update of the handler", r.actor.Update(ctx, create), greenroom.ErrNested)
					wantErr(t, "Close by the handler", r.actor.Close(), greenroom.ErrNested)
					close(entered)
					<-leave
					return create(tx) // opens the database and the connections
				})
				r.update(t, func(tx *greenroom.Tx) error {
					if kind == "m" {
						_, err := tx.Enqueue(queue.Send{Name: "m"})
						return err
					}
					_, err := tx.After(0, "e", "x")
					return err
				})
				ran := make(chan error, 1)
				go func() { ran <- r.actor.Run(ctx) }()
				<-entered
				closed := make(chan error, 2)
				for range 2 {
					go func() { closed <- r.actor.Close() }()
				}
				synctest.Wait()
				if len(closed) > 0 || len(ran) > 0 {
					t.Errorf("something returns while the handler runs")
				}
				close(leave)
				must(t, <-closed)
				must(t, <-closed)
				wantErr(t, "Run", <-ran, greenroom.ErrClosed)
				wantErr(t, "Run of a closed actor", r.actor.Run(ctx), greenroom.ErrClosed)
				r.actor = nil
				r.open(t)
				if m, e := r.left(t); m != 1 || e != 1 { // those that the handler has made
					t.Errorf("%d messages and %d events are left", m, e)
				}
			})
		})
	}
	t.Run("lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			r.actor.Handle("m", note)
			ran := make(chan error, 1)
			go func() { ran <- r.actor.Run(ctx) }()
			synctest.Wait()
			r.engine.Fail(faultkv.Rule{Point: faultkv.AfterApply, Err: boom})
			err := r.actor.Update(ctx, func(tx *greenroom.Tx) error {
				_, err := tx.Enqueue(queue.Send{Name: "m", Body: "x"})
				return err
			})
			wantErr(t, "Update", err, greenroom.ErrPoisoned)
			wantErr(t, "Run", <-ran, greenroom.ErrPoisoned)
			r.engine.Heal()
			r.open(t)
			r.actor.Handle("m", note)
			end := r.runs(t)
			if got := r.notes(t); got != "m x 1;" {
				t.Errorf("handled %s", got)
			}
			must(t, end())
		})
	})
}

// TestRunSettledByPart: a handler may settle its message through the queue's own Tx.
func TestRunSettledByPart(t *testing.T) {
	for name, settle := range map[string]func(q *queue.Tx, m *greenroom.Message) error{
		"complete": func(q *queue.Tx, m *greenroom.Message) error { return q.Complete(m.Receipt(), "done") },
		"nack":     func(q *queue.Tx, m *greenroom.Message) error { return q.Nack(ctx, m.Receipt(), 24*time.Hour, nil) },
		"delete":   func(q *queue.Tx, m *greenroom.Message) error { return q.Delete(m.ID) },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			calls := 0
			r.actor.Handle("m", func(tx *greenroom.Tx, d *greenroom.Delivery) error {
				calls++
				q, err := tx.Queue()
				if err != nil || d.Message.Settled() {
					t.Errorf("%s: settled before, or %v", name, err)
				}
				return settle(q, d.Message)
			})
			r.update(t, func(tx *greenroom.Tx) error { _, err := tx.Enqueue(queue.Send{Name: "m"}); return err })
			end := r.runs(t)
			pass(time.Hour)
			must(t, end())
			if calls != 1 {
				t.Errorf("%s: called %d times", name, calls)
			}
		})
	}
}

// TestRunGoexit: a handler that ends its goroutine has failed, and what comes next is
// delivered.
func TestRunGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		r.actor.Handle("ends", func(*greenroom.Tx, *greenroom.Delivery) error { runtime.Goexit(); return nil })
		r.actor.Handle("next", note)
		r.update(t, func(tx *greenroom.Tx) error {
			_, err1 := tx.After(0, "ends")
			_, err2 := tx.After(time.Second, "next", "event")
			_, err3 := tx.Enqueue(queue.Send{Name: "ends"})
			_, err4 := tx.Enqueue(queue.Send{Name: "next", Body: "message"})
			return errors.Join(err1, err2, err3, err4)
		})
		end := r.runs(t)
		pass(500 * time.Millisecond)
		if got := r.notes(t); got != "next message 1;" {
			t.Errorf("handled %s", got)
		}
		pass(time.Minute)
		if got := r.notes(t); got != "next message 1;next event 1;" {
			t.Errorf("handled %s", got)
		}
		must(t, end())
		must(t, r.actor.Close())
	})
}

// TestRunAgain: a Run whose context is done before it begins does nothing. One runs at a time, also while a handler of the
// Run before goes on, and any number one after the other.
func TestRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		over, cancel := context.WithCancel(ctx)
		cancel()
		must(t, r.actor.Run(over))
		began, release := make(chan bool), make(chan bool)
		r.actor.Handle("slow", func(*greenroom.Tx, *greenroom.Delivery) error { began <- true; <-release; return nil })
		for range 3 {
			r.update(t, func(tx *greenroom.Tx) error { _, err := tx.After(time.Second, "slow"); return err })
			over, cancel := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- r.actor.Run(over) }()
			<-began
			cancel()
			synctest.Wait()
			wantErr(t, "beside a handler", r.actor.Run(ctx), persist.ErrStarted)
			release <- true
			must(t, <-done)
		}
		if _, e := r.left(t); e != 0 {
			t.Errorf("%d events are left", e)
		}
		must(t, r.actor.Close())
		wantErr(t, "Run of a closed actor", r.actor.Run(over), greenroom.ErrClosed)
	})
}

// TestDeliverFull: where the queue is full, a message can be passed on by the transaction that
// completes it, and no more than that.
func TestDeliverFull(t *testing.T) {
	r := newRig(t, batch.Limits{})
	a, err := r.store.Actor(ctx, "full", &greenroom.ActorOptions{Queue: &greenroom.QueueOptions{MaxMessages: 2}})
	must(t, err)
	defer a.Close()
	send := func(tx *greenroom.Tx, body string) error {
		return second(tx.Enqueue(queue.Send{Name: "m", Body: body}))
	}
	must(t, a.Update(ctx, func(tx *greenroom.Tx) error { return errors.Join(send(tx, "1"), send(tx, "2")) }))
	must(t, a.Update(ctx, func(tx *greenroom.Tx) error {
		wantErr(t, "into a full queue", send(tx, "3"), greenroom.ErrQuota)
		m, err := tx.Receive("m")
		must(t, err)
		must(t, m.Complete(nil))
		must(t, send(tx, "3"))
		wantErr(t, "a second one", send(tx, "4"), greenroom.ErrQuota)
		return nil
	}))
	q, err := a.Queue(ctx)
	must(t, err)
	if n := q.Len(); n != 2 {
		t.Errorf("%d messages", n)
	}
}

// TestRunDeadLetter: a message whose handler fails as often as it may is a dead letter that has the handler's error.
func TestRunDeadLetter(t *testing.T) {
	for _, tt := range []struct {
		what       string
		fail       func() error
		code, text string
		attempts   int
	}{
		{"an error", func() error { return errors.New("it rains") }, "", "it rains", 2},
		{"one of a kind", func() error { return fmt.Errorf("pay: %w", greenroom.ErrConflict) }, "conflict", "pay: greenroom: conflict", 2},
		{"a panic", func() error { panic("no way") }, "panic", "greenroom: a handler panicked: no way\n", 2},
		{"the end of the goroutine", func() error { runtime.Goexit(); return nil }, "", "greenroom: the function of the update panicked", 2},
		{"a permanent error", func() error { return queue.Permanent(errors.New("it rains")) }, "", "it rains", 1},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, batch.Limits{})
				must(t, r.actor.Close())
				a, err := r.store.Actor(ctx, "dead", &greenroom.ActorOptions{Queue: &greenroom.QueueOptions{MaxReceive: 2}})
				must(t, err)
				r.actor = a
				a.Handle("m", func(*greenroom.Tx, *greenroom.Delivery) error { return tt.fail() })
				r.update(t, func(tx *greenroom.Tx) error {
					_, err := tx.Enqueue(queue.Send{Name: "m"})
					return err
				})
				end := r.runs(t)
				pass(time.Minute)
				must(t, end())
				n := 0
				must(t, a.View(ctx, func(v *greenroom.View) error {
					for m, err := range v.Messages(nil) {
						f := m.Failure
						if n++; err != nil || m.Name != "m.dlq" || f.Code != tt.code || !strings.HasPrefix(f.Text, tt.text) || len(f.Attempts) != tt.attempts {
							t.Errorf("got %+v, %v", m, err)
						}
					}
					return nil
				}))
				if n != 1 {
					t.Errorf("%d messages", n)
				}
			})
		})
	}
}
