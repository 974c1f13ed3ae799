package queue

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/vfs"
)

// A worker moves messages into a table.
type worker struct {
	t     testing.TB
	tape  *engines.Tape
	store *actorstore.Store
	actor *actorstore.Actor
	q     *Queue
	db    *vfs.DB
}

func newWorker(t testing.TB, tp *engines.Tape, limits batch.Limits) *worker {
	t.Helper()
	w := &worker{t: t, tape: tp}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	w.store, err = actorstore.Open(ctx, tp, &actorstore.Options{Limits: limits})
	must(t, err)
	w.actor, err = w.store.Named(ctx, "lobby", nil)
	must(t, err)
	w.q, err = Open(ctx, w.actor, &Options{Env: part.Env{Logger: quiet}})
	must(t, err)
	w.db, err = vfs.Open(ctx, w.actor, &vfs.Options{Env: part.Env{Logger: quiet}})
	must(t, err)
	return w
}

func (w *worker) close() {
	w.t.Helper()
	must(w.t, w.q.Close())
	must(w.t, w.db.Close())
	must(w.t, w.actor.Close())
	must(w.t, w.store.Close())
}

func (w *worker) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.ExecContext(ctx, sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// work moves one message, exactly once: what it does lands with the completion, or not.
func (w *worker) work(atMostOnce bool) (moved bool) {
	w.t.Helper()
	err := w.db.Update(ctx, func(tx *vfs.Tx) error {
		msgs, err := w.q.In(tx.Batch()).Receive(ctx, &ReceiveOptions{AtMostOnce: atMostOnce})
		if moved = len(msgs) == 1; err != nil || !moved {
			return err
		}
		// Large enough to take SQLite's journal where a batch is small.
		_, err = tx.ExecContext(ctx, "insert into done select ?, zeroblob(3000) from generate_series(1, ?)", int64(msgs[0].ID), 1+20*(msgs[0].ID%2))
		if err != nil || atMostOnce {
			return err
		}
		return w.q.In(tx.Batch()).Complete(msgs[0].Receipt(), nil)
	})
	must(w.t, err)
	return moved
}

// counts returns how many rows each message has.
func (w *worker) counts() map[ID]int {
	w.t.Helper()
	rows, err := w.db.QueryContext(ctx, "select id, count(*) from done group by id")
	must(w.t, err)
	defer rows.Close()
	all := map[ID]int{}
	for rows.Next() {
		var id int64
		var n int
		must(w.t, rows.Scan(&id, &n))
		all[ID(id)] = n
	}
	must(w.t, rows.Err())
	return all
}

// stored returns the ids of the messages that are in the queue.
func (w *worker) stored() map[ID]bool {
	all := map[ID]bool{}
	for _, id := range w.q.ids(nil) {
		all[id] = true
	}
	return all
}

// TestExactlyOnce stops a worker after every engine commit: what is left has each message
// either in the queue or in the table, and a worker that goes on there ends up with each message in
// the table once.
func TestExactlyOnce(t *testing.T) {
	for _, c := range []struct {
		name       string
		limits     batch.Limits
		atMostOnce bool
	}{
		{"atomic", batch.Limits{}, false},
		{"at most once", batch.Limits{}, true},
		{"journal", batch.Limits{AtomicBatches: 1, Entries: 8}, false},
		{"journal, at most once", batch.Limits{AtomicBatches: 1, Entries: 8}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorker(t, engines.NewTape(), c.limits)
			w.exec("create table done(id integer, filler)")
			begin := w.tape.Len()
			var sent []int // commits by the time each message was there
			send := func() {
				_, err := w.q.Enqueue(ctx, Send{Name: "job", Body: len(sent)})
				must(t, err)
				sent = append(sent, w.tape.Len())
			}
			var took []int
			for range 3 {
				send()
				send()
				before := w.tape.Len()
				if !w.work(c.atMostOnce) {
					t.Fatal("nothing was received")
				}
				took = append(took, w.tape.Len()-before)
			}
			w.close()
			// Of a large transaction, where a batch is small, the journal's end is the commit.
			for i, n := range took {
				if one := n == 1; one != (c.limits.AtomicBatches == 0 || i == 1) {
					t.Errorf("the work took %v commits", took)
				}
			}
			for n := begin; n <= w.tape.Len(); n++ {
				crashed(t, w.tape.At(t, n), c.limits, n, sent)
			}
		})
	}
}

