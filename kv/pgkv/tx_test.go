//go:build unix

package pgkv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// openTx opens a store from two hosts, each with its transactions.
func openTx(t testing.TB) (hosts [2]*DB, txs [2]*txn.DB) {
	t.Helper()
	url := newURL(t)
	for i := range hosts {
		hosts[i] = openAt(t, url, &Options{RetryFor: time.Minute})
		var err error
		// However long the test is held up, its transactions aren't too old.
		if txs[i], err = txn.New(hosts[i], &txn.Options{MaxAge: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	return hosts, txs
}

func number(r kv.Reader, key string) (n int, text string, err error) {
	v, err := r.Get(ctx, []byte(key), nil)
	if err == nil {
		n, err = strconv.Atoi(string(v))
	}
	return n, string(v), err
}

// allow returns nil for a conflict.
func allow(err error) error {
	if errors.Is(err, kv.ErrConflict) {
		return nil
	}
	return err
}

// Commits and transactions of two hosts count in one counter.
func TestMixedCounter(t *testing.T) {
	t.Parallel()
	hosts, txs := openTx(t)
	if err := hosts[0].Commit(ctx, &kv.Commit{Ops: []kv.Op{set("n", "0")}}); err != nil {
		t.Fatal(err)
	}
	var added, byTx atomic.Int64
	together(t, 6, func(w int) error {
		if w%3 == 0 {
			err := txs[w%2].Update(ctx, func(tx *txn.Tx) error {
				n, _, err := number(tx, "n")
				return errors.Join(err, tx.Set([]byte("n"), []byte(strconv.Itoa(n+1))))
			})
			if err == nil {
				added.Add(1)
				byTx.Add(1)
			}
			return err
		}
		n, text, err := number(hosts[w%2], "n")
		if err != nil {
			return err
		}
		err = hosts[w%2].Commit(ctx, &kv.Commit{Checks: []kv.Check{is("n", text)}, Ops: []kv.Op{set("n", strconv.Itoa(n+1))}})
		if err == nil {
			added.Add(1)
		}
		return allow(err)
	})
	wantGet(t, hosts[0], "n", strconv.FormatInt(added.Load(), 10))
	t.Logf("%d additions, %d of them by transactions", added.Load(), byTx.Load())
}

// A commit checks one key and writes the other, a transaction the reverse: both at
// once is what no order allows, whichever came first. PostgreSQL sees nothing of it
// when only one of them is SERIALIZABLE.
func TestMixedSkew(t *testing.T) {
	t.Parallel()
	hosts, txs := openTx(t)
	together(t, 1, func(int) error {
		if err := hosts[0].Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "1"), set("b", "1")}, Durability: kv.Applied}); err != nil {
			return err
		}
		var wg sync.WaitGroup
		var errs [3]error
		wg.Go(func() {
			errs[0] = hosts[0].Commit(ctx, &kv.Commit{Checks: []kv.Check{is("b", "1")}, Ops: []kv.Op{set("a", "0")}, Durability: kv.Applied})
		})
		for i, tx := range txs {
			wg.Go(func() {
				errs[1+i] = tx.Update(ctx, func(tx *txn.Tx) error {
					a, _, err := number(tx, "a")
					if err != nil || a == 0 {
						return err
					}
					return tx.Set([]byte("b"), []byte("0"))
				})
			})
		}
		wg.Wait()
		a, _, aerr := number(hosts[1], "a")
		b, _, berr := number(hosts[1], "b")
		if a+b == 0 {
			return errors.New("both are 0, although each becomes so only while the other is 1")
		}
		return errors.Join(allow(errs[0]), errs[1], errs[2], aerr, berr)
	})
}

