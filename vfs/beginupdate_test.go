package vfs_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestBeginUpdate: each end of a transaction that is begun without a function settles its
// batch, gives the connection back, and costs what it says.
func TestBeginUpdate(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name             string
		end              func(tx *vfs.Tx) error
		want             error
		rows             int
		commits, durable int64
	}{
		{"commit", (*vfs.Tx).Commit, nil, 1, 1, 1},
		{"apply", (*vfs.Tx).Apply, nil, 1, 1, 0},
		{"rollback", func(tx *vfs.Tx) error { return tx.Rollback(boom) }, boom, 0, 0, 0},
		{"over", func(tx *vfs.Tx) error {
			_, err := tx.ExecContext(t.Context(), "rollback")
			return errors.Join(err, tx.Commit())
		}, vfs.ErrTxOver, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			db := r.open(t, &vfs.Options{MaxConns: 1}) // a connection that isn't given back is missed
			exec(t, db, table)
			for range 2 {
				exec(t, db, "delete from t")
				if err := r.Actor.Delete(t.Context(), mark); err != nil {
					t.Fatal(err)
				}
				r.Engine.Reset()
				var b batch.Batch
				var told []string
				b.OnCommit(func() { told = append(told, "landed") })
				b.OnAbort(func(err error) {
					if told = append(told, "failed"); !errors.Is(err, tt.want) {
						t.Errorf("the batch is told %v", err)
					}
				})
				tx, err := db.BeginUpdate(t.Context(), &b)
				if err != nil {
					t.Fatal(err)
				}
				exec(t, tx, "insert into t(b) values ('x')")
				tx.Batch().Put(mark, []byte("1"))
				if err := tt.end(tx); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if want := map[bool]string{true: "landed", false: "failed"}[tt.want == nil]; len(told) != 1 || told[0] != want {
					t.Errorf("the batch is told %q, want %s", told, want)
				}
				if c := r.Engine.Counts(); c.Commits != tt.commits || c.Durable != tt.durable {
					t.Errorf("it took %+v, want %d commits, %d durable", c, tt.commits, tt.durable)
				}
				if n := one[int](t, db, "select count(*) from t"); n != tt.rows {
					t.Errorf("%d rows, want %d", n, tt.rows)
				}
				if marked := isStored(t, r.Actor, mark); marked != (tt.rows == 1) {
					t.Errorf("what was staged is there: %v", marked)
				}
			}
		})
	}
}

// TestMayWrite: a connection that isn't to write is refused when it begins to, with the
// reason, but for BeginUpdate, which WAL mode hasn't. The function gets the statement's
// context.
func TestMayWrite(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) { testMayWrite(t, mode) })
	}
}

func testMayWrite(t *testing.T, mode string) {
	type key struct{}
	refused := errors.New("refused")
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{Pragmas: []string{"journal_mode=" + mode}, MayWrite: func(ctx context.Context) error {
		if ctx.Value(key{}) != nil {
			return refused
		}
		return nil
	}})
	exec(t, db, table)
	inside := context.WithValue(t.Context(), key{}, true)
	queries := []string{"insert into t(b) values (1)", "begin; select count(*) from t; insert into t(b) values (1); commit"}
	if mode == "delete" { // in WAL mode they are refused when they write to the log
		queries = append(queries, "begin immediate", "begin; insert into t(b) values (1)")
	}
	for _, query := range queries {
		for _, warm := range []bool{false, true} {
			c := oneConn(t, db)
			if warm { // in WAL mode it has the log open
				exec(t, c, "select count(*) from t")
			}
			if _, err := c.ExecContext(inside, query); !errors.Is(err, refused) {
				t.Errorf("%s: got %v, want %v", query, err, refused)
			}
			_, _ = c.ExecContext(t.Context(), "rollback")
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if tx, err := db.BeginTx(inside, nil); !errors.Is(err, refused) {
		t.Errorf("BeginTx: %v, %v", tx, err)
	}
	tx, err := db.BeginTx(inside, &sql.TxOptions{ReadOnly: true})
	if err == nil {
		err = tx.Rollback()
	}
	if err != nil {
		t.Errorf("a transaction that reads: %v", err)
	}
	if n := one[int](t, db, "select count(*) from t"); n != 0 {
		t.Errorf("%d rows", n)
	}
	if err := db.Update(inside, func(tx *vfs.Tx) error {
		_, err := tx.ExecContext(inside, "insert into t(b) values (1)")
		return err
	}); mode == "delete" && err != nil || mode == "wal" && !errors.Is(err, vfs.ErrUnsupported) {
		t.Errorf("Update: %v", err)
	}
	exec(t, db, "insert into t(b) values (1)")
}
