package limits

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/tuple"
)

var must = testkit.Must

// A rig is several hosts' limits of one name and value, on one store.
type rig struct {
	*testing.T
	engine *faultkv.Engine
	now    time.Time
	hosts  []*Limit
}

func newRig(t *testing.T, hosts int, rule Rule) *rig {
	r := &rig{T: t, engine: faultkv.New(memkv.New()), now: time.Unix(1e9, 0)}
	for range hosts {
		r.hosts = append(r.hosts, &Limit{Engine: r.engine, Name: "l", Value: "v", Rule: rule, Now: func() time.Time { return r.now }})
	}
	return r
}

// pass lets time pass, in a bubble.
func (r *rig) pass(d time.Duration) {
	<-time.After(d)
	r.now = r.now.Add(d)
}

// sweep has a host sweep, which isn't asked about permits without an end.
func (r *rig) sweep(host int) {
	r.Helper()
	_, err := r.hosts[host].Sweep(r.Context(), func(Claimant) (bool, error) { return false, nil })
	must(r, err)
}

func (r *rig) claim(c Claimant, until time.Duration) bool {
	r.Helper()
	at := time.Time{}
	if until != 0 {
		at = r.now.Add(until)
	}
	got, err := r.hosts[0].Claim(r.Context(), c, at)
	must(r, err)
	return got
}

func (r *rig) release(c Claimant) {
	r.Helper()
	_, err := r.hosts[0].Release(r.Context(), c, false)
	must(r, err)
}

// counts returns the number of rows of each kind.
func (r *rig) counts() (n [4]int) {
	r.Helper()
	start, end := root.Range()
	for e, err := range r.engine.Scan(r.Context(), kv.Range{Start: start, End: end}) {
		must(r, err)
		t, err := root.Unpack(e.Key)
		must(r, err)
		n[t[1].(int64)]++
	}
	return n
}

func named(name string) Claimant { return Claimant{Actor: name, Part: "work"} }

// TestOrder: permits are given in the order in which they were claimed, and a claimant that isn't at the head gets none.
func TestOrder(t *testing.T) {
	r := newRig(t, 1, Rule{Concurrency: 2})
	for i, want := range []bool{true, true, false, false, false} {
		if got := r.claim(named(fmt.Sprint(i)), time.Minute); got != want {
			t.Errorf("%d: %v", i, got)
		}
	}
	r.release(named("0"))
	if r.claim(named("3"), time.Minute) || r.claim(named("5"), time.Minute) {
		t.Error("the third and the sixth were before the second")
	}
	c, err := r.hosts[0].Call(t.Context())
	must(t, err)
	if len(c.Heads) != 1 || c.Heads[0].Actor != "2" || !c.Waiting || c.Full {
		t.Errorf("called: %+v", c)
	}
	must(t, r.hosts[0].Skip(t.Context(), c.Heads[0], false))
	if r.claim(named("2"), time.Minute) || !r.claim(named("3"), time.Minute) {
		t.Error("one that was passed over isn't at the end of the line")
	}
	r.release(named("3"))
	c, err = r.hosts[0].Call(t.Context())
	must(t, err)
	must(t, r.hosts[0].Skip(t.Context(), c.Heads[0], true))
	must(t, r.hosts[0].Skip(t.Context(), c.Heads[0], true)) // it isn't there any more
	must(t, r.hosts[0].Leave(t.Context(), named("5")))
	joined, err := r.hosts[0].Join(t.Context(), named("1"))
	if must(t, err); joined {
		t.Error("a holder of a permit has joined the line")
	}
	if got := r.counts(); got != [4]int{1, 1, 1, 1} {
		t.Errorf("rows %v", got)
	}
	r.release(named("1"))
	if !r.claim(named("2"), time.Minute) {
		t.Error("it isn't its turn")
	}
	r.release(named("2"))
	must(t, Tidy(t.Context(), r.engine, "l", r.now))
	if got := r.counts(); got != [4]int{} {
		t.Errorf("rows %v are left", got)
	}
}

// TestNumbers: a part may hold several permits, and finds those that it had.
func TestNumbers(t *testing.T) {
	synctest.Test(t, testNumbers)
}

