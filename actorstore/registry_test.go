package actorstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// unranged hides that an engine reads several ranges at once, and that all of its users
// are in one process.
type unranged struct{ kv.Engine }

func (u unranged) Snapshot(c context.Context) (kv.Snapshot, error) {
	s, err := u.Engine.Snapshot(c)
	return unrangedSnapshot{s}, err
}

type unrangedSnapshot struct{ kv.Snapshot }

// population is a store of n actors, two thirds of them with names.
func population(t testing.TB, eng kv.Engine, n int) (*actorstore.Store, []actorstore.ActorInfo) {
	t.Helper()
	s := openStore(t, eng, batch.Limits{})
	var all []actorstore.ActorInfo
	for i := range n {
		o := &actorstore.ActorOptions{}
		switch i % 3 {
		case 0:
			o.Name = fmt.Sprintf("room:%04d", i)
		case 1:
			o.Name = fmt.Sprintf("ro\x00é%d", i)
		}
		a, err := s.Actor(ctx, actorstore.NewID(), o)
		must(t, err)
		must(t, a.Apply(ctx, put("k", strings.Repeat("v", i%7))))
		must(t, a.Close())
		all = append(all, actorstore.ActorInfo{ID: a.ID(), Name: o.Name, Used: int64(4 + i%7), Seq: 1, Epoch: 1})
	}
	// One that was never written to, which doesn't exist.
	a, err := s.Actor(ctx, actorstore.NewID(), &actorstore.ActorOptions{Name: "room:nobody"})
	must(t, err)
	must(t, a.Close())
	return s, all
}

// TestActorsReads: a listing costs scans by the page, and none for each actor.
func TestActorsReads(t *testing.T) {
	mem := memkv.New()
	_, all := population(t, mem, 3*actorstore.PageNames)
	fault := faultkv.New(mem)
	for name, c := range map[string]struct {
		eng  *faultkv.Engine
		o    actorstore.ActorsOptions
		n    int
		want faultkv.Counts
	}{
		"by id":         {fault, actorstore.ActorsOptions{}, len(all), faultkv.Counts{Scans: 3}},
		"a few by id":   {fault, actorstore.ActorsOptions{Limit: 5}, 5, faultkv.Counts{Scans: 1}},
		"by name":       {fault, actorstore.ActorsOptions{Order: actorstore.OrderName}, 2 * actorstore.PageNames, faultkv.Counts{Scans: 3 + 2, Snapshots: 3}},
		"a few by name": {fault, actorstore.ActorsOptions{Prefix: "room:", Limit: 5}, 5, faultkv.Counts{Scans: 2, Snapshots: 1}},
		"none":          {fault, actorstore.ActorsOptions{Prefix: "zz"}, 0, faultkv.Counts{Scans: 1, Snapshots: 1}},
		"one by one":    {faultkv.New(unranged{mem}), actorstore.ActorsOptions{Prefix: "room:", Limit: 5}, 5, faultkv.Counts{Scans: 1 + 5, Snapshots: 1}},
	} {
		s := openStore(t, c.eng, batch.Limits{})
		c.eng.Reset()
		n := 0
		for _, err := range s.Actors(ctx, &c.o) {
			must(t, err)
			n++
		}
		if got := c.eng.Counts(); n != c.n || got != c.want {
			t.Errorf("%s: %d actors with %+v, want %d with %+v", name, n, got, c.n, c.want)
		}
	}
}

