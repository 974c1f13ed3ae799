package txn_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/metrics"
)

var bg = context.Background()

func memDB(t testing.TB, opts *txn.Options) *txn.DB {
	t.Helper()
	db, err := txn.New(memkv.New(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestNewDB(t *testing.T) {
	_, err := txn.New(struct{ kv.Engine }{memkv.New()}, nil)
	if !errors.Is(err, kv.ErrUnsupported) {
		t.Errorf("an engine without transactions: %v", err)
	}
}

func TestRetryable(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {errors.New("x"), false}, {kv.ErrConflict, true}, {txn.ErrTooOld, true},
		{fmt.Errorf("a: %w", fmt.Errorf("b: %w", kv.ErrConflict)), true},
		{kv.ErrUnknownOutcome, false}, {fmt.Errorf("%w: %w", kv.ErrUnknownOutcome, kv.ErrConflict), false},
		{txn.ErrCanceled, false}, {kv.ErrPoisoned, false}, {context.Canceled, false},
	} {
		if got := txn.Retryable(tt.err); got != tt.want {
			t.Errorf("Retryable(%v) is %v", tt.err, got)
		}
	}
}

// TestAttempts: a closure runs until it succeeds, as often as is allowed, and the last
// cause is in the error.
func TestAttempts(t *testing.T) {
	for _, tt := range []struct {
		fails, most, want int
		err               error
	}{
		{0, 0, 1, nil}, {2, 5, 3, nil}, {99, 0, 100, nil}, {100, 0, 100, kv.ErrConflict}, {2, 1, 1, kv.ErrConflict},
		{5, 5, 5, kv.ErrConflict}, {200, -1, 201, nil},
	} {
		db := memDB(t, &txn.Options{MaxAttempts: tt.most, Backoff: 1, MaxBackoff: 1})
		n := 0
		err := db.Update(bg, func(tx *txn.Tx) error {
			if n++; n <= tt.fails {
				return fmt.Errorf("attempt %d: %w", n, kv.ErrConflict)
			}
			return tx.Set([]byte("k"), nil)
		})
		if n != tt.want || !errors.Is(err, tt.err) || tt.err == nil && err != nil {
			t.Errorf("%+v: %d attempts, %v", tt, n, err)
		}
		if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("attempt %d", tt.want)) {
			t.Errorf("%+v: the last cause isn't in %q", tt, err)
		}
	}
	// View runs again as well, and neither runs again for anything else.
	db, n := memDB(t, nil), 0
	if err := db.View(bg, func(*txn.Tx) error {
		if n++; n < 3 {
			return txn.ErrTooOld
		}
		return nil
	}); err != nil || n != 3 {
		t.Errorf("View: %d attempts, %v", n, err)
	}
	n = 0
	if err := db.Update(bg, func(*txn.Tx) error { n++; return kv.ErrUnknownOutcome }); err != kv.ErrUnknownOutcome || n != 1 {
		t.Errorf("unknown outcome: %d attempts, %v", n, err)
	}
}

// TestBackoff: the waits are random, get longer, and are bounded; the context ends them.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memDB(t, &txn.Options{Backoff: 10 * time.Millisecond, MaxBackoff: 80 * time.Millisecond})
		var at []time.Time
		again := func(tx *txn.Tx) error {
			at = append(at, time.Now())
			return kv.ErrConflict
		}
		if err := db.Update(bg, again); !errors.Is(err, kv.ErrConflict) {
			t.Fatal(err)
		}
		different := map[time.Duration]bool{}
		for i := 1; i < len(at); i++ {
			wait := at[i].Sub(at[i-1])
			different[wait] = true
			if longest := time.Duration(min(80, 10<<min(i-1, 10))) * time.Millisecond; wait >= longest {
				t.Errorf("%v before attempt %d, the longest is %v", wait, i+1, longest)
			}
		}
		if len(different) < 90 {
			t.Errorf("%d different waits", len(different))
		}

		db = memDB(t, &txn.Options{Backoff: time.Hour, MaxBackoff: time.Hour})
		soon, cancel := context.WithTimeout(bg, time.Millisecond)
		defer cancel()
		began := time.Now()
		err := db.Update(soon, func(*txn.Tx) error { return fmt.Errorf("mine: %w", kv.ErrConflict) })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kv.ErrConflict) || !strings.Contains(err.Error(), "mine") {
			t.Errorf("the context ends: %v", err)
		}
		if d := time.Since(began); d > time.Millisecond {
			t.Errorf("the context's end was noticed after %v", d)
		}
	})
}

