package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A census is what many small actors cost, at one number of them. Each has a database with a
// table of one row. It is no ratio: what matters is how it grows with the number of actors.
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
	*visitor
	at     site
	rnd    *rand.Rand
	actors int
	took   []float64 // microseconds, of each creation since the last census
	first  census
	// few is a population of as many actors as the first census had, beside which later ones
	// are taken; nil until then.
	few  *population
	calm time.Duration
}

// openPopulation makes an empty one below at.dir.
func openPopulation(ctx context.Context, at site) (*population, error) {
	at.lean = true
	v, err := openDoors(ctx, at)
	if err != nil {
		return nil, err
	}
	return &population{visitor: v, at: at, rnd: newRand(5), calm: calm}, nil
}

// calm is for how long an engine must not have written for that it counts as having nothing
// left to do, and mostCalm how long that is waited for.
const (
	calm     = 500 * time.Millisecond
	mostCalm = time.Minute
)

// shut closes the store until it is settled, so that it has no part in the memory of others.
// An engine in memory stays as it is.
func (p *population) shut() error {
	if p.at.engine == engineMem {
		return nil
	}
	v := p.visitor
	p.visitor = &visitor{end: func() error { return nil }}
	return v.close()
}

// openAs opens the store again with the options of a site, which is the population's own but
// for these.
func (p *population) openAs(ctx context.Context, at site) error {
	if err := p.shut(); err != nil {
		return err
	}
	v, err := openDoors(ctx, at)
	if err == nil {
		p.visitor = v
	}
	return err
}

