package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestActors: what it takes to open an actor doesn't grow with the number of actors. How much
// memory closed ones leave is looked at by a test of package vfs, with more of them.
func TestActors(t *testing.T) {
	p, err := openPopulation(t.Context(), site{dir: t.TempDir(), engine: enginePebble}.own(""))
	if err != nil {
		t.Fatal(err)
	}
	p.calm = time.Millisecond
	var all []census
	for _, n := range []int{10, 200} {
		if err := p.grow(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		c, err := p.count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.Actors != n || c.CreateUS <= 0 || c.ReopenUS <= 0 || c.Reopen99US < c.ReopenUS || c.DiskPerActor <= 0 || c.HeapBytes <= 0 {
			t.Errorf("census %+v", c)
		}
		if (c.ReopenFewUS > 0) != (n > 10) {
			t.Errorf("%d actors: %v µs beside, of a store with as many as the first census had", n, c.ReopenFewUS)
		}
		all = append(all, c)
		if err := p.keepFew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if p.few.actors != 10 {
		t.Errorf("%d actors beside, want as many as at first", p.few.actors)
	}
	few, many := all[0], all[1]
	if few.ReadsPerReopen != many.ReadsPerReopen || few.CommitsPerReopen != many.CommitsPerReopen || few.ReadsPerReopen == 0 {
		t.Errorf("to reopen takes %v reads and %v commits, then %v and %v", few.ReadsPerReopen, few.CommitsPerReopen, many.ReadsPerReopen, many.CommitsPerReopen)
	}
	if err := p.closeAll(); err != nil {
		t.Error(err)
	}
}

// TestSettle: for a census the engine is opened again, and at rest, and the actors are there.
func TestSettle(t *testing.T) {
	p, err := openPopulation(t.Context(), site{dir: t.TempDir(), engine: enginePebble, fsyncs: new(fsyncMeter)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.grow(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	before := p.visitor
	if err := p.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.visitor == before || p.at.fsyncs.engines.Load() != 2 {
		t.Errorf("%d engines were opened, want 2", p.at.fsyncs.engines.Load())
	}
	rested := p.at.fsyncs.count()
	for i := range 3 {
		if err := p.visit(t.Context(), i, firstRow); err != nil {
			t.Error(err)
		}
	}
	if got := p.at.fsyncs.count().since(rested); !got.known || got.n != 0 {
		t.Errorf("to open actors took %+v fsyncs", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.settle(ctx); err == nil {
		t.Error("an interrupt was ignored")
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
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
	if err := tiny(t, "-actors", "20", "-json").profiled(t.Context(), &out, &info); err != nil {
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
	if err := o.profiled(t.Context(), &out, &info); err != nil || !strings.Contains(out.String(), "reopen µs") {
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
		at := site{dir: dir, engine: engineMem, sizes: o.sizes, far: true, trip: time.Millisecond}
		var out bytes.Buffer
		start := time.Now()
		if err := o.countActors(t.Context(), at, &out); err != nil {
			t.Fatal(err)
		}
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
	const actors = 10_000
	for range b.N {
		p, err := openPopulation(b.Context(), site{dir: b.TempDir(), engine: enginePebble}.own(""))
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range actorSteps(actors) {
			if err := p.grow(b.Context(), n); err != nil {
				b.Fatal(err)
			}
			c, err := p.count(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := p.keepFew(b.Context()); err != nil {
				b.Fatal(err)
			}
			if n == actors {
				b.ReportMetric(c.ReopenUS, "reopen-µs")
				b.ReportMetric(c.ReopenUS/c.ReopenFewUS, "reopen/few")
				b.ReportMetric(c.HeapPerActor, "heap-B/actor")
				b.ReportMetric(c.DiskPerActor, "disk-B/actor")
			}
		}
		if err := p.closeAll(); err != nil {
			b.Error(err)
		}
	}
}
