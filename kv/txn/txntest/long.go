package txntest

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testLongKeys: reads of keys and ranges that differ only behind a long prefix all
// count, in any number, whatever an engine knows of their order.
func testLongKeys(t *testing.T, db *txn.DB) {
	key := func(k string) []byte { return []byte(suite.LongPrefix + k) }
	type read func(tx *txn.Tx) error
	get := func(k string) read {
		return func(tx *txn.Tx) error {
			_, err := tx.Get(ctx, key(k), nil)
			return err
		}
	}
	scan := func(from, to string) read {
		return func(tx *txn.Tx) error { return drain(tx, kv.Range{Start: key(from), End: key(to)}, 0) }
	}
	own := func(tx *txn.Tx) error { return tx.Set(key("c"), nil) }
	for _, c := range []struct {
		name  string
		reads []read
		write []kv.Op
	}{
		{"a key", []read{get("a")}, []kv.Op{kv.Set(key("a"), []byte("1"))}},
		{"a range", []read{scan("a", "b")}, []kv.Op{kv.Set(key("a"), []byte("1"))}},
		{"a key and a range beside it", []read{get("a"), scan("m", "z")}, []kv.Op{kv.Set(key("a"), []byte("1"))}},
		{"two ranges", []read{scan("a", "b"), scan("m", "n")}, []kv.Op{kv.Set(key("m"), []byte("1"))}},
		{"three ranges", []read{scan("a", "b"), scan("f", "g"), scan("m", "n")}, []kv.Op{kv.Set(key("m"), []byte("1"))}},
		{"a range around an own write", []read{own, scan("a", "z")}, []kv.Op{kv.Clear(key("m")), kv.Set(key("n"), []byte("0"))}},
		{"ranges that begin or end outside", []read{scan("", "b"), scan("y", "z")}, []kv.Op{kv.Set(key("a"), []byte("1"))}},
	} {
		suite.Commit(t, db.Engine(), kv.ClearRange(key(""), key("zz")), kv.Set(key("a"), []byte("0")), kv.Set(key("m"), []byte("0")))
		tx := begin(t, db)
		for _, read := range c.reads {
			if err := read(tx); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		suite.Commit(t, db.Engine(), c.write...)
		do(t, tx, "set zout 1")
		if err := tx.Commit(ctx); !errors.Is(err, kv.ErrConflict) {
			t.Errorf("%s: got %v, want %v", c.name, err, kv.ErrConflict)
		}
	}
}
