package greenroom_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestUpdateIsOneCommit counts what transactions cost.
func TestUpdateIsOneCommit(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, create)
	for _, tt := range []struct {
		name   string
		fn     func(tx *greenroom.Tx) error
		commit int64
	}{
		{"nothing", func(*greenroom.Tx) error { return nil }, 0},
		{"reads", func(tx *greenroom.Tx) error {
			_, err := tx.Get([]byte("k"))
			return errors.Join(err, tx.QueryRow("select 1 from t").Scan(new(int)))
		}, 0},
		{"a key", func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) }, 1},
		{"a row", func(tx *greenroom.Tx) error { _, err := tx.Exec("insert into t values (null, 'new')"); return err }, 1},
		{"everything", func(tx *greenroom.Tx) error { return write(tx, "new") }, 1},
	} {
		r.engine.Reset()
		r.update(t, tt.fn)
		if c := r.engine.Counts(); c.Commits != tt.commit || c.Durable != tt.commit || c.Syncs != 0 {
			t.Errorf("%s: %+v, want %d commits, all durable", tt.name, c, tt.commit)
		}
		r.engine.Reset()
		if err := r.actor.UpdateApplied(ctx, tt.fn); err != nil {
			t.Fatal(err)
		}
		if c := r.engine.Counts(); c.Commits != tt.commit || c.Durable != 0 || c.Syncs != 0 {
			t.Errorf("%s, applied: %+v, want %d commits, none durable", tt.name, c, tt.commit)
		}
		for range 2 {
			if err := r.actor.Sync(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if c := r.engine.Counts(); c.Syncs != tt.commit {
			t.Errorf("%s: %d syncs, want %d", tt.name, c.Syncs, tt.commit)
		}
	}
}

// TestUpdateOpensLittle: a transaction opens the parts that it uses, and no others.
func TestUpdateOpensLittle(t *testing.T) {
	r := newRig(t, batch.Limits{})
	a, err := r.store.Actor(ctx, "keys", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r.engine.Reset()
	if err := a.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte("v")) }); err != nil {
		t.Fatal(err)
	}
	if c := r.engine.Counts(); c.Gets+c.Scans > 1 || c.Snapshots != 0 || c.Commits != 1 {
		t.Errorf("a key took %+v", c)
	}
}

// A failure is a function of a transaction that does not land, and what Update returns then,
// nil for any error.
type failure struct {
	name   string
	limits batch.Limits
	fn     func(r *rig, tx *greenroom.Tx, cancel func()) error
	want   error
}

// failures are those of TestUpdateFails.
var failures = []failure{
	{"error", batch.Limits{}, func(*rig, *greenroom.Tx, func()) error { return errBoom }, errBoom},
	{"cancelled", batch.Limits{}, func(_ *rig, _ *greenroom.Tx, cancel func()) error { cancel(); return nil }, context.Canceled},
	{"rolled back", batch.Limits{}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		_, err := tx.Exec("rollback")
		return err
	}, vfs.ErrTxOver},
	{"committed by itself", batch.Limits{}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		_, _ = tx.Exec("commit")
		_, err := tx.Exec("insert into t(b) values ('new')")
		return err
	}, vfs.ErrTxOver},
	{"committed by itself in a journal", batch.Limits{AtomicBatches: 1, Entries: 64}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		if _, err := tx.Exec("create table big as with n(i) as (select 1 union all select i + 1 from n limit 100) select randomblob(4000) from n"); err != nil {
			return fmt.Errorf("filling a table: %v", err)
		}
		_, err := tx.Exec("end")
		return err
	}, vfs.ErrTxOver},
	{"committed, and it is ignored", batch.Limits{}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		if _, err := tx.Exec("commit"); !errors.Is(err, vfs.ErrTxOver) {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	}, vfs.ErrTxOver},
	{"committed by itself without a change", batch.Limits{}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		_, _ = tx.Exec("commit")
		return nil
	}, vfs.ErrTxOver},
	{"ended through SQL", batch.Limits{}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		s, err := tx.SQL()
		if err != nil {
			return err
		}
		return s.Rollback(nil)
	}, greenroom.ErrClosed},
	{"rolled back, and on", batch.Limits{}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		_, err := tx.Exec("rollback")
		for _, q := range []string{"insert into t(b) values ('new')", "begin immediate", "begin; delete from t", "insert into t(b) values ('new')"} {
			if _, err := tx.Exec(q); !errors.Is(err, vfs.ErrTxOver) {
				return fmt.Errorf("%s after it: %w", q, err)
			}
		}
		return err
	}, vfs.ErrTxOver},
	{"committed", batch.Limits{}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		_, _ = tx.Exec("rollback; begin immediate")
		return nil
	}, vfs.ErrTxOver},
	{"foreign key", batch.Limits{}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		_, err := tx.Exec("insert into t(b) values ('nowhere')")
		return err
	}, nil},
	{"quota", batch.Limits{Storage: 200_000}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		for i := range 8 {
			if err := tx.Put([]byte{byte(i)}, make([]byte, 30_000)); err != nil {
				return err
			}
		}
		return nil
	}, greenroom.ErrQuota},
	{"too large", batch.Limits{ValueSize: 8192}, func(_ *rig, tx *greenroom.Tx, _ func()) error {
		return tx.Put([]byte("large"), make([]byte, 10_000))
	}, nil},
	{"fault of a read", batch.Limits{}, func(r *rig, tx *greenroom.Tx, _ func()) error {
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Err: errBoom, Times: faultkv.Forever})
		for _, err := range tx.List(greenroom.ListOptions{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}, errBoom},
	{"fault of the commit's reads", batch.Limits{}, func(r *rig, tx *greenroom.Tx, _ func()) error {
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeGet, Err: errBoom, Times: faultkv.Forever})
		return tx.Put([]byte("another key"), nil) // the commit looks for what it replaces
	}, errBoom},
}

