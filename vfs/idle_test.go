package vfs_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"
	sqlitedriver "github.com/ncruces/go-sqlite3/driver"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
	"github.com/ncruces/go-sqlite3/vfs/adiantum"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
)

// connections returns how many connections to the database of db are open.
func connections(t testing.TB, db *vfs.DB) int {
	t.Helper()
	d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
	if err != nil {
		t.Fatal(err)
	}
	return d.Look().Handles
}

// idle lets time pass until connections are closed that nothing keeps open.
func idle() {
	<-time.After(2 * time.Second)
	synctest.Wait()
}

// TestIdleClosed: connections that aren't used are closed, and the next use of the pool opens one that is as the options say.
// Statements that were prepared before go on.
func TestIdleClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		registered := 0
		db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=77", "foreign_keys=ON", "synchronous=NORMAL"},
			Extensions: []vfs.Extension{func(*sqlite3.Conn) error { registered++; return nil }}})
		exec(t, db, "create table t(x)")
		insert, err := db.PrepareContext(t.Context(), "insert into t values(?)")
		if err != nil {
			t.Fatal(err)
		}
		defer insert.Close()
		conns := make([]*sql.Conn, 3)
		for i := range conns {
			if conns[i], err = db.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for i, conn := range conns {
			if n := connections(t, db); n != 3 {
				t.Errorf("%d connections are open, want 3: %d in use", n, 3-i)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			idle()
			if n := connections(t, db); n != 0 {
				t.Errorf("%d connections are open", n)
			}
			if _, err := insert.ExecContext(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			if n := one[int](t, db, "select count(*) from t"); n != i+1 {
				t.Errorf("%d rows, want %d", n, i+1)
			}
			if n := one[int](t, db, "PRAGMA cache_size"); n != 77 {
				t.Errorf("cache_size is %d", n)
			}
			if n := one[int](t, db, "PRAGMA synchronous"); n != 1 {
				t.Errorf("synchronous is %d", n)
			}
			if n := connections(t, db); n != 1 {
				t.Errorf("%d connections are open, want 1", n)
			}
		}
		if n := db.Stats().IdleClosed; n != 5 || registered != 6 {
			t.Errorf("%d connections were closed, and %d set up", n, registered)
		}
	})
}

// TestIdleStatements: statements that were prepared before their connection was closed do what they did, and are closed.
func TestIdleStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newRig(t, batch.Limits{}).open(t, nil)
		exec(t, db, "create table t(x)")
		exec(t, db, "insert into t values(1), (2)")
		var all []*sql.Stmt
		for _, query := range []string{"select x from t where x > ?", "select x from t where x > :least", "insert into t values(?)", "select x from t -- "} {
			s, err := db.PrepareContext(t.Context(), query)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		for range 2 {
			idle()
			var x int
			if err := all[0].QueryRowContext(t.Context(), 1).Scan(&x); err != nil || x != 2 {
				t.Errorf("got %d, %v", x, err)
			}
			idle()
			if err := all[1].QueryRowContext(t.Context(), sql.Named("least", 1)).Scan(&x); err != nil || x != 2 {
				t.Errorf("by name: got %d, %v", x, err)
			}
			idle()
			if _, err := all[2].ExecContext(t.Context()); err == nil {
				t.Error("an argument is missing, and there is no error")
			}
		}
		idle()
		exec(t, db, "alter table t rename to u")
		for _, s := range all[:2] {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := all[3].QueryContext(t.Context()); err == nil {
			t.Error("a table that is gone is read")
		}
		idle()
		for _, s := range all[2:] {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := one[int](t, db, "select count(*) from u"); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestIdleEncrypted: a connection through another VFS is opened again with its key.
func TestIdleEncrypted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newRig(t, batch.Limits{}).open(t, &vfs.Options{
			Wrap:    func(v sqlitevfs.VFS) sqlitevfs.VFS { return adiantum.Wrap(v, nil) },
			Pragmas: []string{"textkey='secret'"},
		})
		exec(t, db, "create table t as select 1 as x")
		idle()
		if n := connections(t, db); n != 0 {
			t.Errorf("%d connections are open", n)
		}
		if n := one[int](t, db, "select x from t"); n != 1 {
			t.Errorf("got %d", n)
		}
		exec(t, db, "pragma recursive_triggers=on")
		idle()
		if n := connections(t, db); n != 1 {
			t.Errorf("%d connections are open, and one has a PRAGMA", n)
		}
	})
}

// TestIdleUsed: a connection that is used again and again stays open.
func TestIdleUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newRig(t, batch.Limits{}).open(t, nil)
		exec(t, db, "create table t(x)")
		for range 20 {
			time.Sleep(900 * time.Millisecond)
			exec(t, db, "insert into t values(1)")
		}
		if n := db.Stats().IdleClosed; n != 0 {
			t.Errorf("%d connections were closed", n)
		}
		forever := newRig(t, batch.Limits{}).open(t, &vfs.Options{MaxIdleTime: -1})
		time.Sleep(time.Hour)
		if n := connections(t, forever); n != 1 {
			t.Errorf("%d connections are open, want 1", n)
		}
	})
}

