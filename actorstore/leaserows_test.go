package actorstore_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestOnlyLooking: a Store that owns nothing has no lease, and a Store that only reads writes
// nothing.
func TestOnlyLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one := boot(t, below, actorstore.HostOptions{})
		must(t, one.take(t, nil).Put(ctx, user("k"), []byte("v")))
		eng := faultkv.New(engines.Shared(below))
		for _, readOnly := range []bool{false, true} {
			s, err := actorstore.Open(ctx, eng, &actorstore.Options{ReadOnly: readOnly})
			must(t, err)
			v, err := s.View(ctx, testID)
			must(t, err)
			if got, _ := get(t, v, user("k")); got != "v" {
				t.Errorf("got %q", got)
			}
			must(t, second(s.Owner(ctx, testID)))
			if got := hostRows(t, s); len(got) != 1 {
				t.Errorf("the hosts are %q", got)
			}
			time.Sleep(10 * leaseTTL)
			must(t, errors.Join(v.Close(), s.Close()))
		}
		if n := eng.Counts().Commits; n != 0 {
			t.Errorf("%d commits", n)
		}
	})
}

// TestLeaseOfOneProcess: where one process has the engine there are neither leases nor
// owners.
func TestLeaseOfOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := memkv.New()
		s := openStore(t, eng, smallForks)
		must(t, openActor(t, s).Put(ctx, user("k"), nil))
		time.Sleep(time.Hour)
		for e, err := range eng.Scan(ctx, kv.Range{}) {
			must(t, err)
			_, part, ok := layout.ParseRecordKey(e.Key)
			if ok && part == layout.PartOwner || bytes.HasPrefix(e.Key, layout.AppendRows(nil, layout.KindHost)) {
				t.Errorf("there is a row %x", e.Key)
			}
		}
		if h, err := s.Owner(ctx, testID); !h.ID.IsZero() || err != nil {
			t.Errorf("the owner is %+v, %v", h, err)
		}
	})
}

// TestDropOfHost: an actor that is dropped has no owner, and can be begun anew elsewhere.
func TestDropOfHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a, err := one.Named(ctx, "n", nil)
		must(t, err)
		must(t, a.Put(ctx, user("k"), nil))
		id := a.ID()
		must(t, a.Drop(ctx))
		for _, part := range []int64{layout.PartHead, layout.PartOwner, layout.PartName} {
			if left, err := below.Get(ctx, layout.RecordKey(layout.ID(id), part), nil); !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("part %d of its record is %x, %v", part, left, err)
			}
		}
		a, err = two.Named(ctx, "n", nil)
		must(t, err)
		must(t, a.Put(ctx, user("k"), nil))
		must(t, a.Close())
	})
}

// TestForkOfHost: a fork has no owner when it is made, and to its maker meanwhile.
func TestForkOfHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a := one.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("v")))
		snap, err := a.Snapshot(ctx)
		must(t, err)
		to := actorstore.NewID()
		_, err = one.Fork(ctx, snap, &actorstore.ForkOptions{ID: to, Progress: func(int64) {
			if err := second(two.Actor(ctx, to, nil)); !errors.Is(err, actorstore.ErrInUse) {
				t.Errorf("meanwhile: got %v, want %v", err, actorstore.ErrInUse)
			}
		}})
		must(t, errors.Join(err, snap.Close()))
		b, err := two.Actor(ctx, to, &actorstore.ActorOptions{MustExist: true})
		must(t, err)
		must(t, b.Put(ctx, user("k"), nil))
		must(t, b.Close())
	})
}

// TestUnclaim: what Close can't tell the engine now is told with a renewal, and a claim
// of unknown outcome doesn't lock others out.
func TestUnclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a := one.take(t, nil)
		key := layout.RecordKey(layout.ID(testID), layout.PartOwner)
		touches := func(op faultkv.Op) bool {
			return slices.ContainsFunc(op.Commit.Ops, func(o kv.Op) bool { return bytes.Equal(o.Key, key) })
		}
		one.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Match: touches})
		must(t, a.Close())
		two.take2(t)
		time.Sleep(leaseTTL / 3)
		synctest.Wait()
		a = two.take(t, nil)
		must(t, a.Close())
		one.eng.Fail(faultkv.Rule{Point: faultkv.AfterApply, Match: touches, Err: kv.ErrUnknownOutcome})
		if err := second(one.Actor(ctx, testID, nil)); !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Errorf("got %v, want %v", err, kv.ErrUnknownOutcome)
		}
		two.take2(t)
		time.Sleep(leaseTTL / 3)
		synctest.Wait()
		two.take(t, nil)
		one.onlyRenews(t)
	})
}

// onlyRenews: the host neither looks for a row of an owner nor removes one.
func (m *machine) onlyRenews(t testing.TB) {
	t.Helper()
	m.eng.Reset()
	pass(leaseTTL)
	synctest.Wait()
	if c := m.eng.Counts(); c.Gets != 0 || c.Scans != 0 || c.Commits != 3 {
		t.Errorf("in a TTL there are %d gets, %d scans and %d commits, want 3 renewals", c.Gets, c.Scans, c.Commits)
	}
}

