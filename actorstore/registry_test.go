package actorstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestRegistryGolden: the rows of a store byte for byte, keys and values. They will not
// change: stores have them.
func TestRegistryGolden(t *testing.T) {
	const (
		own   = "02677265656e726f6f6d00" + "1501"
		idHex = "00112233445566778899aabbccddeeff0007"
	)
	h := layout.Head{Epoch: 1, Seq: 2, Used: 3, Last: kv.CommitID{4, 15: 5}, Created: 6}
	n := layout.Named{ID: layout.ID(testID), Created: 7}
	o := layout.Owner{Host: HostID{8, 15: 9}, Nonce: [8]byte{10, 7: 11}}
	want := [][2]string{
		{own + "14", "0100" + "0c00000000000000"},
		{own + "1501" + "4001" + idHex,
			"0100" + "0100000000000000" + "0200000000000000" + "0300000000000000" + "04000000000000000000000000000005" + "0600000000000000"},
		{own + "1501" + "4001" + idHex + "1501", "6c6fc3a9"},
		{own + "1501" + "4001" + idHex + "1502", "0100" + "08000000000000000000000000000009" + "0a0000000000000b"},
		{own + "1502" + "026c6f00ff00", "0100" + "00112233445566778899aabbccddeeff" + "0700" + "0700000000000000"},
		{own + "1503" + "0108" + strings.Repeat("00ff", 14) + "0900", "ab"},
	}
	eng := memkv.New()
	ops := []kv.Op{
		kv.Set(layout.FormatKey(), layout.AppendFormat(nil, 12)), kv.Set(layout.RecordKey(layout.ID(testID), layout.PartHead), h.Append(nil)),
		kv.Set(layout.RecordKey(layout.ID(testID), layout.PartName), []byte("loé")), kv.Set(layout.RecordKey(layout.ID(testID), layout.PartOwner), o.Append(nil)),
		kv.Set(layout.NameKey("lo\x00"), n.Append(nil)), kv.Set(layout.HostKey(o.Host), []byte{0xab}),
	}
	must(t, eng.Commit(ctx, &kv.Commit{Ops: ops}))
	i := 0
	for e, err := range eng.Scan(ctx, kv.Range{}) {
		must(t, err)
		if k, v := hex.EncodeToString(e.Key), hex.EncodeToString(e.Value); i >= len(want) || k != want[i][0] || v != want[i][1] {
			t.Errorf("row %d is %s %s, want %v", i, k, v, want[min(i, len(want)-1)])
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d rows, want %d", i, len(want))
	}
	// And back, as typed keys.
	got, err := keys.Get(ctx, eng, layout.NameRow{Name: "lo\x00"})
	if got != n || err != nil {
		t.Errorf("got %v, %v, want %v", got, err, n)
	}
	rec, err := loadRecord(ctx, eng, testID)
	if rec.head != h || rec.name != "loé" || hex.EncodeToString(rec.owner) != want[3][1] || err != nil {
		t.Errorf("got %+v, %v", rec, err)
	}
}

// unranged hides that an engine reads several ranges at once, and that all of its users
// are in one process.
type unranged struct{ kv.Engine }

func (u unranged) Snapshot(c context.Context) (kv.Snapshot, error) {
	s, err := u.Engine.Snapshot(c)
	return unrangedSnapshot{s}, err
}

type unrangedSnapshot struct{ kv.Snapshot }

// population is a store of n actors, two thirds of them with names.
func population(t testing.TB, eng kv.Engine, n int) (*Store, []ActorInfo) {
	t.Helper()
	s := openStore(t, eng, batch.Limits{})
	var all []ActorInfo
	for i := range n {
		o := &ActorOptions{}
		switch i % 3 {
		case 0:
			o.Name = fmt.Sprintf("room:%04d", i)
		case 1:
			o.Name = fmt.Sprintf("ro\x00é%d", i)
		}
		a, err := s.Actor(ctx, NewID(), o)
		must(t, err)
		must(t, a.Apply(ctx, put("k", strings.Repeat("v", i%7))))
		must(t, a.Close())
		all = append(all, ActorInfo{ID: a.ID(), Name: o.Name, Used: int64(4 + i%7), Seq: 1, Epoch: 1})
	}
	// One that was never written to, which doesn't exist.
	a, err := s.Actor(ctx, NewID(), &ActorOptions{Name: "room:nobody"})
	must(t, err)
	must(t, a.Close())
	return s, all
}

// selected is what Actors should yield.
func selected(all []ActorInfo, o ActorsOptions) []ActorInfo {
	byName := o.ByName || o.Prefix != ""
	key := func(a ActorInfo) string {
		if byName {
			return a.Name
		}
		return string(layout.RecordKey(layout.ID(a.ID), layout.PartHead))
	}
	slices.SortFunc(all, func(a, b ActorInfo) int { return cmp.Compare(key(a), key(b)) })
	var want []ActorInfo
	for _, a := range all {
		after := byName && o.After.Name != "" && a.Name <= o.After.Name || !byName && !o.After.ID.IsZero() && key(a) <= key(o.After)
		if after || byName && a.Name == "" || !strings.HasPrefix(a.Name, o.Prefix) {
			continue
		}
		if want = append(want, a); len(want) == o.Limit {
			break
		}
	}
	return want
}

// TestActorsOptions: any choice yields what it should, with everything that is known.
func TestActorsOptions(t *testing.T) {
	mem := memkv.New()
	s, all := population(t, mem, 60)
	other := openStore(t, unranged{mem}, batch.Limits{})
	one := openStore(t, faultkv.New(mem), batch.Limits{})
	rapid.Check(t, func(rt *rapid.T) {
		o := ActorsOptions{
			Prefix: rapid.SampledFrom([]string{"", "", "r", "ro", "ro\x00", "ro\x00\xc3", "room:", "room:0003", "room:00033", "zz", "\xff"}).Draw(rt, "prefix"),
			ByName: rapid.Bool().Draw(rt, "by name"),
			Limit:  rapid.IntRange(0, 70).Draw(rt, "limit"),
		}
		switch rapid.IntRange(0, 3).Draw(rt, "after") {
		case 0:
			o.After = rapid.SampledFrom(all).Draw(rt, "who")
		case 1:
			o.After = ActorInfo{ID: NewID(), Name: rapid.SampledFrom([]string{"a", "ro", "room:0005", "z"}).Draw(rt, "name")}
		}
		want := selected(slices.Clone(all), o)
		for name, s := range map[string]*Store{"one by one": other, "in ranges": one, "memkv": s} {
			var got []ActorInfo
			for info, err := range s.Actors(ctx, &o) {
				must(t, err)
				if !info.Created.Equal(clock()) {
					rt.Errorf("created %v", info.Created)
				}
				info.Created = ActorInfo{}.Created
				got = append(got, info)
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("%s, %+v: got %v, want %v", name, o, got, want)
			}
		}
	})
}

// TestActorsReads: a listing costs scans by the page, and none for each actor.
func TestActorsReads(t *testing.T) {
	mem := memkv.New()
	_, all := population(t, mem, 3*pageNames)
	fault := faultkv.New(mem)
	for name, c := range map[string]struct {
		eng  *faultkv.Engine
		o    ActorsOptions
		n    int
		want faultkv.Counts
	}{
		"by id":         {fault, ActorsOptions{}, len(all), faultkv.Counts{Scans: 3}},
		"a few by id":   {fault, ActorsOptions{Limit: 5}, 5, faultkv.Counts{Scans: 1}},
		"by name":       {fault, ActorsOptions{ByName: true}, 2 * pageNames, faultkv.Counts{Scans: 3 + 2, Snapshots: 3}},
		"a few by name": {fault, ActorsOptions{Prefix: "room:", Limit: 5}, 5, faultkv.Counts{Scans: 2, Snapshots: 1}},
		"none":          {fault, ActorsOptions{Prefix: "zz"}, 0, faultkv.Counts{Scans: 1, Snapshots: 1}},
		"one by one":    {faultkv.New(unranged{mem}), ActorsOptions{Prefix: "room:", Limit: 5}, 5, faultkv.Counts{Scans: 1 + 5, Snapshots: 1}},
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
		"has another name":  kv.Set(layout.RecordKey(layout.ID(IDFromName("n")), layout.PartName), []byte("o")),
		"has no head":       kv.Clear(layout.RecordKey(layout.ID(IDFromName("n")), layout.PartHead)),
		"has a bad head":    kv.Set(layout.RecordKey(layout.ID(IDFromName("n")), layout.PartHead), []byte{1, 0, 1}),
		"has a row":         kv.Set(append(layout.RecordKey(layout.ID(IDFromName("n")), layout.PartHead), 0x15, 0x09), nil),
		"has a strange row": kv.Set(append(layout.RecordKey(layout.ID(IDFromName("n")), layout.PartHead), 0x02, 0x00), nil),
	} {
		mem := memkv.New()
		s := openStore(t, mem, batch.Limits{})
		a, err := s.Named(ctx, "n", nil)
		must(t, err)
		must(t, a.Put(ctx, user("k"), nil))
		must(t, a.Close())
		must(t, mem.Commit(ctx, &kv.Commit{Ops: []kv.Op{op}}))
		for how, s := range map[string]*Store{"one by one": s, "in ranges": openStore(t, faultkv.New(mem), batch.Limits{})} {
			var last error
			for _, err := range s.Actors(ctx, &ActorsOptions{ByName: true}) {
				last = err
			}
			if !errors.Is(last, ErrCorrupt) {
				t.Errorf("%s, %s: got %v, want %v", name, how, last, ErrCorrupt)
			}
		}
	}
}

// TestActorsWhileWriting: the consumer of a listing may write, and close the store.
func TestActorsWhileWriting(t *testing.T) {
	for _, o := range []ActorsOptions{{}, {ByName: true}} {
		s, all := population(t, memkv.New(), 2*pageRows)
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
			if last = err; !errors.Is(err, ErrClosed) {
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
	for _, o := range []ActorsOptions{{}, {ByName: true}} {
		n := 0
		for info, err := range s.Actors(ctx, &o) {
			must(t, err)
			want := HostID{}
			if info.Name == "open" {
				want = s.hostID()
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
