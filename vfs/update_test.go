package vfs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ncruces/go-sqlite3"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
	"github.com/ncruces/go-sqlite3/vfs/adiantum"
	"github.com/ncruces/go-sqlite3/vfs/xts"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

var mark = actorstore.UserKey([]byte("mark"))

// hasMark says what is staged has landed.
func hasMark(t testing.TB, r actorstore.Reader) bool {
	t.Helper()
	_, err := r.Get(context.Background(), mark, nil)
	if err != nil && !errors.Is(err, actorstore.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// updatePaths are ways on which a transaction may land: limits, cache size, and a VFS
// on top, through which there is always a journal.
var updatePaths = []updatePath{
	{"atomic", batch.Limits{Entries: 8, AtomicBatches: 1 << 20}, nil, nil},
	{"journal", oneBatch, nil, nil},
	{"spilled", batch.Limits{Entries: 8, AtomicBatches: 1 << 20}, []string{"cache_size=5"}, nil},
	{"spilled journal", oneBatch, []string{"cache_size=5"}, nil},
	{"normal", oneBatch, []string{"cache_size=5", "synchronous=normal"}, nil},
	{"adiantum", batch.Limits{Entries: 8, AtomicBatches: 1 << 20}, []string{testKey, "cache_size=5"}, withAdiantum},
	{"xts journal", oneBatch, []string{testKey, "cache_size=5"}, withXTS},
	{"adiantum journal", oneBatch, []string{testKey}, withAdiantum},
	{"xts", batch.Limits{Entries: 8, AtomicBatches: 1 << 20}, []string{testKey}, withXTS},
}

type updatePath struct {
	name    string
	limits  batch.Limits
	pragmas []string
	wrap    func(sqlitevfs.VFS) sqlitevfs.VFS
}

// options are those of a pool with n connections.
func (p *updatePath) options(n int, pragmas ...string) *vfs.Options {
	return &vfs.Options{Pragmas: slices.Concat(p.pragmas, pragmas), MaxConns: n, Wrap: p.wrap}
}

const testKey = "hexkey='0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'"

func withAdiantum(v sqlitevfs.VFS) sqlitevfs.VFS { return adiantum.Wrap(v, nil) }

func withXTS(v sqlitevfs.VFS) sqlitevfs.VFS { return xts.Wrap(v, nil) }

// seedUpdate makes the table that the cases work on.
func seedUpdate(t *testing.T, db *vfs.DB) {
	t.Helper()
	for _, q := range []string{
		"create table t(a integer primary key, b blob unique on conflict rollback)", "create table log(x)",
		"create table p(id integer primary key)", "create table c(p references p deferrable initially deferred)",
		"create trigger boom before insert on log when new.x = 'boom' begin select raise(rollback, 'boom'); end",
		"insert into t(b) select randomblob(1500) from generate_series(1, 80)", "pragma foreign_keys=on",
	} {
		exec(t, db, q)
	}
}

var errChanged = errors.New("changed my mind")

// An updateEnd is a way in which a transaction may end.
type updateEnd struct {
	lands bool
	run   func(ctx context.Context, cancel func(), tx *vfs.Tx) error
}

const updateAll = "update t set b = randomblob(1600)"

var updateEnds = map[string]updateEnd{
	"commit":       {true, func(context.Context, func(), *vfs.Tx) error { return nil }},
	"an error":     {false, func(context.Context, func(), *vfs.Tx) error { return errChanged }},
	"rollback":     {false, statement("rollback")},
	"or rollback":  {false, statement("insert into t(b) select b from t limit 1")},
	"ignored":      {false, ignoring("insert into t(b) select b from t limit 1")},
	"raise":        {false, ignoring("insert into log values ('boom')")},
	"constraint":   {true, ignoring("insert into p values (1), (1)")},
	"deferred key": {false, statement("insert into c values (77)")},
	"interrupt": {false, func(ctx context.Context, cancel func(), tx *vfs.Tx) error {
		cancel()
		_, err := tx.ExecContext(ctx, updateAll)
		return err
	}},
	"interrupted commit": {false, func(_ context.Context, cancel func(), _ *vfs.Tx) error {
		cancel()
		return nil
	}},
	"own commit":         {false, statement("commit")},
	"own end":            {false, ignoring("end")},
	"own commit and on":  {false, ignoring("commit; begin immediate; insert into log values ('second')")},
	"own commit, undone": {false, statement("savepoint s; delete from t; rollback to s; commit")},
	"own commit, failed": {false, func(ctx context.Context, _ func(), tx *vfs.Tx) error {
		if _, err := tx.ExecContext(ctx, "insert into p values (1), (1)"); err == nil {
			return errors.New("the statement should have failed")
		}
		return statement("commit")(ctx, nil, tx)
	}},
	"released":           {true, statement("savepoint s; release s")},
	"rollback and begin": {false, statement("rollback; begin; insert into log values ('second')")},
	"commit of another":  {false, statement("rollback; begin; insert into log values ('second'); commit; begin")},
	"locking mode":       {false, statement("pragma locking_mode=exclusive")},
	"journal mode":       {false, statement("pragma journal_mode=memory")},
	"open rows": {true, func(_ context.Context, _ func(), tx *vfs.Tx) error {
		rows, err := tx.QueryContext(context.Background(), "select a from t union all select 1 union all select 2")
		if err == nil {
			rows.Next() // and they stay open
		}
		return err
	}},
	"savepoint": {true, statement("savepoint s; delete from t; rollback to s")},
	"late error": {false, func(_ context.Context, _ func(), tx *vfs.Tx) error {
		tx.Batch().Late(func(*batch.Batch) error { return errChanged })
		return nil
	}},
	"quota": {false, func(_ context.Context, _ func(), tx *vfs.Tx) error {
		for i := range 100 {
			tx.Batch().Put(actorstore.UserKey([]byte{byte(i)}), make([]byte, 100<<10))
		}
		return nil
	}},
}

// pathsHere are updatePaths without some of those that encrypt, which takes long, and in the short form the
// first of them.
func pathsHere() []updatePath {
	return updatePaths[:testkit.Pick(3, 5, len(updatePaths))]
}

// TestUpdate: what is staged lands exactly when the SQL does, whatever ends the
// transaction, before and after it has outgrown SQLite's cache.
func TestUpdate(t *testing.T) {
	t.Parallel()
	for _, path := range pathsHere() {
		for name := range updateEnds {
			for _, changes := range []bool{true, false} {
				if testkit.Short() && !changes {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/changes=%v", path.name, name, changes), func(t *testing.T) {
					testUpdate(t, path, name, changes)
				})
			}
		}
	}
}

func testUpdate(t *testing.T, path updatePath, name string, changes bool) {
	end := updateEnds[name]
	limits := path.limits
	limits.Storage = 5 << 20
	r := newRig(t, limits)
	db := r.open(t, path.options(1, "foreign_keys=on"))
	seedUpdate(t, db)
	before := contentOf(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log []string
	err := db.Update(ctx, func(tx *vfs.Tx) error {
		tx.Batch().OnCommit(func() { log = append(log, "commit") })
		tx.Batch().OnAbort(func(error) { log = append(log, "abort") })
		tx.Batch().Put(mark, []byte("x"))
		if changes {
			if _, err := tx.ExecContext(ctx, updateAll); err != nil {
				return err
			}
		}
		return end.run(ctx, cancel, tx)
	})
	after := contentOf(t, db)
	lands := end.lands && err == nil
	if end.lands != (err == nil) {
		t.Errorf("Update: %v", err)
	}
	if (after != before) != (changes && lands) {
		t.Errorf("the SQL landed: %v; Update says %v", after != before, err)
	}
	if got := hasMark(t, r.Actor); got != lands {
		t.Errorf("what was staged landed: %v; Update says %v", got, err)
	}
	want := "abort"
	if lands {
		want = "commit"
	}
	if !slices.Equal(log, []string{want}) {
		t.Errorf("the hooks ran as %q, want %q", log, want)
	}
	if n := one[int](t, db, "select count(*) from log where x = 'second'"); n != 0 && name != "commit of another" {
		t.Errorf("%d rows of another transaction", n)
	}
	intact(t, db)
	if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
		_, err := tx.ExecContext(t.Context(), updateAll)
		return err
	}); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

func statement(q string) func(context.Context, func(), *vfs.Tx) error {
	return func(ctx context.Context, _ func(), tx *vfs.Tx) error {
		_, err := tx.ExecContext(ctx, q)
		return err
	}
}

func ignoring(q string) func(context.Context, func(), *vfs.Tx) error {
	return func(ctx context.Context, _ func(), tx *vfs.Tx) error {
		if _, err := tx.ExecContext(ctx, q); err == nil {
			return errors.New("the statement should have failed")
		}
		return nil
	}
}

// TestUpdateCounts: one durable commit for everything on the atomic path, and as
// many as the transaction alone takes on the other.
func TestUpdateCounts(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "create table t(a integer primary key, b text)")
	exec(t, db, "insert into t(b) values ('x')")
	r.Engine.Reset()
	if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
		tx.Batch().PutPrior(mark, []byte("x"), batch.Absent)
		_, err := tx.ExecContext(t.Context(), "update t set b = 'y'")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := r.Engine.Counts(); got.Commits != 1 || got.Durable != 1 || got.Syncs != 0 {
		t.Errorf("%+v, want one durable commit", got)
	}
}

