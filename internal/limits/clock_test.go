package limits

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestClocks: a permit that is renewed is held whatever the clocks of the hosts say, and however they are set; one that isn't, because its host is gone, is over as soon as another host has seen it
// for so long.
func TestClocks(t *testing.T) {
	for _, jump := range []time.Duration{0, 25 * time.Second, 24 * time.Hour, -24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 2, Rule{Concurrency: 1})
			other := r.hosts[1]
			other.Now = func() time.Time { return r.now.Add(jump) }
			if !r.claim(named("1"), Lease) || r.claim(named("2"), Lease) {
				t.Fatal("not one permit")
			}
			r.sweep(1)
			for range 9 {
				r.pass(Lease / 3)
				held, err := r.hosts[0].Extend(t.Context(), named("1"), r.now.Add(Lease))
				if r.sweep(1); !held || err != nil {
					t.Fatalf("%v: the permit of a host that lives was taken back: %v", jump, err)
				}
			}
			if jump != 0 {
				r.now = r.now.Add(jump) // of all clocks
			}
			r.pass(Lease - time.Second)
			r.sweep(1)
			if r.claim(named("2"), Lease) {
				t.Errorf("%v: the permit is over too early", jump)
			}
			r.pass(time.Second)
			if r.sweep(1); !r.claim(named("2"), Lease) {
				t.Errorf("%v: the permit isn't over", jump)
			}
		})
	}
}

// TestSkew: hosts whose clocks differ give no more tokens for it, again and again.
func TestSkew(t *testing.T) {
	r := newRig(t, 2, Rule{Every: time.Second, Burst: 1})
	behind := r.hosts[1]
	behind.Now = func() time.Time { return r.now.Add(-30 * time.Second) }
	given := 0
	for i := range 200 {
		for _, l := range r.hosts {
			c := named(fmt.Sprint(i))
			got, err := l.Claim(t.Context(), c, r.now.Add(time.Minute))
			must(t, err)
			if got {
				given++
			}
			must(t, l.Leave(t.Context(), c))
		}
		r.now = r.now.Add(100 * time.Millisecond)
	}
	if given != 20 {
		t.Errorf("%d permits in 20 seconds", given)
	}
}
