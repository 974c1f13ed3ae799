package main

import "testing"

// TestRawCycles holds that the peer of queue/cycle writes what the subject writes.
func TestRawCycles(t *testing.T) {
	l := queueLines(engineMem)[0]
	at := site{t.TempDir(), engineMem, tinySizes()}
	n := 4 * at.sizes.actors
	var counts [2][2]int64
	for i, s := range []side{l.subject, l.peer} {
		r, err := s.open(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.run(t.Context(), n); err != nil { // the first of an actor is another one
			t.Fatal(err)
		}
		before := r.counts()
		if err := r.run(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		c := minus(r.counts(), before)
		counts[i] = [2]int64{c.Commits, c.Ops}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}
	if counts[0] != counts[1] || counts[0][0] != int64(n*cycleCommits) {
		t.Errorf("commits and operations: %v of the subject, %v of the peer", counts[0], counts[1])
	}
}

func BenchmarkCycle(b *testing.B) {
	l := queueLines(enginePebble)[0]
	for _, s := range []side{l.subject, l.peer} {
		b.Run(s.name, func(b *testing.B) {
			r, err := s.open(b.Context(), site{b.TempDir(), enginePebble, fullSizes()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := r.close(); err != nil {
					b.Error(err)
				}
			}()
			if err := r.run(b.Context(), fullSizes().actors); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			if err := r.run(b.Context(), b.N); err != nil {
				b.Fatal(err)
			}
		})
	}
}