var errBoom = errors.New("boom")

// TestUpdateFails: whatever keeps a transaction from landing, nothing of it is there, and
// the next one goes on.
func TestUpdateFails(t *testing.T) {
	for _, tt := range failures {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.limits)
			r.update(t, create)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			err := r.actor.Update(ctx, func(tx *greenroom.Tx) error {
				if err := write(tx, "new"); err != nil {
					return err
				}
				return tt.fn(r, tx, cancel)
			})
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			r.engine.Heal()
			if got := r.holds(t); got != has(1, "old") {
				t.Errorf("the actor has %s", got)
			}
			r.update(t, func(tx *greenroom.Tx) error { return write(tx, "new") })
			if got := r.holds(t); got != has(2, "new") {
				t.Errorf("after the next transaction: %s", got)
			}
		})
	}
}

// TestUpdateEndedInside: a function that commits through Tx.SQL, which it must not, is told so.
func TestUpdateEndedInside(t *testing.T) {
	r := newRig(t, batch.Limits{})
	err := r.actor.Update(ctx, func(tx *greenroom.Tx) error {
		must(t, create(tx))
		s, err := tx.SQL()
		must(t, err)
		return s.Commit()
	})
	wantErr(t, "Update", err, greenroom.ErrClosed)
	if got := r.holds(t); got != has(1, "old") { // what had been written before
		t.Errorf("the actor has %s", got)
	}
}

// TestUpdatePanics: a panic, and the end of the goroutine, undo the transaction and go on.
func TestUpdatePanics(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			r.update(t, create)
			done := make(chan any)
			go func() {
				defer close(done)
				defer func() {
					if p := recover(); p != nil {
						done <- p
					}
				}()
				_ = r.actor.Update(ctx, func(tx *greenroom.Tx) error {
					if err := write(tx, "new"); err != nil {
						t.Error(err)
					}
					end()
					return nil
				})
			}()
			if p := <-done; (p != nil) != (name == "panic") {
				t.Errorf("recovered %v", p)
			}
			if got := r.holds(t); got != has(1, "old") {
				t.Errorf("the actor has %s", got)
			}
		})
	}
}

// TestUpdateNested: what would wait for itself is an error at once, in WAL mode too, where
// SQLite itself would not wait.
func TestUpdateNested(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, create)
	put := func(tx *greenroom.Tx) error { return tx.Put([]byte("nested"), nil) }
	for _, state := range []string{"nothing written", "sql written", "wal"} {
		if state == "wal" {
			for _, q := range []string{"pragma journal_mode=wal", "update t set b = b"} { // by then the log is open
				_, err := r.actor.SQL().ExecContext(ctx, q)
				must(t, err)
			}
		}
		r.update(t, func(tx *greenroom.Tx) error {
			if state == "sql written" {
				if err := write(tx, "new"); err != nil {
					return err
				}
			}
			apart := make(chan error)
			go func() { apart <- r.actor.Update(tx, put) }()
			pooledApart := make(chan error)
			go func() {
				_, err := r.actor.SQL().ExecContext(tx, "delete from t")
				pooledApart <- err
			}()
			pooled, err := r.actor.SQL().BeginTx(ctx, nil)
			if err == nil {
				err = pooled.Rollback()
			}
			_, execErr := r.actor.SQL().ExecContext(ctx, "delete from t")
			for name, err := range map[string]error{
				"update": r.actor.Update(ctx, put), "update with the transaction": r.actor.Update(tx, put),
				"update of another goroutine": <-apart, "applied": r.actor.UpdateApplied(ctx, put),
				"exec": execErr, "transaction": err, "close": r.actor.Close(), "exec of another goroutine": <-pooledApart,
			} {
				if !errors.Is(err, greenroom.ErrNested) {
					t.Errorf("%s, %s: %v, want %v", state, name, err, greenroom.ErrNested)
				}
			}
			var n int
			if err := r.actor.SQL().QueryRowContext(ctx, "select count(*) from t where b = 'old'").Scan(&n); err != nil || n != 1 {
				t.Errorf("a read beside the transaction: %d rows, %v", n, err)
			}
			return r.actor.View(tx, func(v *greenroom.View) error {
				_, err := v.Get([]byte("k"))
				return err
			})
		})
	}
	if err := r.actor.Update(ctx, func(tx *greenroom.Tx) error {
		_, err := tx.Get([]byte("nested"))
		return err
	}); !errors.Is(err, greenroom.ErrNotFound) {
		t.Errorf("something of a nested update landed: %v", err)
	}
	if _, err := r.actor.SQL().ExecContext(ctx, "insert into t(b) values ('new')"); err != nil {
		t.Errorf("a write of the pool after the transaction: %v", err)
	}
}

