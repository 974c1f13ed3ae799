package actorstore_test

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// states are those of workflows in tests; "" stands for no workflow.
var states = []string{"", "running", "sleeping", "failed"}

// drawAttributes draws what an actor is found by.
func drawAttributes(t *rapid.T) (at actorstore.Attributes) {
	if at.Workflow = rapid.SampledFrom(states).Draw(t, "state"); at.Workflow != "" {
		at.Since = clock().Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "since")) * time.Second)
		at.Stuck = at.Workflow == "sleeping" && rapid.Bool().Draw(t, "stuck")
	}
	at.Schema = uint64(rapid.IntRange(0, 3).Draw(t, "schema"))
	if s := rapid.IntRange(0, 4).Draw(t, "slept"); s > 0 {
		at.Slept = clock().Add(time.Duration(s) * time.Minute)
	}
	for _, key := range []string{"customer", "über\x00"} {
		if n := rapid.IntRange(0, 3).Draw(t, key); n > 0 {
			if at.Labels == nil {
				at.Labels = map[string]string{}
			}
			at.Labels[key] = []string{"", "42", "4\x00", "7"}[n]
		}
	}
	return at
}

// stage puts attributes in the place of those that an actor has.
func stage(a *actorstore.Actor, b *batch.Batch, to actorstore.Attributes) {
	a.StageAttributes(b, func(at *actorstore.Attributes) error {
		*at = to
		return nil
	})
}

// crowd is a store of actors with attributes that rt draws, and what Actors should say of them.
func crowd(t testing.TB, rt *rapid.T, eng kv.Engine, n int) (*actorstore.Store, []actorstore.ActorInfo) {
	t.Helper()
	s, all := population(t, eng, n)
	for i := range all {
		info := &all[i]
		a, err := s.Actor(ctx, info.ID, nil)
		must(t, err)
		at := drawAttributes(rt)
		var b batch.Batch
		stage(a, &b, at)
		if ms := rapid.IntRange(0, 3).Draw(rt, "wake"); ms > 0 {
			info.Wake.At = clock().Add(time.Duration(ms) * time.Hour)
			must(t, a.SetWake(ctx, info.Wake))
		}
		must(t, a.Apply(ctx, &b))
		if got := a.Attributes(); !got.Equal(&at) {
			t.Fatalf("the handle says %+v, want %+v", got, at)
		}
		info.Attributes, info.Seq, info.Epoch = a.Attributes(), a.Seq(), 2
		must(t, a.Close())
	}
	return s, all
}

// selected is what Actors should yield, in order.
func selected(all []actorstore.ActorInfo, o *actorstore.ActorsOptions) (want []actorstore.ActorInfo) {
	for _, a := range all {
		at := a.Attributes
		ok := strings.HasPrefix(a.Name, o.Prefix) && (o.Workflow == nil || slices.Contains(o.Workflow, at.Workflow)) && (at.Stuck || !o.Stuck)
		for key, value := range o.Labels {
			has, is := at.Labels[key]
			ok = ok && is && has == value
		}
		if o.SchemaBelow > 0 {
			ok = ok && at.Schema > 0 && at.Schema < o.SchemaBelow
		}
		if !o.WakesBefore.IsZero() {
			ok = ok && !a.Wake.At.IsZero() && a.Wake.At.Before(o.WakesBefore)
		}
		if !o.SleptBefore.IsZero() {
			ok = ok && !at.Slept.IsZero() && at.Slept.Before(o.SleptBefore)
		}
		switch o.Order {
		case actorstore.OrderName:
			ok = ok && a.Name != ""
		case actorstore.OrderSince:
			ok = ok && at.Workflow != ""
		case actorstore.OrderSchema:
			ok = ok && at.Schema > 0
		case actorstore.OrderWake:
			ok = ok && !a.Wake.At.IsZero()
		case actorstore.OrderSlept:
			ok = ok && !at.Slept.IsZero()
		}
		if ok {
			want = append(want, a)
		}
	}
	group := func(a actorstore.ActorInfo) int {
		if o.Stuck {
			return 0
		}
		if o.Workflow == nil {
			return slices.Index([]string{"failed", "running", "sleeping"}, a.Attributes.Workflow)
		}
		return slices.Index(o.Workflow, a.Attributes.Workflow)
	}
	slices.SortFunc(want, func(a, b actorstore.ActorInfo) int {
		c := 0
		switch o.Order {
		case actorstore.OrderName:
			c = cmp.Compare(a.Name, b.Name)
		case actorstore.OrderSince:
			c = cmp.Or(cmp.Compare(group(a), group(b)), a.Attributes.Since.Compare(b.Attributes.Since))
		case actorstore.OrderSchema:
			c = cmp.Compare(a.Attributes.Schema, b.Attributes.Schema)
		case actorstore.OrderWake:
			c = a.Wake.At.Compare(b.Wake.At)
		case actorstore.OrderSlept:
			c = a.Attributes.Slept.Compare(b.Attributes.Slept)
		}
		return cmp.Or(c, cmp.Compare(string(headKey(a.ID)), string(headKey(b.ID))))
	})
	return want
}

