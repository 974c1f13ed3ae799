package host

import (
	"database/sql"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestNoMemory: a turn whose SQL needs too much memory, or panics, fails as others do. What
// it has done is undone, the next turn works, and the actor gives its place to another.
func TestNoMemory(t *testing.T) {
	errBoom := errors.New("boom")
	greedy := thing(
		everything,
		look,
		NewAction("waste", func(c *Context, statement string) (n int, err error) {
			tx, err := c.SQL()
			if err != nil {
				return 0, err
			}
			if _, err := tx.ExecContext(c, "delete from t"); err != nil {
				return 0, err
			}
			s, err := tx.PrepareContext(c, statement)
			if err != nil {
				return 0, err
			}
			defer s.Close()
			err = s.QueryRowContext(c).Scan(&n)
			if errors.Is(err, sql.ErrNoRows) {
				err = nil
			}
			return n, err
		}),
	)
	greedy.DB = greenroom.DBOptions{
		Pragmas: []string{"hard_heap_limit=6000000"},
		Extensions: []func(*sqlite3.Conn) error{func(c *sqlite3.Conn) error {
			return errors.Join(
				c.CreateFunction("boom", 0, 0, func(sqlite3.Context, ...sqlite3.Value) { panic(errBoom) }),
				c.CreateFunction("leave", 0, 0, func(sqlite3.Context, ...sqlite3.Value) { runtime.Goexit() }))
		}},
	}
	const big = "length(hex(zeroblob(20000000)))"
	cases := []struct {
		statement string
		want      error
	}{
		{"select " + big, vfs.ErrNoMemory},
		{"insert into t values (" + big + ")", vfs.ErrNoMemory},
		{"insert into t select case column1 when 3 then " + big + " end from (values (1), (2), (3))", vfs.ErrNoMemory},
		{"select boom()", errBoom},
		{"select leave()", ErrPanic},
	}
	for _, c := range cases {
		t.Run(c.statement, func(t *testing.T) {
			bubble(t, Options{MaxAwake: 1}, func(r *rig) {
				r.call(lobby, "everything", false)
				before := one[landed](r, lobby, "look")
				synctest.Wait()
				stats := r.Stats()
				_, err := invoke[int](r.ctx, r.Host, lobby, "waste", c.statement)
				if !errors.Is(err, c.want) {
					t.Errorf("got %v", err)
				}
				if after := one[landed](r, lobby, "look"); after != before {
					t.Errorf("%+v, then %+v", before, after)
				}
				synctest.Wait()
				if got := r.Stats(); got != stats {
					t.Errorf("%+v, then %+v", stats, got)
				}
				other := Address{"thing", "other"}
				r.call(other, "everything", false) // in its place
				r.call(lobby, "everything", false)
			}, greedy)
		})
	}
}

// one returns what an action without arguments does.
func one[T any](r *rig, a Address, action string) T {
	r.Helper()
	v, err := invoke[T](r.ctx, r.Host, a, action, nil)
	if err != nil {
		r.Fatalf("%s.%s: %v", a, action, err)
	}
	return v
}
