package lease_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/lease"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var ctx = context.Background()

const ttl = 9 * time.Second

// must fails the test if err is not nil.
var must = testkit.Must

// A handle is one that does nothing but note why it was fenced.
type handle struct{ fenced chan error }

func (h handle) Fence(cause error)                      { h.fenced <- cause }
func (h handle) Survey(context.Context, kv.Incarnation) {}

// join returns a seat of a new host on eng, which leaves its lease when the test ends.
func join(t testing.TB, eng kv.Engine, id layout.ID) (*lease.Hosts, *lease.Seat, handle) {
	t.Helper()
	g := lease.New(lease.Config{
		TTL: ttl, MaxClockSkew: time.Minute, Engine: eng,
		Now:   func() int64 { return time.Now().UnixMilli() },
		Check: func() error { return nil },
		Yield: func(context.Context, layout.ID) (lease.Index, error) { return lease.Index{}, nil },
	})
	h := handle{make(chan error, 1)}
	s, err := g.Join(ctx, id, h)
	must(t, err)
	t.Cleanup(func() { must(t, g.Close()) })
	return g, s, h
}

// nonce returns one that no other handle has.
func nonce() (n [8]byte) {
	rand.Read(n[:])
	return n
}

// claim commits the owner row of a seat.
func claim(eng kv.Engine, s *lease.Seat) error {
	err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{s.Claim(nonce())}})
	s.Claimed(err)
	return err
}

// TestRenewalUnknown: a renewal of unknown outcome counts for nothing, landed
// or not, and the next one finds out.
func TestRenewalUnknown(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply} {
		synctest.Test(t, func(t *testing.T) {
			eng := faultkv.New(memkv.New())
			_, s, h := join(t, eng, layout.ID{Label: 1})
			before := s.Begun()
			f := eng.Fail(faultkv.Rule{Point: point, Err: kv.ErrUnknownOutcome})
			time.Sleep(ttl / 3)
			synctest.Wait()
			if f.Hits() != 1 || s.Begun() != before {
				t.Errorf("%d renewals failed, and the lease is a new one: %v", f.Hits(), s.Begun() != before)
			}
			time.Sleep(ttl / 24)
			synctest.Wait()
			if s.Begun() == before || !s.Valid() {
				t.Error("the lease was not renewed after that")
			}
			if len(h.fenced) > 0 {
				t.Errorf("the lease is lost: %v", <-h.fenced)
			}
			s.Leave(lease.Index{}, true)
		})
	}
}

// TestLeave: a seat that was left leaves nothing behind, neither in memory nor in the engine, also if
// its owner row can't be removed at once, if it isn't known whether that was written, and if the actor was dropped.
func TestLeave(t *testing.T) {
	for name, tt := range map[string]struct {
		claim, leave *faultkv.Rule
		dropped      bool
	}{
		"at once":         {},
		"later":           {leave: &faultkv.Rule{Point: faultkv.BeforeCommit}},
		"perhaps written": {claim: &faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome}},
		"refused":         {claim: &faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrConflict}},
		"dropped":         {dropped: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				eng := faultkv.New(memkv.New())
				id := layout.ID{Label: 1}
				key := layout.RecordKey(id, layout.PartOwner)
				_, s, _ := join(t, eng, id)
				if tt.claim != nil {
					eng.Fail(*tt.claim)
				}
				if err := claim(eng, s); (err != nil) != (tt.claim != nil) {
					t.Errorf("the claim: %v", err)
				}
				if tt.dropped {
					must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(key)}}))
					s.Dropped(eng.Incarnation())
				}
				if tt.leave != nil {
					eng.Fail(*tt.leave)
				}
				eng.Reset()
				s.Leave(lease.Index{}, true)
				if n := eng.Counts().Commits; tt.dropped && n != 0 {
					t.Errorf("%d commits remove the row of an actor that is gone", n)
				}
				time.Sleep(ttl / 2)
				synctest.Wait()
				if _, err := eng.Get(ctx, key, nil); !errors.Is(err, kv.ErrNotFound) {
					t.Errorf("the owner row: %v, want %v", err, kv.ErrNotFound)
				}
				if handles, unclaimed := s.Open(); handles != 0 || unclaimed != 0 {
					t.Errorf("left are %d handles and %d rows", handles, unclaimed)
				}
			})
		})
	}
}

