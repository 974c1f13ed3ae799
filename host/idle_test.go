package host

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleDatabases: an actor that is awake and does nothing has no connection to its database open, and its turns have one when they ask for it.
func TestIdleDatabases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const actors = 5
		closed := make(idleClosed, 100)
		r := newRig(t, Options{IdleTimeout: time.Hour, Metrics: closed}, thing(
			NewAction("insert", func(c *Context, _ any) (n int, err error) {
				tx, err := c.SQL()
				if err != nil {
					return 0, err
				}
				if _, err = tx.ExecContext(c, "create table if not exists t(x); insert into t values(1)"); err != nil {
					return 0, err
				}
				return n, tx.QueryRowContext(c, "select count(*) from t").Scan(&n)
			}),
		))
		for turn := 1; turn <= 3; turn++ {
			for i := range actors {
				if n := r.call(Address{"thing", fmt.Sprint(i)}, "insert", nil); n != turn {
					t.Errorf("actor %d has %d rows, want %d", i, n, turn)
				}
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if n := len(closed); n != turn*actors {
				t.Errorf("%d connections were closed, want %d", n, turn*actors)
			}
			if n := r.Stats().Awake; n != actors {
				t.Errorf("%d actors are awake", n)
			}
		}
		r.close()
	})
}