// settle opens the engine again and lets it come to rest. However many actors there are it is
// in the same state then: what it holds is in tables, and nothing of it in memory. Else few
// actors would be in its memtable and cache, where many don't fit.
func (p *population) settle(ctx context.Context) error {
	if p.at.engine == engineMem {
		return nil
	}
	at := p.at
	at.lean = false // what a program gets
	if err := p.openAs(ctx, at); err != nil {
		return err
	}
	for start, last := time.Now(), int64(-1); time.Since(start) < mostCalm; {
		now := p.at.fsyncs.count()
		if !now.known || now.n == last {
			return nil
		}
		last = now.n
		select {
		case <-time.After(p.calm):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// grow creates actors until there are n.
func (p *population) grow(ctx context.Context, n int) error {
	for ; p.actors < n; p.actors++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := time.Now()
		err := p.visit(ctx, p.actors, func(c *sqlite3.Conn) error {
			return c.Exec(`PRAGMA synchronous = FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER NOT NULL); INSERT INTO t VALUES(1, 1)`)
		})
		if err != nil {
			return err
		}
		p.took = append(p.took, micros(time.Since(start)))
	}
	return nil
}

// keepFew makes a store of the size that p has, unless there is one.
func (p *population) keepFew(ctx context.Context) error {
	if p.few != nil {
		return nil
	}
	at := p.at.own("few")
	if err := os.Mkdir(at.dir, 0o755); err != nil {
		return err
	}
	var err error
	if p.few, err = openPopulation(ctx, at); err != nil {
		return err
	}
	p.few.calm = p.calm
	return errors.Join(p.few.grow(ctx, p.actors), p.few.shut())
}

// closeAll closes p and what it has beside it.
func (p *population) closeAll() error {
	if p.few == nil {
		return p.close()
	}
	return errors.Join(p.close(), p.few.close(), dropStore(context.Background(), p.few.at))
}

// count takes the census: what the actors that were made left in memory and on disk, and then
// what it takes to open some of them again.
func (p *population) count(ctx context.Context) (census, error) {
	c := census{Actors: p.actors}
	if len(p.took) > 0 {
		c.CreateUS = median(p.took)
	}
	p.took = p.took[:0]
	c.HeapBytes = liveHeap()
	if p.first.Actors == 0 {
		p.first = c
	} else {
		c.HeapPerActor = float64(c.HeapBytes-p.first.HeapBytes) / float64(c.Actors-p.first.Actors)
	}
	disk, err := folderSize(filepath.Join(p.at.dir, storeFolder))
	if err != nil {
		return c, err
	}
	c.DiskPerActor = float64(disk) / float64(p.actors)
	return c, p.reopen(ctx, &c)
}

// reopen opens some actors, each once after the engine was, in turns with as many of p.few.
func (p *population) reopen(ctx context.Context, c *census) error {
	both := []*population{p}
	if p.few != nil {
		both = append(both, p.few)
	}
	once := min(mostReopens, both[len(both)-1].actors)
	var asked faultkv.Counts
	took := make([][]float64, len(both))
	for range max(1, min(mostRounds, mostReopens/once)) {
		orders := make([][]int, len(both))
		for i, of := range both {
			if err := of.settle(ctx); err != nil {
				return err
			}
			orders[i] = p.rnd.Perm(of.actors)
		}
		before := p.counts()
		for i := range once * len(both) {
			who := i % len(both)
			start := time.Now()
			if err := both[who].visit(ctx, orders[who][i/len(both)], firstRow); err != nil {
				return err
			}
			took[who] = append(took[who], micros(time.Since(start)))
		}
		asked = plus(asked, minus(p.counts(), before))
	}
	slices.Sort(took[0])
	c.ReopenUS, c.Reopen99US = quantile(took[0], 0.5), quantile(took[0], 0.99)
	if p.few != nil {
		c.ReopenFewUS = median(took[1])
		if err := p.few.shut(); err != nil {
			return err
		}
	}
	if p.at.engine != engineMem {
		if err := p.openAs(ctx, p.at); err != nil { // to grow
			return err
		}
	}
	c.ReadsPerReopen = float64(asked.Gets+asked.Scans) / float64(len(took[0]))
	c.CommitsPerReopen = float64(asked.Commits) / float64(len(took[0]))
	return nil
}

// actorSteps returns the numbers of actors at which a census is taken, up to n.
func actorSteps(n int) []int {
	var steps []int
	for _, part := range []int{100, 10, 1} {
		if at := n / part; at > 0 && !slices.Contains(steps, at) {
			steps = append(steps, at)
		}
	}
	return steps
}

// countActors lets a population grow to o.actors, and prints what it costs at some numbers in
// between. When o.actorsTime is over it takes the last census, of those that there are.
func (o options) countActors(ctx context.Context, at site, out io.Writer) (err error) {
	at = at.own("actors")
	if err := os.Mkdir(at.dir, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dropStore(ctx, at)) }()
	p, err := openPopulation(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.closeAll()) }()
	growing := ctx
	if o.actorsTime > 0 {
		var cancel context.CancelFunc
		growing, cancel = context.WithTimeout(ctx, o.actorsTime)
		defer cancel()
	}
	var all []census
	for _, n := range actorSteps(o.actors) {
		// What is half done when the time is over is left as it is, and not counted.
		over := p.grow(growing, n)
		if over != nil && (growing.Err() == nil || ctx.Err() != nil || p.actors == 0) {
			return over
		}
		c, err := p.count(ctx)
		if err != nil {
			return err
		}
		all = append(all, c)
		if o.json {
			if err := json.NewEncoder(out).Encode(c); err != nil {
				return err
			}
		}
		if over != nil || n == o.actors {
			break
		}
		if err := p.keepFew(ctx); err != nil {
			return err
		}
	}
	if o.json {
		return nil
	}
	return writeCensuses(out, all)
}

// writeCensuses writes them for people.
func writeCensuses(w io.Writer, all []census) error {
	t := newTable(nil, "actors", "create µs", "reopen µs", "99 %", "of as few as first µs", "reads", "commits", "heap MiB", "heap B/actor", "disk B/actor")
	for _, c := range all {
		t.AppendRow(table.Row{
			c.Actors, significant(c.CreateUS), significant(c.ReopenUS), significant(c.Reopen99US), given(c.ReopenFewUS),
			significant(c.ReadsPerReopen), significant(c.CommitsPerReopen), significant(float64(c.HeapBytes) / (1 << 20)),
			significant(c.HeapPerActor), significant(c.DiskPerActor),
		})
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
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
		if err != nil || e.IsDir() {
			return ignoreMissing(err)
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return ignoreMissing(err)
	})
	return n, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
