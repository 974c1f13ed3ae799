package vfs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestSecondPool: two pools of one actor would not see each other's locks, so there is
// one. The refused one leaves nothing behind, and the next may come when the first is
// closed.
func TestSecondPool(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, table)
	if second, err := vfs.Open(t.Context(), r.Actor, nil); !errors.Is(err, vfs.ErrMounted) {
		for i := range 5 { // what comes of it
			exec(t, db, "insert into t(b) select randomblob(3000) from generate_series(1, 20)")
			_, err := second.ExecContext(t.Context(), "insert into t(b) select randomblob(3000) from generate_series(1, 20)")
			t.Log(i, err)
		}
		intact(t, second)
		t.Fatalf("a second pool: %v", err)
	}
	v := vfs.New(nil)
	if err := v.Mount(t.Context(), "again", r.Actor); !errors.Is(err, vfs.ErrMounted) {
		t.Errorf("a VFS beside the pool: %v", err)
	}
	if err := v.Unmount("again"); !errors.Is(err, vfs.ErrNotMounted) {
		t.Errorf("it is there all the same: %v", err)
	}
	view, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // of views there may be many
		viewed, err := vfs.OpenView(t.Context(), view, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer viewed.Close()
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	intact(t, r.open(t, nil))
}

// TestPoolsAndDirect: connections that others open with the pool's DSN queue up with
// those of the pool, also for Update.
func TestPoolsAndDirect(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 3})
	exec(t, db, "create table t(a integer primary key, n); insert into t values (1, 0)")
	var wg sync.WaitGroup
	const turns = 50
	for range 3 {
		wg.Go(func() {
			c, err := sqlite3.Open(db.DSN())
			if err != nil {
				t.Error(err)
				return
			}
			do(t, c, "PRAGMA busy_timeout=60000")
			for range turns {
				do(t, c, "update t set n = n + 1")
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for range turns {
				if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
					n := 0
					if err := tx.QueryRowContext(t.Context(), "select n from t").Scan(&n); err != nil {
						return err
					}
					tx.Batch().Put(mark, fmt.Append(nil, n+1))
					_, err := tx.ExecContext(t.Context(), "update t set n = ?", n+1)
					return err
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := one[int](t, db, "select n from t"); n != 6*turns {
		t.Errorf("%d of %d updates are there", n, 6*turns)
	}
	intact(t, db)
}

// TestViewBesideWriter: what a view of the actor shows is a committed state, in every
// journal mode, whatever the writer is doing.
func TestViewBesideWriter(t *testing.T) {
	t.Parallel()
	for _, mode := range wrapModes {
		for _, txMemory := range []int64{0, 1} {
			t.Run(fmt.Sprintf("%s/%d", mode, txMemory), func(t *testing.T) {
				viewsBesideWriter(t, mode, txMemory)
			})
		}
	}
}

func viewsBesideWriter(t *testing.T, mode string, txMemory int64) {
	// What is stored in parts is up to txMemory here.
	r := newRig(t, batch.Limits{AtomicBatches: envlimits.Unlimited})
	db := r.open(t, &vfs.Options{TxMemory: txMemory, MaxConns: 2, TempDir: t.TempDir(), Pragmas: []string{"cache_size=10", "journal_mode=" + mode}})
	exec(t, db, "create table t(a integer primary key, n, b)")
	exec(t, db, "insert into t(n, b) select 0, zeroblob(1500) from generate_series(1, 400)")
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		for i := 1; i <= 12; i++ {
			q := fmt.Sprintf("update t set n = %d, b = randomblob(1500)", i)
			if i%4 == 0 {
				q = "vacuum"
			}
			if _, err := db.ExecContext(t.Context(), q); err != nil {
				t.Error(err)
			}
		}
	}()
	views, refused, last := 0, 0, 0
	for running := true; running; views++ {
		select {
		case <-done:
			running = false
		default:
		}
		n, err := lookThrough(t, r)
		if errors.Is(err, vfs.ErrCutOff) && running {
			refused++ // the journal of what is under way is stored; a view can't roll back
			continue
		}
		if err != nil || n < last {
			t.Fatalf("view %d: %d after %d, %v", views, n, last, err)
		}
		last = n
	}
	t.Logf("%d views, %d refused", views, refused)
	if last != 11 || refused > 0 && txMemory == 0 {
		t.Errorf("the last view shows %d; %d were refused", last, refused)
	}
	intact(t, db)
}

// lookThrough opens a view of the actor's database, and returns the n that all of its
// rows have.
func lookThrough(t *testing.T, r *fixture) (n int, err error) {
	t.Helper()
	view, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	db, err := vfs.OpenView(t.Context(), view, &vfs.Options{MaxConns: 1, TempDir: t.TempDir()})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var least, rows int
	if err := db.QueryRowContext(t.Context(), "select min(n), max(n), count(*) from t").Scan(&least, &n, &rows); err != nil {
		return 0, err
	}
	if least != n || rows != 400 {
		return 0, fmt.Errorf("%d rows from %d to %d: a transaction in parts", rows, least, n)
	}
	var check string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		return 0, fmt.Errorf("integrity_check: %s, %w", check, err)
	}
	return n, nil
}

// TestExportBesideEverything: every export is a sound database of one state, while others
// write, make it smaller, and change the size of its pages and its mode.
func TestExportBesideEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 3, TxMemory: 1, TempDir: t.TempDir(), Pragmas: []string{"cache_size=10"}})
	exec(t, db, "create table t(a integer primary key, n, b)")
	exec(t, db, "insert into t(n, b) select 0, randomblob(2000) from generate_series(1, 300)")
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		for i := 1; i <= 60; i++ {
			q := []string{
				fmt.Sprintf("update t set n = %d, b = randomblob(2000)", i),
				fmt.Sprintf("pragma page_size=%d; vacuum", 512<<(i/4)),
				"begin; delete from t where a > 200; insert into t(n, b) select n, randomblob(4000) from t limit 100; commit",
				"pragma journal_mode=" + wrapModes[i/4%len(wrapModes)],
			}[i%4]
			// A change of mode needs the file for itself, and may be refused.
			_, err := db.ExecContext(t.Context(), q)
			if err != nil && !(errors.Is(err, sqlite3.BUSY) && i%4 == 3) {
				t.Errorf("%d: %v", i, err)
			}
		}
	}()
	exports := 0
	for running := true; running; exports++ {
		select {
		case <-done:
			running = false
		default:
		}
		var image bytes.Buffer
		if _, err := db.Export(t.Context(), &image); err != nil {
			t.Fatalf("export %d: %v", exports, err)
		}
		file := openFile(t, image.Bytes())
		intact(t, file)
		if n := one[int](t, file, "select max(n) - min(n) from t"); n != 0 {
			t.Errorf("export %d: two states", exports)
		}
	}
	t.Logf("%d exports", exports)
	intact(t, db)
}

