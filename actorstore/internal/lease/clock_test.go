package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/lease"
)

// TestTermHolds: both clocks must agree that the lease isn't over.
func TestTermHolds(t *testing.T) {
	sent := time.Now()
	const wall = 1_000_000
	term := lease.NewTerm(sent, wall, 10*time.Second)
	for _, tt := range []struct {
		monotonic, wall time.Duration
		want            bool
	}{
		{0, 0, true},
		{8999 * time.Millisecond, 8999 * time.Millisecond, true},
		{9 * time.Second, 8 * time.Second, false},
		{8 * time.Second, 9 * time.Second, false},      // set forward, or suspended
		{8 * time.Second, time.Hour, false},            // the same
		{time.Hour, time.Second, false},                // set back, and the time has passed
		{time.Second, -500 * time.Millisecond, true},   // set back a little
		{time.Second, -2000 * time.Millisecond, false}, // it could hide a suspend
		{time.Second, 0, true},                         // a clock that stands still
	} {
		if got := term.Holds(sent.Add(tt.monotonic), wall+tt.wall.Milliseconds()); got != tt.want {
			t.Errorf("after %v, by the wall clock %v: got %v, want %v", tt.monotonic, tt.wall, got, tt.want)
		}
	}
}

// TestSteady: whatever is done to the wall clock, what a host promises doesn't go back,
// and others are not judged by a clock that was set forward.
func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set time.Duration
		var c lease.Steady
		c.Start(func() int64 { return time.Now().Add(set).UnixMilli() })
		begin := time.Now()
		for _, step := range []struct {
			pass, set        time.Duration
			latest, earliest time.Duration
		}{
			{0, 0, 0, 0},
			{time.Second, 0, time.Second, time.Second},
			{time.Second, time.Hour, time.Hour + 2*time.Second, 2 * time.Second},
			{time.Second, 0, time.Hour + 3*time.Second, 3 * time.Second},
			{time.Second, -time.Hour, time.Hour + 4*time.Second, 4*time.Second - time.Hour},
			{time.Hour, 0, 2*time.Hour + 4*time.Second, time.Hour + 4*time.Second},
		} {
			time.Sleep(step.pass)
			set = step.set
			if got := time.Duration(c.Latest()-begin.UnixMilli()) * time.Millisecond; got != step.latest {
				t.Errorf("latest: got %v, want %v", got, step.latest)
			}
			if got := time.Duration(c.Earliest()-begin.UnixMilli()) * time.Millisecond; got != step.earliest {
				t.Errorf("earliest: got %v, want %v", got, step.earliest)
			}
		}
	})
}
