package history

import (
	"log/slog"
	"testing"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A transaction lands with SQL, or not at all: where SQLite commits at once, and where it
// takes its journal because a batch is small.
func TestWithSQL(t *testing.T) {
	for name, limits := range map[string]batch.Limits{"atomic": whole, "journal": {AtomicBatches: 1, Entries: 16}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{}, limits)
			db, err := vfs.Open(ctx, r.Actor, &vfs.Options{Env: part.Env{Logger: slog.New(slog.DiscardHandler)}})
			must(t, err)
			t.Cleanup(func() { must(t, db.Close()) })
			_, err = db.ExecContext(ctx, "create table t(x)")
			must(t, err)
			work := func(step string) error {
				return db.Update(ctx, func(tx *vfs.Tx) error {
					_, err := tx.ExecContext(ctx, "insert into t select zeroblob(3000) from generate_series(1, 40)")
					if err != nil {
						return err
					}
					h := r.h.Begin()
					r.step(h, "done", step)
					h.Stage(tx.Batch())
					return nil
				})
			}
			rows := func() (n int) {
				must(t, db.QueryRowContext(ctx, "select count(*) from t").Scan(&n))
				return n
			}
			c := r.counted(func() { must(t, work("one")) })
			if (c.Commits == 1) != (name == "atomic") {
				t.Errorf("%d commits", c.Commits)
			}
			r.wantPaths("landed", "one")
			if n := rows(); n != 40 {
				t.Errorf("%d rows", n)
			}
			r.verify("landed")
			// The commit that would land both is refused.
			fault := r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: int(c.Commits) - 1, Err: kv.ErrTooLarge})
			err = work("two")
			fault.Remove()
			if landed := len(r.paths()) == 2; landed != (err == nil) || landed != (rows() == 80) {
				t.Errorf("%v; %q and %d rows", err, r.paths(), rows())
			}
		})
	}
}
