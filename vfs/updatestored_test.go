package vfs_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestUpdateStored is TestUpdate for a transaction of which parts are stored, behind a
// stored journal, before it ends: one that is larger than the memory set aside.
func TestUpdateStored(t *testing.T) {
	t.Parallel()
	const rows = 1200
	ends := map[string]updateEnd{
		"commit":             {true, func(context.Context, func(), *vfs.Tx) error { return nil }},
		"an error":           {false, func(context.Context, func(), *vfs.Tx) error { return errChanged }},
		"own commit":         {false, statement("commit")},
		"own commit, undone": {false, ignoring("savepoint s; delete from t; rollback to s; commit")},
		"or rollback":        {false, ignoring("insert or rollback into t select * from t limit 1")},
		"deferred key":       {false, statement("insert into c values (77)")},
		"interrupt": {false, func(ctx context.Context, cancel func(), tx *vfs.Tx) error {
			cancel()
			_, err := tx.ExecContext(ctx, "delete from t")
			return err
		}},
		"late error": {false, func(_ context.Context, _ func(), tx *vfs.Tx) error {
			tx.Batch().Late(func(*batch.Batch) error { return errChanged })
			return nil
		}},
		"savepoint": {true, statement("savepoint s; delete from t; rollback to s")},
	}
	for _, limits := range []batch.Limits{{AtomicBatches: 1 << 20}, {AtomicBatches: 1}} {
		for name, c := range ends {
			t.Run(fmt.Sprintf("%s/%d", name, limits.AtomicBatches), func(t *testing.T) {
				r := newRig(t, limits)
				db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=5", "foreign_keys=on"}, MaxConns: 1, TxMemory: 1})
				seedUpdate(t, db)
				exec(t, db, "drop table t")
				exec(t, db, "create table t(a integer primary key, b)")
				exec(t, db, fmt.Sprintf("insert into t(b) select zeroblob(1500) from generate_series(1, %d)", rows))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				spills := db.Stats().Spills
				err := db.Update(ctx, func(tx *vfs.Tx) error {
					tx.Batch().Put(mark, []byte("x"))
					if _, err := tx.ExecContext(ctx, "update t set b = 'new' || randomblob(1500)"); err != nil {
						return err
					}
					return c.run(ctx, cancel, tx)
				})
				if db.Stats().Spills == spills {
					t.Fatalf("nothing was stored before the end: %+v", db.Stats())
				}
				n := one[int](t, db, "select count(*) from t where substr(b, 1, 3) = 'new'")
				if lands := c.lands; (err == nil) != lands || hasMark(t, r.Actor) != lands || n != map[bool]int{true: rows}[lands] {
					t.Errorf("Update says %v; %d rows landed, what was staged: %v", err, n, hasMark(t, r.Actor))
				}
				intact(t, db)
			})
		}
	}
}
