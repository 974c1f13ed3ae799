package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/greenroomdb/greenroom/part"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// crowd opens a side on which many actors of one store work at once, each for itself,
// sharing fsyncs as they do in a host. The i-th begins with begin.
func crowd(begin func(s *stand, a *actorstore.Actor, i int) worker) func(*stand) {
	return func(s *stand) {
		for i := range s.sizes.actors {
			s.workers = append(s.workers, begin(s, s.actor(name(i)), i))
		}
	}
}

// putKeys is how many user keys an actor has.
const putKeys = 64

// beginPuts is kv/put: a durable put of a new value under a user key that is there, each in
// its turn.
func beginPuts(s *stand, a *actorstore.Actor, i int) worker {
	user, noise, value := a.User(), newNoise(byte(i)), noisy(i)
	var keys [putKeys][]byte
	var b batch.Batch
	for k := range keys {
		keys[k] = fmt.Appendf(nil, "setting/%04d", k)
		b.Put(actorstore.AppendUserKey(nil, keys[k]), value)
	}
	check(a.Apply(s.ctx, &b))
	next := 0
	return repeat(func() error {
		noise.Read(value) // never fails
		next = (next + 1) % putKeys
		return user.Put(s.ctx, keys[next], value)
	})
}

// cycleCommits is how many engine commits a cycle takes.
const cycleCommits = 3

// beginCycles is queue/cycle: a message is enqueued, received and completed, three durable
// commits.
func beginCycles(s *stand, a *actorstore.Actor, i int) worker {
	return repeat(cycle(s.ctx, owned(s, must(queue.Open(s.ctx, a, &queue.Options{Env: part.Env{Logger: slog.New(slog.DiscardHandler)}}))), inCBOR(noisy(i))))
}

// cycle returns the operation of queue/cycle with a body.
func cycle(ctx context.Context, q *queue.Queue, body []byte) func() error {
	return func() error {
		if _, err := q.Enqueue(ctx, queue.Send{Name: "job", Body: body}); err != nil {
			return err
		}
		msgs, err := q.TryReceive(ctx, nil)
		if err != nil {
			return err
		}
		if len(msgs) != 1 {
			return fmt.Errorf("received %d messages", len(msgs))
		}
		return msgs[0].Complete(ctx, nil)
	}
}

// sqliteFile is a queue as one makes it with a SQLite file: a table, in WAL mode, with
// synchronous=FULL.
const sqliteFile = "sqlite-file"

// openFileQueue is the peer of queue/cycle with one actor: a message is inserted, taken and
// deleted, three durable transactions. It knows neither leases nor retries nor waiting
// receivers: it is a first, simple queue.
func openFileQueue(s *stand) {
	c := openPlace(s, fileWALFull, "queue")()
	check(c.Exec(`CREATE TABLE message(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, body BLOB NOT NULL, taken INTEGER)`))
	enqueue := statement(s, c, `INSERT INTO message(name, body) VALUES('job', ?)`)
	receive := statement(s, c, `UPDATE message SET taken = unixepoch() WHERE id =
		(SELECT id FROM message WHERE taken IS NULL ORDER BY id LIMIT 1) RETURNING id, body`)
	complete := statement(s, c, `DELETE FROM message WHERE id = ?`)
	body := noisy(0)
	s.workers = []worker{repeat(func() error {
		if err := errors.Join(enqueue.BindBlob(1, body), enqueue.Exec()); err != nil {
			return err
		}
		id, err := takeMessage(receive, len(body))
		if err != nil {
			return err
		}
		return errors.Join(complete.BindInt64(1, id), complete.Exec())
	})}
}

// takeMessage runs a statement that returns the id of one message and its body, of that
// length.
func takeMessage(receive *sqlite3.Stmt, length int) (id int64, err error) {
	if receive.Step() && len(receive.ColumnRawBlob(1)) == length {
		id = receive.ColumnInt64(0)
	}
	if id == 0 || receive.Step() {
		err = errors.New("not one message was received")
	}
	return id, errors.Join(err, receive.Reset()) // Reset reports what Step did
}

// stepCommits is how many engine commits a step takes: its attempt, with the result of the step before.
// stepForgets is after how many iterations the loop of the steps forgets some.
const (
	stepCommits = 1
	stepForgets = 20
)

var errStepsEnded = errors.New("the workflow has ended")

// beginSteps is workflow/step: a step of a workflow that runs, recorded before it is tried
// with the result of the one before, one durable commit. The steps are those of a loop, one in each
// iteration, of which some are forgotten now and then, with the commit of a step.
//
// The workflow stands in a step, behind its commit, until it has a turn. When it goes
// on it asks by itself whether there is more to do: a switch between goroutines for each
// step would be the measurement's own cost.
func beginSteps(s *stand, a *actorstore.Actor, i int) worker {
	type turn struct {
		more func() bool
		over func() // called after the last step
	}
	turns, now := make(chan turn), turn{func() bool { return false }, func() {}}
	output := noisy(i)
	step := func(ctx context.Context) ([]byte, error) {
		for !now.more() {
			now.over()
			select {
			case now = <-turns:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return output, nil
	}
	// It waits for its turn in the step, so an attempt may take long.
	opts := &workflow.StepOptions{Timeout: -1}
	code := func(c *workflow.Context, in int) (int, error) {
		return workflow.LoopWith(c, "loop", in, &workflow.LoopOptions{Commit: stepForgets}, func(c *workflow.Context, _ *int) (int, bool, error) {
			_, err := workflow.StepWith(c, "step", opts, step)
			return 0, false, err
		})
	}
	w := owned(s, must(workflow.Open(s.ctx, a, code, &workflow.Options{
		Env: part.Env{Logger: slog.New(slog.DiscardHandler)}, MaxEntries: -1, MaxBytes: -1,
	})))
	check(w.Start(s.ctx, 0))
	live, end := context.WithCancelCause(s.ctx)
	go func() {
		_, err := w.Live(s.ctx)
		end(errors.Join(errStepsEnded, err))
	}()
	work := func(more func() bool) error {
		mine, over := context.WithCancel(live)
		defer over()
		select {
		case turns <- turn{more, over}:
			<-mine.Done() // also when the workflow ends
		case <-live.Done():
		}
		return context.Cause(live) // nil while the workflow lives
	}
	check(work(now.more)) // it stands in its first step
	return work
}
