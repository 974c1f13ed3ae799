package vfs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/vfs"
)

// errBoom is what the function boom panics with.
var errBoom = errors.New("boom")

// fragile are the options of a pool with one connection, of few megabytes, on which
// boom(x) panics and leave() ends the goroutine.
func fragile(opts vfs.Options) *vfs.Options {
	opts.MaxConns = 1
	opts.Pragmas = append(opts.Pragmas, "hard_heap_limit=6000000")
	opts.Extensions = append(opts.Extensions, func(c *sqlite3.Conn) error {
		return errors.Join(
			c.CreateFunction("boom", -1, 0, func(sqlite3.Context, ...sqlite3.Value) { panic(errBoom) }),
			c.CreateFunction("leave", 0, 0, func(sqlite3.Context, ...sqlite3.Value) { runtime.Goexit() }))
	})
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &opts
}

// A statement is what pools, connections and transactions have in common.
type statements interface {
	execer
	queryer
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// overflows are expressions in which SQLite panics, with the error that comes of it.
var overflows = map[string]error{
	"length(hex(zeroblob(20000000)))": vfs.ErrNoMemory,
	"boom()":                          errBoom,
}

// lostWays are the ways in which an expression may be evaluated.
var lostWays = map[string]func(ctx context.Context, db statements, expr string) error{
	"exec": func(ctx context.Context, db statements, expr string) error {
		_, err := db.ExecContext(ctx, "insert into t values ("+expr+")")
		return err
	},
	"exec with arguments": func(ctx context.Context, db statements, expr string) error {
		_, err := db.ExecContext(ctx, "insert into t select "+expr+" + ?", 1)
		return err
	},
	"prepared exec": func(ctx context.Context, db statements, expr string) error {
		s, err := db.PrepareContext(ctx, "insert into t values ("+expr+")")
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.ExecContext(ctx)
		return err
	},
	"query": func(ctx context.Context, db statements, expr string) error {
		var n int
		return db.QueryRowContext(ctx, "select "+expr).Scan(&n)
	},
	"prepared query": func(ctx context.Context, db statements, expr string) error {
		s, err := db.PrepareContext(ctx, "insert into t values ("+expr+") returning a")
		if err != nil {
			return err
		}
		defer s.Close()
		var n int
		return s.QueryRowContext(ctx).Scan(&n)
	},
	"a later row": func(ctx context.Context, db statements, expr string) error {
		rows, err := db.QueryContext(ctx, "select case column1 when 3 then "+expr+" else column1 end from (values (1), (2), (3), (4))")
		if err != nil {
			return err
		}
		defer rows.Close()
		n := 0
		for rows.Next() {
			n++
		}
		if n > 2 {
			return errors.New("rows behind the one that failed")
		}
		return errors.Join(rows.Err(), rows.Close())
	},
	"an open row beside": func(ctx context.Context, db statements, expr string) error {
		if _, ok := db.(*vfs.DB); ok { // it has another connection
			_, err := db.ExecContext(ctx, "insert into t values ("+expr+")")
			return err
		}
		rows, err := db.QueryContext(ctx, "values (1), (2)")
		if err != nil {
			return err
		}
		defer rows.Close()
		rows.Next()
		_, err = db.ExecContext(ctx, "insert into t values ("+expr+")")
		if rows.Next() {
			return errors.New("a row of a connection that is lost")
		}
		return err
	},
}

// lostPlaces are the places where they may be: each returns the error of fn, and whether what
// was written before it may have landed.
var lostPlaces = map[string]func(t *testing.T, db *vfs.DB, fn func(statements) error) error{
	"pool": func(_ *testing.T, db *vfs.DB, fn func(statements) error) error { return fn(db) },
	"connection": func(t *testing.T, db *vfs.DB, fn func(statements) error) error {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = fn(c)
		if _, again := c.ExecContext(t.Context(), "select 1"); again == nil {
			t.Error("the connection goes on")
		}
		if tx, again := c.BeginTx(t.Context(), nil); again == nil {
			defer tx.Rollback()
			t.Error("the connection begins a transaction")
		}
		return errors.Join(err, c.Close())
	},
	"transaction, rolled back": func(t *testing.T, db *vfs.DB, fn func(statements) error) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, tx, "insert into t values (1)")
		return errors.Join(fn(tx), tx.Rollback())
	},
	"transaction, committed": func(t *testing.T, db *vfs.DB, fn func(statements) error) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, tx, "insert into t values (1)")
		err = fn(tx)
		if tx.Commit() == nil {
			t.Error("the transaction is committed")
		}
		return err
	},
	"update": func(t *testing.T, db *vfs.DB, fn func(statements) error) error {
		var aborted []error
		err := db.Update(t.Context(), func(tx *vfs.Tx) error {
			tx.Batch().Put(mark, nil)
			tx.Batch().OnAbort(func(err error) { aborted = append(aborted, err) })
			exec(t, tx, "insert into t values (1)")
			return fn(tx)
		})
		if len(aborted) != 1 || !errors.Is(err, aborted[0]) {
			t.Errorf("aborted with %v", aborted)
		}
		return err
	},
	"update that goes on": func(t *testing.T, db *vfs.DB, fn func(statements) error) error {
		var failed error
		err := db.Update(t.Context(), func(tx *vfs.Tx) error {
			tx.Batch().Put(mark, nil)
			exec(t, tx, "insert into t values (1)")
			failed = fn(tx)
			if _, again := tx.ExecContext(t.Context(), "insert into t values (2)"); again == nil || !errors.Is(failed, errors.Unwrap(errors.Unwrap(again))) {
				t.Errorf("after %v: %v", failed, again)
			}
			return nil
		})
		if !errors.Is(err, vfs.ErrTxOver) {
			t.Errorf("Update: %v", err)
		}
		return failed
	},
}