// Transactions write how many rows a range has, while commits add rows, and remove
// them, and check that number: it is right whenever it was written last.
func TestMixedPhantom(t *testing.T) {
	t.Parallel()
	hosts, txs := openTx(t)
	if err := hosts[0].Commit(ctx, &kv.Commit{Ops: []kv.Op{set("count", "0")}}); err != nil {
		t.Fatal(err)
	}
	var wrong atomic.Int64
	together(t, 4, func(w int) error {
		if w < 2 {
			return txs[w].Update(ctx, func(tx *txn.Tx) error {
				n := 0
				for _, err := range tx.Scan(ctx, kv.Range{Start: []byte("r/"), End: []byte("r0")}) {
					if err != nil {
						return err
					}
					n++
				}
				return tx.Set([]byte("count"), []byte(strconv.Itoa(n)))
			})
		}
		// Each commit that adds or removes clears the number, which must be right before.
		s, err := hosts[w%2].Snapshot(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		n, text, err := number(s, "count")
		if errors.Is(err, kv.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		have := 0
		for _, err := range s.Scan(ctx, kv.Range{Start: []byte("r/"), End: []byte("r0")}) {
			if err != nil {
				return err
			}
			have++
		}
		if have != n {
			wrong.Add(1)
		}
		k := fmt.Sprintf("r/%d", rand.IntN(20))
		op := set(k, "x")
		if rand.IntN(2) == 0 {
			op = kv.Clear([]byte(k))
		}
		return allow(hosts[w%2].Commit(ctx, &kv.Commit{
			Checks: []kv.Check{is("count", text)}, Ops: []kv.Op{op, kv.Clear([]byte("count"))}, Durability: kv.Applied}))
	})
	if wrong.Load() > 0 {
		t.Errorf("%d times the number was not that of the rows", wrong.Load())
	}
}

// A declared write conflicts with transactions that read its range, over hosts, and with
// no others.
func TestDeclaredWrites(t *testing.T) {
	_, txs := openTx(t)
	for _, c := range []struct {
		read     [2]string
		conflict bool
	}{
		{[2]string{"a", "c"}, true}, {[2]string{"b", "b\x00"}, true}, {[2]string{"a", "b"}, false}, {[2]string{"b\x00", "c"}, false},
	} {
		reader, err := txs[0].Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := exhaust(reader, kv.Range{Start: []byte(c.read[0]), End: []byte(c.read[1])}); err != nil {
			t.Fatal(err)
		}
		if err := txs[1].Update(ctx, func(tx *txn.Tx) error { return tx.AddWriteConflictKey([]byte("b")) }); err != nil {
			t.Fatal(err)
		}
		if err := reader.Set([]byte("z"), nil); err != nil {
			t.Fatal(err)
		}
		if err := reader.Commit(ctx); errors.Is(err, kv.ErrConflict) != c.conflict || allow(err) != nil {
			t.Errorf("a reader of %q to %q: got %v, want a conflict: %v", c.read[0], c.read[1], err, c.conflict)
		}
	}
}

// Reads of long keys count like others.
func TestLongReads(t *testing.T) {
	t.Parallel()
	hosts, txs := openTx(t)
	long := strings.Repeat("k", prefixLen)
	for _, c := range []struct {
		read, write string
		conflict    bool
	}{
		{long + "a", long + "a", true}, {long + "a", long + "b", false}, {long, long + "b", false}, {long + "a", long, false},
	} {
		tx, err := txs[0].Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Get(ctx, []byte(c.read), nil); err != nil && !errors.Is(err, kv.ErrNotFound) {
			t.Fatal(err)
		}
		if err := hosts[1].Commit(ctx, &kv.Commit{Ops: []kv.Op{set(c.write, fmt.Sprint(c))}}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Atomic(txn.MutationAppendIfFits, []byte(long+"sum"), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(ctx); errors.Is(err, kv.ErrConflict) != c.conflict || allow(err) != nil {
			t.Errorf("read …%s, write …%s: got %v, want a conflict: %v", c.read[prefixLen:], c.write[prefixLen:], err, c.conflict)
		}
	}
	wantGet(t, hosts[0], long+"sum", "xxx")
}

// Transactions survive what happens to their connections.
func TestKilledTransactions(t *testing.T) {
	t.Parallel()
	hosts, txs := openTx(t)
	n := pgtest.Shared(t)
	var committed atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := 0; ; i++ {
				err := txs[w%2].Update(ctx, func(tx *txn.Tx) error {
					if i%2 == 0 {
						return tx.Atomic(txn.MutationAdd, []byte("n"), []byte{1, 0, 0, 0})
					}
					v, err := tx.Get(ctx, []byte("n"), nil)
					if errors.Is(err, kv.ErrNotFound) {
						v, err = make([]byte, 4), nil
					}
					if err != nil {
						return err
					}
					v, _ = txn.MutationAdd.Apply(v, true, []byte{1, 0, 0, 0})
					return tx.Set([]byte("n"), v)
				})
				if err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
				committed.Add(1)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range testkit.Pick(20, 20, 200) {
		n.SQL(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = 'greenroom' AND query LIKE '%`+hosts[0].target.schema+`%' ORDER BY random() LIMIT 1`)
	}
	close(stop)
	wg.Wait()
	v, err := hosts[0].Get(ctx, []byte("n"), nil)
	if err != nil || len(v) != 4 {
		t.Fatalf("the counter is %x, %v", v, err)
	}
	if got := int64(v[0]) | int64(v[1])<<8 | int64(v[2])<<16; got != committed.Load() || got == 0 {
		t.Errorf("the counter is %d after %d transactions", got, committed.Load())
	}
}

// The answer to a transaction's COMMIT is lost: it settles itself.
func TestTxLostAnswer(t *testing.T) {
	p, through := pgtest.NewProxy(t, newURL(t))
	host := openAt(t, through, nil)
	db, err := txn.New(host, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, keep := range [][2]pgtest.Flow{{pgtest.Pass, pgtest.Hold}, {pgtest.Hold, pgtest.Pass}} {
		for _, late := range []bool{false, true} {
			tries := 0
			done := make(chan error, 1)
			go func() {
				done <- db.Update(ctx, func(tx *txn.Tx) error {
					n, _, err := number(tx, "n")
					if errors.Is(err, kv.ErrNotFound) {
						err = nil
					}
					if tries++; tries == 1 {
						p.Set(keep[0], keep[1])
					}
					if late {
						err = errors.Join(err, tx.Atomic(txn.MutationAppendIfFits, []byte("log"), []byte("x")))
					}
					return errors.Join(err, tx.Set([]byte("n"), []byte(strconv.Itoa(n+1))))
				})
			}()
			p.Await()
			p.Set(pgtest.Pass, pgtest.Pass)
			p.Cut(true)
			if err := <-done; err != nil {
				t.Fatalf("%d, %v: %v", i, late, err)
			}
		}
	}
	wantGet(t, host, "n", "4")
	wantGet(t, host, "log", "xx")
}

// A commit is one round trip, also with atomic operations and versionstamps.
func TestTxRoundTrips(t *testing.T) {
	hosts, txs := openTx(t)
	for _, c := range []struct {
		name string
		want int64
		fn   func(tx *txn.Tx) error
	}{
		{"blind write", 1, func(tx *txn.Tx) error { return tx.Set([]byte("a"), []byte("1")) }},
		{"blind addition", 1, func(tx *txn.Tx) error { return tx.Atomic(txn.MutationAdd, []byte("n"), []byte{1}) }},
		{"versionstamps", 1, func(tx *txn.Tx) error {
			k := append([]byte("stamped/0123456789"), 8, 0, 0, 0)
			return errors.Join(tx.SetVersionstampedKey(k, nil), tx.SetVersionstampedValue([]byte("s"), k),
				tx.Atomic(txn.MutationAppendIfFits, []byte("s"), []byte("x")))
		}},
		{"read and write", 3, func(tx *txn.Tx) error {
			_, _, err := number(tx, "a")
			return errors.Join(err, tx.Set([]byte("a"), []byte("2")))
		}},
	} {
		if err := txs[0].Update(ctx, c.fn); err != nil {
			t.Fatal(err)
		}
		before := hosts[0].trips.Load()
		if err := txs[0].Update(ctx, c.fn); err != nil {
			t.Fatal(err)
		}
		if got := hosts[0].trips.Load() - before; got != c.want {
			t.Errorf("%s: got %d round trips, want %d", c.name, got, c.want)
		}
	}
}
