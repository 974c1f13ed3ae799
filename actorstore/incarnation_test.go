package actorstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// apply applies a write of the user key k.
func apply(t testing.TB, a *actorstore.Actor, value string) {
	t.Helper()
	must(t, a.Apply(ctx, putBatch(value)))
}

func putBatch(value string) *batch.Batch {
	b := new(batch.Batch)
	b.Put(user("k"), []byte(value))
	return b
}

// newServer returns an engine that outlives crashes, empty.
func newServer() *faultkv.Server {
	return faultkv.NewServer(func() kv.Engine { return memkv.New() })
}

// uses are all that a handle may be asked for. Each returns the value of k that it has
// shown, if it shows one.
var uses = map[string]func(a *actorstore.Actor) (shown string, err error){
	"sync":    func(a *actorstore.Actor) (string, error) { return "", a.Sync(ctx) },
	"nothing": func(a *actorstore.Actor) (string, error) { return "", a.Commit(ctx, new(batch.Batch)) },
	"owned":   func(a *actorstore.Actor) (string, error) { return "", a.Owned(ctx) },
	"commit":  func(a *actorstore.Actor) (string, error) { return "", a.Commit(ctx, putBatch("next")) },
	"apply":   func(a *actorstore.Actor) (string, error) { return "", a.Apply(ctx, putBatch("next")) },
	"get": func(a *actorstore.Actor) (string, error) {
		v, err := a.Get(ctx, user("k"), nil)
		return string(v), err
	},
	"list": func(a *actorstore.Actor) (shown string, err error) {
		for e, err := range a.List(ctx, actorstore.ListOptions{}) {
			if err != nil {
				return "", err
			}
			shown = string(e.Value)
		}
		return shown, nil
	},
	"snapshot": func(a *actorstore.Actor) (string, error) {
		s, err := a.PageSnapshot(ctx)
		if err != nil {
			return "", err
		}
		v, err := s.Page(ctx, user("k"), nil)
		return string(v), errors.Join(err, s.Close())
	},
}

// inBubble runs a subtest in time that is made up: a lease is renewed when it is in doubt,
// after a pause.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// TestServerCrashes: what an engine lost that it had only applied is never answered, nor
// built upon, and its loss is never told as success; a handle that had nothing to
// lose goes on, and so does one that has lost nothing.
func TestServerCrashes(t *testing.T) {
	for name, use := range uses {
		inBubble(t, name, func(t *testing.T) {
			server := newServer()
			store := openStore(t, server, batch.Limits{})
			lost := openActor(t, store)
			must(t, lost.Commit(ctx, putBatch("old")))
			idle, err := store.Named(ctx, "idle", nil)
			must(t, err)
			defer idle.Close()
			must(t, idle.Commit(ctx, putBatch("old")))
			must(t, idle.Apply(ctx, putBatch("synced")))
			must(t, idle.Sync(ctx))
			apply(t, lost, "new")
			if got, _ := get(t, lost, user("k")); got != "new" {
				t.Fatalf("k is %s before the crash", got)
			}
			server.Crash(0)
			shown, err := use(lost)
			if !errors.Is(err, actorstore.ErrPoisoned) || !errors.Is(err, kv.ErrUnknownOutcome) || shown != "" {
				t.Errorf("the actor whose commit is lost shows %q, %v; want %v, %v", shown, err, actorstore.ErrPoisoned, kv.ErrUnknownOutcome)
			}
			if err := lost.Sync(ctx); !errors.Is(err, actorstore.ErrPoisoned) || !errors.Is(err, kv.ErrUnknownOutcome) {
				t.Errorf("then Sync: %v", err)
			}
			shown, err = use(idle)
			if err != nil || shown != "" && shown != "synced" {
				t.Errorf("the actor that has lost nothing shows %q, %v", shown, err)
			}
			must(t, idle.Sync(ctx))
			must(t, idle.Commit(ctx, putBatch("later")))
			must(t, lost.Close())
			again := openActor(t, store)
			if got, _ := get(t, again, user("k")); got != "old" {
				t.Errorf("k is %s after the crash", got)
			}
		})
		inBubble(t, name+", all is there", func(t *testing.T) {
			server := newServer()
			store := openStore(t, server, batch.Limits{})
			a := openActor(t, store)
			must(t, a.Commit(ctx, putBatch("old")))
			apply(t, a, "new")
			server.Crash(1)
			if shown, err := use(a); err != nil || shown != "" && shown != "new" {
				t.Errorf("shows %q, %v", shown, err)
			}
			must(t, a.Sync(ctx))
			server.Crash(0)
			if got, _ := get(t, a, user("k")); got != "new" && got != "next" {
				t.Errorf("k is %s after another crash", got)
			}
		})
	}
}