// crashed opens what a crash after commit n has left, and goes on.
func crashed(t *testing.T, tp *engines.Tape, limits batch.Limits, n int, sent []int) {
	t.Helper()
	w := newWorker(t, tp, limits)
	defer w.close()
	there := 0
	for _, after := range sent {
		if after <= n {
			there++
		}
	}
	check := func(where string, left int) {
		t.Helper()
		stored, done := w.stored(), w.counts()
		for id := ID(1); id <= ID(there); id++ {
			if (done[id] > 0) == stored[id] || done[id] != 0 && done[id] != int(1+20*(id%2)) {
				t.Errorf("crash after commit %d, %s: message %s: in the queue %v, %d rows", n, where, id, stored[id], done[id])
			}
		}
		if len(stored)+len(done) != there || left >= 0 && len(stored) != left {
			t.Errorf("crash after commit %d, %s: %d messages and %d done, of %d", n, where, len(stored), len(done), there)
		}
	}
	check("at first", -1)
	for w.work(false) {
	}
	check("at last", 0)
	var ok string
	if err := w.db.QueryRowContext(ctx, "pragma integrity_check").Scan(&ok); err != nil || ok != "ok" {
		t.Errorf("crash after commit %d: %s, %v", n, ok, err)
	}
	for f, err := range w.store.Check(ctx) {
		must(t, err)
		if !f.Harmless {
			t.Errorf("crash after commit %d: %s", n, f)
		}
	}
}

// TestUpdateRollsBack gives a received message back when the SQL fails.
func TestUpdateRollsBack(t *testing.T) {
	w := newWorker(t, engines.NewTape(), batch.Limits{})
	defer w.close()
	w.exec("create table done(id integer, filler)")
	_, err := w.q.Enqueue(ctx, Send{Name: "job"})
	must(t, err)
	for try := range ID(2) {
		err := w.db.Update(ctx, func(tx *vfs.Tx) error {
			msgs, err := w.q.In(tx.Batch()).Receive(ctx, nil)
			must(t, err)
			must(t, w.q.In(tx.Batch()).Complete(msgs[0].Receipt(), nil))
			_, err = w.q.In(tx.Batch()).Enqueue(Send{Name: "next"})
			must(t, err)
			_, err = tx.ExecContext(ctx, "insert into done values (1, 1)")
			must(t, err)
			_, err = tx.ExecContext(ctx, "insert into done values (1)")
			return err
		})
		if err == nil {
			t.Error("the update succeeded")
		}
		if s := w.q.Stats(); s.Messages != 1 || s.Names[0].Ready != 1 || s.Next != 3+try {
			t.Errorf("stats %+v", s)
		}
	}
	if w.work(false); w.q.Len() != 0 || len(w.counts()) != 1 {
		t.Errorf("%d messages, %v", w.q.Len(), w.counts())
	}
}

// TestUpdateCost: receive, write and complete are one engine commit, and no read of what
// is known.
func TestUpdateCost(t *testing.T) {
	w := newWorker(t, engines.NewTape(), batch.Limits{})
	defer w.close()
	w.exec("create table done(id integer, filler)")
	for range 4 {
		_, err := w.q.Enqueue(ctx, Send{Name: "job"})
		must(t, err)
	}
	w.work(false)
	w.work(false)
	before := w.tape.Len()
	w.work(false)
	if n := w.tape.Len() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
}

// TestQueueCrash stops a script of everything a queue does after every engine commit, and
// opens what is left: no id is given twice, nothing that was acknowledged is missing.
func TestQueueCrash(t *testing.T) {
	tp := engines.NewTape()
	w := newWorker(t, tp, batch.Limits{})
	type acked struct {
		after int
		live  map[ID]bool
		next  ID
	}
	states := []acked{{tp.Len(), map[ID]bool{}, 1}}
	ack := func() { states = append(states, acked{tp.Len(), w.stored(), w.q.Stats().Next}) }
	for i := range 4 {
		_, err := w.q.Enqueue(ctx, Send{Name: "a", Key: fmt.Sprint("k", i), Delay: time.Duration(i%2) * time.Hour})
		must(t, err)
		ack()
		_, err = w.q.EnqueueAll(ctx, make([]Send, 3))
		must(t, err)
		ack()
		msgs, err := w.q.TryReceive(ctx, &ReceiveOptions{Count: 3})
		must(t, err)
		ack()
		must(t, msgs[0].Complete(ctx, nil))
		ack()
		must(t, msgs[1].Nack(ctx, 0, nil))
		ack()
		_, err = w.q.Delete(ctx, msgs[2].ID)
		must(t, err)
		ack()
	}
	w.close()
	for _, s := range states {
		c := newWorker(t, tp.At(t, s.after), batch.Limits{})
		if got := c.stored(); fmt.Sprint(got) != fmt.Sprint(s.live) || c.q.Stats().Next != s.next || len(c.q.Quarantined()) > 0 {
			t.Errorf("after commit %d: %v, next %s; want %v, next %s", s.after, got, c.q.Stats().Next, s.live, s.next)
		}
		c.close()
	}
}
