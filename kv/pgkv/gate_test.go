//go:build unix

package pgkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TestStalledHost: a host that loses touch with its server holds up no other host,
// whatever it was committing.
func TestStalledHost(t *testing.T) {
	key := append([]byte("stamped/0123456789"), 8, 0, 0, 0)
	for name, fn := range map[string]func(tx *txn.Tx) error{
		"addition":     func(tx *txn.Tx) error { return tx.Atomic(txn.MutationAdd, []byte("n"), []byte{1}) },
		"versionstamp": func(tx *txn.Tx) error { return tx.SetVersionstampedKey(key, nil) },
		"read": func(tx *txn.Tx) error {
			if _, err := tx.Get(ctx, []byte("read before"), nil); !errors.Is(err, kv.ErrNotFound) {
				return err
			}
			return tx.Atomic(txn.MutationAdd, []byte("n"), []byte{1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := newURL(t)
			p, through := pgtest.NewProxy(t, url)
			stalled, other := openAt(t, through, nil), openAt(t, url, nil)
			txs, err := txn.New(stalled, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := txs.Update(ctx, fn); err != nil { // opens the connections
				t.Fatal(err)
			}
			begun := false
			done := make(chan error, 1)
			go func() {
				done <- txs.Update(ctx, func(tx *txn.Tx) error {
					err := fn(tx)
					if !begun { // what is read has been read
						p.Set(pgtest.Pass, pgtest.Hold)
						begun = true
					}
					return err
				})
			}()
			p.Await()
			// A transaction that waits for its host keeps its locks.
			kept := pgtest.Shared(t).SQL(t, fmt.Sprintf(`select count(*) from pg_locks l join pg_stat_activity using (pid)
				where locktype = 'advisory' and (l.classid::int8 << 32 | l.objid::int8) = %d and state like 'idle%%'`, gateID(other.target.schema)))
			if kept != "0" {
				t.Errorf("%s connections wait for their host and keep the gate", kept)
			}
			if err := other.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("x", "1")}}); err != nil {
				t.Error(err)
			}
			p.Set(pgtest.Pass, pgtest.Pass)
			p.Cut(true)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStalledSending: a host that hangs while it sends something large holds up no other
// host either. It goes on sending when it runs again.
func TestStalledSending(t *testing.T) {
	t.Parallel()
	url := newURL(t)
	p, through := pgtest.NewProxy(t, url)
	stalled, other := openAt(t, through, nil), openAt(t, url, nil)
	var txs [2]*txn.DB
	for i, db := range []*DB{stalled, other} {
		var err error
		if txs[i], err = txn.New(db, &txn.Options{Limits: txn.Limits{Value: 1 << 20, Bytes: 64 << 20}}); err != nil {
			t.Fatal(err)
		}
	}
	add := func(tx *txn.Tx) error { return tx.Atomic(txn.MutationAdd, []byte("n"), []byte{1}) }
	if err := errors.Join(txs[0].Update(ctx, add), txs[1].Update(ctx, add)); err != nil { // opens connections
		t.Fatal(err)
	}
	var ops []kv.Op
	for i := range 20 {
		ops = append(ops, kv.Set(fmt.Appendf(nil, "large%02d", i), make([]byte, 512<<10)))
	}
	for name, send := range map[string]func() error{
		"commit":             func() error { return stalled.Commit(ctx, &kv.Commit{Ops: ops}) },
		"commit that clears": func() error { return stalled.Commit(ctx, &kv.Commit{Ops: append(ops, kv.Clear([]byte("x")))}) },
		"transaction": func() error {
			return txs[0].Update(ctx, func(tx *txn.Tx) error {
				errs := []error{add(tx)}
				for _, o := range ops {
					errs = append(errs, tx.Set(o.Key, o.Value))
				}
				return errors.Join(errs...)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p.HoldAfter(4 << 20)
			done := make(chan error, 1)
			go func() { done <- send() }()
			p.Await()
			ctx, cancel := context.WithTimeout(ctx, testkit.Patience(time.Second))
			defer cancel()
			if err := txs[1].Update(ctx, add); err != nil {
				t.Error(err)
			}
			if err := other.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("y", "1")}}); err != nil {
				t.Error(err)
			}
			select {
			case err := <-done:
				t.Errorf("the stalled one: %v", err)
			default:
			}
			p.Resume()
			if err := <-done; err != nil {
				t.Error(err)
			}
			// The next one waits for a link of its own.
			stalled.writes.drop(time.Now().Add(time.Hour))
		})
	}
}

// TestMutate compares the server's evaluation of atomic operations with kv's.
func TestMutate(t *testing.T) {
	t.Parallel()
	db := open(t)
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	some := func() []byte {
		b := make([]byte, [...]int{0, 1, 2, 4, 8, 9, 40}[rnd.IntN(7)])
		for i := range b {
			b[i] = [...]byte{0, 1, 0x7f, 0x80, 0xfe, 0xff, byte(rnd.Uint32())}[rnd.IntN(7)]
		}
		return b
	}
	type run struct {
		m            txn.Mutation
		value, param []byte // nil means absent
	}
	var runs []run
	for m := txn.Mutation(0); m.Valid(); m++ {
		for range 120 {
			r := run{m, some(), some()}
			switch rnd.IntN(6) {
			case 0:
				r.value = nil
			case 1:
				r.param = bytes.Clone(r.value)
			}
			runs = append(runs, r)
		}
		// Carries over any number of bits, and none.
		for n := range 70 {
			ones := bytes.Repeat([]byte{0xff}, n)
			runs = append(runs, run{m, ones, []byte{1}}, run{m, append(ones, 1), append([]byte{1}, make([]byte, n+1)...)}, run{m, ones, ones})
		}
		random := make([]byte, 100_000)
		for i := range random {
			random[i] = byte(rnd.Uint32())
		}
		complement := bytes.Clone(random)
		for i := range complement {
			complement[i] ^= 0xff
		}
		carry := bytes.Clone(complement)
		carry[0]++ // all that follow pass it on, unless it has none itself
		runs = append(runs, run{m, random, complement}, run{m, random, carry}, run{m, random, random}, run{m, complement[1:], random})
		for _, n := range []int{99_999, 100_000, 100_001} {
			runs = append(runs, run{m, make([]byte, n), []byte{1}}, run{m, []byte{1}, bytes.Repeat([]byte{0xff}, n)}, run{m, nil, make([]byte, n)})
		}
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "k%05d", i) }
	txs, err := txn.New(db, &txn.Options{Limits: txn.Limits{Bytes: 1 << 30, Value: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	if err := txs.Update(ctx, func(tx *txn.Tx) error {
		var errs []error
		for i, r := range runs {
			if r.value != nil {
				errs = append(errs, tx.Set(key(i), r.value))
			}
		}
		return errors.Join(errs...)
	}); err != nil {
		t.Fatal(err)
	}
	if err := txs.Update(ctx, func(tx *txn.Tx) error {
		var errs []error
		for i, r := range runs {
			errs = append(errs, tx.Atomic(r.m, key(i), r.param))
		}
		return errors.Join(errs...)
	}); err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		want, exists := r.m.Apply(r.value, r.value != nil, r.param)
		got, err := db.Get(ctx, key(i), nil)
		if exists != (err == nil) || exists && !bytes.Equal(got, want) {
			t.Errorf("%v of %.40x and %.40x: got %.40x, %v, want %.40x, %v", r.m, r.value, r.param, got, err, want, exists)
		}
	}
}

// TestLateOrder: operations whose effect only the server knows, and others on the same
// keys, in the order of the calls.
func TestLateOrder(t *testing.T) {
	db := open(t)
	txs, err := txn.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("l", prefixLen-3)
	template := func(prefix string, offset byte) []byte {
		return append([]byte(prefix+"0123456789tail"), offset, byte(len(prefix)>>8), 0, 0)
	}
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "1"), set("b", "1"), set("c", "1")}}); err != nil {
		t.Fatal(err)
	}
	tx, err := txs.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tx.Cancel)
	app := func(k, v string) error { return tx.Atomic(txn.MutationAppendIfFits, []byte(k), []byte(v)) }
	if err := errors.Join(
		app("a", "2"), app("b", "2"), app("a", "3"),
		tx.SetVersionstampedKey(template("gone/", 5), []byte("x")),
		tx.ClearRange([]byte("b"), []byte("h")), // takes the stamped key with it
		app("b", "4"), tx.Set([]byte("c"), []byte("5")), app("c", "6"), tx.Clear([]byte("a")), app("a", "7"),
		tx.SetVersionstampedKey(template("kept/", 5), []byte("1")),
		tx.SetVersionstampedKey(append([]byte("kept/abcdefghijtail"), 5, 0, 0, 0), []byte("2")), // the same key
		tx.SetVersionstampedKey(template(long, byte(len(long)&255)), []byte("3")),
		tx.SetVersionstampedValue([]byte("v"), template("", 0)), app("v", "!"),
	); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	stamp, err := tx.Versionstamp()
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]string{
		"a": "7", "b": "4", "c": "56", "v": string(stamp[:]) + "tail!", "gone/" + string(stamp[:]) + "tail": "-",
		"kept/" + string(stamp[:]) + "tail": "2", long + string(stamp[:]) + "tail": "3",
	} {
		wantGet(t, db, k, want)
	}
}
