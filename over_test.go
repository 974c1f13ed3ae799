package greenroom_test

import (
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
)

// last returns the last error of what a method yields.
func last[T any](all iter.Seq2[T, error]) (err error) {
	for _, err = range all {
	}
	return err
}

// second is the error of a method that returns something else, too.
func second[T any](_ T, err error) error { return err }

// txMethods calls every method of a transaction.
func txMethods(tx *greenroom.Tx, m *greenroom.Message) map[string]error {
	key := []byte("k")
	return map[string]error{
		"Get": second(tx.Get(key)), "Put": tx.Put(key, nil), "Delete": tx.Delete(key), "DeleteRange": tx.DeleteRange(key, nil),
		"List": last(tx.List(greenroom.ListOptions{})),
		"SQL":  second(tx.SQL()), "Exec": second(tx.Exec("select 1")), "Query": second(tx.Query("select 1")),
		"QueryRow": tx.QueryRow("select 1").Scan(new(int)),
		"Queue":    second(tx.Queue()), "Enqueue": second(tx.Enqueue(queue.Send{Name: "m"})), "Receive": second(tx.Receive()),
		"ReceiveWith": second(tx.ReceiveWith(nil)), "Complete": tx.Complete(m.Receipt(), nil), "Nack": tx.Nack(m.Receipt(), 0, nil),
		"Message.Complete": m.Complete(nil), "Message.Nack": m.Nack(0, nil),
		"Schedule": second(tx.Schedule(persist.Job{Action: "a"})), "At": second(tx.At(time.Now(), "a")), "After": second(tx.After(0, "a")),
		"Cancel": tx.Cancel("e"), "Events": second(tx.Events()),
		"RawState": second(tx.RawState()), "SetRawState": tx.SetRawState(key), "Input": tx.Input(new(string)),
		"State": second(greenroom.State[string](tx)), "SetState": greenroom.SetState(tx, ""),
		"Mutate":      greenroom.Mutate(tx, func(*string) error { return nil }),
		"Connections": second(tx.Connections()),
	}
}

// TestTxOver: a Tx, and a View, that are used after their end say so, to any goroutine; as a
// context the Tx can be used for ever.
func TestTxOver(t *testing.T) {
	r := newRig(t, batch.Limits{})
	var tx *greenroom.Tx
	var view *greenroom.View
	var message *greenroom.Message
	r.update(t, create)
	r.update(t, func(inner *greenroom.Tx) (err error) {
		tx = inner
		message, err = tx.Receive()
		return err
	})
	must(t, r.actor.View(ctx, func(v *greenroom.View) error { view = v; return nil }))
	done := make(chan map[string]error)
	go func() { done <- txMethods(tx, message) }()
	for _, methods := range []map[string]error{txMethods(tx, message), <-done} {
		for name, err := range methods {
			wantErr(t, name, err, greenroom.ErrClosed)
		}
	}
	tx.Span().Event("late")
	if tx.Err() != nil || tx.Value("key") != nil {
		t.Error("the context is over")
	}
	if _, ok := tx.Deadline(); ok || tx.Done() != nil {
		t.Error("the context has an end")
	}
	if err := r.actor.Update(tx, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) }); err != nil {
		t.Errorf("an update with the context: %v", err)
	}
	for name, err := range map[string]error{
		"Get": second(view.Get(nil)), "List": last(view.List(greenroom.ListOptions{})), "SQL": second(view.SQL()),
		"Query": second(view.Query("select 1")), "QueryRow": view.QueryRow("select 1").Scan(new(int)),
		"RawState": second(view.RawState()), "Events": second(view.Events()), "Messages": last(view.Messages(nil)),
		"Connections": last(view.Connections()), "Spans": second(view.Spans(traces.Query{})),
		"Workflow": func() error { _, _, err := view.Workflow(); return err }(),
	} {
		wantErr(t, "View."+name, err, greenroom.ErrClosed)
	}
	must(t, r.actor.Close())
	for name, err := range map[string]error{
		"Update": r.actor.Update(ctx, func(*greenroom.Tx) error { return nil }),
		"View":   r.actor.View(ctx, func(*greenroom.View) error { return nil }),
		"SQL":    r.actor.SQL().PingContext(ctx), "Sync": r.actor.Sync(ctx), "Run": r.actor.Run(ctx),
		"Queue": second(r.actor.Queue(ctx)), "Record": second(r.actor.Record(ctx)),
		"Connections": second(r.actor.Connections(ctx)), "Traces": second(r.actor.Traces(ctx)),
	} {
		wantErr(t, name+" of a closed actor", err, greenroom.ErrClosed)
	}
	other := newRig(t, batch.Limits{}).actor
	must(t, other.Close())
	if other.SQL() != r.actor.SQL() {
		t.Error("each closed actor has a pool of its own, which nothing closes")
	}
}

