package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/workflow"
)

var ctx = context.Background()

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A shop is an actor with a queue.
type shop struct {
	store *actorstore.Store
	actor *actorstore.Actor
	queue *queue.Queue
}

func open() *shop {
	store, err := actorstore.Open(ctx, memkv.New(), nil)
	check(err)
	actor, err := store.Named(ctx, "shop", nil)
	check(err)
	q, err := queue.Open(ctx, actor, nil)
	check(err)
	return &shop{store, actor, q}
}

func (s *shop) close() {
	check(s.queue.Close())
	check(s.actor.Close())
	check(s.store.Close())
}

// run runs a workflow to its end and prints what it returns.
func run[In, Out any](s *shop, fn workflow.Func[In, Out], in In) {
	w, err := workflow.Open(ctx, s.actor, fn, &workflow.Options{Queue: s.queue})
	check(err)
	defer w.Close()
	check(w.Start(ctx, in))
	fmt.Println(w.Live(ctx))
}

// A workflow alone, on an actor and its queue.
func Example_alone() {
	s := open()
	defer s.close()
	order := func(c *workflow.Context, item string) (string, error) {
		receipt, err := workflow.Step(c, "charge", func(ctx context.Context) (string, error) {
			fmt.Println("charging for", item)
			return "receipt 7", nil
		})
		if err != nil {
			return "", err
		}
		c.Sleep("let it rest", 10*time.Millisecond)
		return receipt, workflow.Do(c, "ship", func(ctx context.Context) error {
			fmt.Println("shipping", item)
			return nil
		})
	}
	run(s, order, "tea")
	// Output:
	// charging for tea
	// shipping tea
	// receipt 7 <nil>
}

func ExampleRunner_Run() {
	s := open()
	defer s.close()
	fn := func(c *workflow.Context, name string) (string, error) {
		m, err := workflow.ReceiveWith[string](c, "answer", &workflow.ReceiveOptions{Names: []string{"yes", "no"}})
		if err != nil {
			return "", err
		}
		return name + " says " + m.Name, nil
	}
	w, err := workflow.Open(ctx, s.actor, fn, &workflow.Options{Queue: s.queue})
	check(err)
	defer w.Close()
	check(w.Start(ctx, "Ada"))
	st, err := w.Run(ctx)
	fmt.Println(st.State, st.Names, err) // nothing of it is needed in memory now
	_, err = s.queue.Enqueue(ctx, queue.Send{Name: "yes"})
	check(err)
	st, err = w.Run(ctx)
	fmt.Println(st.State, err)
	fmt.Println(w.Output())
	// Output:
	// sleeping [no yes] <nil>
	// completed <nil>
	// Ada says yes <nil>
}

func ExampleStep() {
	s := open()
	defer s.close()
	run(s, func(c *workflow.Context, _ int) (string, error) {
		return workflow.StepWith(c, "call", &workflow.StepOptions{
			MaxAttempts: 5, Backoff: time.Millisecond, Jitter: 0.2, Timeout: time.Minute,
		}, func(ctx context.Context) (string, error) {
			info, _ := workflow.StepInfoOf(ctx)
			if info.Attempt < 3 {
				return "", errors.New("line is busy")
			}
			return fmt.Sprint("attempt ", info.Attempt), nil
		})
	}, 0)
	// Output: attempt 3 <nil>
}

func ExamplePermanent() {
	s := open()
	defer s.close()
	errDeclined := errors.New("card declined")
	fn := func(c *workflow.Context, _ int) (string, error) {
		err := workflow.Do(c, "charge", func(context.Context) error { return workflow.Permanent(errDeclined) })
		if errors.Is(err, errDeclined) { // in a later run, too
			return "asking for another card", nil
		}
		return "charged", err
	}
	w, err := workflow.Open(ctx, s.actor, fn, &workflow.Options{Errors: map[string]error{"declined": errDeclined}})
	check(err)
	defer w.Close()
	check(w.Start(ctx, 0))
	fmt.Println(w.Live(ctx))
	// Output: asking for another card <nil>
}

