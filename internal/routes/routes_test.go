package routes_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/routes"
)

// A list is the hosts of a store, of which it counts the readings.
type list struct {
	hosts   []actorstore.HostInfo
	self    actorstore.HostID
	fails   error
	listed  int
	offered int
}

func (l *list) Hosts(context.Context) iter.Seq2[actorstore.HostInfo, error] {
	l.listed++
	return func(yield func(actorstore.HostInfo, error) bool) {
		if l.fails != nil {
			yield(actorstore.HostInfo{}, l.fails)
			return
		}
		for _, h := range l.hosts {
			if !yield(h, nil) {
				return
			}
		}
	}
}

func (l *list) Offer(context.Context, *actorstore.Offer) error { l.offered++; return nil }
func (l *list) Self() actorstore.HostID                        { return l.self }

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(address string, types ...string) actorstore.HostInfo {
	h := actorstore.HostInfo{TTL: 10 * time.Second, Expires: began.Add(time.Hour), Offer: actorstore.Offer{Address: address}}
	copy(h.ID[:], address)
	for _, t := range types {
		h.Offer.Types = append(h.Offer.Types, actorstore.OfferedType{Name: t})
	}
	return h
}

// A view is the table of the host at one address, with a clock.
type view struct {
	*routes.Table
	*list
	now time.Time
}

func open(t *testing.T, here bool, self actorstore.HostInfo, others ...actorstore.HostInfo) *view {
	t.Helper()
	v := &view{list: &list{self: self.ID, hosts: append(others, self)}, now: began}
	v.Table = routes.New(v.list, here, func() time.Time { return v.now })
	if err := v.Table.Offer(t.Context(), &self.Offer); err != nil {
		t.Fatal(err)
	}
	return v
}

// where returns the address at which an actor is wanted, "here" for the table's own host.
func (v *view) where(typ, name string) string {
	if h := v.Where(context.Background(), typ, name); h != nil {
		return h.Offer.Address
	}
	return "here"
}

// TestPlace: all hosts name the same one, each gets its share, and only the actors of a host that comes or goes move.
func TestPlace(t *testing.T) {
	a, b, c := at("a:1", "room"), at("b:1", "room"), at("c:1", "room")
	one, two, fewer := open(t, false, a, b, c), open(t, false, b, a, c), open(t, false, a, b)
	const n = 3000
	count := map[string]int{}
	for i := range n {
		name := fmt.Sprintf("room/%d", i)
		want := one.where("room", name)
		got := two.where("room", name)
		if want == "here" {
			want = "a:1"
		}
		if got == "here" {
			got = "b:1"
		}
		if got != want {
			t.Fatalf("%s is at %s and at %s", name, want, got)
		}
		count[want]++
		if without := fewer.where("room", name); want != "c:1" && without != want && !(without == "here" && want == "a:1") {
			t.Fatalf("%s moves from %s to %s since c:1 has gone", name, want, without)
		}
	}
	for address, k := range count {
		if k < n/3*8/10 || k > n/3*12/10 {
			t.Errorf("%s has %d of %d", address, k, n)
		}
	}
}

// TestPlaceNot: what no actor is placed at.
func TestPlaceNot(t *testing.T) {
	dead, leaving := at("b:1", "room"), at("c:1", "room")
	dead.Expires, leaving.Offer.Leaving = began.Add(-11*time.Second), true
	silent := at("d:1", "room")
	silent.Offer.Address = ""
	v := open(t, false, at("a:1", "room"), dead, leaving, silent, at("e:1", "cart"))
	for i := range 100 {
		if got := v.where("room", fmt.Sprint(i)); got != "here" {
			t.Fatalf("%d is at %s", i, got)
		}
		if got := v.where("cart", fmt.Sprint(i)); got != "e:1" {
			t.Fatalf("a cart is at %s", got)
		}
		if got := v.where("none", fmt.Sprint(i)); got != "here" {
			t.Fatalf("an actor of a type that no host runs is at %s", got)
		}
	}
	if ctx := t.Context(); !v.Runs(ctx, "room") || !v.Runs(ctx, "cart") || v.Runs(ctx, "none") {
		t.Error("types")
	}
	here := open(t, true, at("a:1", "room"), at("b:1", "cart", "room"))
	for i := range 100 {
		if got := here.where("room", fmt.Sprint(i)); got != "here" {
			t.Fatalf("%d is at %s", i, got)
		}
	}
	if got := here.where("cart", "1"); got != "b:1" {
		t.Errorf("a type that isn't run here is at %s", got)
	}
}

// TestLearn: where an actor was seen it is wanted for a while, until that is taken back; a host that is down gets no new actors for a while.
func TestLearn(t *testing.T) {
	a, b := at("a:1", "room"), at("b:1", "room")
	v := open(t, false, a, b)
	mine, others := "", ""
	for i := 0; mine == "" || others == ""; i++ {
		if name := fmt.Sprint(i); v.where("room", name) == "here" {
			mine = name
		} else {
			others = name
		}
	}
	v.Learn(mine, &b)
	if got := v.where("room", mine); got != "b:1" {
		t.Errorf("it was seen at b:1, and is at %s", got)
	}
	v.Forget(mine)
	if got := v.where("room", mine); got != "here" {
		t.Errorf("it was forgotten, and is at %s", got)
	}
	v.Learn(mine, &b)
	v.now = v.now.Add(time.Minute)
	if got := v.where("room", mine); got != "here" {
		t.Errorf("a minute later it is at %s", got)
	}
	v.Down(b.ID)
	if got := v.where("room", others); got != "here" {
		t.Errorf("b:1 is down, and it is at %s", got)
	}
	v.now = v.now.Add(time.Minute)
	if got := v.where("room", others); got != "b:1" {
		t.Errorf("a minute later it is at %s", got)
	}
}

// TestList: hosts are listed once in a while, and sooner if one is gone; a list that can't be read is that of before. A host that isn't in it offers itself again.
func TestList(t *testing.T) {
	a, b := at("a:1", "room"), at("b:1", "room")
	v := open(t, false, a, b)
	want := func(when string, n int) {
		t.Helper()
		for i := range 10 {
			v.where("room", fmt.Sprint(i))
		}
		if v.listed != n {
			t.Errorf("%s: listed %d times, want %d", when, v.listed, n)
		}
	}
	want("at first", 1)
	v.now = v.now.Add(2 * time.Second)
	want("2 s later", 1)
	v.now = v.now.Add(time.Second)
	want("3 s later", 2)
	v.Down(b.ID)
	want("at once", 2)
	v.now = v.now.Add(time.Second)
	want("as a host is gone", 3)
	v.Stale()
	v.now = v.now.Add(time.Second)
	want("as a host is wanted", 4)
	v.fails, v.now = errors.New("out of reach"), v.now.Add(time.Minute)
	want("out of reach", 5)
	if !v.Runs(t.Context(), "room") {
		t.Error("its own type isn't known")
	}
	v.fails, v.now = nil, v.now.Add(time.Minute)
	v.list.hosts, v.offered = v.list.hosts[:1], 0
	v.where("room", "1")
	if v.offered != 1 {
		t.Errorf("it was offered %d times", v.offered)
	}
}