// TestRollback: whatever a closure does, nothing of it is left: no change, and nothing
// that the engine would go on keeping for it.
func TestRollback(t *testing.T) {
	db := memDB(t, nil)
	for name, fn := range map[string]func(tx *txn.Tx) error{
		"error":  func(*txn.Tx) error { return errors.New("mine") },
		"panic":  func(*txn.Tx) error { panic("boo") },
		"cancel": func(tx *txn.Tx) error { tx.Cancel(); return nil },
		"exit":   func(*txn.Tx) error { runtime.Goexit(); return nil },
	} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }() // the panic is what is tested
			err := db.Update(bg, func(tx *txn.Tx) error {
				if _, err := tx.Get(bg, []byte("k"), nil); !errors.Is(err, kv.ErrNotFound) {
					return err
				}
				if err := tx.Set([]byte("k"), nil); err != nil {
					return err
				}
				return fn(tx)
			})
			if err == nil {
				t.Errorf("%s: committed", name)
			}
		}()
		<-done
		if _, err := db.Engine().Get(bg, []byte("k"), nil); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("%s: something was written, %v", name, err)
		}
	}
}

// sums is a metrics.Sink.
type sums struct {
	mu       sync.Mutex
	counters map[string]int64
	timers   map[string]int
}

func (s *sums) Add(m *metrics.Metric, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters[m.Name+" "+m.Labels[0].Value] += n
}

func (s *sums) Observe(m *metrics.Metric, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers[m.Name+" "+m.Labels[0].Value]++
}

// TestMetrics: transactions are counted by their names.
func TestMetrics(t *testing.T) {
	sink := &sums{counters: map[string]int64{}, timers: map[string]int{}}
	names := txn.NewNames("book", "book")
	if n := len(names.Metrics()); n != 2*7 {
		t.Errorf("%d metrics of two names", n)
	}
	db := memDB(t, &txn.Options{Metrics: sink, Names: names, Backoff: 1, MaxBackoff: 1, MaxAge: time.Hour}) // each is counted once
	n := 0
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.Named("book").Update(bg, func(tx *txn.Tx) error {
		if n++; n < 3 {
			return kv.ErrConflict
		}
		if n == 3 {
			return txn.ErrTooOld
		}
		return errors.Join(tx.Set([]byte("key"), []byte("value")), tx.Clear([]byte("k")))
	}))
	must(db.Named("unheard of").View(bg, func(tx *txn.Tx) error {
		if _, err := tx.Get(bg, []byte("key"), nil); err != nil {
			return err
		}
		for _, err := range tx.Scan(bg, kv.Range{}) {
			must(err)
		}
		return nil
	}))
	tx, err := db.Begin(bg)
	must(err)
	must(tx.Set([]byte("a"), nil))
	if got := sink.counters["kv_transactions_begun other"] - sink.counters["kv_transactions_ended other"]; got != 1 {
		t.Errorf("%d transactions under way", got)
	}
	must(tx.Commit(bg))
	tx.Cancel()
	want := map[string]int64{
		"kv_transactions_begun book": 1, "kv_transactions_ended book": 1, "kv_transaction_attempts book": 4,
		"kv_transaction_conflicts book": 2, "kv_transaction_written_bytes book": 9,
		"kv_transactions_begun other": 2, "kv_transactions_ended other": 2, "kv_transaction_attempts other": 2,
		"kv_transaction_read_bytes other": 16, "kv_transaction_written_bytes other": 1,
	}
	for k, v := range want {
		if got := sink.counters[k]; got != v {
			t.Errorf("%s is %d, want %d", k, got, v)
		}
	}
	if len(sink.counters) != len(want) || sink.timers["kv_transaction book"] != 1 || sink.timers["kv_transaction other"] != 2 {
		t.Errorf("counted %v, timed %v", sink.counters, sink.timers)
	}
}

// TestStorm: transactions, commits of the engine, watches and abandoned transactions
// beside each other. It is for the race detector, and ends with nothing kept.
func TestStorm(t *testing.T) {
	var clock atomic.Int64
	db := memDB(t, &txn.Options{Now: func() time.Time { return time.Unix(0, clock.Add(int64(time.Millisecond))) }, MaxAttempts: -1})
	key := func(i int) []byte { return fmt.Appendf(nil, "k%d", i%10) }
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := range 200 {
				err := db.Update(bg, func(tx *txn.Tx) error {
					if _, err := tx.Get(bg, key(w+i), nil); err != nil && !errors.Is(err, kv.ErrNotFound) {
						return err
					}
					return errors.Join(tx.Set(key(i), key(w)), tx.Atomic(txn.MutationAdd, []byte("sum"), []byte{1, 0, 0, 0}))
				})
				if err == nil {
					err = db.Engine().Commit(bg, &kv.Commit{Ops: []kv.Op{kv.Set(key(3*i), nil), kv.ClearRange(key(w), key(w+2))}})
				}
				if err != nil {
					t.Error(err)
				}
				if tx, err := db.Begin(bg); err == nil && i%3 == 0 { // and it is never ended
					_, err = tx.Get(bg, key(i), nil)
					if err != nil && !errors.Is(err, kv.ErrNotFound) {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	v, err := db.Engine().Get(bg, []byte("sum"), nil)
	if err != nil || string(v) != string([]byte{1200 & 0xff, 1200 >> 8, 0, 0}) {
		t.Errorf("the sum is %x, %v", v, err)
	}
}