func ExampleStepWithin() {
	s := open()
	defer s.close()
	db, err := vfs.Open(ctx, s.actor, nil)
	check(err)
	defer db.Close()
	_, err = db.ExecContext(ctx, "create table booking(seat integer)")
	check(err)
	run(s, func(c *workflow.Context, seat int) (int64, error) {
		return workflow.StepWithin(c, "book", func(ctx context.Context, land func(*batch.Batch, int64) error) error {
			return db.Update(ctx, func(tx *vfs.Tx) error {
				res, err := tx.ExecContext(ctx, "insert into booking values (?)", seat)
				if err != nil {
					return err
				}
				id, err := res.LastInsertId()
				if err != nil {
					return err
				}
				return land(tx.Batch(), id) // one commit: the row, and that the step is done
			})
		})
	}, 12)
	// Output: 1 <nil>
}

func ExampleLoop() {
	s := open()
	defer s.close()
	type state struct{ Page, Items int }
	run(s, func(c *workflow.Context, pages int) (int, error) {
		return workflow.Loop(c, "pages", state{}, func(c *workflow.Context, s *state) (int, bool, error) {
			n, err := workflow.Step(c, "fetch", func(context.Context) (int, error) { return 10, nil })
			if err != nil {
				return 0, false, err
			}
			s.Page++
			s.Items += n
			return s.Items, s.Page == pages, nil
		})
	}, 5)
	// Output: 50 <nil>
}

func ExampleReceive() {
	s := open()
	defer s.close()
	_, err := s.queue.Enqueue(ctx, queue.Send{Name: "approval", Body: map[string]string{"by": "Bob"}})
	check(err)
	type approval struct{ By string }
	run(s, func(c *workflow.Context, _ int) (string, error) {
		m, err := workflow.ReceiveWith[approval](c, "approval", &workflow.ReceiveOptions{
			Names: []string{"approval"}, Timeout: 24 * time.Hour, Completable: true,
		})
		if errors.Is(err, workflow.ErrTimedOut) {
			return "nobody approved", nil
		}
		if err != nil {
			return "", err
		}
		return "approved by " + m.Body.By, m.Complete(c, "thank you")
	}, 0)
	// Output: approved by Bob <nil>
}

func ExampleReceiveAll() {
	s := open()
	defer s.close()
	run(s, func(c *workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := workflow.Send(c, fmt.Sprint("send ", i), queue.Send{Name: "number", Body: i}); err != nil {
				return 0, err
			}
		}
		ms, err := workflow.ReceiveAll[int](c, "numbers", &workflow.ReceiveOptions{Names: []string{"number"}, Count: 100})
		sum := 0
		for _, m := range ms {
			sum += m.Body
		}
		return sum, err
	}, 5)
	// Output: 10 <nil>
}

func ExampleJoin() {
	s := open()
	defer s.close()
	warehouse := func(name string, items int) workflow.Branch[int] {
		return workflow.Branch[int]{Name: name, Run: func(c *workflow.Context) (int, error) {
			return workflow.Step(c, "count", func(context.Context) (int, error) { return items, nil })
		}}
	}
	run(s, func(c *workflow.Context, _ int) ([]int, error) {
		return workflow.Join(c, "count all", warehouse("north", 3), warehouse("south", 4))
	}, 0)
	// Output: [3 4] <nil>
}

func ExampleGroup() {
	s := open()
	defer s.close()
	run(s, func(c *workflow.Context, item string) (string, error) {
		g := workflow.NewGroup("prepare")
		price := workflow.Go(g, "price", func(c *workflow.Context) (int, error) { return 12, nil })
		label := workflow.Go(g, "label", func(c *workflow.Context) (string, error) { return "to Ada: " + item, nil })
		if err := g.Join(c); err != nil {
			return "", err
		}
		return fmt.Sprint(label.Value(), ", ", price.Value()), nil
	}, "tea")
	// Output: to Ada: tea, 12 <nil>
}

func ExampleRace() {
	s := open()
	defer s.close()
	run(s, func(c *workflow.Context, _ int) (string, error) {
		winner, _, err := workflow.Race(c, "first",
			workflow.Branch[int]{Name: "tortoise", Run: func(c *workflow.Context) (int, error) {
				c.Sleep("walk", time.Hour)
				return 0, nil
			}},
			workflow.Branch[int]{Name: "hare", Run: func(c *workflow.Context) (int, error) {
				c.Sleep("run", time.Millisecond)
				return 0, nil
			}})
		return winner, err
	}, 0)
	// Output: hare <nil>
}

