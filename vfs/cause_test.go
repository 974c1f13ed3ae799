package vfs_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// A causeCase is a way to make the statements of a pool fail: what breaks them, what errors.Is must
// find in their errors, and which codes errors.As may find. Code 0 means that SQLite isn't asked at
// all.
type causeCase struct {
	name   string
	limits batch.Limits
	opts   vfs.Options
	codes  []sqlite3.ErrorCode
	is     []error
	break_ func(t *testing.T, r *fixture, db *vfs.DB)
}

// failing fails every operation of the kinds points with err.
func failing(points ...faultkv.Point) func(err error) func(*testing.T, *fixture, *vfs.DB) {
	return func(err error) func(*testing.T, *fixture, *vfs.DB) {
		return func(_ *testing.T, r *fixture, _ *vfs.DB) {
			r.Engine.Hook(func(op faultkv.Op) error {
				for _, p := range points {
					if op.Point == p {
						return err
					}
				}
				return nil
			})
		}
	}
}

// After a failure in doubt SQLite tries its journal, which can't be opened.
var (
	lockedOut = []sqlite3.ErrorCode{sqlite3.BUSY}
	full      = []sqlite3.ErrorCode{sqlite3.FULL}
	ioerr     = []sqlite3.ErrorCode{sqlite3.IOERR, sqlite3.CANTOPEN}
)

var causeCases = []causeCase{
	{
		"quota", batch.Limits{Storage: 400_000}, vfs.Options{}, full, []error{actorstore.ErrQuota},
		func(*testing.T, *fixture, *vfs.DB) {},
	},
	{
		"quota, spilled", batch.Limits{Storage: 400_000}, vfs.Options{TxMemory: 1}, full, []error{actorstore.ErrQuota},
		func(*testing.T, *fixture, *vfs.DB) {},
	},
	{
		"quota in WAL mode", batch.Limits{Storage: 800_000}, vfs.Options{Pragmas: []string{"journal_mode=wal"}}, full, []error{actorstore.ErrQuota},
		func(*testing.T, *fixture, *vfs.DB) {},
	},
	{
		"unknown outcome", batch.Limits{}, vfs.Options{}, ioerr, []error{actorstore.ErrPoisoned, kv.ErrUnknownOutcome},
		failing(faultkv.AfterApply)(kv.ErrUnknownOutcome),
	},
	{
		"unknown outcome through the journal", oneBatch, vfs.Options{TxMemory: 1}, ioerr, []error{actorstore.ErrPoisoned, kv.ErrUnknownOutcome},
		failing(faultkv.AfterCommit)(kv.ErrUnknownOutcome),
	},
	{
		"poisoned engine", batch.Limits{}, vfs.Options{}, ioerr, []error{kv.ErrPoisoned},
		failing(faultkv.BeforeCommit, faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeSnapshot)(kv.ErrPoisoned),
	},
	{
		"corrupt", batch.Limits{}, vfs.Options{}, []sqlite3.ErrorCode{sqlite3.CORRUPT}, []error{actorstore.ErrCorrupt},
		func(t *testing.T, r *fixture, db *vfs.DB) {
			exec(t, db, "insert into t(b) select zeroblob(2000) from generate_series(1, 20)")
			long := make([]byte, chunked.Size+1)
			for i := range uint32(10) {
				if err := r.Actor.Put(t.Context(), layout.AppendFileChunk(nil, actorstore.FileMain, i+1), long); err != nil {
					t.Fatal(err)
				}
			}
		},
	},
	{
		"failed before", batch.Limits{}, vfs.Options{}, []sqlite3.ErrorCode{0, sqlite3.IOERR}, []error{vfs.ErrFailed, actorstore.ErrPoisoned, kv.ErrUnknownOutcome},
		func(t *testing.T, r *fixture, db *vfs.DB) {
			failing(faultkv.AfterApply)(kv.ErrUnknownOutcome)(t, r, db)
			if err := r.Actor.Put(t.Context(), mark, nil); !errors.Is(err, kv.ErrUnknownOutcome) {
				t.Fatal(err)
			}
			r.Engine.Hook(nil)
		},
	},
	{
		"fenced", batch.Limits{}, vfs.Options{}, []sqlite3.ErrorCode{0, sqlite3.IOERR}, []error{vfs.ErrFailed, actorstore.ErrFenced},
		func(t *testing.T, r *fixture, _ *vfs.DB) {
			store, err := actorstore.Open(t.Context(), r.Engine, nil)
			if err != nil {
				t.Fatal(err)
			}
			other, err := store.Named(t.Context(), "lobby", nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := errors.Join(other.Close(), store.Close()); err != nil {
					t.Error(err)
				}
			})
		},
	},
}