// TestUpdateRefused: modes in which the commit point isn't the store's.
func TestUpdateRefused(t *testing.T) {
	for _, pragma := range []string{"journal_mode=truncate", "journal_mode=persist", "journal_mode=memory", "locking_mode=exclusive", "synchronous=off"} {
		r := newRig(t, batch.Limits{})
		db := r.open(t, &vfs.Options{Pragmas: []string{pragma}, MaxConns: 1})
		exec(t, db, table)
		err := db.Update(t.Context(), func(tx *vfs.Tx) error {
			tx.Batch().Put(mark, nil)
			return nil
		})
		if !errors.Is(err, vfs.ErrUnsupported) || hasMark(t, r.Actor) {
			t.Errorf("%s: %v", pragma, err)
		}
		exec(t, db, fill)
	}
	r := newRig(t, batch.Limits{})
	exec(t, r.open(t, nil), table)
	v, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	db, err := vfs.OpenView(t.Context(), v, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), func(*vfs.Tx) error { return nil }); !errors.Is(err, vfs.ErrUnsupported) {
		t.Errorf("of a view: %v", err)
	}
	if err := errors.Join(db.Close(), v.Close()); err != nil {
		t.Error(err)
	}
}

// TestUpdatePanic: a panic of the function rolls back, and goes on.
func TestUpdatePanic(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 1})
	exec(t, db, table)
	func() {
		defer func() {
			if recover() != errChanged {
				t.Error("the panic got lost")
			}
		}()
		_ = db.Update(t.Context(), func(tx *vfs.Tx) error {
			tx.Batch().Put(mark, nil)
			exec(t, tx, fill)
			panic(errChanged)
		})
	}()
	if hasMark(t, r.Actor) || contentOf(t, db) != "0 0  t" {
		t.Errorf("it landed: %.40s", contentOf(t, db))
	}
}

