package workflow

import (
	"context"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// Race runs branches side by side until one succeeds, and returns its name and what it
// returned. The others have lost: their contexts are over, they leave, and what is
// recorded of them is removed with the commit that records the winner. What they did has
// happened all the same, messages that they received are gone unless they were
// Completable, and nothing of it is undone if the workflow fails.
//
// If all branches fail the error is a *BranchesError.
func Race[T any](c *Context, name string, branches ...Branch[T]) (winner string, out T, err error) {
	bs := make([]branch, len(branches))
	for i, b := range branches {
		bs[i] = b.encodes()
	}
	f := c.fork(name, true, bs)
	defer c.end()
	if len(bs) == 0 {
		c.misuse(name, "it has no branches")
	}
	if f.won < 0 || c.r.undoing != nil {
		f.run()
	}
	if won := f.winner(); won >= 0 {
		f.output(won, func(codec Codec, data []byte) error { return codec.Decode(data, &out) })
		return bs[won].name, out, nil
	}
	f.close()
	return "", out, &BranchesError{f.path(), f.failed()}
}

func (f *fork) winner() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.won
}

// win records that branch i has won. From the moment at which that is written on the
// others write nothing any more.
//
// f.mu is held all the time: the branches that could want it have lost, or don't know it
// yet, and nothing that the commit waits for needs it.
//
// +checklocks:f.mu
func (f *fork) win(i int, out []byte) error {
	r := f.c.r
	before := append([]history.Branch(nil), f.state...)
	tx := r.wf.h.Begin()
	for j := range f.state {
		if b := &f.state[j]; j == i {
			b.Status, b.Output, b.Error = history.BranchCompleted, out, nil
		} else {
			b.Status, b.Output = history.BranchCancelled, nil
			tx.Delete(f.inside[j].scope)
		}
	}
	err := f.put(tx, f.kind(), f.completed())
	if err == nil {
		err = f.c.commit(tx, func(b *batch.Batch) error {
			b.Late(func(b *batch.Batch) error { return f.lose(b, i) })
			return nil
		})
	}
	if err != nil {
		f.state = before
		return err
	}
	f.entry, f.found = r.wf.h.Get(f.at)
	return nil
}

// lose is run under the actor's commit lock: it ends the branches that have not won.
func (f *fork) lose(b *batch.Batch, winner int) error {
	r := f.c.r
	r.writing.Lock() // nobody is between asking whether he may defer a change, and doing it
	for j := range f.inside {
		if j != winner {
			f.inside[j].lost.Store(true)
			f.loses[j]()
		}
	}
	r.writing.Unlock()
	for j, c := range f.inside {
		if j != winner {
			r.leaves(c.scope)
			if err := r.wf.giveBack(context.WithoutCancel(r.life), b, c.scope); err != nil {
				return err
			}
		}
	}
	return nil
}
