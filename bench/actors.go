package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A census is what many small actors cost, at one number of them. Each has a database with a
// table of one row. It is not a ratio: what matters is how it grows with the number of actors.
type census struct {
	Actors int `json:"actors"`
	// CreateUS and ReopenUS are medians in microseconds: to make an actor with its database,
	// table and row, durably; and to open one that is nowhere open, read its row and close it
	// again, each for the first time since the engine was opened. Reopen99US is that of the
	// slowest hundredth.
	CreateUS   float64 `json:"create_us"`
	ReopenUS   float64 `json:"reopen_us"`
	Reopen99US float64 `json:"reopen_99_us"`
	// What opening asks of the engine.
	ReadsPerReopen   float64 `json:"reads_per_reopen"`
	CommitsPerReopen float64 `json:"commits_per_reopen"`
	// HeapBytes is the live heap with all actors closed, and HeapPerActor how much of it came
	// since the first census, for each actor that did. DiskPerActor is what the store takes.
	HeapBytes    int64   `json:"heap_bytes"`
	HeapPerActor float64 `json:"heap_bytes_per_actor"`
	DiskPerActor float64 `json:"disk_bytes_per_actor"`
	// ReopenFewUS is ReopenUS of a store with as many actors as the first census had, in
	// turns with this one; absent in the first.
	ReopenFewUS float64 `json:"reopen_few_us,omitempty"`
}

// mostReopens is how many actors are opened again for a census at most, mostRounds how often
// the engine is for that, where there are few actors.
const (
	mostReopens = 1000
	mostRounds  = 5
)

// A population is a store of small actors that grows.
type population struct {
	*stand
	rnd    *rand.Rand
	actors int
	took   []float64 // microseconds, of each creation since the last census
	first  census
	// few is a population of as many actors as the first census had, beside which later ones
	// are taken; nil until then.
	few  *population
	calm time.Duration
}

// newPopulation makes an empty one in a folder below the stand's.
func newPopulation(s *stand, name string, calm time.Duration) *population {
	at := s.site
	at.lean = true
	return &population{stand: s.newStand(at, name), rnd: newRand(5), calm: calm}
}

// calm is for how long an engine must not have written for that it counts as having nothing
// left to do, and mostCalm how long that is waited for.
const (
	calm     = 500 * time.Millisecond
	mostCalm = time.Minute
)

// settle opens the engine again, with the options that a program gets, and lets it come to
// rest. However many actors there are it is in the same state then: what it holds is in
// tables, and nothing of it in memory. Else few actors would be in its memtable and cache,
// where many don't fit. An engine in memory stays as it is.
func (p *population) settle() {
	p.restart()
	p.lean = false
	p.openStore()
	p.lean = true
	for start, last := time.Now(), -1.0; p.fsyncs.known && p.fsyncs.count() != last && time.Since(start) < mostCalm; {
		last = p.fsyncs.count()
		select {
		case <-time.After(p.calm):
		case <-p.ctx.Done():
			check(p.ctx.Err())
		}
	}
}

// visitActor calls do with the database of the i-th actor open, and returns how many
// microseconds all of it took.
func (p *population) visitActor(i int, do func(*stand, *sqlite3.Conn)) float64 {
	start := time.Now()
	check(p.visit(func(s *stand) { do(s, enterActor(s, i)) }))
	return micros(time.Since(start))
}

// grow creates actors until there are n, or ctx ends.
func (p *population) grow(ctx context.Context, n int) {
	p.openStore()
	for ; p.actors < n && ctx.Err() == nil; p.actors++ {
		p.took = append(p.took, p.visitActor(p.actors, func(_ *stand, c *sqlite3.Conn) {
			check(c.Exec(`PRAGMA synchronous = FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER NOT NULL); INSERT INTO t VALUES(1, 1)`))
		}))
	}
}

// keepFew makes a store of the size that p has, unless there is one. Closed until it is
// settled, it has no part in the memory of others.
func (p *population) keepFew() {
	if p.few != nil {
		return
	}
	p.restart() // lets go of all but what p keeps, to which few is added
	p.few = newPopulation(p.stand, "few", p.calm)
	p.kept = len(p.ends)
	p.few.grow(p.ctx, p.actors)
	p.few.restart()
}