// TestCloseBusy: open rows keep the actor from being closed, and nothing else is done with
// it until it is.
func TestCloseBusy(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, create)
	rows, err := r.actor.SQL().QueryContext(ctx, "select 1 from t")
	must(t, err)
	for range 2 {
		wantErr(t, "Close with open rows", r.actor.Close(), vfs.ErrBusy)
		wantErr(t, "Update", r.actor.Update(ctx, create), greenroom.ErrClosed)
		wantErr(t, "SQL", r.actor.SQL().PingContext(ctx), greenroom.ErrClosed)
	}
	wantErr(t, "taken meanwhile", second(r.store.Actor(ctx, "shop", nil)), greenroom.ErrInUse)
	must(t, rows.Close())
	must(t, r.actor.Close())
	must(t, r.actor.Close())
	r.open(t)
	if got := r.holds(t); got != has(1, "old") {
		t.Errorf("the actor has %s", got)
	}
}

// TestCloseWaits: Close waits for the update that runs, which can still open parts, has those
// that wait for their turn end, and can be called by many at once.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		entered, leave, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- r.actor.Update(ctx, func(tx *greenroom.Tx) error {
				close(entered)
				<-leave
				return create(tx)
			})
		}()
		<-entered
		errs := make(chan error, 3)
		go func() { errs <- r.actor.Update(ctx, create) }()
		synctest.Wait()
		closed := make(chan error, 3)
		for range 3 {
			go func() { closed <- r.actor.Close() }()
		}
		synctest.Wait()
		wantErr(t, "an update that waits", <-errs, greenroom.ErrClosed)
		wantErr(t, "an update that comes", r.actor.Update(ctx, create), greenroom.ErrClosed)
		if len(closed) > 0 || len(ended) > 0 {
			t.Error("Close doesn't wait for the update")
		}
		close(leave)
		must(t, <-ended)
		for range 3 {
			must(t, <-closed)
		}
		r.open(t)
		if got := r.holds(t); got != has(1, "old") {
			t.Errorf("the actor has %s", got)
		}
	})
}

// TestReadsItsWrites: a transaction reads what it has written, in every part, and other
// readers don't.
func TestReadsItsWrites(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, func(tx *greenroom.Tx) error {
		must(t, create(tx))
		must(t, tx.Put([]byte("k"), []byte("mine")))
		conns, err := tx.Connections()
		must(t, err)
		if got, err := describe(tx, 1, len(conns.Conns())); err != nil || got != has(1, "old")[:len("1 rows, k=")]+"mine, state old, e(old), 1 messages, 1 connections" {
			t.Errorf("the transaction sees %s, %v", got, err)
		}
		for _, c := range conns.Conns() {
			if _, ok := conns.Get(c.ID()); !ok {
				t.Errorf("connection %v is not there", c.ID())
			}
		}
		m, err := tx.Receive("m")
		if err != nil || m == nil || m.Deliveries != 1 {
			t.Fatalf("received %v, %v", m, err)
		}
		must(t, m.Complete(nil))
		if m, err := tx.Receive("m"); m != nil || err != nil {
			t.Errorf("received again: %v, %v", m, err)
		}
		must(t, tx.Cancel("e"))
		if events, err := tx.Events(); err != nil || len(events) != 0 {
			t.Errorf("the schedule has %v, %v", events, err)
		}
		wantErr(t, "a view meanwhile", r.actor.View(ctx, func(*greenroom.View) error { return nil }), greenroom.ErrNotFound)
		return nil
	})
	if got, want := r.holds(t), "1 rows, k=mine, state old, , 0 messages, 1 connections"; got != want {
		t.Errorf("the actor has %s, want %s", got, want)
	}
}
