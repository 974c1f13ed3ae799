package vfs_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// answer returns the rows of a query, which are texts, as one; those before an error, too.
func answer(ctx context.Context, c *sql.Conn, query string) (string, error) {
	rows, err := c.QueryContext(ctx, query)
	if err != nil {
		return "", err
	}
	var lines []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return "", errors.Join(err, rows.Close())
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), rows.Err()
}

// checks let SQLite look at a database. It takes a page that it can't read for a damaged
// one.
var checks = []string{
	"pragma quick_check", "pragma integrity_check", "pragma integrity_check(t)",
	"select * from pragma_quick_check", "select group_concat(integrity_check) from pragma_integrity_check",
}

// TestCheckTooOld: a check of a state that is not kept any more is refused. It finds
// nothing, also if the database is not the first of the connection.
func TestCheckTooOld(t *testing.T) {
	for _, query := range checks {
		_, db := strictPool(t, batch.Limits{}, vfs.Options{MaxSnapshots: 1, MaxConns: 3})
		own, attached := oneConn(t, db), oneConn(t, db)
		exec(t, own, "begin; select count(*) from t where a < 3")
		exec(t, attached, "attach '"+db.DSN()+"' as x; begin; select count(*) from x.t where a < 3")
		exec(t, db, "update t set b = zeroblob(3001)")
		for i, c := range []*sql.Conn{own, attached} {
			if i == 0 || !strings.Contains(query, "(t)") { // that is a table of the first one
				found, err := answer(t.Context(), c, query)
				if carries(t, err, lockedOut, vfs.ErrSnapshotTooOld); found != "" {
					t.Errorf("%s of database %d finds %q", query, i+1, found)
				}
			}
			exec(t, c, "rollback")
			intact(t, c)
		}
		exec(t, attached, "detach x")
	}
}

// TestRefusedReads fails every read of the engine once, of checks and of what else looks
// at more than it is asked for: there is the right answer, or an error with its cause.
func TestRefusedReads(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		r := newRig(t, batch.Limits{})
		r.CacheBytes = -1 // reads are to reach the engine
		r.Reopen(t, batch.Limits{})
		c := oneConn(t, r.open(t, &vfs.Options{MaxConns: 1, Pragmas: []string{"cache_size=5", "journal_mode=" + mode}}))
		exec(t, c, "create table t(a integer primary key, b, c); create index i on t(c)")
		exec(t, c, "insert into t select value, zeroblob(value * 20), 'c' || (value % 9) from generate_series(1, 60)")
		exec(t, c, "analyze")
		for _, query := range append(slices.Clone(checks), "pragma foreign_key_check", "pragma optimize(-1)",
			"select sum(length(b)) || '' from t", "select sum(length(b)) || '' from t where c > 'c3'",
		) {
			want, err := answer(t.Context(), c, query)
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			reads, failures := 0, 0
			for hit := true; hit; reads++ {
				f := r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeGet, Skip: reads, Err: errInjected})
				got, err := answer(t.Context(), c, query)
				f.Remove()
				switch hit = f.Hits() > 0; {
				case err != nil:
					carries(t, err, ioerr, errInjected)
					failures++
				case got != want:
					t.Errorf("%s, without read %d: %.200q, want %.200q", query, reads+1, got, want)
				}
			}
			if failures == 0 && query != "pragma foreign_key_check" && query != "pragma optimize(-1)" {
				t.Errorf("%s: no read of %d failed", query, reads)
			}
		}
	}
}

// TestRefusedCheckpointReads fails reads of a transaction, and of the checkpoint that
// follows it, whose errors SQLite keeps to itself: what has landed is not said to have
// failed.
func TestRefusedCheckpointReads(t *testing.T) {
	for name, steps := range map[string][2]string{
		"statement": {"select 1", "insert into t(b) select zeroblob(9000) returning 'done'"},
		"commit":    {"begin; insert into t(b) select zeroblob(9000)", "commit"},
	} {
		r := newRig(t, batch.Limits{})
		r.CacheBytes = -1
		r.Reopen(t, batch.Limits{})
		c := oneConn(t, r.open(t, &vfs.Options{MaxConns: 1, Pragmas: []string{"cache_size=5", "journal_mode=wal"}}))
		exec(t, c, table)
		exec(t, c, fill)
		exec(t, c, "pragma wal_autocheckpoint=1")
		kept := 0
		for skip := range 10 {
			exec(t, c, "pragma wal_autocheckpoint=0; update t set b = zeroblob(1000 + a); pragma wal_autocheckpoint=1")
			before := one[int](t, c, "select count(*) from t")
			exec(t, c, "select sum(length(b)) from t") // so that the pages of the log must be read
			exec(t, c, steps[0])
			f := r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeGet, Skip: skip, Err: errInjected})
			_, err := answer(t.Context(), c, steps[1])
			f.Remove()
			if f.Hits() > 0 && err == nil {
				kept++
			}
			if after := one[int](t, c, "select count(*) from t"); (after > before) != (err == nil) {
				t.Errorf("%s, without read %d: %d rows, then %d, and %v", name, skip+1, before, after, err)
			}
		}
		if kept == 0 {
			t.Errorf("%s: no read of the checkpoint failed", name)
		}
		intact(t, c)
	}
}

// TestCheckRefusedReads fails every read of a Check once: what can't be read is not
// damaged.
func TestCheckRefusedReads(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, table)
	exec(t, db, fill)
	for skip, hit := 0, true; hit; skip++ {
		view, err := r.Store.View(t.Context(), r.Actor.ID())
		if err != nil {
			t.Fatal(err)
		}
		f := r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeGet, Skip: skip, Err: errInjected})
		var failure error
		for found, err := range vfs.Check(t.Context(), view, nil) {
			if failure = err; err == nil {
				t.Errorf("without read %d: %v", skip+1, found)
			}
		}
		f.Remove()
		if hit = f.Hits() > 0; hit != errors.Is(failure, errInjected) {
			t.Errorf("without read %d: %v", skip+1, failure)
		}
		if err := view.Close(); err != nil {
			t.Error(err)
		}
	}
}
