package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestModel has callers count in more actors than may be awake, while the engine fails
// now and then and the host is closed and opened. What was acknowledged must be there,
// what failed must not, and what is unknown may be; and each turn whole.
func TestModel(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range 2 {
		synctest.Test(t, func(t *testing.T) { runModel(t, rand.New(rand.NewPCG(seed, uint64(i))), nil) })
	}
}

// TestModelServerCrashes is TestModel on an engine whose server crashes, too, and takes
// with it what isn't on stable storage.
func TestModelServerCrashes(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range testkit.Pick(1, 1, 4) {
		synctest.Test(t, func(t *testing.T) {
			runModel(t, rand.New(rand.NewPCG(seed, uint64(i))), faultkv.NewServer(func() kv.Engine { return memkv.New() }))
		})
	}
}

// modelActors is how many actors there are, of which fewer are awake at once.
const modelActors = 5

// A modelCount is what is known of one actor.
type modelCount struct{ acked, unknown atomic.Int32 }

// runModel runs the model on an engine that lives on, or on a server that crashes if it
// isn't nil.
func runModel(t *testing.T, rnd *rand.Rand, server *faultkv.Server) {
	var below kv.Engine = memkv.New()
	crashing, lost := 0, 0 // crashes that are tried in each round, and those that took something
	if server != nil {
		below = server
		crashing = 40
	}
	r := newRigOn(t, below, Options{MaxAwake: 2, IdleTimeout: 3 * time.Second}, killed(), listener())
	var counts [modelActors]modelCount
	if crashing > 0 {
		r.engine.Delay(10 * time.Millisecond) // else a turn takes no time
	}
	host := make(chan *Host, 1) // a lock in which a bubble can wait
	host <- r.Host
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 6 {
		caller := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		wg.Go(func() {
			for ctx.Err() == nil {
				h := <-host
				host <- h
				modelCall(ctx, caller, h, &counts)
			}
		})
	}
	points := []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply, faultkv.BeforeSync, faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeSnapshot}
	for ctx.Err() == nil {
		fault := r.engine.Fail(faultkv.Rule{Point: points[rnd.IntN(len(points))], Skip: rnd.IntN(20), Times: 1 + rnd.IntN(3)})
		pass(time.Duration(rnd.IntN(20)) * time.Second)
		fault.Remove()
		for range crashing {
			pass(time.Duration(rnd.IntN(200)) * time.Millisecond)
			if n := server.Unsynced(); n > 0 {
				server.Crash(rnd.IntN(n))
				lost++
			}
		}
		if rnd.IntN(10) == 0 {
			<-host
			if err := r.Host.Close(t.Context()); err != nil {
				t.Error(err)
			}
			r.open()
			if rnd.IntN(2) == 0 {
				r.forget()
			}
			host <- r.Host
		}
	}
	wg.Wait()
	r.reopen()
	if crashing > 0 && lost < 10 {
		t.Errorf("the server has lost something %d times", lost)
	}
	pass(time.Hour)
	for i := range counts {
		n, err := invoke[[5]int](r.ctx, r.Host, Address{"thing", fmt.Sprint(i)}, "counted", nil)
		must(t, err)
		acked, unknown := int(counts[i].acked.Load()), int(counts[i].unknown.Load())
		if n[0] < acked || n[0] > acked+unknown || n[1] != n[0] || n[2] != n[0] || n[3] != n[0] || n[4] != n[0] {
			t.Errorf("actor %d: %d were acknowledged, %d are unknown, there are %d", i, acked, unknown, n)
		}
		heard, err := invoke[[]string](r.ctx, r.Host, Address{"ear", fmt.Sprint(i)}, "heard", nil)
		must(t, err)
		wantNumbers(t, heard, n[0])
	}
	r.wantNoLetters()
	r.close()
	store, err := actorstore.Open(t.Context(), r.engine, &actorstore.Options{ReadOnly: true})
	must(t, err)
	for f, err := range store.Check(t.Context()) {
		t.Errorf("%v, %v", f, err)
	}
	wantFound(t, store)
}

// wantFound: the actors are found by what they store.
func wantFound(t *testing.T, store *actorstore.Store) {
	t.Helper()
	for id, err := range store.IDs(t.Context()) {
		must(t, err)
		v, err := store.View(t.Context(), id)
		must(t, err)
		if want, wrong, err := attributes.Wrong(t.Context(), v); wrong || err != nil {
			t.Errorf("%s is found by %+v, and stores %+v, %v", v.Info().Name, v.Info().Attributes, want, err)
		}
		must(t, v.Close())
	}
}

func modelCall(ctx context.Context, rnd *rand.Rand, h *Host, counts *[modelActors]modelCount) {
	i := rnd.IntN(modelActors)
	one, cancel := context.WithTimeout(ctx, time.Duration(1+rnd.IntN(5000))*time.Millisecond)
	defer cancel()
	_, err := invoke[int](one, h, Address{"thing", fmt.Sprint(i)}, "count", nil)
	switch {
	case err == nil:
		counts[i].acked.Add(1)
	case errors.Is(err, ErrUnknownOutcome):
		counts[i].unknown.Add(1)
	}
	select {
	case <-time.After(time.Duration(rnd.IntN(8000)) * time.Millisecond):
	case <-ctx.Done():
	}
}