func testNumbers(t *testing.T) {
	r := newRig(t, 1, Rule{Concurrency: 2})
	first, second := Claimant{Actor: "a", Part: "work"}, Claimant{Actor: "a", Part: "work", Number: 1}
	if !r.claim(first, 10*time.Second) || !r.claim(second, 10*time.Second) || !r.claim(first, time.Minute) || r.claim(named("b"), time.Minute) {
		t.Error("wrong permits")
	}
	never := func(Claimant) (bool, error) { return false, errors.New("it was asked about a permit with an end") }
	must(t, testkit.Second(r.hosts[0].Sweep(t.Context(), never)))
	r.pass(Lease)
	if !r.claim(first, time.Minute) {
		t.Error("a permit that is held isn't")
	}
	next, err := r.hosts[0].Sweep(t.Context(), never)
	if must(t, err); !next.Equal(time.Now().Add(Lease / 3)) {
		t.Errorf("the next look is at %v", next)
	}
	if held, err := r.hosts[0].Extend(t.Context(), second, r.now.Add(time.Hour)); held || err != nil {
		t.Errorf("a permit that is over was extended: %v", err)
	}
	if !r.claim(named("b"), 0) {
		t.Error("what is over isn't free")
	}
	next, err = r.hosts[0].Sweep(t.Context(), func(c Claimant) (bool, error) { return c.Actor == "b", nil })
	if must(t, err); next.IsZero() {
		t.Error("no end")
	}
	if !r.claim(second, time.Minute) {
		t.Error("what is dead isn't free")
	}
}

// TestLowered: with a lower bound nothing is taken away, and nothing is given until enough is back.
func TestLowered(t *testing.T) {
	r := newRig(t, 1, Rule{Concurrency: 3})
	for _, c := range []string{"a", "b", "c"} {
		r.claim(named(c), time.Hour)
	}
	r.hosts[0].Rule.Concurrency = 1
	for _, c := range []string{"a", "b"} {
		if r.claim(named("d"), time.Hour) {
			t.Fatal("a permit beyond the bound")
		}
		r.release(named(c))
	}
	if r.claim(named("d"), time.Hour) || !r.claim(named("c"), time.Hour) {
		t.Error("what was held was taken away, or given")
	}
	r.release(named("c"))
	if !r.claim(named("d"), time.Hour) {
		t.Error("no permit when all are back")
	}
}