func headKey(id actorstore.ID) []byte { return layout.RecordKey(layout.ID(id), layout.PartHead) }

// drawSearch draws what is looked for.
func drawSearch(t *rapid.T) (o actorstore.ActorsOptions) {
	one := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	if one("by name") {
		o.Prefix = rapid.SampledFrom([]string{"r", "ro\x00", "room:", "room:0003", "zz", "\xff"}).Draw(t, "prefix")
	}
	if one("by labels") {
		o.Labels = map[string]string{"customer": "42"}
		if rapid.Bool().Draw(t, "both") {
			o.Labels["über\x00"] = "4\x00"
		}
	}
	if one("by workflow") {
		o.Workflow = rapid.SliceOfNDistinct(rapid.SampledFrom(states[1:]), 0, 3, rapid.ID[string]).Draw(t, "states")
	}
	o.Stuck = one("stuck")
	if one("by schema") {
		o.SchemaBelow = uint64(rapid.IntRange(1, 4).Draw(t, "below"))
	}
	if one("by wake") {
		o.WakesBefore = clock().Add(time.Duration(rapid.IntRange(0, 4).Draw(t, "wakes")) * time.Hour)
	}
	if one("by sleep") {
		o.SleptBefore = clock().Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "before")) * time.Minute)
	}
	o.Order = actorstore.Order(rapid.IntRange(0, int(actorstore.OrderSlept)).Draw(t, "order"))
	return o
}

// TestSearch: any choice, read page by page, yields those actors that meet it, with all that is known of them, in the order of the
// options; and the checks find that the index is what the actors say.
func TestSearch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mem := memkv.New()
		s, all := crowd(t, rt, mem, rapid.IntRange(0, 40).Draw(rt, "actors"))
		stores := map[string]*actorstore.Store{
			"memkv": s, "in ranges": openStore(t, faultkv.New(mem), batch.Limits{}), "one by one": openStore(t, unranged{mem}, batch.Limits{}),
		}
		compare(t, "the index", findings(t, s.Check(ctx)), nil)
		for range 20 {
			o := drawSearch(rt)
			want := selected(all, &o)
			for name, s := range stores {
				got := paged(t, rt, s, o)
				if o.Order == actorstore.OrderAny { // which is any one
					byID := o
					want = selected(all, &byID)
					slices.SortFunc(got, func(a, b actorstore.ActorInfo) int { return cmp.Compare(string(headKey(a.ID)), string(headKey(b.ID))) })
				}
				if !reflect.DeepEqual(got, want) {
					rt.Fatalf("%s, %+v:\ngot  %+v\nwant %+v", name, o, got, want)
				}
			}
		}
	})
}

