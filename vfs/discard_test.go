package vfs_test

import (
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestDiscard: what a transaction has left on its connection goes with it, however the
// transaction ends, and stays without Discard.
func TestDiscard(t *testing.T) {
	ends := map[string]struct {
		lands bool
		end   func(tx *vfs.Tx) error
	}{
		"commit":   {true, func(*vfs.Tx) error { return nil }},
		"an error": {false, func(*vfs.Tx) error { return errChanged }},
		"rollback": {false, func(tx *vfs.Tx) error { exec(t, tx, "rollback"); return nil }},
		"a panic":  {false, func(*vfs.Tx) error { panic(errChanged) }},
	}
	for name, c := range ends {
		for _, discard := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, %v", name, discard), func(t *testing.T) {
				r := newRig(t, batch.Limits{})
				db := r.open(t, &vfs.Options{MaxConns: 1})
				exec(t, db, "create table t(a)")
				err := recovered(func() error {
					return db.Update(t.Context(), func(tx *vfs.Tx) error {
						if discard {
							tx.Discard()
						}
						exec(t, tx, "insert into t values (1)")
						exec(t, tx, "pragma cache_size=77")
						return c.end(tx)
					})
				})
				if (err == nil) != c.lands {
					t.Errorf("Update: %v", err)
				}
				if left := one[int](t, db, "pragma cache_size") == 77; left == discard {
					t.Errorf("what the transaction left is there: %v", left)
				}
				if got := one[int](t, db, "select count(*) from t"); (got == 1) != c.lands {
					t.Errorf("%d rows", got)
				}
				if got := db.DB.Stats().OpenConnections; got != 1 {
					t.Errorf("%d connections", got)
				}
			})
		}
	}
}

// recovered returns what fn does, or the panic of it.
func recovered(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}