// TestUpdateTwoActors: an Update may change another actor.
func TestUpdateTwoActors(t *testing.T) {
	r := newRig(t, batch.Limits{})
	other, err := r.store.Actor(ctx, "other", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	r.update(t, func(tx *greenroom.Tx) error {
		return other.Update(tx, func(inner *greenroom.Tx) error {
			if err := r.actor.Update(inner, create); !errors.Is(err, greenroom.ErrNested) {
				t.Errorf("got %v, want %v", err, greenroom.ErrNested)
			}
			return inner.Put([]byte("k"), []byte("other"))
		})
	})
}

// TestUpdatesInTurn: transactions of many goroutines run one after the other.
func TestUpdatesInTurn(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, create)
	const goroutines, each = 8, 25
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				if err := r.actor.UpdateApplied(ctx, func(tx *greenroom.Tx) error {
					v, err := tx.Get([]byte("n"))
					if err != nil && !errors.Is(err, greenroom.ErrNotFound) {
						return err
					}
					_, err = tx.Exec("insert into t(a) values (?)", 1000+len(v))
					return errors.Join(err, tx.Put([]byte("n"), append(v, 'x')))
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := r.actor.View(ctx, func(v *greenroom.View) error {
		n, err := v.Get([]byte("n"))
		if len(n) != goroutines*each {
			t.Errorf("%d transactions are counted, want %d", len(n), goroutines*each)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	waiting, cancel := context.WithCancel(ctx)
	r.update(t, func(*greenroom.Tx) error {
		done := make(chan error)
		go func() { done <- r.actor.Update(waiting, create) }()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		return nil
	})
}

// TestUpdateLarge: a transaction that is larger than one commit of the engine lands whole.
func TestUpdateLarge(t *testing.T) {
	r := newRig(t, batch.Limits{AtomicBatches: 1})
	r.update(t, create)
	r.engine.Reset()
	r.update(t, func(tx *greenroom.Tx) error {
		if err := write(tx, "new"); err != nil {
			return err
		}
		_, err := tx.Exec("create table blobs as select randomblob(3000) b from generate_series(1, 1000)")
		return err
	})
	if c := r.engine.Counts(); c.Commits < 2 {
		t.Errorf("it took %d commits", c.Commits)
	}
	if got := r.holds(t); got != has(2, "new") {
		t.Errorf("the actor has %s", got)
	}
	err := r.actor.Update(ctx, func(tx *greenroom.Tx) error {
		if err := write(tx, "new"); err != nil {
			return err
		}
		if _, err := tx.Exec("create table more as select randomblob(3000) b from generate_series(1, 1000)"); err != nil {
			return err
		}
		return errors.New("no")
	})
	if err == nil || r.holds(t) != has(2, "new") {
		t.Errorf("after a large transaction that fails (%v): %s", err, r.holds(t))
	}
}

// TestUpdateUnsupported: a mode in which SQL and keys can't land together is refused by
// its name.
func TestUpdateUnsupported(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, create)
	if _, err := r.actor.SQL().ExecContext(ctx, "pragma journal_mode=wal"); err != nil {
		t.Fatal(err)
	}
	err := r.actor.Update(ctx, func(tx *greenroom.Tx) error { return write(tx, "new") })
	if !errors.Is(err, greenroom.ErrUnsupported) || !strings.Contains(err.Error(), "WAL") {
		t.Errorf("got %v, want %v", err, greenroom.ErrUnsupported)
	}
}

// TestUpdateFenced: an actor that another store takes over in the middle of a transaction
// has nothing of it, and its handle is of no more use.
func TestUpdateFenced(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, create)
	other, err := greenroom.New(ctx, r.engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	var taken *greenroom.Actor
	err = r.actor.Update(ctx, func(tx *greenroom.Tx) error {
		if err := write(tx, "new"); err != nil {
			return err
		}
		taken, err = other.Actor(ctx, "shop", &greenroom.ActorOptions{Force: true})
		return err
	})
	if !errors.Is(err, greenroom.ErrFenced) || !errors.Is(r.actor.Err(), greenroom.ErrFenced) {
		t.Errorf("got %v, and the handle says %v, want %v", err, r.actor.Err(), greenroom.ErrFenced)
	}
	if err := r.actor.Update(ctx, func(*greenroom.Tx) error { return nil }); !errors.Is(err, greenroom.ErrFenced) {
		t.Errorf("the next transaction: %v", err)
	}
	now := &rig{engine: r.engine, store: other, actor: taken}
	if got := now.holds(t); got != has(1, "old") {
		t.Errorf("the actor has %s", got)
	}
	if err := errors.Join(taken.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

// TestUpdateLate: what is staged when the transaction is being committed lands with it, once,
// in parts that it has changed before and in others.
func TestUpdateLate(t *testing.T) {
	for _, rows := range []int{0, 1} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d rows, before=%t", rows, before), func(t *testing.T) { updateLate(t, rows, before) })
		}
	}
}

func updateLate(t *testing.T, rows int, before bool) {
	r := newRig(t, batch.Limits{})
	r.update(t, func(tx *greenroom.Tx) error { return second(tx.Exec("create table x (y)")) })
	record, err := r.actor.Record(ctx)
	must(t, err)
	conns, err := r.actor.Connections(ctx)
	must(t, err)
	messages, err := r.actor.Queue(ctx)
	must(t, err)
	stage := func(b *batch.Batch, n byte) error {
		_, err := record.In(b).Add(persist.Job{Action: "a", At: time.Unix(1<<33, 0)})
		return errors.Join(err, greenroom.SetState(record.In(b), n),
			second(conns.In(b).Create(conn.Info{Path: "/", Request: conn.RequestID{n}})),
			second(messages.In(b).Enqueue(queue.Send{Name: "m", Body: "x"})))
	}
	r.engine.Reset()
	called, want := 0, 1
	r.update(t, func(tx *greenroom.Tx) error {
		for range rows {
			must(t, second(tx.Exec("insert into x values (randomblob(4000))")))
		}
		if before {
			must(t, stage(tx.Batch(), 1))
			want++
		}
		own := tx.Batch()
		own.Late(func(b *batch.Batch) error {
			called++
			own.Put(actorstore.UserKey([]byte("own")), nil)
			b.Put(actorstore.UserKey([]byte("given")), nil)
			return stage(b, 2)
		})
		return nil
	})
	if n := r.engine.Counts().Commits; called != 1 || n != 1 {
		t.Errorf("called %d times, %d commits", called, n)
	}
	for range 2 { // in memory, and in the store
		r.update(t, func(tx *greenroom.Tx) error {
			state, err := greenroom.State[byte](tx)
			must(t, err)
			events, err := tx.Events()
			must(t, err)
			all, err := tx.Connections()
			must(t, err)
			messages, err := r.actor.Queue(ctx)
			must(t, err)
			for _, key := range []string{"own", "given"} {
				must(t, second(tx.Get([]byte(key))))
			}
			if state != 2 || len(events) != want || len(all.Conns()) != want || messages.Len() != want {
				t.Errorf("state %d, %d events, %d connections, %d messages, want %d", state, len(events), len(all.Conns()), messages.Len(), want)
			}
			return nil
		})
		r.open(t)
	}
}

// TestUpdatePanicsLate: a panic of what takes part in the commit goes on, and the span of
// the transaction says that it has failed.
func TestUpdatePanicsLate(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, create)
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = r.actor.Update(ctx, func(tx *greenroom.Tx) error {
			tx.Batch().Late(func(*batch.Batch) error { panic("boom") })
			return tx.Put([]byte("k"), []byte("new"))
		})
	}()
	recorded, err := r.actor.Traces(ctx)
	must(t, err)
	got, err := recorded.Read(ctx, traces.Query{Status: []traces.StatusCode{traces.StatusError}})
	if err != nil || len(got.Spans) != 1 {
		t.Errorf("%d spans have failed, %v", len(got.Spans), err)
	}
	if got := r.holds(t); got != has(1, "old") {
		t.Errorf("the actor has %s", got)
	}
}