// TestCauses: what a pool returns carries SQLite's code and the reason behind it, and
// says both in one sentence, whichever call it comes from.
func TestCauses(t *testing.T) {
	t.Parallel()
	for _, c := range causeCases {
		for name, call := range causeCalls {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				r := newRig(t, c.limits)
				opts := c.opts
				opts.Pragmas = append([]string{"cache_size=5"}, opts.Pragmas...)
				db := r.open(t, &opts)
				exec(t, db, "create table t(a integer primary key, b)")
				exec(t, db, "insert into t(b) select zeroblob(500) from generate_series(1, 100)")
				conn := oneConn(t, db)
				began := false
				err := call(t, conn, func() { began = true; c.break_(t, r, db) })
				r.Engine.Hook(nil)
				if !began {
					t.Fatal("it failed too early")
				}
				carries(t, err, c.codes, c.is...)
			})
		}
	}
}

// carries fails the test unless err is of one of SQLite's codes, and of all the
// sentinels, in one sentence.
func carries(t *testing.T, err error, codes []sqlite3.ErrorCode, is ...error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	var code sqlite3.ErrorCode
	if errors.As(err, &code); !slices.Contains(codes, code) {
		t.Errorf("%v: SQLite's code is %d, want one of %d", err, code, codes)
	}
	text := err.Error()
	for _, want := range is {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
		if strings.Count(text, want.Error()) != 1 || strings.Contains(text, "\n") {
			t.Errorf("%q does not say %q once", text, want)
		}
	}
	if code == 0 {
		return
	}
	if !strings.HasPrefix(text, code.Error()) || strings.Count(text, code.Error()) != 1 {
		t.Errorf("%q does not begin with %q, once", text, code)
	}
	if cause := vfs.Cause(err); !errors.Is(cause, is[0]) {
		t.Errorf("Cause says %v", cause)
	}
}

// causeCalls reach every call that a pool's connection has. Each one writes what no
// quota here allows, or for reads what must be read, and calls ready before it.
var causeCalls = map[string]func(t *testing.T, c *sql.Conn, ready func()) error{
	"exec": func(t *testing.T, c *sql.Conn, ready func()) error {
		ready()
		_, err := c.ExecContext(t.Context(), "insert into t(b) select b || zeroblob(50000) from t; select max(b) from t")
		return err
	},
	"prepared": func(t *testing.T, c *sql.Conn, ready func()) error {
		s, err := c.PrepareContext(t.Context(), "insert into t(b) select b || zeroblob(?) from t")
		if err != nil {
			t.Fatal(err)
		}
		ready()
		_, err = s.ExecContext(t.Context(), 50_000)
		if closed := s.Close(); err == nil {
			err = closed
		}
		return err
	},
	"query": func(t *testing.T, c *sql.Conn, ready func()) error {
		ready()
		rows, err := c.QueryContext(t.Context(), "insert into t(b) select b || zeroblob(50000) from t returning a")
		if err != nil {
			return err
		}
		for rows.Next() {
		}
		if closed := rows.Close(); closed != nil && closed.Error() != rows.Err().Error() {
			t.Errorf("Close says %v, Err %v", closed, rows.Err())
		}
		return rows.Err()
	},
	"commit": func(t *testing.T, c *sql.Conn, ready func()) error {
		tx, err := c.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, tx, "pragma cache_size=1000") // so that nothing is stored before
		exec(t, tx, "update t set b = b || zeroblob(500)")
		exec(t, tx, "insert into t(b) select zeroblob(20000) from generate_series(1, 30)")
		if !strings.HasPrefix(t.Name(), "TestCauses/corrupt") {
			ready()
			return tx.Commit()
		}
		if err := tx.Rollback(); err != nil { // a commit reads nothing
			t.Fatal(err)
		}
		ready()
		return c.QueryRowContext(t.Context(), "select max(b) from t").Scan(new([]byte))
	},
}

