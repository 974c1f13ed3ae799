package txntest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testSerializable: transactions under contention append to lists and read them, so that
// what one has seen tells which others came before it. They share no key but those.
func testSerializable(t *testing.T, db *txn.DB) {
	each := 60
	if testkit.Short() || db.Engine().Limits().Far {
		each = 20
	}
	if err := appendToLists(db, each); err != nil {
		t.Error(err)
	}
}

// appendToLists makes so many transactions in each of 6 workers, and checks the history.
func appendToLists(db *txn.DB, each int) error {
	h := &history{}
	return h.run(db, 6, func(w int) error {
		rnd := rand.New(rand.NewPCG(uint64(w), rand.Uint64()))
		for i := range each {
			seed := rnd.Uint64() // each attempt does the same
			if err := h.transaction(w, fmt.Sprintf("t%d.%d", w, i), db.Update, func(do doer) error {
				return appendAndRead(do, rand.New(rand.NewPCG(seed, 0)), w*each+i+1)
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// appendAndRead makes a few steps, all of which append the same number n, to different
// lists. Lists are read by key or by a scan of all; some are appended to without having
// been read.
func appendAndRead(do doer, rnd *rand.Rand, n int) error {
	for _, l := range rnd.Perm(4)[:1+rnd.IntN(3)] {
		kind := rnd.IntN(5)
		if kind == 0 { // blindly: the operation appends when it commits
			if _, err := do(fmt.Sprintf(`AppendIfFits list%d "%d "`, l, n)); err != nil {
				return err
			}
			continue
		}
		if kind == 1 {
			if _, err := do("scan list listz"); err != nil {
				return err
			}
			continue
		}
		saw, err := do(fmt.Sprintf("get list%d", l))
		if err != nil || kind == 2 {
			return err
		}
		list, _ := strconv.Unquote(saw) // there may be none
		if _, err := do(fmt.Sprintf("set list%d %q", l, fmt.Sprint(list, n, " "))); err != nil {
			return err
		}
	}
	return nil
}

// testOrder: transactions that read and write in every way, and commits of the engine
// that check, set and clear, run beside each other.
func testOrder(t *testing.T, db *txn.DB) {
	each := 100
	if testkit.Short() || db.Engine().Limits().Far {
		each = 25
	}
	seed := rand.Uint64()
	if err := mix(db, seed, each); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
}

// mix makes so many transactions in each of 5 workers, beside which another one makes
// commits of the engine until they are done, and checks the history.
func mix(db *txn.DB, seed uint64, each int) error {
	const workers = 5
	h := &history{}
	var done atomic.Int64
	return h.run(db, workers+1, func(w int) error {
		g := &suite.Generator{Rnd: rand.New(rand.NewPCG(seed, uint64(w))), Few: true}
		if w < workers {
			defer done.Add(1)
			for i := range each {
				if err := readAndWrite(h, db, g, w, i); err != nil {
					return err
				}
			}
			return nil
		}
		for i := 0; i < 20*workers*each && done.Load() < workers; i++ {
			g.Mark = fmt.Sprint("e", i)
			if err := h.engine(db.Engine(), g, w); err != nil {
				return err
			}
		}
		return nil
	})
}

// readAndWrite makes one transaction of random steps.
func readAndWrite(h *history, db *txn.DB, g *suite.Generator, worker, i int) error {
	g.Mark = fmt.Sprintf("t%d.%d", worker, i)
	run, reads := db.Update, false
	if g.Rnd.IntN(5) == 0 {
		run, reads = db.View, true
	}
	return h.transaction(worker, g.Mark, run, func(do doer) error {
		for range 1 + g.Rnd.IntN(6) {
			step := g.TxWrite()
			if reads || g.Rnd.IntN(5) > 1 {
				step = g.Read("get", "scan", "key")
			}
			if _, err := do(step); err != nil {
				return err
			}
		}
		return nil
	})
}