// paged reads a listing in pieces, without what a piece is read by.
func paged(t testing.TB, rt *rapid.T, s *actorstore.Store, o actorstore.ActorsOptions) (all []actorstore.ActorInfo) {
	t.Helper()
	o.Limit = rapid.IntRange(0, 10).Draw(rt, "limit")
	for {
		n := 0
		for info, err := range s.Actors(ctx, &o) {
			must(t, err)
			if !info.Created.Equal(clock()) {
				rt.Errorf("created %v", info.Created)
			}
			o.After = info.Position
			info.Created, info.Position = time.Time{}, ""
			all = append(all, info)
			n++
		}
		if o.Limit == 0 || n < o.Limit {
			return all
		}
	}
}

// TestSearchOrderAny: the order in which the pages of a search come that says none is one and the same for all of them.
func TestSearchOrderAny(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	for i := range 30 {
		a, err := s.Named(ctx, fmt.Sprintf("room:%02d", 29-i), nil)
		must(t, err)
		var b batch.Batch
		stage(a, &b, actorstore.Attributes{Labels: map[string]string{"odd": fmt.Sprint(i % 2)}})
		must(t, a.Commit(ctx, &b))
		must(t, a.Close())
	}
	whole := func(o actorstore.ActorsOptions) (names []string) {
		for info, err := range s.Actors(ctx, &o) {
			must(t, err)
			names = append(names, info.Name)
		}
		return names
	}
	o := actorstore.ActorsOptions{Prefix: "room:", Labels: map[string]string{"odd": "1"}}
	want := whole(o)
	var got []string
	for o.Limit = 4; ; {
		n := len(got)
		for info, err := range s.Actors(ctx, &o) {
			must(t, err)
			got, o.After = append(got, info.Name), info.Position
		}
		if len(got) == n {
			break
		}
	}
	if !slices.Equal(got, want) || len(want) != 15 {
		t.Errorf("in pages %q, at once %q", got, want)
	}
	names := whole(actorstore.ActorsOptions{Prefix: "room:"})
	if !slices.IsSorted(names) {
		t.Errorf("by prefix alone: %q", names)
	}
}

// TestSearchReads: what a search costs doesn't depend on how many actors there are that it doesn't look for.
func TestSearchReads(t *testing.T) {
	for _, n := range []int{200, testkit.Pick(2000, 2000, 100_000)} {
		mem := memkv.New()
		s := openStore(t, mem, batch.Limits{})
		for i := range n {
			a, err := s.Named(ctx, fmt.Sprintf("room:%05d", i), nil)
			must(t, err)
			at := actorstore.Attributes{Labels: map[string]string{"customer": fmt.Sprint(i % (n / 20)), "all": "x"}, Workflow: "running", Since: clock(), Slept: clock(), Schema: 1}
			if i%(n/20) == 7 {
				at.Workflow, at.Stuck = "sleeping", true
			}
			b := put("k", "v")
			stage(a, b, at)
			must(t, a.Apply(ctx, b))
			must(t, a.Close())
		}
		fault := faultkv.New(mem)
		s = openStore(t, fault, batch.Limits{})
		for name, c := range map[string]struct {
			o    actorstore.ActorsOptions
			want faultkv.Counts
		}{
			"a label":      {actorstore.ActorsOptions{Labels: map[string]string{"customer": "3"}}, faultkv.Counts{Gets: 1, Scans: 2, Snapshots: 1}},
			"stuck":        {actorstore.ActorsOptions{Stuck: true}, faultkv.Counts{Scans: 2, Snapshots: 1}},
			"a state":      {actorstore.ActorsOptions{Workflow: []string{"sleeping"}, Order: actorstore.OrderSince}, faultkv.Counts{Scans: 2, Snapshots: 1}},
			"all at once":  {actorstore.ActorsOptions{Prefix: "room:", Labels: map[string]string{"customer": "7", "all": "x"}, Stuck: true}, faultkv.Counts{Scans: 2 + 4, Snapshots: 1}},
			"nothing":      {actorstore.ActorsOptions{Labels: map[string]string{"customer": "none"}}, faultkv.Counts{Scans: 1, Snapshots: 1}},
			"a few of all": {actorstore.ActorsOptions{Order: actorstore.OrderSlept, Limit: 20}, faultkv.Counts{Scans: 2, Snapshots: 1}},
		} {
			if name != "a label" {
				for range s.Actors(ctx, &actorstore.ActorsOptions{Stuck: true, Limit: 1}) { // that the index is whole is asked once
				}
			}
			fault.Reset()
			found := 0
			for _, err := range s.Actors(ctx, &c.o) {
				must(t, err)
				found++
			}
			got := fault.Counts()
			if got.Gets <= 1 {
				got.Gets, c.want.Gets = 0, 0
			}
			if want := 20; found != want && name != "nothing" || got != c.want {
				t.Errorf("%d actors, %s: found %d with %+v, want %d with %+v", n, name, found, got, want, c.want)
			}
		}
	}
}