// TestDroppedAgain: a server that takes over without the commit that dropped an actor has the owner row still, which is removed then.
func TestDroppedAgain(t *testing.T) {
	for _, early := range []bool{false, true} { // the server fails before the seat is left
		synctest.Test(t, func(t *testing.T) {
			server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
			id := layout.ID{Label: 1}
			key := layout.RecordKey(id, layout.PartOwner)
			_, s, _ := join(t, server, id)
			must(t, claim(server, s))
			in := server.Incarnation()
			must(t, server.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(key)}, Durability: kv.Durable}))
			if early {
				server.Failover(1)
				time.Sleep(ttl / 2) // renewals find out
				synctest.Wait()
			}
			s.Dropped(in)
			s.Leave(lease.Index{}, true)
			if !early {
				server.Failover(1)
			}
			if _, err := server.Get(ctx, key, nil); err != nil {
				t.Fatalf("the owner row isn't there again: %v", err)
			}
			time.Sleep(ttl / 2)
			synctest.Wait()
			if _, err := server.Get(ctx, key, nil); !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("early %v: the owner row: %v, want %v", early, err, kv.ErrNotFound)
			}
			if handles, unclaimed := s.Open(); handles != 0 || unclaimed != 0 {
				t.Errorf("left are %d handles and %d rows", handles, unclaimed)
			}
		})
	}
}

// TestAlive: a host is alive until it ends, or until its row was the same for a TTL and a tenth.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, _, _ := join(t, below, layout.ID{Label: 1})
		eng := faultkv.New(below)
		two, _, _ := join(t, eng, layout.ID{Label: 2})
		for _, step := range []struct {
			pass  time.Duration
			alive bool
		}{{0, true}, {10 * ttl, true}, {ttl + ttl/10, true}, {time.Millisecond, false}} {
			time.Sleep(step.pass)
			synctest.Wait() // a renewal may be due at this moment
			if step.pass == 10*ttl {
				eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever})
			}
			if got, err := one.Alive(ctx, two.Own()); got != step.alive || err != nil {
				t.Errorf("after %v more: got %v, %v, want %v", step.pass, got, err, step.alive)
			}
		}
		eng.Heal()
		time.Sleep(ttl)
		must(t, two.Close())
		if got, err := one.Alive(ctx, two.Own()); got || err != nil {
			t.Errorf("a host that has ended: got %v, %v", got, err)
		}
	})
}

// TestLeaveTwice: the owner row of a seat that couldn't be removed is removed later, also if the actor was opened again
// meanwhile, and the new claim was refused, may have landed, or lands late; and if it is open once more then, without a claim.
func TestLeaveTwice(t *testing.T) {
	fault := func(point faultkv.Point, err error) func(*faultkv.Engine, *lease.Seat) *kv.Commit {
		return func(eng *faultkv.Engine, s *lease.Seat) *kv.Commit {
			eng.Fail(faultkv.Rule{Point: point, Err: err})
			_ = claim(eng, s)
			return nil
		}
	}
	for name, again := range map[string]func(*faultkv.Engine, *lease.Seat) (late *kv.Commit){
		"refused":        fault(faultkv.BeforeCommit, kv.ErrNotApplied),
		"perhaps landed": fault(faultkv.AfterApply, kv.ErrUnknownOutcome),
		"late": func(_ *faultkv.Engine, s *lease.Seat) *kv.Commit {
			c := &kv.Commit{Ops: []kv.Op{s.Claim(nonce())}}
			s.Claimed(kv.ErrUnknownOutcome)
			return c
		},
		"not claimed": func(*faultkv.Engine, *lease.Seat) *kv.Commit { return nil },
	} {
		for _, open := range []time.Duration{0, 2 * ttl} { // the third seat
			t.Run(fmt.Sprint(name, open), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					eng := faultkv.New(memkv.New())
					id := layout.ID{Label: 1}
					g, first, h := join(t, eng, id)
					must(t, claim(eng, first))
					eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrNotApplied})
					first.Leave(lease.Index{}, true)
					second, err := g.Join(ctx, id, h)
					must(t, err)
					late := again(eng, second)
					eng.Heal()
					second.Leave(lease.Index{}, true)
					if open > 0 {
						third, err := g.Join(ctx, id, h)
						must(t, err)
						time.Sleep(open)
						third.Leave(lease.Index{}, true)
					}
					if late != nil {
						time.Sleep(ttl / 2) // some renewals look for it
						must(t, eng.Commit(ctx, late))
					}
					time.Sleep(2 * ttl)
					synctest.Wait()
					if _, err := eng.Get(ctx, layout.RecordKey(id, layout.PartOwner), nil); !errors.Is(err, kv.ErrNotFound) {
						t.Errorf("the owner row: %v, want %v", err, kv.ErrNotFound)
					}
					if handles, unclaimed := first.Open(); handles != 0 || unclaimed != 0 {
						t.Errorf("left are %d handles and %d rows", handles, unclaimed)
					}
				})
			})
		}
	}
}
