package main

import (
	"os"
	"os/exec"
	"testing"
)

// turnCounts holds that a turn is one commit, which is waited for together with others.
func turnCounts(t *testing.T, r result) {
	t.Helper()
	if reads, commits := r.perOp(r.reads()), r.perOp(r.counts.Commits); reads != 0 || commits != 1 {
		t.Errorf("a turn takes %v reads and %v commits, want 0 and 1", reads, commits)
	}
	if r.counts.Durable != 0 || r.counts.Syncs == 0 {
		t.Errorf("%d commits are durable, and %d syncs; a turn is committed first and waited for then", r.counts.Durable, r.counts.Syncs)
	}
}

// aloneEnv tells a test that its process runs no other.
const aloneEnv = "GREENROOM_TEST_ALONE"

// TestFootprint weighs actors: an awake one has some KiB, one that sleeps next to nothing. It
// does so in a process of its own, where nothing lets go of memory that another test has left.
func TestFootprint(t *testing.T) {
	if os.Getenv(aloneEnv) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), aloneEnv+"=1")
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
		return
	}
	at := site{on: engineMem, sizes: tinySizes()}
	at.sizes.actors = 20
	each := map[string]float64{}
	for _, name := range []string{"host/awake", "host/asleep"} {
		staged(t, at, func(s *stand) {
			linesOf(name)[0].subject.open(s)
			each[name] = s.measured(1000).took.Seconds() * (1 << 30) / 1000
		})
	}
	at.sizes.actors = 1000 // a timer takes about 100 bytes, and a goroutine that ends late takes thousands
	staged(t, at, func(s *stand) {
		linesOf("host/asleep")[0].peer.open(s)
		s.measured(1000)
		if again := s.measured(1000).took.Seconds() * (1 << 30) / 1000; again < 50 {
			t.Errorf("a timer has %.0f bytes when it is weighed again: the ones before are still there", again)
		}
	})
	if awake, asleep := each["host/awake"], each["host/asleep"]; awake < 2000 || awake > 100_000 || asleep > awake/5 {
		t.Errorf("an awake actor has %.0f bytes, a sleeping one %.0f", awake, asleep)
	}
}