// TestSearchPosition: an actor behind which a listing goes on needn't be there; a position of another listing is refused.
func TestSearchPosition(t *testing.T) {
	s, all := population(t, memkv.New(), 10)
	byName := actorstore.ActorsOptions{Order: actorstore.OrderName, Limit: 1}
	for info, err := range s.Actors(ctx, &byName) {
		must(t, err)
		byName.After = info.Position
		a, err := s.Actor(ctx, info.ID, nil)
		must(t, err)
		must(t, a.Drop(ctx))
	}
	byName.Limit = 0
	n := 0
	for _, err := range s.Actors(ctx, &byName) {
		must(t, err)
		n++
	}
	if n != 6 || len(all) != 10 {
		t.Errorf("%d actors with a name are left behind the first of 7", n)
	}
	for name, o := range map[string]actorstore.ActorsOptions{
		"by id":           {After: byName.After},
		"by label":        {After: byName.After, Labels: map[string]string{"a": "b"}},
		"another prefix":  {After: byName.After, Prefix: "zz"},
		"no base64":       {After: "?"},
		"another version": {After: "Ag"},
	} {
		for _, err := range s.Actors(ctx, &o) {
			if !errors.Is(err, actorstore.ErrPosition) {
				t.Errorf("%s: got %v, want %v", name, err, actorstore.ErrPosition)
			}
		}
	}
}

// TestSearchDamaged: an actor whose record is damaged comes with its id and the error, and the others come all the same, by whatever they are listed.
func TestSearchDamaged(t *testing.T) {
	mem := memkv.New()
	s := openStore(t, mem, batch.Limits{})
	for i := range 5 {
		a, err := s.Named(ctx, fmt.Sprintf("room:%d", i), nil)
		must(t, err)
		b := put("k", "v")
		stage(a, b, actorstore.Attributes{Labels: map[string]string{"all": "x"}})
		must(t, a.Commit(ctx, b))
		must(t, a.SetWake(ctx, actorstore.Wake{At: clock()}))
		must(t, a.Close())
	}
	bad := actorstore.IDFromName("room:2")
	must(t, mem.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(layout.RecordKey(layout.ID(bad), layout.PartIndex), []byte{1, 0, 9})}}))
	for how, s := range map[string]*actorstore.Store{"in ranges": openStore(t, faultkv.New(mem), batch.Limits{}), "one by one": openStore(t, unranged{mem}, batch.Limits{})} {
		for name, o := range map[string]actorstore.ActorsOptions{
			"by id": {}, "by name": {Order: actorstore.OrderName}, "by label": {Labels: map[string]string{"all": "x"}},
			"by wake": {Order: actorstore.OrderWake}, "by both": {Labels: map[string]string{"all": "x"}, Prefix: "room:"},
		} {
			var good, damaged []actorstore.ID
			for info, err := range s.Actors(ctx, &o) {
				switch {
				case err == nil:
					good = append(good, info.ID)
				case !errors.Is(err, actorstore.ErrCorrupt) || info.Position == "":
					t.Errorf("%s, %s: %v", how, name, err)
				default:
					damaged = append(damaged, info.ID)
				}
			}
			if len(good) != 4 || !slices.Equal(damaged, []actorstore.ID{bad}) {
				t.Errorf("%s, %s: %v are whole, %v are damaged", how, name, good, damaged)
			}
		}
	}
}
