package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// errManyCommits means that an operation doesn't make the commits that it should: then
// playing back commits isn't playing back operations.
var errManyCommits = errors.New("the workload does not make as many engine commits per operation as it says")

// openRaw is the peer "raw" of what writes: the engine commits of a workload through
// kv.Engine alone, each of them durable, by as many workers. It shows what is left for
// everything above the engine to lose.
//
// The commits are recorded from the workload itself, in memory: same keys, same bytes, same
// number. Only the checks are missing, since they would not hold a second time.
func (w workload) openRaw(s *stand) {
	recorded := w.record(s)
	engine := s.openEngine()
	for _, commits := range recorded {
		next := 0
		s.workers = append(s.workers, repeat(func() error {
			for range w.commits {
				if err := engine.Commit(s.ctx, &commits[next]); err != nil {
					return err
				}
				next = (next + 1) % len(commits)
			}
			return nil
		}))
	}
}

// recordTries is how often a workload is recorded until its commits are as many as they should
// be: on a busy machine the result of a step, which waits for a millisecond, has a commit of its
// own.
const recordTries = 20

// record runs the workload on a memory engine and returns the commits of w.kept operations
// of each worker. As many run before, because the first ones make what the later ones find.
// Each try begins anew, so that what it records are the same operations.
func (w workload) record(s *stand) (recorded [][]kv.Commit) {
	for range recordTries {
		mem := begin(s.ctx)
		mem.site, mem.on = s.site, engineMem
		check(mem.visit(func(*stand) {
			w.subject()(mem)
			recorded = recorded[:0]
			for _, work := range mem.workers {
				check(work(countdown(w.kept)))
				recorded = append(recorded, recordOne(mem.engine, w.kept, work))
			}
		}))
		if !slices.ContainsFunc(recorded, func(c []kv.Commit) bool { return len(c) != w.kept*w.commits }) {
			return recorded
		}
	}
	check(errManyCommits)
	return nil
}

// recordOne returns the commits that n operations of a worker make.
func recordOne(engine *faultkv.Engine, n int, work worker) (commits []kv.Commit) {
	engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			commits = append(commits, keep(op.Commit))
		}
		return nil
	})
	defer engine.Hook(nil)
	check(work(countdown(n)))
	return commits
}

// keep copies what a commit changes, as a durable one: where the workload doesn't wait for a
// commit, its callers wait for it afterwards.
func keep(c *kv.Commit) kv.Commit {
	kept := kv.Commit{Durability: kv.Durable, Ops: make([]kv.Op, len(c.Ops))}
	for i, op := range c.Ops {
		kept.Ops[i] = kv.Op{Kind: op.Kind, Key: bytes.Clone(op.Key), Value: bytes.Clone(op.Value)}
	}
	return kept
}

// filled fills the workload's database and returns its engine, with nothing else open.
func (w workload) filled(s *stand) *faultkv.Engine {
	loaded(s, anActor, name(0), w.rows(s.sizes))
	s.restart()
	return s.openEngine()
}

// scanAgain has every operation scan a range, in which there is always as much.
func scanAgain(s *stand, next func() kv.Range) {
	scan := func() (n int, err error) {
		for _, err := range s.engine.Scan(s.ctx, next()) {
			if err != nil {
				return 0, err
			}
			n++
		}
		return n, nil
	}
	want := must(scan())
	s.workers = []worker{repeat(func() error {
		n, err := scan()
		if err == nil && (n != want || n == 0) {
			err = fmt.Errorf("a scan found %d rows, not %d", n, want)
		}
		return err
	})}
}

// openReadback is the peer "raw" of a full scan: every operation reads all that the store
// holds, from the first key to the last, with one scan of the engine. That is the same
// pages, their metadata rows besides, and no SQLite.
func (w workload) openReadback(s *stand) {
	w.filled(s)
	scanAgain(s, func() kv.Range { return kv.Range{} })
}

// pageSize is SQLite's, as no workload changes it.
const pageSize = 4096

// openGlances is the peer "raw" of queries for some of the rows: every operation asks the
// engine for as many pages as a query reads if all pages hold as many rows, from a random
// one on. It is what a query costs at least where no pages are kept in memory.
func (w workload) openGlances(s *stand) {
	engine := w.filled(s)
	var pages [][]byte // by their keys: they are the only values of their length
	for e, err := range engine.Scan(s.ctx, kv.Range{}) {
		check(err)
		if len(e.Value) == pageSize {
			pages = append(pages, bytes.Clone(e.Key))
		}
	}
	many := (len(pages)*w.reads + s.sizes.point - 1) / s.sizes.point
	rnd := newRand(2)
	if many > 1 {
		scanAgain(s, func() kv.Range {
			from := rnd.IntN(len(pages) - many + 1)
			return kv.Range{Start: pages[from], End: append(bytes.Clone(pages[from+many-1]), 0)}
		})
		return
	}
	var dst []byte
	s.workers = []worker{repeat(func() (err error) {
		dst, err = engine.Get(s.ctx, pages[rnd.IntN(len(pages))], dst[:0])
		return err
	})}
}