// TestLost: a panic in SQLite, or in what it calls, is an error wherever it happens. The
// transaction is rolled back, its lock is free, and the pool has another connection.
func TestLost(t *testing.T) {
	t.Parallel()
	for where, in := range lostPlaces {
		for how, way := range lostWays {
			for expr, want := range overflows {
				t.Run(where+", "+how+", "+want.Error()[:4], func(t *testing.T) {
					r := newRig(t, batch.Limits{})
					db := r.open(t, fragile(vfs.Options{}))
					exec(t, db, "create table t(a)")
					exec(t, db, "insert into t values (0)")
					err := in(t, db, func(db statements) error { return way(t.Context(), db, expr) })
					if !errors.Is(err, want) || errors.Is(err, sqlite3.NOMEM) != (want == vfs.ErrNoMemory) || errors.Is(err, kv.ErrUnknownOutcome) {
						t.Errorf("got %v", err)
					}
					left(t, r, db, 1)
				})
			}
		}
	}
}

// left looks at what a lost connection has left: n rows, and a pool as it was.
func left(t *testing.T, r *fixture, db *vfs.DB, n int) {
	t.Helper()
	if got := one[int](t, db, "select count(*) from t"); got != n {
		t.Errorf("%d rows, not %d", got, n)
	}
	if hasMark(t, r.Actor) {
		t.Error("what was staged has landed")
	}
	if err := db.Update(t.Context(), func(tx *vfs.Tx) error { exec(t, tx, "insert into t values (9)"); return nil }); err != nil {
		t.Errorf("the next Update: %v", err)
	}
	intact(t, db)
	if s := db.DB.Stats(); s.OpenConnections != 1 || s.InUse != 0 {
		t.Errorf("%d connections, %d in use", s.OpenConnections, s.InUse)
	}
}

