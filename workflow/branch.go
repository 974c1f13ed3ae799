package workflow

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// A Branch is a part of a workflow that runs beside others, with a Context of its own.
// Names are used anew in it. What it returns is recorded as the result of a step is.
type Branch[T any] struct {
	Name string
	Run  func(c *Context) (T, error)
}

// encodes returns b as a part of a fork.
func (b Branch[T]) encodes() branch {
	return branch{name: b.Name, run: func(c *Context) ([]byte, error) {
		v, err := b.Run(c)
		if err != nil {
			return nil, err
		}
		out, err := c.r.wf.opts.Codec.Encode(cbor.Typed(v))
		if err != nil {
			return nil, fmt.Errorf("workflow: output of branch %s: %w", b.Name, err)
		}
		return out, nil
	}}
}

// A branch is one of a fork.
type branch struct {
	name string
	run  func(c *Context) ([]byte, error)
}

// A fork is one call of a join or a race.
type fork struct {
	*place
	branches []branch
	race     bool
	inside   []*Context // of each branch
	loses    []context.CancelFunc
	ended    chan struct{} // closed when there is nothing to wait for any more
	decided  chan struct{} // closed when a branch has won

	// mu is held while the entry is changed in memory, not while it is committed.
	mu    sync.Mutex
	state []history.Branch // as recorded, in the order of branches  +checklocks:mu
	won   int              // the number of the branch that has won, −1 for none  +checklocks:mu

	// Guarded by run.mu.
	left      int    // branches that still run
	gone      []bool // ended, or left alone
	abandoned bool   // the caller has stopped waiting
}

// kind returns what is to be recorded of f.
//
// +checklocks:f.mu
func (f *fork) kind() history.Kind {
	state := slices.Clone(f.state)
	if !f.race {
		return history.Join{Branches: state}
	}
	k := history.Race{Branches: state}
	if f.won >= 0 {
		k.Winner = &f.branches[f.won].name
	}
	return k
}

// fork begins a join or a race, and takes what is recorded of it.
func (c *Context) fork(name string, race bool, branches []branch) *fork {
	f := &fork{place: c.enter(name), branches: branches, race: race, won: -1, ended: make(chan struct{}), decided: make(chan struct{})}
	var winner *string
	if race {
		k, _ := kind[history.Race](f.place)
		f.state, winner = slices.Clone(k.Branches), k.Winner
	} else {
		k, _ := kind[history.Join](f.place)
		f.state = slices.Clone(k.Branches)
	}
	if !f.found {
		for _, b := range branches {
			f.state = append(f.state, history.Branch{Name: b.name})
		}
	}
	names := map[string]bool{}
	for i, b := range branches {
		if names[b.name] {
			c.misuse(name, fmt.Sprintf("two branches are called %q", b.name))
		}
		names[b.name] = true
		if len(f.state) != len(branches) || f.state[i].Name != b.name {
			f.diverged("the history has the branches %q, and the code has %q", stateNames(f.state), branchNames(branches))
		}
		if winner != nil && *winner == b.name {
			f.won = i
		}
	}
	if winner != nil && f.won < 0 {
		f.diverged("the history says that branch %q has won, and there is none", *winner)
	}
	return f
}

func stateNames(bs []history.Branch) (names []string) {
	for _, b := range bs {
		names = append(names, b.Name)
	}
	return names
}

func branchNames(bs []branch) (names []string) {
	for _, b := range bs {
		names = append(names, b.name)
	}
	return names
}

// over says whether branch i needs not run any more.
func (f *fork) over(i int) bool {
	return f.state[i].Status != history.BranchPending && f.state[i].Status != history.BranchRunning
}

// begin gives each branch its context, and records that those which aren't over run, with
// whatever the first of them commits.
func (f *fork) begin() (todo []int) {
	f.gone = make([]bool, len(f.branches))
	for i, b := range f.branches {
		n, err := f.c.r.wf.h.Name(b.name)
		if err != nil || b.name == "" {
			f.c.misuse(f.name, fmt.Sprintf("a branch can't be called %q", b.name))
		}
		life, lose := context.WithCancel(f.c.life)
		f.inside = append(f.inside, f.c.child(f.at.Name(n), life))
		f.loses = append(f.loses, lose)
		if !f.over(i) {
			todo = append(todo, i)
			f.state[i].Status = history.BranchRunning
		}
	}
	f.c.storeNames()
	if len(todo) > 0 && f.c.r.undoing == nil {
		m := f.status()
		m.Status = history.StatusRunning
		f.must(f.record(f.kind(), m, withNext))
	}
	return todo
}

// run runs the branches that aren't over, and returns when all have ended. Of those that
// have lost a race it waits for as long as for a step.
func (f *fork) run() {
	r := f.c.r
	todo := f.begin()
	defer func() {
		for _, lose := range f.loses {
			lose()
		}
	}()
	if r.undoing != nil {
		f.collect()
		return
	}
	if len(todo) == 0 {
		return
	}
	r.mu.Lock()
	f.left = len(todo)
	r.active += len(todo) - 1 // the branches work, and their caller waits
	r.mu.Unlock()
	for _, i := range todo {
		r.spawn(func() ([]byte, error) { return f.branch(i) },
			func(out []byte, err error, returned bool) { f.end(i, out, err, returned) })
	}
	f.wait()
}