// TestCrashBeforeClaim: a host that died between its own row and the first claim isn't
// in the way of others, and its row is removed in time.
func TestCrashBeforeClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{Name: "one"}), boot(t, below, actorstore.HostOptions{Name: "two"})
		one.eng.Fail(faultkv.Rule{Point: faultkv.BeforeScan})
		if err := second(one.Actor(ctx, testID, nil)); !errors.Is(err, faultkv.ErrInjected) {
			t.Errorf("got %v, want %v", err, faultkv.ErrInjected)
		}
		one.die()
		two.take(t, nil)
		if got := hostRows(t, two.Store); len(got) != 2 {
			t.Errorf("the hosts are %q", got)
		}
		if found := problems(t, two.Store); len(found) > 0 {
			t.Errorf("findings: %v", found)
		}
		time.Sleep(257 * leaseTTL / 3)
		synctest.Wait()
		if got := hostRows(t, two.Store); !slices.Equal(got, []string{"two"}) {
			t.Errorf("the hosts are %q", got)
		}
	})
}

// TestRegistrationFails: the opening fails, and the next one begins anew.
func TestRegistrationFails(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply} {
		synctest.Test(t, func(t *testing.T) {
			m := boot(t, memkv.New(), actorstore.HostOptions{})
			m.eng.Fail(faultkv.Rule{Point: point, Err: kv.ErrUnknownOutcome})
			if err := second(m.Actor(ctx, testID, nil)); !errors.Is(err, kv.ErrUnknownOutcome) {
				t.Errorf("got %v, want %v", err, kv.ErrUnknownOutcome)
			}
			must(t, m.take(t, nil).Owned(ctx))
		})
	}
}

// TestCloseTellsNobody: a Store that can't end its lease says so, and doesn't keep
// others waiting for more than the rest of it.
func TestCloseTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		one.take(t, nil)
		one.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever, Err: errTest})
		if err := one.Close(); !errors.Is(err, errTest) {
			t.Errorf("got %v, want %v", err, errTest)
		}
		two.take(t, waitFor)
	})
}

// TestDamagedHostRows: they are found, and no host takes an actor over on the strength of
// one.
func TestDamagedHostRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		must(t, one.take(t, nil).Put(ctx, user("k"), nil))
		one.die()
		key := layout.HostKey(one.hostID())
		row, err := below.Get(ctx, key, nil)
		must(t, err)
		for _, set := range []kv.Op{kv.Set(layout.RecordKey(layout.ID(testID), layout.PartOwner), []byte("x")), kv.Set(key, []byte("x"))} {
			old, err := below.Get(ctx, set.Key, nil)
			must(t, err)
			must(t, below.Commit(ctx, &kv.Commit{Ops: []kv.Op{set}}))
			if err := second(two.Actor(ctx, testID, waitFor)); !errors.Is(err, actorstore.ErrCorrupt) {
				t.Errorf("got %v, want %v", err, actorstore.ErrCorrupt)
			}
			if err := second(two.Owner(ctx, testID)); !errors.Is(err, actorstore.ErrCorrupt) {
				t.Errorf("got %v, want %v", err, actorstore.ErrCorrupt)
			}
			if found := problems(t, two.Store); len(found) != 1 || found[0].Harmless {
				t.Errorf("findings: %v", found)
			}
			must(t, below.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(set.Key, old)}}))
		}
		must(t, below.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, row), kv.Set(layout.RecordKey(layout.ID(actorstore.NewID()), layout.PartOwner), (&layout.Owner{Host: actorstore.HostID{1}}).Append(nil))}}))
		if found := problems(t, two.Store); len(found) != 1 {
			t.Errorf("findings: %v", found)
		}
		two.take(t, waitFor)
	})
}

// TestUnclaimLate: a claim that lands after its opening was told that this isn't known
// is found, as long as it can be on its way.
func TestUnclaimLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		var late []kv.Op
		one.eng.Hook(func(op faultkv.Op) error {
			if op.Point != faultkv.BeforeCommit || !writes(op.Commit, layout.RecordKey(layout.ID(testID), layout.PartOwner)) {
				return nil
			}
			for _, o := range op.Commit.Ops {
				late = append(late, kv.Set(bytes.Clone(o.Key), bytes.Clone(o.Value)))
			}
			return kv.ErrUnknownOutcome
		})
		if err := second(one.Actor(ctx, testID, nil)); !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Errorf("got %v, want %v", err, kv.ErrUnknownOutcome)
		}
		time.Sleep(leaseTTL / 2) // and it wasn't there
		must(t, below.Commit(ctx, &kv.Commit{Ops: late}))
		two.take2(t)
		time.Sleep(leaseTTL / 3)
		synctest.Wait()
		two.take(t, nil)
		time.Sleep(2 * leaseTTL)
		synctest.Wait()
		one.onlyRenews(t)
	})
}