// TestUpdateCommitHook: SQLite makes a rollback of a commit that a hook refuses, and
// ends the journal as it would for a commit.
func TestUpdateCommitHook(t *testing.T) {
	t.Parallel()
	for _, path := range updatePaths {
		r := newRig(t, path.limits)
		db := r.open(t, path.options(1))
		seedUpdate(t, db)
		before := contentOf(t, db)
		err := db.Update(t.Context(), func(tx *vfs.Tx) error {
			tx.Batch().Put(mark, nil)
			exec(t, tx, "update t set b = randomblob(1600)")
			return withRaw(tx, func(c *sqlite3.Conn) { c.CommitHook(func() bool { return false }) })
		})
		if err == nil || hasMark(t, r.Actor) || contentOf(t, db) != before {
			t.Errorf("%s: %v", path.name, err)
		}
		intact(t, db)
	}
}

func withRaw(tx *vfs.Tx, fn func(*sqlite3.Conn)) error {
	c, err := vfs.ConnOf(tx)
	if err == nil {
		fn(c.Raw())
	}
	return err
}

// TestUpdateBesideReaders: an error that a reader meets doesn't affect the writer.
func TestUpdateBesideReaders(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=5"}})
	exec(t, db, table)
	exec(t, db, fill)
	reader := oneConn(t, db)
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point != faultkv.BeforeCommit || op.Commit.Durability != 0 {
			return nil
		}
		// The commit of the Update is on its way.
		r.Engine.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeGet {
				return errInjected
			}
			return nil
		})
		if _, err := reader.ExecContext(t.Context(), "select max(b) from t"); err == nil {
			t.Error("the reader met no fault")
		}
		r.Engine.Hook(nil)
		return nil
	})
	if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
		tx.Batch().Put(mark, nil)
		_, err := tx.ExecContext(t.Context(), "insert into t(b) values ('new')")
		return err
	}); err != nil {
		t.Error(err)
	}
	if n := one[int](t, db, "select count(*) from t where b = 'new'"); n != 1 || !hasMark(t, r.Actor) {
		t.Errorf("%d rows, staged: %v", n, hasMark(t, r.Actor))
	}
}

