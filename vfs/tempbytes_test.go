package vfs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
)

// tempUsed returns how many bytes the temporary files of a pool take.
func tempUsed(db *vfs.DB) int64 { return vfs.TempBytes(db) }

// many is a table expression of rows of 1000 random bytes.
const many = "(select randomblob(1000) as b from generate_series(1, 1500))"

// tempCases take temporary files of more than 1 MiB.
var tempCases = map[string]string{
	"table":     "create temp table u as select * from " + many,
	"sort":      "select count(*) from (select b from " + many + " order by b limit 10000)",
	"distinct":  "select count(distinct b) from " + many,
	"index":     "create index i on t(b)",
	"savepoint": "begin; update t set b = randomblob(900); savepoint s; update t set b = randomblob(900); rollback",
	"vacuum":    "vacuum",
}

// TestTempBytes: whatever takes temporary files ends at Options.TempBytes, in memory and
// on disk, gives its room back, and changes nothing; below the bound it works.
func TestTempBytes(t *testing.T) {
	t.Parallel()
	for name, query := range tempCases {
		for _, memory := range []int64{-1, 64 << 20} {
			r := newRig(t, batch.Limits{})
			run := func(most int64) error {
				db := r.open(t, &vfs.Options{TempBytes: most, TempMemory: memory, TempDir: t.TempDir(), MaxConns: 2, Pragmas: []string{"cache_size=5", "temp.cache_size=5"}})
				c := oneConn(t, db)
				exec(t, c, "create table if not exists t(a integer primary key, b unique)")
				if one[int](t, c, "select count(*) from t") == 0 {
					exec(t, c, "insert into t(b) select b from "+many)
				}
				exec(t, c, "create temp table before(a); insert into before values (1)")
				state := one[string](t, c, "select count(*) || ' ' || min(a) from t")
				_, err := c.ExecContext(t.Context(), query)
				if used := tempUsed(db); used > most {
					t.Errorf("%s: %d bytes are taken of %d", name, used, most)
				}
				if got := one[string](t, c, "select count(*) || ' ' || min(a) from t"); err != nil && got != state {
					t.Errorf("%s: %q after it failed, %q before", name, got, state)
				}
				if n := one[int](t, c, "select count(*) from before"); n != 1 {
					t.Errorf("%s: %d rows in another temporary table", name, n)
				}
				intact(t, c)
				if err := errors.Join(c.Close(), db.Close()); err != nil {
					t.Fatal(err)
				}
				if used := tempUsed(db); used != 0 {
					t.Errorf("%s: %d bytes are taken by no connection", name, used)
				}
				return err
			}
			err := run(1 << 20)
			if err == nil {
				t.Errorf("%s: there was room", name)
				continue
			}
			carries(t, err, full, vfs.ErrTempFull)
			if err := run(32 << 20); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestTempBytesShared: the bound is that of all connections together, and what one gives
// back the others can have. DB.Update and views have it, too.
func TestTempBytesShared(t *testing.T) {
	r := newRig(t, batch.Limits{})
	opts := &vfs.Options{TempBytes: 5 << 19, Pragmas: []string{"temp_store=file", "temp.cache_size=5"}}
	db := r.open(t, opts)
	exec(t, db, table)
	a, b := oneConn(t, db), oneConn(t, db)
	const query = "create temp table u as select * from " + many
	exec(t, a, query)
	_, err := b.ExecContext(t.Context(), query)
	carries(t, err, full, vfs.ErrTempFull)
	err = db.Update(t.Context(), func(tx *vfs.Tx) error {
		tx.Batch().Put(user("beside"), []byte("x"))
		_, err := tx.ExecContext(t.Context(), query)
		return err
	})
	carries(t, err, full, vfs.ErrTempFull)
	if _, err := r.Actor.Get(context.Background(), user("beside"), nil); !errors.Is(err, actorstore.ErrNotFound) {
		t.Errorf("what was staged: %v", err)
	}
	exec(t, a, "pragma temp_store=memory") // drops what there is
	exec(t, b, query)
	view, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	small := *opts
	small.TempBytes = 1 << 20
	shown, err := vfs.OpenView(t.Context(), view, &small)
	if err != nil {
		t.Fatal(err)
	}
	_, err = shown.ExecContext(t.Context(), query)
	carries(t, err, full, vfs.ErrTempFull)
	if err := errors.Join(shown.Close(), view.Close()); err != nil {
		t.Error(err)
	}
}
