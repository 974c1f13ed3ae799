package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestDistance: an operation takes as many round trips as it makes calls, and nothing else,
// by a clock on which computing takes no time. How many those are doesn't depend on the
// distance.
func TestDistance(t *testing.T) {
	const trip = 5 * time.Millisecond
	trips := map[string][2]float64{ // at least and at most
		"sqlite/insert-1": {1, 1}, "sqlite/point": {0, 0}, "kv/put": {1, 1},
		"queue/cycle": {cycleCommits, cycleCommits}, "workflow/step": {stepCommits, stepCommits},
		"open": {1, 8}, "first row": {1, 4},
	}
	s := tinySizes()
	s.scan = 20_000 // of fewer rows all pages are read ahead
	for _, e := range errands() {
		t.Run(e.name, func(t *testing.T) {
			dir := t.TempDir()
			var near, far journey
			travel := func(j *journey, trip time.Duration) {
				synctest.Test(t, func(t *testing.T) { // where no lease has to be renewed
					staged(t, site{dir: dir, on: engineMem, sizes: s}, func(s *stand) { *j = must(e.travel(s, trip, onePass(1))) })
				})
			}
			travel(&near, 0)
			travel(&far, trip)
			want, ok := trips[e.name]
			if !ok || far.TripsPerOp < want[0] || far.TripsPerOp > want[1] || far.TripsPerOp != near.TripsPerOp {
				t.Errorf("%v trips, and %v with none to take, want %v", far.TripsPerOp, near.TripsPerOp, want)
			}
			if each := far.TripsPerOp * micros(trip); far.MedianUS != each || far.SlowestUS != each {
				t.Errorf("takes %v µs, %v at most; want %v trips of %v", far.MedianUS, far.SlowestUS, far.TripsPerOp, trip)
			}
			t.Logf("%+v", far)
		})
	}
}

// TestProgramDistance runs the program with -distance, for programs and for people.
func TestProgramDistance(t *testing.T) {
	var out, info bytes.Buffer
	if err := tiny(t, "-distance", "1us,2us", "-run", "point|put", "-json").measureAll(t.Context(), &out, &info); err != nil {
		t.Fatal(err)
	}
	var got []string
	var at []float64
	for d := json.NewDecoder(&out); d.More(); {
		var j journey
		if err := d.Decode(&j); err != nil {
			t.Fatal(err)
		}
		if j.MedianUS <= 0 || j.SlowestUS < j.MedianUS || j.Ops < leastRounds || j.Subject != "greenroom-mem" {
			t.Errorf("journey %+v", j)
		}
		got, at = append(got, j.Name), append(at, j.DistanceUS)
	}
	if names := slices.Compact(got); !slices.Equal(names, []string{"sqlite/point", "kv/put"}) || !slices.Equal(at, []float64{0, 1, 2, 0, 1, 2}) {
		t.Errorf("measured %q at %v", names, at)
	}
	out.Reset()
	o := tiny(t, "-distance", "1us", "-run", "put")
	if err := o.measureAll(t.Context(), &out, &info); err != nil || !strings.Contains(out.String(), "µs at 1µs") {
		t.Errorf("%v, and the output is\n%s", err, out.String())
	}
	if err := tiny(t, "-distance", "1us", "-run", "nothing").measureAll(t.Context(), &out, &info); err == nil {
		t.Error("a -run that matches nothing was accepted")
	}
}