// TestIdleKept: a connection stays open that is in use, or on which something was set that a new one wouldn't have.
func TestIdleKept(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]idleCase{
		"nothing":           {closed: true},
		"temporary table":   {set: []string{"create temp table u as select 1 as x"}, still: "select x from u"},
		"temporary, gone":   {set: []string{"create temp table u as select 1 as x", "drop table u"}, closed: true},
		"temporary trigger": {set: []string{"create temp trigger g after insert on t begin select 1; end"}, still: "select count(*) from sqlite_temp_schema"},
		"attached":          {set: []string{"attach ':memory:' as m"}, still: "select count(*) from pragma_database_list where name = 'm'"},
		"detached":          {set: []string{"attach ':memory:' as m", "detach m"}, closed: true},
		"pragma":            {set: []string{"pragma recursive_triggers=on"}, still: "pragma recursive_triggers"},
		"pragma in capitals": {set: []string{"PRAGMA Recursive_Triggers(1)"},
			still: "pragma recursive_triggers"},
		"pragma of temp":        {set: []string{"pragma temp.cache_size=1"}, closed: true}, // nothing is there that has a cache
		"unknown pragma":        {set: []string{"pragma of_a_later_version=1"}},
		"query_only":            {set: []string{"pragma query_only=1"}, still: "pragma query_only"},
		"query_only, by name":   {set: []string{"pragma query_only=on"}, still: "pragma query_only"},
		"query_only, for now":   {set: []string{"pragma query_only=on", "pragma query_only=off"}, closed: true},
		"stored pragma":         {set: []string{"pragma user_version=1"}, closed: true, still: "pragma user_version"},
		"asking pragma":         {set: []string{"pragma table_info(t)", "pragma cache_size", "pragma integrity_check(1)"}, closed: true},
		"WAL":                   {set: []string{"pragma journal_mode=wal", "insert into t values(1)"}, still: "select count(*) from t"},
		"exclusive":             {set: []string{"insert into t values(1)"}, opts: vfs.Options{Pragmas: []string{"locking_mode=exclusive"}}},
		"exclusive, for itself": {set: []string{"pragma locking_mode=exclusive"}},
		"pragma of the options": {opts: vfs.Options{Pragmas: []string{"recursive_triggers=on", "query_only=on"}}, closed: true, still: "pragma recursive_triggers"},
		"shown":                 {raw: true},
		"sql.Conn": {use: func(db *vfs.DB) (func() error, error) {
			conn, err := db.Conn(ctx)
			return func() error { return conn.Close() }, err
		}},
		"transaction": {use: func(db *vfs.DB) (func() error, error) {
			tx, err := db.BeginTx(ctx, nil)
			return func() error { return tx.Commit() }, err
		}},
		"reader": {use: func(db *vfs.DB) (func() error, error) {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
			return func() error { return tx.Rollback() }, err
		}},
		"update": {use: func(db *vfs.DB) (func() error, error) {
			tx, err := db.BeginUpdate(ctx, new(batch.Batch))
			return func() error { return tx.Commit() }, err
		}},
		"rows": {use: func(db *vfs.DB) (func() error, error) {
			rows, err := db.QueryContext(ctx, "select * from sqlite_schema")
			return func() error { return rows.Close() }, err
		}},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, c.test) })
	}
}

// An idleCase is what is done with a connection before it is idle, and whether it is closed then.
type idleCase struct {
	set    []string
	raw    bool
	use    func(db *vfs.DB) (end func() error, err error)
	opts   vfs.Options
	closed bool
	still  string // is 1 on a connection that stayed open
}

func (c *idleCase) test(t *testing.T) {
	r := newRig(t, batch.Limits{})
	if db, err := vfs.Open(t.Context(), r.Actor, nil); err != nil {
		t.Fatal(err)
	} else {
		exec(t, db, "create table t(x)")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c.opts.MaxConns = 1
	db := r.open(t, &c.opts)
	for _, query := range c.set {
		exec(t, db, query)
	}
	if c.raw {
		showRaw(t, db)
	}
	end := func() error { return nil }
	if c.use != nil {
		var err error
		if end, err = c.use(db); err != nil {
			t.Fatal(err)
		}
	}
	idle()
	if n := connections(t, db); n != 1 && !c.closed || n != 0 && c.closed {
		t.Errorf("%d connections are open", n)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if c.still != "" {
		if n := one[int](t, db, c.still); n != 1 {
			t.Errorf("%s: %d", c.still, n)
		}
	}
	if c.use != nil {
		idle()
		if n := connections(t, db); n != 0 {
			t.Errorf("%d connections are open when it has ended", n)
		}
	}
}

// showRaw gives the program what is below a connection of db.
func showRaw(t *testing.T, db *vfs.DB) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Raw(func(c any) error { return c.(sqlitedriver.Conn).Raw().BusyTimeout(time.Second) }); err != nil {
		t.Fatal(err)
	}
}

// TestIdleCost: to close a connection asks the engine for nothing, and what the next one reads comes from memory.
func TestIdleCost(t *testing.T) {
	t.Run("near", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			db := r.open(t, nil)
			idleCost(t, db, r.Engine.Reset, func() [2]int64 { c := r.Engine.Counts(); return [2]int64{c.Gets + c.Scans, c.Commits} }, 1)
		})
	})
	t.Run("far", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newFarRig(t)
			r.session(t, nil, func(db *vfs.DB) {
				idleCost(t, db, r.Engine.Reset, func() [2]int64 { c := r.Engine.Counts(); return [2]int64{c.Gets + c.Scans, c.Commits} }, 0)
			})
		})
	})
}

