package kv_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/tuple"
)

var (
	_ kv.ReadWriter = (*kv.Tx)(nil)
	_ kv.Mutator    = (*kv.Tx)(nil)
	_ kv.Stamper    = (*kv.Tx)(nil)
)

func openDB(t *testing.T) *kv.DB {
	t.Helper()
	eng := memkv.New()
	t.Cleanup(func() { must(t, eng.Close()) })
	// However long the test is held up, its transactions aren't too old.
	db, err := kv.NewDB(eng, &kv.DBOptions{MaxAge: time.Hour})
	must(t, err)
	return db
}

// TestKeysInTx: a transaction sees its own typed writes, and others do when it has
// committed.
func TestKeysInTx(t *testing.T) {
	db := openDB(t)
	u := under{"u"}
	big := pattern(250_000) // over the limit of one value
	must(t, db.Update(ctx, func(tx *kv.Tx) error {
		in := tx.In(sub("tenant"))
		err := errors.Join(kv.Put(in, u.image(1), big), kv.Put(in, u.member(1), struct{}{}),
			kv.Add(in, visitsKey{u}, 2), kv.Add(in, visitsKey{u}, 3))
		if v, err := kv.Get(ctx, in, u.image(1)); string(v) != string(big) || err != nil {
			t.Errorf("own write: got %d bytes, %v", len(v), err)
		}
		if v, err := kv.Get(ctx, in, visitsKey{u}); v != 5 || err != nil {
			t.Errorf("own count: got %d, %v", v, err)
		}
		if ok, err := kv.Exists(ctx, tx, u.image(1)); ok || err != nil {
			t.Errorf("out of the scope: got %v, %v", ok, err)
		}
		return err
	}))
	must(t, db.View(ctx, func(tx *kv.Tx) error {
		for _, r := range []kv.Reader{tx.In(sub("tenant")), kv.ReadIn(tx.Snapshot(), sub("tenant"))} {
			equal(t, "images", words(t, kv.All[imageKey](ctx, r, kv.Sub(u), nil)), "{{u} 1}")
			if v, err := kv.Get(ctx, r, u.image(1)); string(v) != string(big) || err != nil {
				t.Errorf("got %d bytes, %v", len(v), err)
			}
		}
		if err := kv.Delete(tx, u.member(1)); !errors.Is(err, kv.ErrReadOnly) {
			t.Errorf("got %v, want %v", err, kv.ErrReadOnly)
		}
		return nil
	}))
	must(t, db.Update(ctx, func(tx *kv.Tx) error { return kv.DeleteSubspace(tx.In(sub("tenant")), kv.Sub(u)) }))
	for e, err := range db.Engine().Scan(ctx, kv.Range{}) {
		t.Errorf("left is %x, %v", e.Key, err)
	}
}

// TestKeysIsolation: what is read through the transaction conflicts with what others
// write there, and nothing else does.
func TestKeysIsolation(t *testing.T) {
	k, u := wakeKey{under{"k"}}, under{"u"}
	for name, c := range map[string]struct {
		read     func(tx *kv.Tx) error
		write    func(tx *kv.Tx) error
		conflict bool
	}{
		"get":          {func(tx *kv.Tx) error { _, _, err := kv.Find(ctx, tx, k); return err }, func(tx *kv.Tx) error { return kv.Put(tx, k, at(2)) }, true},
		"get snapshot": {func(tx *kv.Tx) error { _, _, err := kv.Find(ctx, tx.Snapshot(), k); return err }, func(tx *kv.Tx) error { return kv.Put(tx, k, at(2)) }, false},
		"get other":    {func(tx *kv.Tx) error { _, _, err := kv.Find(ctx, tx, k); return err }, func(tx *kv.Tx) error { return kv.Put(tx, profileKey(k), person{}) }, false},
		"missing":      {func(tx *kv.Tx) error { _, err := kv.Exists(ctx, tx, u.member(9)); return err }, func(tx *kv.Tx) error { return kv.Put(tx, u.member(9), struct{}{}) }, true},
		"chunks":       {func(tx *kv.Tx) error { _, err := kv.Get(ctx, tx, u.image(1)); return err }, func(tx *kv.Tx) error { return kv.Put(tx, u.image(1), nil) }, true},
		"phantom":      {readMembers(nil), func(tx *kv.Tx) error { return kv.Put(tx, u.member(7), struct{}{}) }, true},
		"within limit": {readMembers(&kv.ScanOptions{Limit: 2}), func(tx *kv.Tx) error { return kv.Delete(tx, u.member(1)) }, true},
		"behind limit": {readMembers(&kv.ScanOptions{Limit: 2}), func(tx *kv.Tx) error { return kv.Put(tx, u.member(7), struct{}{}) }, false},
		"reverse":      {readMembers(&kv.ScanOptions{Limit: 2, Reverse: true}), func(tx *kv.Tx) error { return kv.Delete(tx, u.member(0)) }, false},
		"blind add":    {func(tx *kv.Tx) error { return kv.Add(tx, visitsKey{u}, 1) }, func(tx *kv.Tx) error { return kv.Add(tx, visitsKey{u}, 1) }, false},
	} {
		db := openDB(t)
		must(t, db.Update(ctx, func(tx *kv.Tx) error {
			err := errors.Join(kv.Put(tx, k, at(1)), kv.Put(tx, u.image(1), pattern(20_000)))
			for n := range 4 {
				err = errors.Join(err, kv.Put(tx, u.member(n), struct{}{}))
			}
			return err
		}))
		tx, err := db.Begin(ctx)
		must(t, err)
		must(t, c.read(tx))
		must(t, kv.Put(tx, changedKey{}, tuple.Versionstamp{}))
		must(t, db.Update(ctx, c.write))
		if err := tx.Commit(ctx); errors.Is(err, kv.ErrConflict) != c.conflict || !c.conflict && err != nil {
			t.Errorf("%s: got %v, want a conflict: %v", name, err, c.conflict)
		}
	}
}

func readMembers(o *kv.ScanOptions) func(tx *kv.Tx) error {
	return func(tx *kv.Tx) error {
		for _, err := range kv.All[memberKey](ctx, tx, kv.Sub(under{"u"}), o) {
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
	var last kv.Stamp
	for i := range 3 {
		tx, err := db.Begin(ctx)
		must(t, err)
		in := tx.In(sub("tenant"))
		for n := range uint16(2) {
			must(t, kv.Put(in, logKey{tuple.IncompleteVersionstamp(n)}, fmt.Sprint(i, n)))
		}
		must(t, kv.Put(in, changedKey{}, tuple.IncompleteVersionstamp(5)))
		must(t, tx.Commit(ctx))
		last, err = tx.Versionstamp()
		must(t, err)
	}
	r := kv.ReadIn(db.Engine(), sub("tenant"))
	var got []string
	var at tuple.Versionstamp
	for item, err := range kv.All[logKey](ctx, r, sub("log"), nil) {
		must(t, err)
		got, at = append(got, item.Value), item.Key.At
	}
	equal(t, "log", got, "0 0", "0 1", "1 0", "1 1", "2 0", "2 1")
	want := tuple.Versionstamp{Transaction: last, User: 1}
	if v, err := kv.Get(ctx, r, changedKey{}); at != want || v.Transaction != last || v.User != 5 || err != nil {
		t.Errorf("the last entry is of %v, the value %v, %v, want %v", at, v, err, want)
	}
}