// TestFair: values are served in turn, the claimants of one in their order.
func TestFair(t *testing.T) {
	r := newRig(t, 1, Rule{Concurrency: 1})
	if !r.claim(Claimant{Actor: "x", Part: "p", Fair: "b"}, time.Hour) {
		t.Fatal("no permit")
	}
	var all []Claimant
	for _, fair := range []string{"a", "b", "b", "b", "c", "", "a"} {
		c := Claimant{Actor: fmt.Sprint(len(all)), Part: "p", Fair: fair}
		all = append(all, c)
		r.claim(c, time.Hour)
	}
	var order []string
	last := Claimant{Actor: "x", Part: "p"}
	for range all {
		r.release(last)
		c, err := r.hosts[0].Call(t.Context())
		must(t, err)
		last = c.Heads[0].Claimant
		if !r.claim(last, time.Hour) {
			t.Fatal("the head gets no permit")
		}
		order = append(order, last.Fair+last.Actor)
	}
	if want := []string{"c4", "5", "a0", "b1", "a6", "b2", "b3"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	wide := newRig(t, 1, Rule{Concurrency: 3})
	for _, c := range []string{"x", "y", "z"} {
		wide.claim(named(c), time.Hour)
	}
	for _, c := range all {
		wide.claim(c, time.Hour)
	}
	for _, c := range []string{"x", "y", "z"} {
		wide.release(named(c))
	}
	c, err := wide.hosts[0].Call(t.Context())
	must(t, err)
	if len(c.Heads) != 3 || c.Heads[0].Actor != "0" || c.Heads[1].Actor != "1" || c.Heads[2].Actor != "4" {
		t.Errorf("heads %v", c.Heads)
	}
}

// TestBucket: as many tokens as the rule says, wherever the clock goes.
func TestBucket(t *testing.T) {
	r := newRig(t, 1, Rule{Every: time.Second, Burst: 3})
	n := 0
	claim := func() bool { n++; return r.claim(named(fmt.Sprint(n)), time.Minute) }
	for i, want := range []bool{true, true, true, false} {
		if got := claim(); got != want {
			t.Errorf("%d: %v", i, got)
		}
	}
	c, err := r.hosts[0].Call(t.Context())
	if must(t, err); c.Again != time.Second || len(c.Heads) != 0 || !c.Waiting {
		t.Errorf("called: %+v", c)
	}
	r.now = r.now.Add(time.Second)
	if !r.claim(named("4"), time.Minute) || claim() {
		t.Error("not one token after a second")
	}
	r.now = r.now.Add(-time.Hour) // the clock is set back: the bucket is empty, and no more than that
	if r.claim(named("5"), time.Minute) {
		t.Error("a token from the past")
	}
	r.now = r.now.Add(time.Second)
	if !r.claim(named("5"), time.Minute) {
		t.Error("no token when the clock was set back")
	}
	if _, err := r.hosts[0].Release(t.Context(), named("5"), true); err != nil {
		t.Error(err)
	}
	if !claim() || claim() {
		t.Error("not one token was given back")
	}
	r.now = r.now.Add(time.Hour)
	if got := r.counts(); got != [4]int{1, 1, 0, 1} { // permits of a rate alone aren't held
		t.Errorf("rows %v", got)
	}
}

// TestUnusedLate: a token that is given back late isn't given beside those that the bucket got meanwhile.
func TestUnusedLate(t *testing.T) {
	r := newRig(t, 1, Rule{Every: time.Second, Burst: 1})
	if !r.claim(named("1"), time.Minute) {
		t.Fatal("no token")
	}
	r.now = r.now.Add(time.Second)
	if !r.claim(named("2"), time.Minute) {
		t.Fatal("no second token")
	}
	_, err := r.hosts[0].Release(t.Context(), named("1"), true)
	if must(t, err); r.claim(named("3"), time.Minute) {
		t.Error("two permits at once")
	}
	r.now = r.now.Add(time.Second)
	if !r.claim(named("3"), time.Minute) {
		t.Error("no third token")
	}
	_, err = r.hosts[0].Release(t.Context(), named("3"), true)
	if must(t, err); !r.claim(named("4"), time.Minute) {
		t.Error("a token that was given back at once is lost")
	}
}

// TestValues: lines are found by their limit, whatever is in their names.
func TestValues(t *testing.T) {
	e := memkv.New()
	now := time.Unix(1e9, 0)
	want := []string{"", "\x00", "a", "a\x00b", "ä"}
	for _, name := range []string{"l", "l\x00", "m"} {
		for _, value := range want {
			l := &Limit{Engine: e, Name: name, Value: value, Rule: Rule{Concurrency: 1}, Now: func() time.Time { return now }}
			for i := range 3 {
				_, err := l.Claim(t.Context(), named(fmt.Sprint(i)), now.Add(time.Minute))
				must(t, err)
			}
		}
	}
	for _, name := range []string{"l", "l\x00", "m"} {
		var got []string
		for value, err := range Lines(t.Context(), e, name) {
			must(t, err)
			got = append(got, value)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: lines of %q, want %q", name, got, want)
		}
		must(t, Tidy(t.Context(), e, name, now))
	}
}

// A holder is what the model knows of a claimant.
type holder struct {
	held         bool
	until, since time.Time // until is zero for none; since when it is so
}

// TestModel has several hosts do what they may in any order, with commits that fail, or land without saying so: never are more permits held than the rule
// allows, nor more given than the bucket has, and the rows fit together.
func TestModel(t *testing.T) {
	for seed := range uint64(testkit.Pick(20, 50, 1000)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		rule := Rule{Concurrency: rnd.IntN(4)}
		if rule.Concurrency == 0 || rnd.IntN(2) == 0 {
			rule.Every, rule.Burst = time.Second, 1+rnd.IntN(3)
		}
		synctest.Test(t, func(t *testing.T) { modelRun(newRig(t, 3, rule), rnd) })
		if t.Failed() {
			t.Fatalf("seed %d, rule %+v", seed, rule)
		}
	}
}

func modelRun(r *rig, rnd *rand.Rand) {
	r.Helper()
	ctx, rule := r.Context(), r.hosts[0].Rule
	var given []time.Time
	model := map[Claimant]*holder{}
	for range 300 {
		l := r.hosts[rnd.IntN(len(r.hosts))]
		c := Claimant{Actor: fmt.Sprint(rnd.IntN(6)), Part: "work", Number: rnd.IntN(2)}
		h := model[c]
		if h == nil {
			h = &holder{}
			model[c] = h
		}
		var fault *faultkv.Fault
		if rnd.IntN(8) == 0 {
			fault = r.engine.Fail(faultkv.Rule{Point: []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeGet}[rnd.IntN(3)], Err: kv.ErrUnknownOutcome})
		}
		var err error
		switch rnd.IntN(7) {
		case 0, 1, 2:
			until := time.Time{}
			if rnd.IntN(3) > 0 {
				until = r.now.Add(time.Duration(1+rnd.IntN(5)) * time.Second)
			}
			had := h.held && (rule.Every == 0 || until.IsZero())
			if !had {
				h.held = false
			}
			var got bool
			got, err = l.Claim(ctx, Claimant{c.Actor, c.Part, c.Number, fmt.Sprint(c.Actor[0] % 2)}, until)
			if got && !had {
				given = append(given, r.now)
			}
			if got && (rule.Concurrency > 0 || until.IsZero() || h.held) {
				h.held, h.until, h.since = true, until, r.now
			}
		case 3:
			_, err = l.Release(ctx, c, false)
			h.held = h.held && err != nil
		case 4:
			_, err = l.Sweep(ctx, func(Claimant) (bool, error) { return false, nil })
			for c, h := range model {
				p := r.permit(l, c)
				if gone := h.held && p == nil; gone && (h.until.IsZero() || r.now.Sub(h.since) < Lease) {
					r.Errorf("a permit was taken back %v after it was claimed", r.now.Sub(h.since))
				}
				h.held = p != nil
			}
		case 5:
			var call Call
			if call, err = l.Call(ctx); err == nil && len(call.Heads) > 0 {
				err = l.Skip(ctx, call.Heads[0], rnd.IntN(2) == 0)
			}
		default:
			r.pass(time.Duration(rnd.IntN(1500)) * time.Millisecond)
			if rnd.IntN(5) == 0 {
				r.pass(time.Duration(rnd.IntN(20)) * time.Second)
			}
		}
		if fault != nil {
			fault.Remove()
		} else {
			must(r, err)
		}
		if err != nil { // it has happened, or not
			for c, h := range model {
				p := r.permit(l, c)
				if h.held = p != nil; h.held && !h.until.Equal(p.until) {
					h.until, h.since = p.until, r.now
				}
			}
		}
		r.verify(rule)
		if rule.Every > 0 {
			verifyRate(r.T, rule, given)
		}
	}
}