// TestUpdateCrash stops the store after every engine commit of an Update, and of the
// recovery: SQL and what was staged are both there or neither is.
func TestUpdateCrash(t *testing.T) {
	t.Parallel()
	points, step := 0, testkit.Pick(13, 1, 1)
	for _, path := range pathsHere() {
		tp := engines.NewTape()
		r := openRig(t, tp, path.limits)
		db := r.open(t, path.options(1))
		exec(t, db, table)
		exec(t, db, fill)
		from := tp.Len()
		for i := range 4 {
			if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
				exec(t, tx, "update t set b = ? || randomblob(1500)", fmt.Sprint(i))
				tx.Batch().Put(mark, []byte(fmt.Sprint(i)))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		check := func(tp *engines.Tape, where string) {
			points++
			r := openRig(t, tp, path.limits)
			db := r.open(t, path.options(1))
			intact(t, db)
			sql := one[string](t, db, "select case when b = zeroblob(1500) then '' else substr(b, 1, 1) end from t where a = 80")
			staged, err := r.Actor.Get(t.Context(), mark, nil)
			if err != nil && !errors.Is(err, actorstore.ErrNotFound) {
				t.Fatal(err)
			}
			if sql != string(staged) {
				t.Errorf("%s: the SQL is that of %q, the staged write that of %q", where, sql, staged)
			}
		}
		rng := rand.New(rand.NewPCG(3, uint64(from)))
		for n := from; n <= tp.Len(); n += step {
			recovered := tp.At(t, n)
			check(recovered, fmt.Sprintf("%s: after commit %d", path.name, n))
			cuts := rng.Perm(recovered.Len())
			for _, m := range cuts[:min(len(cuts), testkit.Pick(len(cuts), 3, len(cuts)))] {
				check(recovered.At(t, m), fmt.Sprintf("%s: after commit %d, recovery cut after %d", path.name, n, m))
			}
		}
	}
	t.Logf("%d crash points", points)
	if points*step < 150 {
		t.Errorf("only %d crash points", points)
	}
}

// TestUpdateFault fails every engine operation of an Update once, before it was
// applied and after. Both parts land or neither does, and Update doesn't say that
// they have if they haven't.
func TestUpdateFault(t *testing.T) {
	t.Parallel()
	for _, path := range pathsHere() {
		for _, point := range []faultkv.Point{faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeSnapshot, faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeSync} {
			for nth := 1; ; nth += testkit.Pick(13, 1, 1) {
				engine := faultkv.New(memkv.New())
				r := openRig(t, engine, path.limits)
				db, err := vfs.Open(t.Context(), r.Actor, path.options(1))
				if err != nil {
					t.Fatal(err)
				}
				exec(t, db, table)
				exec(t, db, fill)
				seen := 0
				engine.Hook(func(op faultkv.Op) error {
					if op.Point == point {
						if seen++; seen == nth {
							return errInjected
						}
					}
					return nil
				})
				failure := db.Update(t.Context(), func(tx *vfs.Tx) error {
					tx.Batch().Put(mark, []byte("x"))
					_, err := tx.ExecContext(t.Context(), "update t set b = 'new' || randomblob(1500)")
					return err
				})
				engine.Hook(nil)
				if err := errors.Join(db.Close(), r.Actor.Close(), r.Store.Close()); err != nil {
					t.Error(err)
				}
				r = openRig(t, engine, path.limits)
				db = r.open(t, path.options(1))
				intact(t, db)
				landed := one[bool](t, db, "select b <> zeroblob(1500) from t where a = 80")
				where := fmt.Sprintf("%s, operation %d at point %d: %v", path.name, nth, point, failure)
				if landed != hasMark(t, r.Actor) {
					t.Errorf("%s: the SQL landed: %v, what was staged: %v", where, landed, !landed)
				}
				if failure == nil && !landed || errors.Is(failure, vfs.ErrBypassed) {
					t.Errorf("%s: nothing landed", where)
				}
				if seen < nth {
					break
				}
			}
		}
	}
}