func idleCost(t *testing.T, db *vfs.DB, reset func(), counts func() [2]int64, reads int64) {
	t.Helper()
	exec(t, db, "create table t(x)")
	for i := range 4 {
		reset()
		idle()
		if got := counts(); got != [2]int64{} {
			t.Errorf("idle, the database asks the engine for %d reads and %d commits", got[0], got[1])
		}
		exec(t, db, "insert into t values(1)")
		if got := counts(); i > 2 && got[0] > reads || got[1] != 1 {
			t.Errorf("then a row takes %d reads and %d commits, want at most %d, and 1", got[0], got[1], reads)
		}
	}
	if n := db.Stats().IdleClosed; n != 4 {
		t.Errorf("%d connections were closed, want 4", n)
	}
}

// TestIdleHints: what is to be read first is stored when the database is closed, though its connections were closed before.
func TestIdleHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFarRig(t)
		r.fill(t, 1, 1<<20)
		r.start(t)
		defer r.stop(t)
		if err := r.Actor.StoreHints(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		db, err := vfs.Open(t.Context(), r.Actor, nil)
		if err != nil {
			t.Fatal(err)
		}
		one[int](t, db, "select count(*) from t0")
		idle()
		if n := connections(t, db); n != 0 || r.Actor.Hints() != nil {
			t.Errorf("%d connections are open, hints %x", n, r.Actor.Hints())
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if r.Actor.Hints() == nil {
			t.Error("no hints are stored")
		}
	})
}

// TestIdleRaces uses a pool from many goroutines whose connections are closed all the time.
func TestIdleRaces(t *testing.T) {
	db := newRig(t, batch.Limits{}).open(t, &vfs.Options{MaxConns: 3, MaxIdleTime: time.Microsecond})
	exec(t, db, "create table t(x)")
	insert, err := db.PrepareContext(t.Context(), "insert into t values(?)")
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	const users, each = 6, 60
	var done sync.WaitGroup
	for u := range users {
		done.Go(func() {
			for i := range each {
				if err := useIdle(t, db, insert, u*each+i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	if n := one[int](t, db, "select count(distinct x) from t"); n != users*each {
		t.Errorf("%d rows, want %d", n, users*each)
	}
	intact(t, db)
	if n := db.Stats().IdleClosed; n == 0 {
		t.Error("no connection was closed")
	}
}

// useIdle inserts a row in one of several ways.
func useIdle(t *testing.T, db *vfs.DB, insert *sql.Stmt, x int) (err error) {
	switch x % 4 {
	case 0:
		_, err = insert.ExecContext(t.Context(), x)
	case 1:
		_, err = db.ExecContext(t.Context(), "insert into t values(?)", x)
	case 2:
		return db.Update(t.Context(), func(tx *vfs.Tx) error {
			_, err := tx.ExecContext(t.Context(), "insert into t values(?)", x)
			return err
		})
	case 3:
		once, err := db.PrepareContext(t.Context(), "insert into t values(?) returning x")
		if err != nil {
			return err
		}
		var got int
		if err := once.QueryRowContext(t.Context(), x).Scan(&got); err != nil || got != x {
			return fmt.Errorf("returned %d, want %d: %w", got, x, err)
		}
		return once.Close() // its connection is idle
	}
	return err
}

// TestIdleClose: a pool is closed as before when its connections were closed, and the database is free.
func TestIdleClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		db, err := vfs.Open(t.Context(), r.Actor, nil)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db, "create table t(x)")
		idle()
		for range 2 {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := one[int](t, r.open(t, &vfs.Options{MaxIdleTime: math.MaxInt64}), "select count(*) from t"); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// BenchmarkReopen measures a read of a row on a connection that was kept, and on one that is opened for it and closed again.
func BenchmarkReopen(b *testing.B) {
	for name, conns := range map[string]int{"kept": 1, "opened": -1} {
		b.Run(name, func(b *testing.B) {
			db := newRig(b, batch.Limits{}).open(b, nil)
			exec(b, db, "create table t(id integer primary key, x)")
			exec(b, db, "insert into t(x) values(7)")
			db.SetMaxIdleConns(conns)
			for b.Loop() {
				one[int](b, db, "select x from t where id = 1")
			}
		})
	}
}