// TestCauseTooOld: a reader past the bound is told so.
func TestCauseTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, db := strictPool(t, batch.Limits{}, vfs.Options{MaxSnapshotAge: time.Hour})
		tx := readOnlyTx(t, db)
		stmt, err := tx.PrepareContext(t.Context(), sumT)
		if err != nil {
			t.Fatal(err)
		}
		if err := stmt.QueryRowContext(t.Context()).Scan(new(int)); err != nil {
			t.Fatal(err)
		}
		other := oneConn(t, db)
		rows, err := other.QueryContext(t.Context(), "select b from t")
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		exec(t, db, "update t set b = zeroblob(3001)")
		time.Sleep(2 * time.Hour)
		carries(t, stmt.QueryRowContext(t.Context()).Scan(new(int)), lockedOut, vfs.ErrSnapshotTooOld)
		_, err = tx.ExecContext(t.Context(), sumT)
		carries(t, err, lockedOut, vfs.ErrSnapshotTooOld)
		for rows.Next() {
		}
		carries(t, rows.Err(), lockedOut, vfs.ErrSnapshotTooOld)
		if err := errors.Join(stmt.Close(), tx.Rollback(), other.Close()); err != nil {
			t.Error(err)
		}
	})
}

// A lockedFile tells when it was locked for reading.
type lockedFile struct {
	hiddenFile
	locked func()
}

func (f lockedFile) Unwrap() sqlitevfs.File { return f.File }

// Lock calls locked, under the lock.
func (f lockedFile) Lock(level sqlitevfs.LockLevel) error {
	err := f.File.Lock(level)
	if err == nil && level == sqlitevfs.LOCK_SHARED {
		f.locked()
	}
	return err
}

// TestCauseShortened: SQLite drops a part of the code when it can't read the first page.
func TestCauseShortened(t *testing.T) {
	r := newRig(t, batch.Limits{})
	locked := func() {}
	db := r.open(t, &vfs.Options{MaxSnapshots: 1, Wrap: func(v sqlitevfs.VFS) sqlitevfs.VFS {
		return lockingVFS{v, func() { locked() }}
	}})
	w := oneConn(t, db)
	exec(t, w, "create table t(a)")
	reader := oneConn(t, db)
	locked = func() {
		locked = func() {}
		exec(t, w, "insert into t values (1)")
		exec(t, w, "insert into t values (2)")
	}
	_, err := reader.ExecContext(t.Context(), "pragma cache_size=5")
	carries(t, err, lockedOut, vfs.ErrSnapshotTooOld)
}

type lockingVFS struct {
	sqlitevfs.VFS
	locked func()
}

func (v lockingVFS) Open(name string, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	f, flags, err := v.VFS.Open(name, flags)
	if err != nil || flags&sqlitevfs.OPEN_MAIN_DB == 0 {
		return f, flags, err
	}
	return lockedFile{hiddenFile{f}, v.locked}, flags, nil
}

// TestCauseOfAttached: the reason may be another database's.
func TestCauseOfAttached(t *testing.T) {
	r := newRig(t, batch.Limits{})
	actor, err := r.Store.Named(t.Context(), "other", nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := vfs.Open(t.Context(), actor, &vfs.Options{MaxSnapshots: 1})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, other, table)
	exec(t, other, fill)
	c := oneConn(t, r.open(t, &vfs.Options{Pragmas: []string{"cache_size=5"}}))
	exec(t, c, "attach '"+other.DSN()+"' as x")
	exec(t, c, "pragma x.cache_size=5")
	exec(t, c, "begin; select max(b) from x.t")
	exec(t, other, "update t set b = 1")
	_, err = c.ExecContext(t.Context(), "select max(b) from x.t")
	carries(t, err, lockedOut, vfs.ErrSnapshotTooOld)
	if !strings.Contains(err.Error(), "at most 1 states are kept") {
		t.Errorf("%v", err)
	}
	exec(t, c, "rollback; detach x")
	if err := errors.Join(other.Close(), actor.Close()); err != nil {
		t.Error(err)
	}
}

