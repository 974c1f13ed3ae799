package main

import (
	"strings"
	"testing"
)

// TestSides makes a measurement of each side, with the backup and without, in this process.
func TestSides(t *testing.T) {
	for _, name := range []string{"greenroom", "litestream"} {
		for _, backup := range []bool{false, true} {
			m := &measurement{Side: name, Actors: 3, Seconds: 1, Dir: t.TempDir(), Backup: backup}
			if err := m.run(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := 0
			if backup {
				want = lags
			}
			if m.CPU <= 0 || m.Memory <= 0 || m.Threads < 1 || m.Files < 1 || m.Goroutines < 2 || len(m.Lags) != want || backup != (m.Start > 0) {
				t.Errorf("%+v", m)
			}
		}
	}
}

func TestParse(t *testing.T) {
	p, err := parse([]string{"-actors", "1,20", "-sides", "litestream"})
	if err != nil || len(p.actors) != 2 || p.actors[1] != 20 || len(p.sides) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, args := range []string{"-actors 0", "-actors many", "-sides file", "-pairs 0", "-seconds 0", "more"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s was accepted", args)
		}
	}
}

func TestPairwise(t *testing.T) {
	of := func(cpu ...float64) (all []measurement) {
		for _, c := range cpu {
			all = append(all, measurement{CPU: c})
		}
		return all
	}
	if least, most, mid := pairwise(of(3, 5, 9), of(1, 4, 2)); least != 1 || most != 7 || mid != 2 {
		t.Errorf("%v, %v, %v", least, most, mid)
	}
	if got := median([]float64{1, 2, 4, 8}); got != 3 {
		t.Errorf("the median is %v, want 3", got)
	}
}
