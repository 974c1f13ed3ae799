package persist

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/vfs"
)

// TestUpdate: state and events land with SQL, on the path of one atomic commit and on
// that of the journal, where the batch is sealed a second time; or nothing does.
func TestUpdate(t *testing.T) {
	for _, memory := range []int64{0, 1} { // at least a megabyte: too little for a row of three
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			w := newWorld(t)
			r := w.open(nil)
			s := counter{r}
			db, err := vfs.Open(ctx, w.actor, &vfs.Options{TxMemory: memory})
			must(t, err)
			defer db.Close()
			_, err = db.ExecContext(ctx, "create table t(b blob)")
			must(t, err)
			boom := errors.New("boom")
			update := func(n int, fail error) error {
				return db.Update(ctx, func(tx *vfs.Tx) error {
					must(t, mutate(r.In(tx.Batch()), add(n)))
					if _, err := r.In(tx.Batch()).Add(Job{ID: fmt.Sprint(n), Action: "a"}); err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, "insert into t values(zeroblob(3000000))")
					return errors.Join(err, fail)
				})
			}
			must(t, s.mutate(ctx, add(100)))
			must(t, update(1, nil))
			wantErr(t, update(10, boom), boom)
			var rows int
			must(t, db.QueryRowContext(ctx, "select count(*) from t").Scan(&rows))
			if rows != 1 || got(t, r) != 101 || w.countIn() != 101 || len(list(t, r.Schedule())) != 1 || len(w.stored().Events) != 1 {
				t.Errorf("%d rows, count %d, stored %d, events %v", rows, got(t, r), w.countIn(), list(t, r.Schedule()))
			}
			if n := db.Stats().JournalCommits; (n > 0) != (memory > 0) {
				t.Errorf("%d commits through the journal", n)
			}
			must(t, db.Close())
		})
	}
}

// TestExactlyOnce: wherever the process ends, what an action does to the database and the
// end of its event are both there, or neither.
func TestExactlyOnce(t *testing.T) {
	for landed := 0; ; landed++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var db *vfs.DB
			actions := acts{"add": func(ctx context.Context, f *Firing) error {
				return db.Update(ctx, func(tx *vfs.Tx) error {
					must(t, w.rec.In(tx.Batch()).Done(f))
					_, err := tx.ExecContext(ctx, "update t set n = n + 1")
					return err
				})
			}}
			var err error
			restart := func(first bool) *Schedule {
				s := w.open(nil).Schedule()
				db, err = vfs.Open(ctx, w.actor, nil)
				must(t, err)
				if first {
					_, err = db.ExecContext(ctx, "create table t(n int); insert into t values(0)")
					must(t, err)
				}
				return s
			}
			s := restart(true)
			for range 3 {
				_, err := addAfter(s, sec, "add")
				must(t, err)
			}
			must(t, s.Start(ctx, actions.lookup))
			w.eng.Tear(landed)
			pass(5 * sec)
			done = w.actor.Err() == nil
			w.eng.Heal()
			_ = db.Close() // as the end of the process does
			s = restart(false)
			var n int
			must(t, db.QueryRowContext(ctx, "select n from t").Scan(&n))
			if left := len(list(t, s)); n+left != 3 {
				t.Errorf("%d commits landed: %d are done, %d are left", landed, n, left)
			}
			must(t, s.Start(ctx, actions.lookup))
			pass(5 * sec)
			must(t, db.QueryRowContext(ctx, "select n from t").Scan(&n))
			if n != 3 || len(list(t, s)) != 0 {
				t.Errorf("%d commits landed: %d were done in the end", landed, n)
			}
			w.leave()
			must(t, db.Close())
		})
		if done {
			if landed < 3 {
				t.Errorf("all was done with %d commits", landed)
			}
			return
		}
	}
}
