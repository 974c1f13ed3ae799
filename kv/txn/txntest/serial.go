package txntest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testSerializable: transactions under contention append to lists and read them;
// what they have seen must fit one order of all of them.
func testSerializable(t *testing.T, db *txn.DB) {
	const workers, lists = 6, 4
	each := 60
	if testkit.Short() || db.Engine().Limits().Far {
		each = 20
	}
	var clock atomic.Int64
	var mu sync.Mutex
	var history []txRecord
	var wg sync.WaitGroup
	for w := range workers {
		rnd := rand.New(rand.NewPCG(uint64(w), rand.Uint64()))
		wg.Go(func() {
			for i := range each {
				rec, err := appendAndRead(db, rnd, &clock, w*each+i+1, lists)
				if err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
				mu.Lock()
				history = append(history, rec)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	final := txRecord{name: "the end", began: clock.Add(1)}
	view(t, db, func(tx *txn.Tx) {
		for l := range lists {
			list, err := readList(tx, listKey(l))
			if err != nil {
				t.Fatal(err)
			}
			final.steps = append(final.steps, txStep{list: l, read: list})
		}
	})
	final.ended = clock.Add(1)
	if err := checkHistory(append(history, final), exact(db)); err != nil {
		t.Error(err)
	}
}

func listKey(l int) []byte { return fmt.Appendf(nil, "list%d", l) }

func readList(r kv.Reader, key []byte) (list []int, err error) {
	v, err := r.Get(ctx, key, nil)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return nil, err
	}
	for _, f := range strings.Fields(string(v)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// appendAndRead runs one transaction of a few steps, all of which append the same
// number n, to different lists. Lists are read by key or by a scan of all; some are
// appended to without having been read.
func appendAndRead(db *txn.DB, rnd *rand.Rand, clock *atomic.Int64, n, lists int) (rec txRecord, err error) {
	perm := rnd.Perm(lists)[:1+rnd.IntN(3)]
	kinds := rnd.Uint32()
	rec.began = clock.Add(1)
	err = db.Update(ctx, func(tx *txn.Tx) error {
		rec.name, rec.steps = fmt.Sprintf("T%d", n), nil
		for i, l := range perm {
			key := listKey(l)
			if kind := kinds >> (2 * i) & 3; kind == 0 {
				// Blindly: the operation appends when it commits.
				rec.steps = append(rec.steps, txStep{list: l, append: n})
				if err := tx.Atomic(txn.MutationAppendIfFits, key, fmt.Appendf(nil, "%d ", n)); err != nil {
					return err
				}
			} else {
				list, err := readList(tx, key)
				if err != nil {
					return err
				}
				rec.steps = append(rec.steps, txStep{list: l, read: list})
				if kind == 1 {
					continue
				}
				rec.steps = append(rec.steps, txStep{list: l, append: n})
				var b strings.Builder
				for _, m := range append(list, n) {
					fmt.Fprintf(&b, "%d ", m)
				}
				if err := tx.Set(key, []byte(b.String())); err != nil {
					return err
				}
			}
		}
		return nil
	})
	rec.ended = clock.Add(1)
	return rec, err
}