// TestActorsByNameDamaged: what names lead to must be there and say the same.
func TestActorsByNameDamaged(t *testing.T) {
	for name, op := range map[string]kv.Op{
		"leads to nobody":   kv.Set(layout.NameKey("m"), (&layout.Named{ID: layout.ID(testID)}).Append(nil)),
		"can't be read":     kv.Set(layout.NameKey("m"), []byte{1}),
		"is no name":        kv.Set(append(layout.NameKey("m"), 0x14), nil),
		"has another name":  kv.Set(layout.RecordKey(layout.ID(actorstore.IDFromName("n")), layout.PartName), []byte("o")),
		"has no head":       kv.Clear(layout.RecordKey(layout.ID(actorstore.IDFromName("n")), layout.PartHead)),
		"has a bad head":    kv.Set(layout.RecordKey(layout.ID(actorstore.IDFromName("n")), layout.PartHead), []byte{1, 0, 1}),
		"has a row":         kv.Set(append(layout.RecordKey(layout.ID(actorstore.IDFromName("n")), layout.PartHead), 0x15, 0x09), nil),
		"has a strange row": kv.Set(append(layout.RecordKey(layout.ID(actorstore.IDFromName("n")), layout.PartHead), 0x02, 0x00), nil),
	} {
		mem := memkv.New()
		s := openStore(t, mem, batch.Limits{})
		a, err := s.Named(ctx, "n", nil)
		must(t, err)
		must(t, a.Put(ctx, user("k"), nil))
		must(t, a.Close())
		must(t, mem.Commit(ctx, &kv.Commit{Ops: []kv.Op{op}}))
		for how, s := range map[string]*actorstore.Store{"one by one": s, "in ranges": openStore(t, faultkv.New(mem), batch.Limits{})} {
			var first error
			for _, err := range s.Actors(ctx, &actorstore.ActorsOptions{Order: actorstore.OrderName}) {
				first = cmp.Or(first, err)
			}
			if !errors.Is(first, actorstore.ErrCorrupt) {
				t.Errorf("%s, %s: got %v, want %v", name, how, first, actorstore.ErrCorrupt)
			}
		}
	}
}

// TestActorsWhileWriting: the consumer of a listing may write, and close the store.
func TestActorsWhileWriting(t *testing.T) {
	for _, o := range []actorstore.ActorsOptions{{}, {Order: actorstore.OrderName}} {
		s, all := population(t, memkv.New(), 2*actorstore.PageRows)
		n := 0
		var last error
		for info, err := range s.Actors(ctx, &o) {
			if err != nil {
				last = err
				break
			}
			a, err := s.Actor(ctx, info.ID, nil)
			must(t, err)
			must(t, a.Drop(ctx))
			must(t, a.Close())
			if n++; n == len(all)/4 {
				must(t, s.Close())
				break
			}
		}
		if n != len(all)/4 || last != nil {
			t.Errorf("%+v: %d of %d, %v", o, n, len(all), last)
		}
		for _, err := range s.Actors(ctx, &o) {
			if last = err; !errors.Is(err, actorstore.ErrClosed) {
				t.Errorf("closed: got %v", err)
			}
		}
		if last == nil {
			t.Error("closed: got nothing")
		}
	}
}

// TestActorsOwner: a listing says which host has an actor, in either order.
func TestActorsOwner(t *testing.T) {
	s := openStore(t, unranged{memkv.New()}, batch.Limits{})
	for _, name := range []string{"open", "closed"} {
		a, err := s.Named(ctx, name, nil)
		must(t, err)
		must(t, a.Put(ctx, user("k"), nil))
		if name == "closed" {
			must(t, a.Close())
		}
	}
	var host actorstore.HostID
	for h, err := range s.Hosts(ctx) {
		must(t, err)
		host = h.ID
	}
	for _, o := range []actorstore.ActorsOptions{{}, {Order: actorstore.OrderName}} {
		n := 0
		for info, err := range s.Actors(ctx, &o) {
			must(t, err)
			want := actorstore.HostID{}
			if info.Name == "open" {
				want = host
			}
			if n++; info.Host != want || info.Name == "open" && want.IsZero() {
				t.Errorf("%+v: %s is had by %v, want %v", o, info.Name, info.Host, want)
			}
		}
		if n != 2 {
			t.Errorf("%+v: %d actors, want 2", o, n)
		}
	}
}
