package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestIdempotencyAfterFaults fails each engine operation of a call, one after the other, until it is answered: it has landed once.
func TestIdempotencyAfterFaults(t *testing.T) {
	points := []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply, faultkv.AfterCommit, faultkv.BeforeSync, faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeSnapshot}
	unknown, replays := 0, 0
	for _, point := range points {
		for _, crash := range []bool{false, true} {
			for skip, hit := 0, true; hit; skip++ {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, Options{IdleTimeout: time.Hour}, payer())
					r.wantAgain(1, "before", 1, false)
					r.reopen()
					fault := r.engine.Fail(faultkv.Rule{Point: point, Skip: skip})
					_, replayed, err := again(r.ctx, r.Host, lobby, "add", 1, "k")
					fault.Remove()
					if hit = fault.Hits() > 0; replayed {
						t.Error("the first call is answered from what is stored")
					}
					if errors.Is(err, ErrUnknownOutcome) {
						unknown++
					}
					if crash {
						old := r.crash()
						defer func() { _ = old.Close(t.Context()) }() // its actors are fenced
					}
					result, replayed, after := again(r.ctx, r.Host, lobby, "add", 1, "k")
					must(t, after)
					if replayed {
						replays++
					}
					if err == nil && !replayed || err != nil && !errors.Is(err, ErrUnknownOutcome) && replayed {
						t.Errorf("fault %d at %v: %v, and then replayed %t", skip, point, err, replayed)
					}
					if got := r.call(lobby, "add", 0); got != 2 || string(result) != "\x02" {
						t.Errorf("fault %d at %v: the total is %d, the result %x", skip, point, got, result)
					}
					r.close()
				})
			}
		}
	}
	if unknown == 0 || replays <= unknown/2 {
		t.Errorf("%d outcomes were unknown, %d calls answered from what is stored", unknown, replays)
	}
}

// TestIdempotencyModel has callers make each call until it is answered, while the engine fails, its server crashes and the host is
// opened anew: each call has landed once, as the totals say that they were told.
func TestIdempotencyModel(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	repeats := 0 // of some seeds there are none
	for i := range testkit.Pick(3, 10, 1000) {
		synctest.Test(t, func(t *testing.T) { repeats += idempotencyModel(t, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	if repeats == 0 {
		t.Error("no call was answered from what is stored")
	}
}

// idempotencyModel is TestIdempotencyModel of one seed. It returns how many calls were answered from what is stored.
func idempotencyModel(t *testing.T, rnd *rand.Rand) (repeats int) {
	server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
	r := newRigOn(t, server, Options{IdleTimeout: 2 * time.Second}, payer())
	r.engine.Delay(5 * time.Millisecond)
	host := make(chan *Host, 1) // a lock in which a bubble can wait
	host <- r.Host
	const callers, calls = 4, 25
	var mu sync.Mutex
	var totals []int
	var wg sync.WaitGroup
	done := make(chan bool)
	for i := range callers {
		caller := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		wg.Go(func() {
			for n := range calls {
				for {
					h := <-host
					host <- h
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+caller.IntN(2000))*time.Millisecond)
					result, replayed, err := again(ctx, h, lobby, "add", 1, fmt.Sprint(i, " ", n))
					cancel()
					<-time.After(time.Duration(caller.IntN(3000)) * time.Millisecond)
					if err != nil {
						continue
					}
					var total int
					must(t, result.Decode(&total))
					mu.Lock()
					totals = append(totals, total)
					if replayed {
						repeats++
					}
					mu.Unlock()
					break
				}
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	for over := false; !over; {
		r.idempotencyTrouble(rnd, server, host)
		select {
		case <-done:
			over = true
		default:
		}
	}
	slices.Sort(totals)
	for i, n := range totals {
		if n != i+1 {
			t.Fatalf("the totals are %v", totals)
		}
	}
	r.wantAgain(1, "last", callers*calls+1, false)
	if len(totals) != callers*calls {
		t.Errorf("%d calls", len(totals))
	}
	r.close()
	return repeats
}

// idempotencyTrouble makes trouble for a while.
func (r *rig) idempotencyTrouble(rnd *rand.Rand, server *faultkv.Server, host chan *Host) {
	points := []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply, faultkv.AfterCommit, faultkv.BeforeSync, faultkv.BeforeGet, faultkv.BeforeScan}
	fault := r.engine.Fail(faultkv.Rule{Point: points[rnd.IntN(len(points))], Skip: rnd.IntN(5), Times: 1 + rnd.IntN(3)})
	for range 20 {
		pass(time.Duration(rnd.IntN(200)) * time.Millisecond)
		if n := server.Unsynced(); n > 0 {
			server.Crash(rnd.IntN(n))
		}
	}
	fault.Remove()
	if rnd.IntN(4) == 0 {
		<-host
		if err := r.Host.Close(r.ctx); err != nil {
			r.Error(err)
		}
		r.open()
		host <- r.Host
	}
}

// TestIdempotencyKillChild is the process that TestIdempotencyKill kills. It makes calls with the keys 0, 1, … of one actor.
func TestIdempotencyKillChild(t *testing.T) {
	dir := os.Getenv(killEnv)
	if dir == "" {
		t.Skip("it is for TestIdempotencyKill to run")
	}
	engine, err := pebblekv.Open(dir, nil)
	must(t, err)
	h, err := Open(t.Context(), engine, []*Type{payer()}, &Options{IdleTimeout: time.Millisecond, Logger: quiet})
	must(t, err)
	for i := 0; ; i++ {
		if _, _, err := again(t.Context(), h, lobby, "add", 1, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(os.Stdout, "acked 0 %d\n", i+1)
	}
}

// TestIdempotencyKill kills a host between calls with keys, again and again: each call that was acknowledged is answered as it was, and each
// lands once.
func TestIdempotencyKill(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts processes")
	}
	dir := t.TempDir()
	var acked, joined [killActors]int
	for round := range 3 {
		killOnce(t, "TestIdempotencyKillChild", dir, 50*(round+1), &acked, &joined)
		engine, err := pebblekv.Open(dir, nil)
		must(t, err)
		r := newRigOn(t, engine, Options{}, payer())
		landed := r.call(lobby, "add", 0)
		if landed < acked[0] || acked[0] <= 50*round {
			t.Errorf("round %d: %d were acknowledged, and %d have landed", round, acked[0], landed)
		}
		for i := range landed {
			r.wantAgain(1, fmt.Sprint(i), i+1, true)
		}
		r.wantAgain(1, fmt.Sprint(landed), landed+1, false)
		r.close()
		must(t, engine.Close())
	}
}