func ExampleContext_RollbackCheckpoint() {
	s := open()
	defer s.close()
	run(s, func(c *workflow.Context, _ int) (int, error) {
		c.RollbackCheckpoint("from here on")
		_, err := workflow.StepWith(c, "charge", &workflow.StepOptions{
			Undo: workflow.UndoStep(func(ctx context.Context, sum int) error {
				fmt.Println("paying back", sum)
				return nil
			}),
		}, func(context.Context) (int, error) { return 30, nil })
		if err != nil {
			return 0, err
		}
		return 0, errors.New("nothing left to ship")
	}, 0)
	// Output:
	// paying back 30
	// 0 workflow: failed: nothing left to ship
}

func ExampleSideEffect() {
	s := open()
	defer s.close()
	run(s, func(c *workflow.Context, _ int) (bool, error) {
		n := workflow.SideEffect(c, "lucky number", func() int { return 7 })
		now, id, r := c.Now("now"), c.UUID("id"), c.Rand("dice")
		return n == 7 && !now.IsZero() && len(id) == 36 && r.IntN(6) < 6, nil
	}, 0)
	// Output: true <nil>
}

func ExampleVersion() {
	s := open()
	defer s.close()
	run(s, func(c *workflow.Context, _ int) (string, error) {
		if workflow.Version(c, "by air", 2) == 1 {
			return "by ship", nil // for workflows that were there before
		}
		workflow.Removed[workflow.StepEntry](c, "customs") // in the place of a step that is gone
		return "by air", nil
	}, 0)
	// Output: by air <nil>
}

func ExampleContinueAsNew() {
	s := open()
	defer s.close()
	run(s, func(c *workflow.Context, day int) (string, error) {
		c.Sleep("a day", time.Millisecond)
		if day < 3 {
			workflow.ContinueAsNew(c, day+1) // with an empty history
		}
		return fmt.Sprint("day ", day), nil
	}, 1)
	// Output: day 3 <nil>
}

func ExampleWorkflow_Resume() {
	s := open()
	defer s.close()
	repaired := false
	fn := func(c *workflow.Context, _ int) (string, error) {
		return workflow.StepWith(c, "print", &workflow.StepOptions{MaxAttempts: 2, Backoff: -1, Pause: true}, func(context.Context) (string, error) {
			if !repaired {
				return "", errors.New("out of paper")
			}
			return "printed", nil
		})
	}
	w, err := workflow.Open(ctx, s.actor, fn, nil)
	check(err)
	defer w.Close()
	check(w.Start(ctx, 0))
	st, err := w.Run(ctx)
	fmt.Println(st.State, st.Paused, err)
	repaired = true
	check(w.Resume(ctx))
	fmt.Println(w.Live(ctx))
	// Output:
	// sleeping [print] <nil>
	// printed <nil>
}

func ExampleWorkflow_Cancel() {
	s := open()
	defer s.close()
	fn := func(c *workflow.Context, _ int) (int, error) {
		c.Sleep("long", time.Hour)
		return 1, nil
	}
	w, err := workflow.Open(ctx, s.actor, fn, nil)
	check(err)
	defer w.Close()
	check(w.Start(ctx, 0))
	st, err := w.Run(ctx)
	fmt.Println(st.State, err)
	check(w.Cancel(ctx))
	fmt.Println(w.Output())
	// Output:
	// sleeping <nil>
	// 0 workflow: cancelled
}

func ExampleRead() {
	s := open()
	defer s.close()
	run(s, func(c *workflow.Context, _ int) (string, error) {
		c.SleepUntil("pause", time.Time{})
		return "done", workflow.Do(c, "work", func(context.Context) error { return nil })
	}, 0)
	snap, err := s.actor.Snapshot(ctx)
	check(err)
	defer snap.Close()
	h, damage, err := workflow.Read(ctx, snap)
	check(err)
	for _, e := range h.ByAge() {
		fmt.Println(h.Path(e.Location), e.Type(), e.Metadata.Status)
	}
	fmt.Println(h.State, len(damage))
	// Output:
	// done <nil>
	// pause sleep completed
	// work step completed
	// completed 0
}
