package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestActors: what it takes to open an actor doesn't grow with the number of actors. How much
// memory closed ones leave is looked at by a test of package vfs, with more of them.
func TestActors(t *testing.T) {
	staged(t, site{on: enginePebble}, func(s *stand) {
		p := newPopulation(s, "actors", time.Millisecond)
		var all []census
		for _, n := range []int{10, 200} {
			p.grow(t.Context(), n)
			c := p.count()
			if c.Actors != n || c.CreateUS <= 0 || c.ReopenUS <= 0 || c.Reopen99US < c.ReopenUS || c.DiskPerActor <= 0 || c.HeapBytes <= 0 {
				t.Errorf("census %+v", c)
			}
			if (c.ReopenFewUS > 0) != (n > 10) {
				t.Errorf("%d actors: %v µs beside, of a store with as many as the first census had", n, c.ReopenFewUS)
			}
			all = append(all, c)
			p.keepFew()
		}
		if p.few.actors != 10 {
			t.Errorf("%d actors beside, want as many as at first", p.few.actors)
		}
		few, many := all[0], all[1]
		if few.ReadsPerReopen != many.ReadsPerReopen || few.CommitsPerReopen != many.CommitsPerReopen || few.ReadsPerReopen == 0 {
			t.Errorf("to reopen takes %v reads and %v commits, then %v and %v", few.ReadsPerReopen, few.CommitsPerReopen, many.ReadsPerReopen, many.CommitsPerReopen)
		}
	})
}

// TestSettle: for a census the engine is opened again, and at rest, and the actors are there.
func TestSettle(t *testing.T) {
	staged(t, site{on: enginePebble}, func(s *stand) {
		p := newPopulation(s, "actors", calm)
		p.grow(t.Context(), 3)
		before := p.engine
		p.settle()
		if p.engine == before || p.engine == nil {
			t.Error("the engine was not opened again")
		}
		p.visitActor(0, func(s *stand, c *sqlite3.Conn) { readRow(s, c, 1) }) // the log's first file
		rested := p.fsyncs.count()
		for i := range 3 {
			p.visitActor(i, func(s *stand, c *sqlite3.Conn) { readRow(s, c, 1) })
		}
		if got := p.fsyncs.count(); got != rested {
			t.Errorf("to open actors took %v fsyncs", got-rested)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.ctx = ctx
		if err := p.visit(func(*stand) { p.settle() }); !errors.Is(err, context.Canceled) {
			t.Errorf("an interrupt was ignored: error %v", err)
		}
	})
}

func TestActorSteps(t *testing.T) {
	for _, tt := range []struct {
		n    int
		want []int
	}{{10_000, []int{100, 1000, 10_000}}, {50, []int{5, 50}}, {1, []int{1}}} {
		if got := actorSteps(tt.n); !slices.Equal(got, tt.want) {
			t.Errorf("actorSteps(%d) = %v, want %v", tt.n, got, tt.want)
		}
	}
}

// TestProgramActors runs the program with -actors, for programs and for people.
func TestProgramActors(t *testing.T) {
	var out, info bytes.Buffer
	if err := tiny(t, "-actors", "20", "-json").measureAll(t.Context(), &out, &info); err != nil {
		t.Fatal(err)
	}
	var got []int
	for d := json.NewDecoder(&out); d.More(); {
		var c census
		if err := d.Decode(&c); err != nil {
			t.Fatal(err)
		}
		got = append(got, c.Actors)
	}
	if want := []int{2, 20}; !slices.Equal(got, want) {
		t.Errorf("censuses at %v actors, want %v", got, want)
	}
	out.Reset()
	o := tiny(t, "-actors", "5")
	if err := o.measureAll(t.Context(), &out, &info); err != nil || !strings.Contains(out.String(), "reopen µs") {
		t.Errorf("%v, and the output is\n%s", err, out.String())
	}
	if _, err := parse([]string{"-actors", "-1"}, t.Output()); err == nil {
		t.Error("less than no actors were accepted")
	}
}

// TestActorsTime: when the time is over there is a census of those that were made. It is over
// after some of them, however slow the machine is: by a clock on which nothing takes time but
// the trips to an engine.
func TestActorsTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const limit = 200 * time.Millisecond
		o := tiny(t, "-actors", "100000000", "-actors-time", limit.String(), "-json")
		var out bytes.Buffer
		start := time.Now()
		staged(t, site{dir: dir, on: engineMem, sizes: o.sizes, trip: time.Millisecond}, func(s *stand) { o.countActors(s, &out) })
		var c census
		if err := json.Unmarshal(out.Bytes(), &c); err != nil || c.Actors < 1 {
			t.Errorf("census %+v, %v, of\n%s", c, err, out.String())
		}
		if took := time.Since(start); took < limit {
			t.Errorf("it was over after %v", took)
		}
	})
}

// BenchmarkActors makes 10,000 actors and reports what they take.
func BenchmarkActors(b *testing.B) {
	actors := testkit.Pick(1000, 1000, 10_000)
	for range b.N {
		staged(b, site{on: enginePebble}, func(s *stand) {
			p := newPopulation(s, "actors", calm)
			var c census
			for _, n := range actorSteps(actors) {
				p.grow(b.Context(), n)
				c = p.count()
				p.keepFew()
			}
			b.ReportMetric(c.ReopenUS, "reopen-µs")
			b.ReportMetric(c.ReopenUS/c.ReopenFewUS, "reopen/few")
			b.ReportMetric(c.HeapPerActor, "heap-B/actor")
			b.ReportMetric(c.DiskPerActor, "disk-B/actor")
		})
	}
}