// permit returns the permit that c holds, nil for none.
func (r *rig) permit(l *Limit, c Claimant) *permit {
	r.Helper()
	p, err := (&state{ctx: r.Context(), limit: l, permits: root.Sub("l", int64(kindHeld), "v")}).held(&c)
	must(r, err)
	return p
}

// verify holds the rows against each other, and the permits against the rule.
func (r *rig) verify(rule Rule) {
	r.Helper()
	s, err := r.hosts[0].read(r.Context())
	must(r, err)
	n, held := r.counts(), 0
	for _, err := range s.allHeld() {
		must(r, err)
		held++
	}
	if held != int(s.record.held) || rule.Concurrency > 0 && held > rule.Concurrency {
		r.Errorf("%d permits are held, the record says %d", held, s.record.held)
	}
	if n[kindLine] != n[kindPlace] {
		r.Errorf("%d places, known to %d claimants", n[kindLine], n[kindPlace])
	}
	heads, err := s.heads(100)
	must(r, err)
	for _, h := range heads {
		if p, err := s.waiting(&h.Claimant); err != nil || p == nil || *p != h {
			r.Errorf("the place %+v is known as %+v: %v", h, p, err)
		}
	}
}

func verifyRate(t *testing.T, rule Rule, given []time.Time) {
	t.Helper()
	for i := range given {
		most := rule.Burst + int(given[len(given)-1].Sub(given[i])/rule.Every)
		if n := len(given) - i; n > most {
			t.Errorf("%d permits in %s, at most %d may be", n, given[len(given)-1].Sub(given[i]), most)
			return
		}
	}
}

// TestGolden holds the rows against bytes: they are on disks.
func TestGolden(t *testing.T) {
	r := newRig(t, 1, Rule{Concurrency: 1, Every: time.Second, Burst: 1})
	r.claim(Claimant{"a", "work", 1, "f"}, time.Minute)
	r.claim(Claimant{"b", "workflow", 0, "g"}, 0)
	var got []string
	start, end := root.Range()
	for e, err := range r.engine.Scan(t.Context(), kv.Range{Start: start, End: end}) {
		must(t, err)
		k, err := root.Unpack(e.Key)
		must(t, err)
		got = append(got, fmt.Sprintf("%v %s", k, hex.EncodeToString(e.Value)))
	}
	want := []string{
		"[l 0 v] 0100" + "0200000000000000" + "01000000" + hex.EncodeToString(littleEndian(1e18+1e9)) + "0166",
		"[l 1 v g 1] 0100" + "0162" + "08" + hex.EncodeToString([]byte("workflow")),
		"[l 2 v a work 1] 0100" + hex.EncodeToString(littleEndian((1e9+60)*1000)),
		"[l 3 v b workflow] 0100" + "0167" + "0100000000000000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%q, want\n%q", got, want)
	}
}

