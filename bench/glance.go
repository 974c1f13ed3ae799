package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// pageSize is SQLite's, as no workload changes it.
const pageSize = 4096

// pointPages and rangePages are how many pages a query reads, if all pages hold as many rows.
func pointPages(int, sizes) int { return 1 }

func rangePages(all int, s sizes) int { return (all*rangeRows + s.point - 1) / s.point }

// A glances is the peer "raw" of queries for some of the rows: every operation asks the
// engine for as many pages as a query reads, from a random one on. It is what a query costs
// at least where no pages are kept in memory.
type glances struct {
	place *actorPlace
	pages [][]byte // the rows with a page each, by their keys
	many  int      // of them an operation reads
	rnd   *rand.Rand
	dst   []byte
}

var _ runner = (*glances)(nil)

func (w workload) openGlances(ctx context.Context, at site) (runner, error) {
	p, err := openActor(ctx, at)
	if err != nil {
		return nil, err
	}
	g := &glances{place: p, rnd: newRand(2)}
	if err := errors.Join(w.fill(ctx, p, at.sizes), p.shut(), g.find(ctx)); err != nil {
		return nil, errors.Join(err, p.close())
	}
	g.many = w.pages(len(g.pages), at.sizes)
	return g, nil
}

// find notes where the pages are: they are the only values of their length.
func (g *glances) find(ctx context.Context) error {
	for e, err := range g.place.count.Scan(ctx, kv.Range{}) {
		if err != nil {
			return err
		}
		if len(e.Value) == pageSize {
			g.pages = append(g.pages, bytes.Clone(e.Key))
		}
	}
	if len(g.pages) == 0 {
		return errors.New("the workload loads no page")
	}
	return nil
}

func (g *glances) run(ctx context.Context, n int) error {
	for range n {
		if err := g.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *glances) read(ctx context.Context) (err error) {
	from := g.rnd.IntN(len(g.pages) - g.many + 1)
	if g.many == 1 {
		g.dst, err = g.place.count.Get(ctx, g.pages[from], g.dst[:0])
		return err
	}
	last := g.pages[from+g.many-1]
	found := 0
	for e, err := range g.place.count.Scan(ctx, kv.Range{Start: g.pages[from], End: append(bytes.Clone(last), 0)}) {
		if err != nil {
			return err
		}
		if len(e.Value) == pageSize {
			found++
		}
	}
	if found != g.many {
		return fmt.Errorf("a scan found %d pages, not %d", found, g.many)
	}
	return nil
}

func (g *glances) counts() faultkv.Counts { return g.place.counts() }

func (g *glances) close() error { return g.place.close() }