func (f *fork) wait() {
	r := f.c.r
	decided := f.decided
	var patience <-chan time.Time
	for {
		select {
		case <-f.ended:
			f.c.leaveIfOver()
			return
		case <-decided:
			decided = nil
			// Longer than a step waits for its work.
			patience = time.After(r.wf.opts.Grace + r.wf.opts.Grace/4 + time.Millisecond)
		case <-patience:
			f.leaveAlone()
		case <-f.c.life.Done():
			f.abandon()
			leave()
		}
	}
}

// branch runs one branch.
func (f *fork) branch(i int) ([]byte, error) {
	c := f.inside[i]
	out, err := f.branches[i].run(c)
	c.leaveIfOver()
	if err == nil {
		c.passed()
	}
	return out, err
}

// end is called on the goroutine of a branch that has ended.
func (f *fork) end(i int, out []byte, err error, returned bool) {
	defer f.settle(i)
	switch over := f.inside[i].life.Err() != nil; {
	case over:
	case returned:
		f.result(i, out, err) // it may leave
	default:
		f.c.r.halt(errGoexit)
	}
}

// settle counts a branch that has ended, and wakes the caller once all of them have.
func (f *fork) settle(i int) {
	r := f.c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.gone[i] {
		return // it was left alone, and isn't counted any more
	}
	f.gone[i] = true
	f.left--
	f.finish()
	r.rest()
}

// finish wakes the caller if no branch is left.
//
// +checklocks:f.c.r.mu
func (f *fork) finish() {
	if f.left > 0 {
		return
	}
	if !f.abandoned {
		f.c.r.active++
	}
	close(f.ended)
}

// abandon is called by a caller that leaves before the branches have ended.
func (f *fork) abandon() {
	f.c.r.mu.Lock()
	defer f.c.r.mu.Unlock()
	if f.left > 0 {
		f.abandoned = true
		f.c.r.active++
	}
}

// leaveAlone stops waiting for the branches that have lost and don't end: what they do has
// no effect any more.
func (f *fork) leaveAlone() {
	r := f.c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.left == 0 {
		return
	}
	for i, gone := range f.gone {
		if !gone && f.inside[i].lost.Load() {
			f.gone[i] = true
			f.left--
			r.active--
			r.wf.opts.Logger.Warn("workflow: a branch that has lost its race doesn't return", "race", f.path(), "branch", f.branches[i].name)
		}
	}
	f.finish()
}

// result records what a branch has returned.
func (f *fork) result(i int, out []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.won >= 0 {
		return // it came too late
	}
	if f.race && err == nil {
		f.won = i
		if err = f.win(i, out); err == nil {
			close(f.decided)
			return
		}
		f.won = -1
	}
	b := &f.state[i]
	b.Status, b.Output, b.Error = history.BranchCompleted, out, nil
	if err == nil {
		if err = f.record(f.kind(), f.status(), withNext); err == nil {
			return
		}
	}
	text := f.c.r.wf.failures.of(err).text()
	b.Status, b.Output, b.Error = history.BranchFailed, nil, &text
	f.must(f.record(f.kind(), f.status(), withNext))
}

// failed returns the errors of the branches that have failed.
func (f *fork) failed() (errs []*BranchError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.state {
		if b.Status == history.BranchFailed {
			failure := &Failure{Message: "failed"}
			if b.Error != nil {
				failure = f.c.r.wf.failures.parse(*b.Error)
			}
			errs = append(errs, &BranchError{b.Name, failure})
		}
	}
	return errs
}

// collect replays the branches one after the other, for what is to be undone. Of a race
// that is the winner. If one has not come to its end the code stops behind it.
func (f *fork) collect() {
	over := true
	for i := range f.branches {
		if f.won >= 0 && f.won != i {
			continue
		}
		done := make(chan struct{})
		f.c.r.spawn(func() ([]byte, error) { return f.branch(i) }, func([]byte, error, bool) { close(done) })
		<-done
		over = over && f.over(i)
	}
	if !over {
		f.c.stopCollecting()
	}
}

// close records that f has come to its end.
func (f *fork) close() {
	if f.c.r.undoing != nil || f.status().Status == history.StatusCompleted {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.must(f.record(f.kind(), f.completed(), soon))
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

func (f *fork) winner() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.won
}

// lose is run under the actor's commit lock: it ends the branches that have not won.
func (f *fork) lose(b *batch.Batch, winner int) error {
	r := f.c.r
	r.writing.Lock() // no goroutine is between asking whether a change may be deferred and deferring it
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
			if err := r.wf.giveBack(context.WithoutCancel(r.life), b, c.scope, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
