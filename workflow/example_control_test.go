package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

func ExampleContext_Sleep() {
	s := open()
	defer s.close()
	w, err := workflow.Open(ctx, s.actor, func(c *workflow.Context, _ int) (string, error) {
		c.Sleep("a blink", time.Millisecond) // short enough for Run to wait
		c.SleepUntil("the new year", time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
		return "happy new year", nil
	}, nil)
	check(err)
	defer w.Close()
	check(w.Start(ctx, 0))
	st, err := w.Run(ctx)
	fmt.Println(st.State, st.Until.UTC(), err)
	// Output: sleeping 2100-01-01 00:00:00 +0000 UTC <nil>
}

func ExampleSend() {
	s := open()
	defer s.close()
	run(s, func(c *workflow.Context, _ int) (string, error) {
		if _, err := workflow.Send(c, "ask", queue.Send{Name: "question", Body: "how much?"}); err != nil {
			return "", err // it is sent once, however often the code runs
		}
		m, err := workflow.ReceiveWith[string](c, "question", &workflow.ReceiveOptions{Names: []string{"question"}})
		if err != nil {
			return "", err
		}
		return m.Body, nil
	}, 0)
	// Output: how much? <nil>
}

func ExampleStepOptions() {
	s := open()
	defer s.close()
	errBusy := errors.New("busy")
	run(s, func(c *workflow.Context, _ int) (string, error) {
		return workflow.StepWith(c, "call", &workflow.StepOptions{
			MaxAttempts: 10,
			Backoff:     time.Millisecond,
			MaxBackoff:  time.Second,
			Jitter:      0.5,
			Timeout:     time.Minute, // of each attempt
			MaxElapsed:  time.Hour,   // of all of them
			Retry: func(err error, attempt uint32) (time.Duration, bool) {
				return 0, errors.Is(err, errBusy) // the usual wait, or no more attempts
			},
		}, func(ctx context.Context) (string, error) {
			info, _ := workflow.StepInfoOf(ctx)
			if info.Attempt < 3 {
				return "", errBusy
			}
			return fmt.Sprint("attempt ", info.Attempt), nil
		})
	}, 0)
	// Output: attempt 3 <nil>
}

func ExampleRemoved() {
	s := open()
	defer s.close()
	before := func(c *workflow.Context, _ int) (string, error) {
		if err := workflow.Do(c, "wrap", func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		_, err := workflow.Receive[any](c, "address")
		return "wrapped", err
	}
	w, err := workflow.Open(ctx, s.actor, before, &workflow.Options{Queue: s.queue})
	check(err)
	check(w.Start(ctx, 0))
	_, err = w.Run(ctx)
	check(err)
	check(w.Close())
	// The workflow is under way, and goes on with code that doesn't wrap any more.
	_, err = s.queue.Enqueue(ctx, queue.Send{Name: "address"})
	check(err)
	run(s, func(c *workflow.Context, _ int) (string, error) {
		workflow.Removed[workflow.StepEntry](c, "wrap")
		_, err := workflow.Receive[any](c, "address")
		return "as it is", err
	}, 0)
	// Output: as it is <nil>
}

func ExampleWorkflow_Recover() {
	s := open()
	defer s.close()
	open := false
	w, err := workflow.Open(ctx, s.actor, func(c *workflow.Context, _ int) (string, error) {
		return workflow.Step(c, "buy", func(context.Context) (string, error) {
			if !open {
				return "", workflow.Permanent(errors.New("closed"))
			}
			return "tea", nil
		})
	}, nil)
	check(err)
	defer w.Close()
	check(w.Start(ctx, 0))
	fmt.Println(w.Live(ctx))
	open = true
	check(w.Recover(ctx))
	fmt.Println(w.Live(ctx))
	// Output:
	//  workflow: failed: workflow: step buy, attempt 1: closed
	// tea <nil>
}

func ExampleWorkflow_ReplayFrom() {
	s := open()
	defer s.close()
	price := 7
	w, err := workflow.Open(ctx, s.actor, func(c *workflow.Context, item string) (string, error) {
		if err := workflow.Do(c, "order", func(context.Context) error { fmt.Println("ordering"); return nil }); err != nil {
			return "", err
		}
		n, err := workflow.Step(c, "price", func(context.Context) (int, error) { return price, nil })
		return fmt.Sprint(item, " for ", n), err
	}, nil)
	check(err)
	defer w.Close()
	check(w.Start(ctx, "tea"))
	fmt.Println(w.Live(ctx))
	price = 5
	check(w.ReplayFrom(ctx, "price"))
	fmt.Println(w.Live(ctx))
	// Output:
	// ordering
	// tea for 7 <nil>
	// tea for 5 <nil>
}

func ExampleWorkflow_Evict() {
	s := open()
	defer s.close()
	begun := make(chan struct{})
	w, err := workflow.Open(ctx, s.actor, func(c *workflow.Context, _ int) (string, error) {
		return "", workflow.Do(c, "long", func(ctx context.Context) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
	}, nil)
	check(err)
	defer w.Close()
	check(w.Start(ctx, 0))
	go func() {
		<-begun
		w.Evict()
	}()
	_, err = w.Live(ctx)
	fmt.Println(err)
	_, err = w.Output() // another run goes on, here or elsewhere
	fmt.Println(err)
	// Output:
	// workflow: evicted
	// workflow: not finished
}

func ExampleEncrypted() {
	s := open()
	defer s.close()
	codec, err := workflow.Encrypted(workflow.Compressed(workflow.CBOR()), []byte("a key of 32 bytes, kept elsewhere"[:32]))
	check(err)
	w, err := workflow.Open(ctx, s.actor, func(c *workflow.Context, name string) (string, error) {
		return "hello " + name, nil
	}, &workflow.Options{Codec: codec})
	check(err)
	defer w.Close()
	check(w.Start(ctx, "Ada"))
	fmt.Println(w.Live(ctx))
	// Output: hello Ada <nil>
}
