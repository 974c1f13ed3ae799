package main

import (
	"testing"
)

// TestRawCrowd holds that the peer of every job writes what the subject writes.
func TestRawCrowd(t *testing.T) {
	for _, j := range jobs() {
		t.Run(j.name, func(t *testing.T) {
			at := site{dir: t.TempDir(), engine: engineMem, sizes: tinySizes()}
			subject, err := openCrowd(t.Context(), j, at)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := openRawCrowd(t.Context(), j, at)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range subject.shifts { // what isn't recorded
				if err := doMany(t.Context(), s, j.kept); err != nil {
					t.Fatal(err)
				}
			}
			before := subject.counts()
			for _, s := range subject.shifts {
				if err := doMany(t.Context(), s, j.kept); err != nil {
					t.Fatal(err)
				}
			}
			n := j.kept * at.sizes.actors
			for i := range at.sizes.actors {
				// As many of each, whichever is faster.
				one := &rawCrowd{raw.(*rawCrowd).engine, j.commits, raw.(*rawCrowd).commits[i : i+1], []int{0}}
				if err := one.run(t.Context(), j.kept); err != nil {
					t.Fatal(err)
				}
			}
			got, want := raw.counts(), minus(subject.counts(), before)
			if got.Commits != int64(n*j.commits) || got.Durable != got.Commits {
				t.Errorf("raw makes %d commits, %d of them durable, in %d operations; want %d of each", got.Commits, got.Durable, n, j.commits)
			}
			if want.Gets, want.Scans, want.Snapshots = 0, 0, 0; got != want {
				t.Errorf("raw asks the engine for %+v, the subject for %+v", got, want)
			}
			for _, r := range []runner{subject, raw} {
				if err := r.close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