// TestCauseOfOthers: an error has the reason of its own statement, and none of others'.
func TestCauseOfOthers(t *testing.T) {
	r := newRig(t, batch.Limits{Storage: 400_000})
	db := r.open(t, nil)
	c := oneConn(t, db)
	exec(t, c, table)
	exec(t, c, "create unique index i on t(b)")
	_, err := c.ExecContext(t.Context(), "insert into t(b) values (zeroblob(500000))")
	carries(t, err, full, actorstore.ErrQuota)
	exec(t, c, "pragma max_page_count=5")
	_, err = c.ExecContext(t.Context(), "insert into t(b) values (zeroblob(50000))")
	if !errors.Is(err, sqlite3.FULL) || errors.Is(err, actorstore.ErrQuota) || vfs.Cause(err) != nil {
		t.Errorf("SQLite's own bound: %v", err)
	}
	exec(t, c, "insert into t(b) values (1)")
	if _, err = c.ExecContext(t.Context(), "insert into t(b) values (1)"); !errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) || vfs.Cause(err) != nil {
		t.Errorf("a constraint: %v", err)
	}
	if _, err := c.ExecContext(t.Context(), "pragma journal_mode=off"); !errors.Is(err, vfs.ErrUnsupported) || strings.Count(err.Error(), vfs.ErrUnsupported.Error()) != 1 {
		t.Errorf("a mode that is refused: %v", err)
	}
	if _, err := c.ExecContext(t.Context(), "nonsense"); err == nil || vfs.Cause(err) != nil {
		t.Errorf("%v", err)
	}
}

// TestCauseIsContext: a statement that its context interrupts returns the context's error, even
// while it waits for its turn to write. Such an error isn't one of this package.
func TestCauseIsContext(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, table)
	interrupted := func(what string, ctx context.Context, err error) {
		t.Helper()
		if !errors.Is(err, context.Canceled) || vfs.Cause(err) != nil {
			t.Errorf("%s: %v, and Cause says %v", what, err, vfs.Cause(err))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	conn := oneConn(t, db)
	rows, err := conn.QueryContext(ctx, "with n(i) as (select 1 union all select i+1 from n) select i from n")
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	cancel()
	for rows.Next() {
	}
	interrupted("a query", ctx, rows.Err())
	_ = rows.Close() // says the same
	w := oneConn(t, db)
	exec(t, w, "begin immediate")
	ctx, cancel = context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := conn.ExecContext(ctx, "begin immediate")
		failed <- err
	}()
	queued(t, db, 1)
	cancel()
	interrupted("a wait", ctx, <-failed)
	exec(t, w, "rollback")
}

// queued waits until n connections wait for their turn.
func queued(t *testing.T, db *vfs.DB, n int) {
	t.Helper()
	d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if d.Look().Waiting == n {
			return
		}
	}
}

// TestPing: a pool whose database refuses everything can't be reached.
func TestPing(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, table)
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	failing(faultkv.AfterApply)(kv.ErrUnknownOutcome)(t, r, db)
	if _, err := db.ExecContext(t.Context(), fill); err == nil {
		t.Fatal("the commit was not in doubt")
	}
	r.Engine.Hook(nil)
	busy := oneConn(t, db)
	for range 2 { // the connection that is there, and a new one
		if err := db.PingContext(t.Context()); !errors.Is(err, vfs.ErrFailed) || !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Errorf("%v", err)
		}
	}
	if err := busy.Close(); err != nil {
		t.Error(err)
	}
}
