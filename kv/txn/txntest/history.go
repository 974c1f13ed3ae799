package txntest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A record is what one committed transaction, or commit of the engine, did and saw.
type record struct {
	name  string
	steps []*suite.Step
	// began and ended are the times of a clock that all share, before and after.
	began, ended int64
}

func (r *record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d-%d:", r.name, r.began, r.ended)
	for _, s := range r.steps {
		fmt.Fprintf(&b, " %s;", s)
	}
	return b.String()
}

// A history collects records, of several workers each of which does one thing after the other.
type history struct {
	clock atomic.Int64
	mu    sync.Mutex
	did   [][]*record // +checklocks:mu
}

func (h *history) tick() int64 { return h.clock.Add(1) }

// add adds what a worker did.
func (h *history) add(worker int, r *record) {
	r.ended = h.tick()
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.did) <= worker {
		h.did = append(h.did, nil)
	}
	h.did[worker] = append(h.did[worker], r)
}

// A doer does a step of a transaction, and returns what it saw.
type doer func(step string) (saw string, err error)

// transaction runs a transaction of steps, and adds it to the history.
func (h *history) transaction(worker int, name string, run func(context.Context, func(*txn.Tx) error) error, steps func(do doer) error) error {
	var r *record
	err := run(ctx, func(tx *txn.Tx) error {
		r = &record{name: name, began: h.tick()} // of this attempt
		return steps(func(text string) (string, error) {
			parsed, err := suite.Parse(text)
			if err != nil {
				return "", err
			}
			s := parsed[0]
			r.steps = append(r.steps, s)
			s.Saw, err = s.Do(ctx, tx, tx)
			return s.Saw, err
		})
	})
	if err == nil {
		h.add(worker, r)
	}
	return err
}

// engine makes a commit of the engine, and adds it unless a check of it fails.
func (h *history) engine(eng kv.Engine, g *suite.Generator, worker int) error {
	text := g.Read("get")
	for range 1 + g.Rnd.IntN(4) {
		text += "; " + g.EngineWrite()
	}
	steps, err := suite.Parse(text)
	if err != nil {
		return err
	}
	c := &kv.Commit{Durability: kv.Durability(g.Rnd.IntN(2))}
	for _, s := range steps[1:] {
		c.Ops = append(c.Ops, s.Op())
	}
	check := kv.Check{Key: steps[0].Key}
	check.Value, err = eng.Get(ctx, check.Key, nil)
	if check.Absent = errors.Is(err, kv.ErrNotFound); err != nil && !check.Absent {
		return err
	}
	if steps[0].Saw, _ = steps[0].Redo(suite.Model{string(check.Key): string(check.Value)}); check.Absent {
		steps[0].Saw = "-"
	}
	if g.Rnd.IntN(2) == 0 {
		c.Checks = []kv.Check{check}
	} else {
		steps = steps[1:]
	}
	r := &record{name: g.Mark, steps: steps, began: h.tick()}
	if err = eng.Commit(ctx, c); err == nil {
		h.add(worker, r)
	} else if errors.Is(err, kv.ErrConflict) {
		err = nil
	}
	return err
}

// run runs so many workers at once, reads everything in the end, and checks the history.
func (h *history) run(db *txn.DB, workers int, work func(worker int) error) error {
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { errs[w] = work(w) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = h.transaction(workers, "the end", db.View, func(do doer) error {
			_, err := do("scan nil nil")
			return err
		})
	}
	if err == nil {
		err = h.check()
	}
	return err
}