// TestLostMemory: the memory of a lost connection is given back, also when SQLite still
// had a statement of its own.
func TestLostMemory(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, fragile(vfs.Options{}))
	exec(t, db, "create table t(a)")
	space := addressSpace(t)
	const times = 40
	for range times {
		for expr := range overflows {
			if _, err := db.ExecContext(t.Context(), "insert into t values ("+expr+")"); err == nil {
				t.Fatal("it didn't fail")
			}
		}
	}
	// Each connection reserves 256 MiB.
	if grown := addressSpace(t) - space; grown > times<<28 {
		t.Errorf("the address space has grown by %d MiB", grown>>20)
	}
}

// addressSpace returns the size of the process's address space, in bytes.
func addressSpace(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	var pages int64
	if _, err := fmt.Sscan(string(b), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestLostSpilled: parts of the transaction are stored, so the next connection rolls the
// journal back, with a VFS on top, too. In WAL mode they are left in the log.
func TestLostSpilled(t *testing.T) {
	t.Parallel()
	for _, path := range append(updatePaths, updatePath{name: "wal", pragmas: []string{"journal_mode=wal", "cache_size=5"}}) {
		for expr, want := range overflows {
			t.Run(path.name+", "+want.Error()[:4], func(t *testing.T) {
				r := newRig(t, path.limits)
				opts := fragile(*path.options(1))
				opts.TxMemory = 1
				db := r.open(t, opts)
				exec(t, db, "create table t(a)")
				exec(t, db, "insert into t select randomblob(4000) from generate_series(1, 50)")
				before := one[string](t, db, "select hex(sum(length(a))) || count(*) from t")
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				exec(t, tx, "update t set a = randomblob(5000)")
				exec(t, tx, "insert into t select randomblob(4000) from generate_series(1, 400)")
				if _, err := tx.ExecContext(t.Context(), "insert into t values ("+expr+")"); !errors.Is(err, want) {
					t.Errorf("got %v", err)
				}
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
				if after := one[string](t, db, "select hex(sum(length(a))) || count(*) from t"); after != before {
					t.Errorf("%s, then %s", before, after)
				}
				exec(t, db, "insert into t values (1)")
				intact(t, db)
			})
		}
	}
}

// TestLostBeside: a lost connection doesn't hold up others. The next writer, which waits for it,
// goes on, and so does a reader beside it.
func TestLostBeside(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			opts := fragile(vfs.Options{Pragmas: []string{"journal_mode=" + mode}})
			opts.MaxConns = 3
			db := r.open(t, opts)
			exec(t, db, "create table t(a)")
			reader := oneConn(t, db)
			exec(t, reader, "begin")
			if got := one[int](t, reader, "select count(*) from t"); got != 0 {
				t.Fatal(got)
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			exec(t, tx, "insert into t values (1)")
			next := make(chan error)
			go func() {
				_, err := db.ExecContext(context.Background(), "insert into t values (2)")
				next <- err
			}()
			if mode == "delete" {
				for db.Stats().WriterWaits == 0 {
					runtime.Gosched()
				}
			}
			if _, err := tx.ExecContext(t.Context(), "insert into t values (boom())"); !errors.Is(err, errBoom) {
				t.Errorf("got %v", err)
			}
			if err := <-next; err != nil {
				t.Errorf("the next writer: %v", err)
			}
			if got := one[int](t, reader, "select count(*) from t"); got != 0 {
				t.Errorf("the reader sees %d rows", got)
			}
			exec(t, reader, "commit")
			if got := one[int](t, db, "select sum(a) from t"); got != 2 {
				t.Errorf("the sum is %d", got)
			}
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLostOpening: a panic while a connection is set up is an error of the call that wants the
// connection.
func TestLostOpening(t *testing.T) {
	r := newRig(t, batch.Limits{})
	fails := false
	opts := fragile(vfs.Options{Extensions: []func(*sqlite3.Conn) error{func(*sqlite3.Conn) error {
		if fails {
			panic(errBoom)
		}
		return nil
	}}})
	db := r.open(t, opts)
	exec(t, db, "create table t(a)")
	if err := db.Update(t.Context(), func(tx *vfs.Tx) error { tx.Discard(); return nil }); err != nil {
		t.Fatal(err)
	}
	fails = true
	for range 2 * opts.MaxConns {
		if _, err := db.ExecContext(t.Context(), "insert into t values (1)"); !errors.Is(err, errBoom) {
			t.Errorf("got %v", err)
		}
	}
	fails = false
	left(t, r, db, 0)
}

// An ending is a VFS on top of which a connection panics when it has committed.
type ending struct {
	sqlitevfs.VFSFilename
	armed *bool
}

func (v ending) OpenFilename(name *sqlitevfs.Filename, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	f, flags, err := v.VFSFilename.OpenFilename(name, flags)
	if h, ok := f.(*vfs.Handle); ok {
		f = &endingFile{h, v.armed}
	}
	return f, flags, err
}

type endingFile struct {
	*vfs.Handle
	armed *bool
}

func (f *endingFile) Unwrap() sqlitevfs.File { return f.Handle }

func (f *endingFile) CommitPhaseTwo() error {
	if *f.armed {
		*f.armed = false
		panic(errBoom)
	}
	return f.Handle.CommitPhaseTwo()
}

// TestLostCommitted: what was committed when SQLite panicked isn't said to have failed,
// and what wasn't has.
func TestLostCommitted(t *testing.T) {
	for _, late := range []bool{true, false} { // the panic comes when it is committed
		for _, path := range updatePaths[:5] {
			t.Run(fmt.Sprintf("%s, %v", path.name, late), func(t *testing.T) {
				r := newRig(t, path.limits)
				var before, after bool
				opts := fragile(*path.options(1))
				opts.Wrap = func(v sqlitevfs.VFS) sqlitevfs.VFS { return ending{v.(sqlitevfs.VFSFilename), &after} }
				opts.Extensions = append(opts.Extensions, func(c *sqlite3.Conn) error {
					c.CommitHook(func() bool {
						if before {
							before = false
							panic(errBoom)
						}
						return true
					})
					return nil
				})
				db := r.open(t, opts)
				exec(t, db, "create table t(a)")
				arm := func() { before, after = !late, late }
				const insert = "insert into t select randomblob(4000) from generate_series(1, 50)"

				arm()
				if _, err := db.ExecContext(t.Context(), insert); errors.Is(err, kv.ErrUnknownOutcome) != late || !errors.Is(err, errBoom) {
					t.Errorf("by itself: %v", err)
				}
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				exec(t, tx, insert)
				arm()
				if err := tx.Commit(); errors.Is(err, kv.ErrUnknownOutcome) != late || !errors.Is(err, errBoom) {
					t.Errorf("Commit: %v", err)
				}
				err = db.Update(t.Context(), func(tx *vfs.Tx) error {
					tx.Batch().Put(mark, nil)
					exec(t, tx, insert)
					arm()
					return nil
				})
				if (err == nil) != late || hasMark(t, r.Actor) != late || err != nil && !errors.Is(err, errBoom) {
					t.Errorf("Update: %v, and the mark is there: %v", err, hasMark(t, r.Actor))
				}
				if err := r.Actor.Commit(t.Context(), unmarked()); err != nil {
					t.Fatal(err)
				}
				if late {
					left(t, r, db, 150)
				} else {
					left(t, r, db, 0)
				}
			})
		}
	}
}

// unmarked returns a batch that removes the mark.
func unmarked() *batch.Batch {
	b := new(batch.Batch)
	b.Delete(mark)
	return b
}

// TestUpdatePanics: a panic of what is staged goes on in Update, whether the transaction
// has landed by then or not, and the database goes on.
func TestUpdatePanics(t *testing.T) {
	cases := map[string]struct {
		lands bool
		stage func(b *batch.Batch)
	}{
		"a hook":          {true, func(b *batch.Batch) { b.OnCommit(func() { panic(errBoom) }) }},
		"a Late function": {false, func(b *batch.Batch) { b.Late(func(*batch.Batch) error { panic(errBoom) }) }},
	}
	for name, c := range cases {
		for _, path := range updatePaths {
			t.Run(name+", "+path.name, func(t *testing.T) {
				r := newRig(t, path.limits)
				db := r.open(t, fragile(*path.options(1)))
				exec(t, db, "create table t(a)")
				err := recovered(func() error {
					return db.Update(t.Context(), func(tx *vfs.Tx) error {
						tx.Batch().Put(mark, nil)
						exec(t, tx, "insert into t select randomblob(4000) from generate_series(1, 50)")
						c.stage(tx.Batch())
						return nil
					})
				})
				if err == nil || !strings.Contains(err.Error(), "panic: boom") {
					t.Errorf("Update: %v", err)
				}
				if got := one[int](t, db, "select count(*) from t"); (got == 50) != c.lands || hasMark(t, r.Actor) != c.lands {
					t.Errorf("%d rows, and the mark is there: %v", got, hasMark(t, r.Actor))
				}
				exec(t, db, "insert into t values (1)")
				intact(t, db)
				if s := db.DB.Stats(); s.OpenConnections != 1 || s.InUse != 0 {
					t.Errorf("%d connections, %d in use", s.OpenConnections, s.InUse)
				}
			})
		}
	}
}

// TestLostGoexit: a function that ends its goroutine ends the transaction, and Update.
func TestLostGoexit(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, fragile(vfs.Options{}))
	exec(t, db, "create table t(a)")
	for _, way := range []string{"exec", "query", "prepared exec", "prepared query"} {
		ended := make(chan bool)
		go func() {
			defer close(ended)
			_ = db.Update(context.Background(), func(tx *vfs.Tx) error {
				exec(t, tx, "insert into t values (1)")
				return lostWays[way](context.Background(), tx, "leave()")
			})
			ended <- true
		}()
		if <-ended {
			t.Errorf("%s: Update returns", way)
		}
		if got := one[int](t, db, "select count(*) from t"); got != 0 {
			t.Errorf("%s: %d rows", way, got)
		}
		exec(t, db, "delete from t")
	}
	intact(t, db)
}

// TestLostView: a pool of readers has another connection, too.
func TestLostView(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "create table t(a)")
	exec(t, db, "insert into t values (1)")
	view, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	viewed, err := vfs.OpenView(t.Context(), view, fragile(vfs.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for expr, want := range overflows {
		var n int
		if err := viewed.QueryRowContext(t.Context(), "select a + "+expr+" from t").Scan(&n); !errors.Is(err, want) {
			t.Errorf("got %v", err)
		}
		if got := one[int](t, viewed, "select a from t"); got != 1 {
			t.Errorf("got %d", got)
		}
	}
	if err := viewed.Close(); err != nil {
		t.Error(err)
	}
}

// TestLostRaw: a panic of a user of the raw connection, which database/sql passes on, ends
// the transaction and the connection, whatever is left open.
func TestLostRaw(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, fragile(vfs.Options{}))
	exec(t, db, "create table t(a)")
	for expr, want := range overflows {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exec(t, c, "begin immediate")
		exec(t, c, "insert into t values (1)")
		err = recovered(func() error {
			return c.Raw(func(dc any) error {
				raw := dc.(*vfs.Conn).Raw()
				if _, _, err := raw.Prepare("select 1"); err != nil {
					return err
				}
				return raw.Exec("insert into t values (" + expr + ")")
			})
		})
		if err == nil || !strings.HasPrefix(err.Error(), "panic: ") {
			t.Errorf("%v: %v", want, err)
		}
		if err := c.Close(); !errors.Is(err, sql.ErrConnDone) {
			t.Errorf("Close: %v", err)
		}
	}
	left(t, r, db, 0)
}