// TestServerReplaced: a server that takes over may know less than what was on stable
// storage. No handle reads, writes or answers from what is lost, whatever that is: a
// commit, the claim, the lease. An actor that is opened anew has some earlier state, whole.
func TestServerReplaced(t *testing.T) {
	for name, use := range uses {
		for lost := 1; lost <= 6; lost++ {
			inBubble(t, fmt.Sprint(name, lost), func(t *testing.T) {
				server := newServer()
				store := openStore(t, server, batch.Limits{})
				a := openActor(t, store)
				for i := range 4 {
					must(t, a.Commit(ctx, putBatch(strconv.Itoa(i))))
				}
				server.Failover(lost)
				if shown, err := use(a); err == nil || shown != "" {
					t.Errorf("shows %q, %v", shown, err)
				}
				if err := a.Commit(ctx, putBatch("next")); err == nil {
					t.Error("a commit landed")
				}
				must(t, a.Close())
				again := openActor(t, store)
				want := ""
				if lost < 4 {
					want = strconv.Itoa(3 - lost)
				}
				if got, _ := get(t, again, user("k")); got != want {
					t.Errorf("k is %q, want %q", got, want)
				}
				must(t, again.Commit(ctx, putBatch("next")))
			})
		}
	}
}

// TestServerReplacedUnasked: a handle that isn't asked for anything is told what it has lost
// when the lease is renewed; one that has lost nothing stays.
func TestServerReplacedUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		engine := faultkv.New(server)
		store := openStore(t, engine, batch.Limits{})
		idle, err := store.Named(ctx, "idle", nil)
		must(t, err)
		defer idle.Close()
		must(t, idle.Commit(ctx, putBatch("old")))
		lost := openActor(t, store)
		must(t, lost.Commit(ctx, putBatch("old")))
		must(t, lost.Commit(ctx, putBatch("new")))
		server.Failover(1)
		time.Sleep(time.Hour) // longer than a lease lasts
		synctest.Wait()
		if err := lost.Err(); !errors.Is(err, actorstore.ErrPoisoned) || !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Errorf("the actor whose commit is lost: %v", err)
		}
		must(t, idle.Err())
		engine.Reset()
		must(t, idle.Sync(ctx))
		if c := engine.Counts(); c != (faultkv.Counts{}) {
			t.Errorf("the other one asks again what the server has: %+v", c)
		}
	})
}

// TestServerCrashesLongLease: how long a lease lasts has no say in how long an actor can't
// be opened after the server came back.
func TestServerCrashesLongLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		store, err := actorstore.Open(ctx, server, &actorstore.Options{Host: actorstore.HostOptions{TTL: layout.MaxTTL}})
		must(t, err)
		defer store.Close()
		a := openActor(t, store)
		must(t, a.Commit(ctx, putBatch("old")))
		must(t, a.Close())
		server.Crash(1)
		begin := time.Now()
		a = openActor(t, store)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if got, _ := get(t, a, user("k")); got != "old" {
			t.Errorf("k is %s after the crash", got)
		}
		must(t, a.Close())
	})
}

// TestApplyIn: what follows from an incarnation isn't stored in another one, which the handle
// survives.
func TestApplyIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		a := openActor(t, openStore(t, server, batch.Limits{}))
		in := server.Incarnation()
		must(t, a.ApplyIn(ctx, putBatch("old"), in))
		must(t, a.Sync(ctx))
		server.Crash(0)
		b := putBatch("new")
		aborted := false
		b.OnAbort(func(error) { aborted = true })
		if err := a.ApplyIn(ctx, b, in); !errors.Is(err, kv.ErrIncarnation) {
			t.Errorf("ApplyIn: got %v, want %v", err, kv.ErrIncarnation)
		}
		if !aborted {
			t.Error("the batch isn't aborted")
		}
		if got, _ := get(t, a, user("k")); got != "old" {
			t.Errorf("k is %s", got)
		}
		must(t, a.ApplyIn(ctx, putBatch("newer"), server.Incarnation()))
		must(t, a.Sync(ctx))
	})
}

// TestServerCrashesSnapshot: nor does a Snapshot answer from memory that is still open when
// its handle was closed before the crash.
func TestServerCrashesSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		a := openActor(t, openStore(t, server, batch.Limits{}))
		apply(t, a, "new")
		s, err := a.PageSnapshot(ctx)
		must(t, err)
		must(t, a.Close())
		if v, err := s.Get(ctx, user("k"), nil); string(v) != "new" || err != nil {
			t.Errorf("before the crash: %q, %v", v, err)
		}
		server.Crash(0)
		if v, err := s.Get(ctx, user("k"), nil); !errors.Is(err, kv.ErrUnknownOutcome) || len(v) != 0 {
			t.Errorf("after it: %q, %v", v, err)
		}
		must(t, s.Close())
	})
}

// TestServerCrashesModel: whatever crashes between what, what a Sync or a durable commit has
// acknowledged is there, and no read shows what isn't.
func TestServerCrashesModel(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { crashModel(t, seed) })
	}
}