// count takes the census: what the actors that were made left in memory and on disk, and then
// what it takes to open some of them again.
func (p *population) count() census {
	c := census{Actors: p.actors, HeapBytes: liveHeap()}
	if len(p.took) > 0 {
		c.CreateUS = median(p.took)
	}
	p.took = p.took[:0]
	if p.first.Actors == 0 {
		p.first = c
	} else {
		c.HeapPerActor = float64(c.HeapBytes-p.first.HeapBytes) / float64(c.Actors-p.first.Actors)
	}
	c.DiskPerActor = float64(must(folderSize(filepath.Join(p.dir, storeFolder)))) / float64(p.actors)
	p.reopen(&c)
	return c
}

// reopen opens some actors, each once after the engine was, in turns with as many of p.few.
func (p *population) reopen(c *census) {
	both := []*population{p}
	if p.few != nil {
		both = append(both, p.few)
	}
	once := min(mostReopens, both[len(both)-1].actors)
	var asked tally
	took := make([][]float64, len(both))
	for range max(1, min(mostRounds, mostReopens/once)) {
		orders := make([][]int, len(both))
		for i, of := range both {
			of.settle()
			orders[i] = p.rnd.Perm(of.actors)
		}
		before := p.tally()
		for i := range once * len(both) {
			which := i % len(both)
			took[which] = append(took[which], both[which].visitActor(orders[which][i/len(both)], func(s *stand, c *sqlite3.Conn) { readRow(s, c, 1) }))
		}
		asked = asked.plus(p.tally().plus(before, -1), 1)
	}
	slices.Sort(took[0])
	c.ReopenUS, c.Reopen99US = quantile(took[0], 0.5), quantile(took[0], 0.99)
	if p.few != nil {
		c.ReopenFewUS = median(took[1])
		p.few.restart()
	}
	p.restart() // to grow
	c.ReadsPerReopen = float64(asked.reads()) / float64(len(took[0]))
	c.CommitsPerReopen = float64(asked.counts.Commits) / float64(len(took[0]))
}

// actorSteps returns the numbers of actors at which a census is taken, up to n.
func actorSteps(n int) []int {
	steps := slices.Compact([]int{n / 100, n / 10, n})
	return slices.DeleteFunc(steps, func(at int) bool { return at == 0 })
}

// countActors lets a population grow to o.actors, and prints what it costs at some numbers in
// between. When o.actorsTime is over it takes the last census, of those that there are.
func (o options) countActors(s *stand, out io.Writer) {
	p := newPopulation(s, "actors", calm)
	growing, cancel := context.WithTimeout(s.ctx, cmp.Or(o.actorsTime, 1<<62)) // or a century
	defer cancel()
	var rows [][]string
	for _, n := range actorSteps(o.actors) {
		p.grow(growing, n)
		if p.actors == 0 || s.ctx.Err() != nil {
			check(growing.Err())
		}
		c := p.count()
		o.object(out, c)
		rows = append(rows, c.row())
		if growing.Err() != nil || n == o.actors {
			break
		}
		p.keepFew()
	}
	o.table(out, 0, []string{
		"actors", "create µs", "reopen µs", "99 %", "of as few as first µs", "reads", "commits", "heap MiB", "heap B/actor", "disk B/actor",
	}, rows)
}

// row is the census for people.
func (c census) row() []string {
	return []string{
		fmt.Sprint(c.Actors), significant(c.CreateUS), significant(c.ReopenUS), significant(c.Reopen99US), given(c.ReopenFewUS),
		significant(c.ReadsPerReopen), significant(c.CommitsPerReopen), significant(float64(c.HeapBytes) / (1 << 20)),
		significant(c.HeapPerActor), significant(c.DiskPerActor),
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// liveHeap is what is in use of the heap; what finalizers and pools hold is gone with the
// second collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// folderSize is how many bytes the files below dir have. One that goes meanwhile has none.
func folderSize(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				n += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return n, err
}
