package kvtest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// testCounter: many goroutines compare and set one counter; no update is lost.
func testCounter(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	suite.Commit(t, eng, suite.Set("n", "0"))
	const workers, each = 8, 50
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				if err := increment(eng, kv.Durability(i%2)); err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	suite.WantGet(t, eng, "n", strconv.Itoa(workers*each))
}

// increment adds one to the counter, as often as it takes to succeed. Between
// reading and committing it also blindly writes elsewhere, so that commits
// without checks run beside those with them.
func increment(eng kv.Engine, d kv.Durability) error {
	for {
		v, err := eng.Get(ctx, []byte("n"), nil)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(v))
		if err != nil {
			return err
		}
		if err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{suite.Set("noise", "x")}, Durability: kv.Applied}); err != nil {
			return err
		}
		err = eng.Commit(ctx, &kv.Commit{
			Checks:     []kv.Check{{Key: []byte("n"), Value: v}},
			Ops:        []kv.Op{suite.Set("n", strconv.Itoa(n+1))},
			Durability: d,
		})
		if !errors.Is(err, kv.ErrConflict) {
			return err
		}
	}
}

// testAtomicity: readers never see half a commit, be it by a scan or a snapshot,
// and states never go back.
func testAtomicity(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	const keys, rounds = 20, 200
	write := func(n int) error {
		ops := []kv.Op{kv.ClearRange([]byte("k"), []byte("l"))}
		for i := range keys {
			ops = append(ops, suite.Set(fmt.Sprintf("k%02d", i), strconv.Itoa(n)))
		}
		return eng.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied})
	}
	if err := write(0); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			last := 0
			for !stop.Load() {
				n, err := readRound(eng, keys)
				if err == nil && n < last {
					err = fmt.Errorf("round %d after round %d", n, last)
				}
				if err != nil {
					t.Error(err)
					return
				}
				last = n
			}
		})
	}
	for n := 1; n <= rounds && !t.Failed(); n++ {
		if err := write(n); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	wg.Wait()
}

// readRound reads all keys, by a scan, then from a snapshot forwards and
// backwards, and returns the round that the snapshot shows.
func readRound(eng kv.Engine, keys int) (int, error) {
	if _, err := oneRound(eng, false, keys); err != nil {
		return 0, err
	}
	s, err := eng.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	a, err := oneRound(s, false, keys)
	b, err2 := oneRound(s, true, keys)
	if err := errors.Join(err, err2, s.Close()); err != nil {
		return 0, err
	}
	if a != b {
		return 0, fmt.Errorf("a snapshot showed round %d, then %d", a, b)
	}
	return a, nil
}

func oneRound(r kv.Reader, reverse bool, keys int) (int, error) {
	n, round := 0, ""
	for e, err := range r.Scan(ctx, kv.Range{Start: []byte("k"), End: []byte("l"), Reverse: reverse}) {
		switch {
		case err != nil:
			return 0, err
		case n > 0 && string(e.Value) != round:
			return 0, fmt.Errorf("half a commit: %s of round %s after keys of round %s", e.Key, e.Value, round)
		}
		round = string(e.Value)
		n++
	}
	if n != keys {
		return 0, fmt.Errorf("half a commit: %d of %d keys", n, keys)
	}
	return strconv.Atoi(round)
}