func crashModel(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 5))
	server := newServer()
	store := openStore(t, server, batch.Limits{})
	var a *actorstore.Actor
	applied, durable := 0, 0 // the highest values
	check := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err != nil {
			must(t, a.Close())
			a = nil
		}
	}
	for range 60 {
		if a == nil {
			a = openActor(t, store)
			v, _ := get(t, a, user("k"))
			n, _ := strconv.Atoi(v)
			if n < durable || n > applied {
				t.Fatalf("seed %d: %d is stored, %d was acknowledged and %d applied", seed, n, durable, applied)
			}
			applied = n
		}
		switch rnd.IntN(6) {
		case 0, 1:
			err := a.Apply(ctx, putBatch(fmt.Sprint(applied+1)))
			if err == nil {
				applied++
			}
			check(err)
		case 2:
			err := a.Commit(ctx, putBatch(fmt.Sprint(applied+1)))
			if err == nil {
				applied++
				durable = applied
			}
			check(err)
		case 3:
			err := a.Sync(ctx)
			if err == nil {
				durable = applied
			}
			check(err)
		case 4:
			v, err := a.Get(ctx, user("k"), nil)
			if errors.Is(err, actorstore.ErrNotFound) && applied == 0 {
				err = nil
			}
			if n, _ := strconv.Atoi(string(v)); err == nil && n != applied {
				t.Fatalf("seed %d: k is %d, not %d", seed, n, applied)
			}
			check(err)
		case 5:
			server.Crash(rnd.IntN(server.Unsynced() + 1))
		}
	}
}

// TestLeaseOfServer: a lease that a server has lost with its last renewal counts no more,
// since others count from the renewal before that.
func TestLeaseOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		m, other := boot(t, server, actorstore.HostOptions{}), boot(t, server, actorstore.HostOptions{})
		a := m.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("old")))
		taken := make(chan *actorstore.Actor, 1)
		go func() {
			b, err := other.Actor(ctx, testID, &actorstore.ActorOptions{Wait: true})
			if err != nil {
				t.Error(err)
			}
			taken <- b
		}()
		// The other host sees the lease, which is renewed once more.
		time.Sleep(leaseTTL/3 - time.Millisecond)
		renewed := m.hostInfo().Expires
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if !m.hostInfo().Expires.After(renewed) {
			t.Fatal("the lease was not renewed")
		}
		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever})
		server.Failover(1)
		b := <-taken
		must(t, b.Put(ctx, user("k"), []byte("new")))
		if v, err := a.Get(ctx, user("k"), nil); err == nil {
			t.Errorf("an owner that was replaced answers %q", v)
		}
		must(t, b.Close())
	})
}

// TestReleaseLost: what a host has closed others may open, also where a server that took over
// still believes that it is open: by its last handle, or by the one before.
func TestReleaseLost(t *testing.T) {
	for _, again := range []bool{false, true} { // whether the host has lived through a failover before
		lost := 0
		for n := range 7 {
			synctest.Test(t, func(t *testing.T) {
				server := newServer()
				one, other := boot(t, server, actorstore.HostOptions{}), boot(t, server, actorstore.HostOptions{})
				use := func() {
					for range 2 {
						a := one.take(t, nil)
						must(t, a.Put(ctx, user("k"), nil))
						must(t, a.Close())
					}
				}
				if again {
					use()
					server.Failover(0)
					time.Sleep(leaseTTL + leaseTTL/7) // not when leases are renewed
				}
				use()
				server.Failover(n)
				a, err := other.Actor(ctx, testID, nil)
				if errors.Is(err, actorstore.ErrInUse) {
					lost++
					time.Sleep(leaseTTL / 3)
					synctest.Wait()
					a, err = other.Actor(ctx, testID, nil)
				}
				must(t, err)
				must(t, a.Close())
			})
		}
		if lost != 4 { // all but where nothing was lost, or just the claim too
			t.Errorf("%d releases were lost", lost)
		}
	}
}

// TestLeaseLostWithCommits: where a server has lost the lease as well, and a handle is fenced
// for that, Sync still says that what was applied may be lost.
func TestLeaseLostWithCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		a := boot(t, server, actorstore.HostOptions{}).take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("old")))
		apply(t, a, "new")
		server.Failover(1 << 30)
		<-a.Done()
		if err := a.Sync(ctx); !errors.Is(err, actorstore.ErrFenced) || !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Errorf("Sync: got %v, want %v and %v", err, actorstore.ErrFenced, kv.ErrUnknownOutcome)
		}
	})
}

// TestLandedBehindSurvey: the process stands still between a commit, which the server then
// loses, and its OnApply, in which the handle notes it: so it is looked for again.
func TestLandedBehindSurvey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		engine := faultkv.New(server)
		a := openActor(t, openStore(t, engine, batch.Limits{}))
		must(t, a.Commit(ctx, putBatch("old")))
		pause := engine.Pause(faultkv.Rule{Point: faultkv.AfterApply})
		done := make(chan error, 1)
		go func() { done <- a.Commit(ctx, putBatch("new")) }()
		synctest.Wait()
		server.Failover(1)
		time.Sleep(time.Hour) // the lease is renewed
		pause.Release()
		must(t, <-done)
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := a.Err(); !errors.Is(err, actorstore.ErrPoisoned) || !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Errorf("the actor whose commit is lost: %v", err)
		}
	})
}
