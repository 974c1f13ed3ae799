// Package workflow runs durable workflows: code that goes on after a restart where it was,
// for days if need be, with its whole state in the keys of one actor.
//
// A workflow is a Go function. What it does in steps is recorded in a history, and when
// the function runs again, in a later process, each step returns what was recorded
// instead of doing its work once more:
//
//	func order(c *workflow.Context, o Order) (Receipt, error) {
//		r, err := workflow.Step(c, "charge", func(ctx context.Context) (Receipt, error) {
//			return charge(ctx, o)
//		})
//		if err != nil {
//			return r, err
//		}
//		c.Sleep("cool down", 24*time.Hour)
//		return r, workflow.Do(c, "ship", func(ctx context.Context) error { return ship(ctx, o) })
//	}
//
//	w, err := workflow.Open(ctx, actor, order, nil)
//	err = w.Start(ctx, Order{…})
//	receipt, err := w.Live(ctx)
//
// After a restart Start does nothing, unless the workflow is over: then it is ErrOver, Live returns the output, and StartAgain
// starts it anew.
//
// There are steps that are tried again (Step, Do), steps whose effect is in the actor's
// own keys or its database and lands with their result (StepWithin; greenroom.StepTx with everything that an actor has), loops that
// forget (Loop), waiting for time (Context.Sleep) and for messages of the actor's queue
// (Receive), branches (Join, Race), values that are drawn once (SideEffect, Context.Now),
// compensation (Context.RollbackCheckpoint, StepOptions.Undo), and ways to change the code
// while workflows are under way (Version, Removed, ContinueAsNew).
//
// A function that takes a part of the code and can have options has a twin whose name ends
// in With (StepWith, DoWith, StepWithinWith, LoopWith): it takes them before the
// part of the code, which comes last. So has Receive (ReceiveWith).
//
// # What is promised
//
// A workflow may be stopped at any instruction, by the end of the process or of its
// machine, and goes on. The work of a step is done at least once, and its result is
// recorded once; what a step stages in the commit of its result is done exactly once. A
// message is consumed by the very commit that records it. A failure of the store is never
// taken for a failure of a step: it ends the run (ErrStorage), and the next one goes on
// with what is stored.
//
// What the code does apart from its Context must be the same every time. If it isn't, or
// was changed under a workflow's feet, the run ends with an error that names the place
// (ErrDiverged), and nothing is recorded that the right code couldn't go on with.
//
// # What it is not
//
// An actor has one workflow. No server spreads work over machines: the owner of the actor
// runs its workflow. Many workflows are many actors.
package workflow

// Files, from the top down:
//
//	race.go again.go control.go draw.go join.go message.go verify.go attempt.go branch.go execute.go loop.go
//	delivery.go sleep.go step.go version.go backlog.go rollback.go context.go park.go run.go spans.go
//	workflow.go options.go status.go failure.go mending.go undo.go age.go codec.go owing.go doc.go errors.go
//	metrics.go snapshot.go waits.go entry.go location.go stepinfo.go
