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
)

// A census is what many small actors cost, at one number of them. Each has a database with a
// table of one row. It is no ratio: what matters is how it grows with the number of actors.
type census struct {
	Actors int `json:"actors"`
	// CreateUS and ReopenUS are medians in microseconds: to make an actor with its database,
	// table and row, durably; and to open one that is nowhere open, read its row and close it
	// again. Reopen99US is that of the slowest hundredth.
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
}

// mostReopens is how many actors are opened again for a census at most; of few actors it is
// twice as often as there are.
const mostReopens = 1000

// A population is a store of small actors that grows.
type population struct {
	*visitor
	dir    string
	rnd    *rand.Rand
	actors int
	took   []float64 // microseconds, of each creation since the last census
	first  census
}

// openPopulation makes an empty one below at.dir.
func openPopulation(ctx context.Context, at site) (*population, error) {
	at.lean = true
	v, err := openDoors(ctx, at)
	if err != nil {
		return nil, err
	}
	return &population{visitor: v, dir: at.dir, rnd: newRand(5)}, nil
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

// count takes the census.
func (p *population) count(ctx context.Context) (census, error) {
	c := census{Actors: p.actors}
	if len(p.took) > 0 {
		c.CreateUS = median(p.took)
	}
	p.took = p.took[:0]
	before := p.counts()
	var took []float64
	reopens := min(mostReopens, 2*p.actors)
	for range reopens {
		start := time.Now()
		if err := p.visit(ctx, p.rnd.IntN(p.actors), firstRow); err != nil {
			return c, err
		}
		took = append(took, micros(time.Since(start)))
	}
	asked := minus(p.counts(), before)
	c.ReadsPerReopen = float64(asked.Gets+asked.Scans) / float64(reopens)
	c.CommitsPerReopen = float64(asked.Commits) / float64(reopens)
	slices.Sort(took)
	c.ReopenUS, c.Reopen99US = quantile(took, 0.5), quantile(took, 0.99)
	c.HeapBytes = liveHeap()
	if p.first.Actors == 0 {
		p.first = c
	} else {
		c.HeapPerActor = float64(c.HeapBytes-p.first.HeapBytes) / float64(c.Actors-p.first.Actors)
	}
	disk, err := folderSize(p.dir)
	c.DiskPerActor = float64(disk) / float64(p.actors)
	return c, err
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
	defer func() { err = errors.Join(err, p.close()) }()
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
		if over != nil {
			break
		}
	}
	if o.json {
		return nil
	}
	return writeCensuses(out, all)
}

// writeCensuses writes them for people.
func writeCensuses(w io.Writer, all []census) error {
	t := newTable(nil, "actors", "create µs", "reopen µs", "99 %", "reads", "commits", "heap MiB", "heap B/actor", "disk B/actor")
	for _, c := range all {
		t.AppendRow(table.Row{
			c.Actors, significant(c.CreateUS), significant(c.ReopenUS), significant(c.Reopen99US),
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
