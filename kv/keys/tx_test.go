package keys_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

var (
	_ keys.ReadWriter = (*txn.Tx)(nil)
	_ keys.Mutator    = (*txn.Tx)(nil)
	_ keys.Stamper    = (*txn.Tx)(nil)
)

func openDB(t *testing.T) *txn.DB {
	t.Helper()
	eng := memkv.New()
	t.Cleanup(func() { must(t, eng.Close()) })
	// However long the test is held up, its transactions aren't too old.
	db, err := txn.New(eng, &txn.Options{MaxAge: time.Hour})
	must(t, err)
	return db
}

// TestKeysInTx: a transaction sees its own typed writes, and others do when it has
// committed.
func TestKeysInTx(t *testing.T) {
	db := openDB(t)
	u := under{"u"}
	big := pattern(250_000) // over the limit of one value
	must(t, db.Update(ctx, func(tx *txn.Tx) error {
		in := keys.In(tx, sub("tenant"))
		err := errors.Join(keys.Put(in, u.image(1), big), keys.Put(in, u.member(1), struct{}{}),
			keys.Add(in, visitsKey{u}, 2), keys.Add(in, visitsKey{u}, 3))
		if v, err := keys.Get(ctx, in, u.image(1)); string(v) != string(big) || err != nil {
			t.Errorf("own write: got %d bytes, %v", len(v), err)
		}
		if v, err := keys.Get(ctx, in, visitsKey{u}); v != 5 || err != nil {
			t.Errorf("own count: got %d, %v", v, err)
		}
		if ok, err := keys.Exists(ctx, tx, u.image(1)); ok || err != nil {
			t.Errorf("out of the scope: got %v, %v", ok, err)
		}
		return err
	}))
	must(t, db.View(ctx, func(tx *txn.Tx) error {
		for _, r := range []kv.Reader{keys.In(tx, sub("tenant")), keys.ReadIn(tx.Snapshot(), sub("tenant"))} {
			equal(t, "images", words(t, keys.All[imageKey](ctx, r, keys.Sub(u), nil)), "{{u} 1}")
			if v, err := keys.Get(ctx, r, u.image(1)); string(v) != string(big) || err != nil {
				t.Errorf("got %d bytes, %v", len(v), err)
			}
		}
		if err := keys.Delete(tx, u.member(1)); !errors.Is(err, txn.ErrReadOnly) {
			t.Errorf("got %v, want %v", err, txn.ErrReadOnly)
		}
		return nil
	}))
	must(t, db.Update(ctx, func(tx *txn.Tx) error { return keys.DeleteSubspace(keys.In(tx, sub("tenant")), keys.Sub(u)) }))
	for e, err := range db.Engine().Scan(ctx, kv.Range{}) {
		t.Errorf("left is %x, %v", e.Key, err)
	}
}

// TestKeysIsolation: what is read through the transaction conflicts with what others
// write there, and nothing else does.
func TestKeysIsolation(t *testing.T) {
	k, u := wakeKey{under{"k"}}, under{"u"}
	for name, c := range map[string]struct {
		read     func(tx *txn.Tx) error
		write    func(tx *txn.Tx) error
		conflict bool
	}{
		"get":          {func(tx *txn.Tx) error { _, _, err := keys.Find(ctx, tx, k); return err }, func(tx *txn.Tx) error { return keys.Put(tx, k, at(2)) }, true},
		"get snapshot": {func(tx *txn.Tx) error { _, _, err := keys.Find(ctx, tx.Snapshot(), k); return err }, func(tx *txn.Tx) error { return keys.Put(tx, k, at(2)) }, false},
		"get other":    {func(tx *txn.Tx) error { _, _, err := keys.Find(ctx, tx, k); return err }, func(tx *txn.Tx) error { return keys.Put(tx, profileKey(k), person{}) }, false},
		"missing":      {func(tx *txn.Tx) error { _, err := keys.Exists(ctx, tx, u.member(9)); return err }, func(tx *txn.Tx) error { return keys.Put(tx, u.member(9), struct{}{}) }, true},
		"chunks":       {func(tx *txn.Tx) error { _, err := keys.Get(ctx, tx, u.image(1)); return err }, func(tx *txn.Tx) error { return keys.Put(tx, u.image(1), nil) }, true},
		"phantom":      {readMembers(nil), func(tx *txn.Tx) error { return keys.Put(tx, u.member(7), struct{}{}) }, true},
		"within limit": {readMembers(&keys.ScanOptions{Limit: 2}), func(tx *txn.Tx) error { return keys.Delete(tx, u.member(1)) }, true},
		"behind limit": {readMembers(&keys.ScanOptions{Limit: 2}), func(tx *txn.Tx) error { return keys.Put(tx, u.member(7), struct{}{}) }, false},
		"reverse":      {readMembers(&keys.ScanOptions{Limit: 2, Reverse: true}), func(tx *txn.Tx) error { return keys.Delete(tx, u.member(0)) }, false},
		"blind add":    {func(tx *txn.Tx) error { return keys.Add(tx, visitsKey{u}, 1) }, func(tx *txn.Tx) error { return keys.Add(tx, visitsKey{u}, 1) }, false},
	} {
		db := openDB(t)
		must(t, db.Update(ctx, func(tx *txn.Tx) error {
			err := errors.Join(keys.Put(tx, k, at(1)), keys.Put(tx, u.image(1), pattern(20_000)))
			for n := range 4 {
				err = errors.Join(err, keys.Put(tx, u.member(n), struct{}{}))
			}
			return err
		}))
		tx, err := db.Begin(ctx)
		must(t, err)
		must(t, c.read(tx))
		must(t, keys.Put(tx, changedKey{}, tuple.Versionstamp{}))
		must(t, db.Update(ctx, c.write))
		if err := tx.Commit(ctx); errors.Is(err, kv.ErrConflict) != c.conflict || !c.conflict && err != nil {
			t.Errorf("%s: got %v, want a conflict: %v", name, err, c.conflict)
		}
	}
}

func readMembers(o *keys.ScanOptions) func(tx *txn.Tx) error {
	return func(tx *txn.Tx) error {
		for _, err := range keys.All[memberKey](ctx, tx, keys.Sub(under{"u"}), o) {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// TestStampsInTx: keys with the stamp of their commit are in the order of commits, and
// a value with it names the commit.
func TestStampsInTx(t *testing.T) {
	db := openDB(t)
	var last txn.Stamp
	for i := range 3 {
		tx, err := db.Begin(ctx)
		must(t, err)
		in := keys.In(tx, sub("tenant"))
		for n := range uint16(2) {
			must(t, keys.Put(in, logKey{tuple.IncompleteVersionstamp(n)}, fmt.Sprint(i, n)))
		}
		must(t, keys.Put(in, changedKey{}, tuple.IncompleteVersionstamp(5)))
		must(t, tx.Commit(ctx))
		last, err = tx.Versionstamp()
		must(t, err)
	}
	r := keys.ReadIn(db.Engine(), sub("tenant"))
	var got []string
	var at tuple.Versionstamp
	for item, err := range keys.All[logKey](ctx, r, sub("log"), nil) {
		must(t, err)
		got, at = append(got, item.Value), item.Key.At
	}
	equal(t, "log", got, "0 0", "0 1", "1 0", "1 1", "2 0", "2 1")
	want := tuple.Versionstamp{Transaction: last, User: 1}
	if v, err := keys.Get(ctx, r, changedKey{}); at != want || v.Transaction != last || v.User != 5 || err != nil {
		t.Errorf("the last entry is of %v, the value %v, %v, want %v", at, v, err, want)
	}
}