func littleEndian(n int64) []byte {
	var b []byte
	for range 8 {
		b, n = append(b, byte(n)), n>>8
	}
	return b
}

// TestDamaged: rows that can't be read are ErrCorrupt, or ErrNewerFormat, and stay.
func TestDamaged(t *testing.T) {
	for kind, key := range []tuple.Tuple{{"l", int64(0), "v"}, {"l", int64(1), "v", "", int64(1)}, {"l", int64(2), "v", "0", "work", int64(0)}, {"l", int64(3), "v", "1", "work"}} {
		for _, bad := range []struct {
			value []byte
			want  error
		}{{[]byte{1}, kv.ErrCorrupt}, {[]byte{0, 0}, kv.ErrCorrupt}, {[]byte{2, 0}, kv.ErrNewerFormat}, {[]byte{1, 0, 9}, kv.ErrCorrupt}} {
			r := newRig(t, 1, Rule{Concurrency: 1})
			r.claim(named("0"), time.Minute)
			r.claim(named("1"), time.Minute)
			physical := root.Pack(key)
			if _, err := r.engine.Get(t.Context(), physical, nil); err != nil {
				t.Fatalf("kind %d has no row: %v", kind, err)
			}
			must(t, r.engine.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set(physical, bad.value)}}))
			_, callErr := r.hosts[0].Call(t.Context())
			_, claimErr := r.hosts[0].Claim(t.Context(), named(fmt.Sprint(kind/3)), time.Time{})
			_, sweepErr := r.hosts[0].Sweep(t.Context(), func(Claimant) (bool, error) { return false, nil })
			if err := errors.Join(callErr, claimErr, sweepErr); !errors.Is(err, bad.want) {
				t.Errorf("kind %d, value %x: %v", kind, bad.value, err)
			}
			if now, err := r.engine.Get(t.Context(), physical, nil); err != nil || !bytes.Equal(now, bad.value) {
				t.Errorf("kind %d: the row has changed: %x, %v", kind, now, err)
			}
		}
	}
}

// FuzzRecord: what can be read is written in the same way.
func FuzzRecord(f *testing.F) {
	f.Add((&record{}).append(nil))
	f.Add((&record{changes: 1, held: 2, spent: -3, last: "ä"}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := parseRecord([]byte("key"), b)
		if err != nil {
			if !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrNewerFormat) {
				t.Errorf("error %v", err)
			}
			return
		}
		if got := rec.append(nil); !bytes.Equal(got, b) {
			t.Errorf("%x was read, and written as %x", b, got)
		}
	})
}

// BenchmarkClaim is a permit that is claimed and given back.
func BenchmarkClaim(b *testing.B) {
	l := &Limit{Engine: memkv.New(), Name: "l", Rule: Rule{Concurrency: 2, Every: time.Nanosecond, Burst: 1000}, Now: time.Now}
	for b.Loop() {
		if ok, err := l.Claim(context.Background(), named("a"), time.Now().Add(time.Minute)); !ok || err != nil {
			b.Fatal(ok, err)
		}
		if _, err := l.Release(context.Background(), named("a"), false); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCost: a claim is one commit and a few reads, however long the line is, and so is giving a permit back.
func TestCost(t *testing.T) {
	for _, waiting := range []int{5, 2000} {
		r := newRig(t, 1, Rule{Concurrency: 1})
		r.claim(named("first"), time.Hour)
		for i := range waiting {
			r.claim(Claimant{Actor: fmt.Sprintf("%05d", i), Part: "work", Fair: fmt.Sprint(i % 3)}, time.Hour)
		}
		for _, c := range []struct {
			name                string
			do                  func()
			gets, scans, commit int64
		}{
			{"a claim that waits already", func() { r.claim(named("00004"), time.Hour) }, 3, 0, 0},
			{"giving back", func() { r.release(named("first")) }, 2, 2, 1},
			{"a new claim behind others", func() { r.claim(named("late"), time.Hour) }, 3, 2, 1},
		} {
			before := r.engine.Counts()
			c.do()
			after := r.engine.Counts()
			if gets, scans, commits := after.Gets-before.Gets, after.Scans-before.Scans, after.Commits-before.Commits; gets != c.gets || scans != c.scans || commits != c.commit {
				t.Errorf("%s, with %d in line: %d gets, %d scans, %d commits", c.name, waiting, gets, scans, commits)
			}
		}
	}
}