// TestUpdateOfTwoActors: each of two databases has its own writer.
func TestUpdateOfTwoActors(t *testing.T) {
	r := newRig(t, batch.Limits{})
	other, err := r.Store.Named(t.Context(), "other", nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := vfs.Open(t.Context(), other, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := r.open(t, nil)
	exec(t, a, table)
	exec(t, b, table)
	err = a.Update(t.Context(), func(x *vfs.Tx) error {
		x.Batch().Put(mark, []byte("a"))
		exec(t, x, fill)
		if err := b.Update(t.Context(), func(y *vfs.Tx) error {
			y.Batch().Put(mark, []byte("b"))
			exec(t, y, fill)
			return nil
		}); err != nil {
			t.Error(err)
		}
		return errChanged
	})
	if !errors.Is(err, errChanged) || hasMark(t, r.Actor) || !hasMark(t, other) {
		t.Errorf("%v; staged with a: %v, with b: %v", err, hasMark(t, r.Actor), hasMark(t, other))
	}
	if x, y := one[int](t, a, "select count(*) from t"), one[int](t, b, "select count(*) from t"); x != 0 || y != 80 {
		t.Errorf("%d and %d rows", x, y)
	}
	if err := errors.Join(b.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

// TestUpdateMisused: an Update within another one, or beside a transaction of the same
// goroutine, ends with its context or the busy timeout, and leaves nothing behind.
func TestUpdateMisused(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 2})
	exec(t, db, "create table log(n)")
	ctx, cancel := context.WithCancel(t.Context())
	err := db.Update(t.Context(), func(tx *vfs.Tx) error {
		tx.Batch().Put(mark, nil)
		inner := make(chan error)
		go func() {
			inner <- db.Update(ctx, func(*vfs.Tx) error { t.Error("it ran"); return nil })
		}()
		queued(t, db, 1)
		cancel()
		if err := <-inner; !errors.Is(err, context.Canceled) {
			t.Errorf("the inner one: %v", err)
		}
		_, err := tx.ExecContext(t.Context(), "insert into log values (1)")
		return err
	})
	if err != nil || !hasMark(t, r.Actor) {
		t.Errorf("the outer one: %v", err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	brief := oneConn(t, db)
	exec(t, brief, "pragma busy_timeout=1")
	if err := brief.Close(); err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(*vfs.Tx) error { t.Error("it ran"); return nil })
	if !errors.Is(err, sqlite3.BUSY) || vfs.Cause(err) != nil {
		t.Errorf("beside a transaction: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := db.Update(ctx, func(*vfs.Tx) error { t.Error("it ran"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
	var leaked *vfs.Tx
	if err := db.Update(t.Context(), func(tx *vfs.Tx) error { leaked = tx; return nil }); err != nil {
		t.Error(err)
	}
	if _, err := leaked.ExecContext(t.Context(), "insert into log values (2)"); err == nil {
		t.Error("a transaction that is over was written to")
	}
	ended := make(chan struct{})
	go func() { // as a test does that fails in it
		defer close(ended)
		_ = db.Update(t.Context(), func(tx *vfs.Tx) error {
			exec(t, tx, "insert into log values (3)")
			runtime.Goexit()
			return nil
		})
	}()
	<-ended
	holdsNothingSoon(t, r, db)
	if n := one[int](t, db, "select count(*) from log where n > 1"); n != 0 {
		t.Errorf("%d rows of transactions that were not committed", n)
	}
}

// TestCloseUnder: a pool that is closed under rows, statements and transactions lets
// them go on, and can be closed when they are over.
func TestCloseUnder(t *testing.T) {
	r := newRig(t, batch.Limits{})
	opts := &vfs.Options{MaxConns: 4}
	for name, use := range map[string]func(db *vfs.DB) (over func() error){
		"rows": func(db *vfs.DB) func() error {
			rows, err := db.QueryContext(t.Context(), "select b from t")
			if err != nil || !rows.Next() {
				t.Fatal(err)
			}
			return func() error {
				n := 1
				for rows.Next() {
					n++
				}
				if n != 80 {
					t.Errorf("%d rows", n)
				}
				return errors.Join(rows.Err(), rows.Close())
			}
		},
		"transaction": func(db *vfs.DB) func() error {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			exec(t, tx, "update t set b = b || 'x'")
			return tx.Commit
		},
		"connection": func(db *vfs.DB) func() error {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			exec(t, c, "begin immediate; update t set b = 'lost'")
			return c.Close
		},
		"statement": func(db *vfs.DB) func() error {
			s, err := db.PrepareContext(t.Context(), "select count(*) from t")
			if err != nil {
				t.Fatal(err)
			}
			return s.Close
		},
	} {
		db, err := vfs.Open(t.Context(), r.Actor, opts)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db, "create table if not exists t(a integer primary key, b); delete from t")
		exec(t, db, fill)
		over := use(db)
		if err := db.Close(); errors.Is(err, vfs.ErrBusy) == (name == "statement") {
			t.Errorf("%s: %v", name, err)
		}
		if err := over(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := errors.Join(db.Close(), db.Close()); err != nil {
			t.Errorf("%s: closed again: %v", name, err)
		}
		again, err := vfs.Open(t.Context(), r.Actor, opts)
		if err != nil {
			t.Fatal(err)
		}
		if n := one[int](t, again, "select count(*) from t where b = 'lost'"); n != 0 {
			t.Errorf("%s: closing committed", name)
		}
		intact(t, again)
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestManyPools opens and closes one database again and again.
func TestManyPools(t *testing.T) {
	times := testkit.Pick(500, 1000, 10_000)
	r := newRig(t, batch.Limits{})
	before := runtime.NumGoroutine()
	for i := range times {
		db, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{MaxConns: 1, Pragmas: []string{"synchronous=off"}})
		if err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			exec(t, db, "create table if not exists t(a); insert into t values (1)")
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := lastingGoroutines(before + 2); n > before+2 {
		t.Errorf("%d goroutines, %d in the beginning", n, before)
	}
	if vfs.Claimed(r.Actor) {
		t.Error("the actor is still mounted")
	}
}

// TestActorClosedFirst: a pool whose actor was closed refuses everything, and closes.
func TestActorClosedFirst(t *testing.T) {
	r := newRig(t, batch.Limits{})
	actor, err := r.Store.Named(t.Context(), "other", nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := vfs.Open(t.Context(), actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, table)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, fill)
	if err := actor.Close(); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"commit": tx.Commit(),
		"read":   db.QueryRowContext(t.Context(), "select count(*) from t").Scan(new(int)),
		"update": db.Update(t.Context(), func(*vfs.Tx) error { return nil }),
		"ping":   db.PingContext(t.Context()),
	} {
		if !errors.Is(err, actorstore.ErrClosed) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
