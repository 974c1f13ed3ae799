package workflow

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// LoopOptions say what is kept of a loop. The zero value is fine.
type LoopOptions struct {
	// Commit is after how many iterations the state is recorded by a commit of its own, if
	// no step or wait in an iteration has done it before. 0 means 20. After the end of a
	// process the iterations since the last commit run again, over what they recorded.
	Commit int
	// Keep is how many iterations before the present one are kept in the history, to be
	// looked at. 0 means Commit; a negative value none.
	Keep int
}

// Loop calls fn until it says that it is done, and returns what it returns then. Each
// iteration has a Context of its own, in which names are used anew. state is what the
// first iteration begins with; fn changes it in place, and what it leaves is what the next
// one begins with, also after a restart: a loop goes on with the iteration in which it
// was, and the ones before are forgotten.
//
// An error of fn ends the call, and is returned; in a later run the iteration begins
// again.
func Loop[S, T any](c *Context, name string, state S, fn func(c *Context, state *S) (out T, done bool, err error)) (T, error) {
	return LoopWith(c, name, state, nil, fn)
}

// LoopWith is Loop with options; nil opts are the zero LoopOptions.
func LoopWith[S, T any](c *Context, name string, state S, opts *LoopOptions,
	fn func(c *Context, state *S) (out T, done bool, err error)) (out T, err error) {

	l := c.loop(name, opts)
	defer c.end()
	codec := c.r.wf.opts.Codec
	if !l.found {
		l.begin(encoded(l.place, codec, "state", state))
	}
	for l.m.Status != history.StatusCompleted {
		var s S // nothing of the iteration before is left in it
		l.decode(codec.Decode(l.k.State, &s), "state", s)
		in := l.iteration()
		out, done, err := fn(in, &s)
		in.leaveIfOver()
		if err != nil {
			return out, err
		}
		in.passed()
		if done {
			l.finish(encoded(l.place, codec, "output", out))
		} else {
			l.next(encoded(l.place, codec, "state", s))
		}
	}
	l.decode(codec.Decode(l.k.Output, &out), "output", out)
	return out, nil
}

// encoded returns v as it is recorded, or ends the run: what can't be encoded is a mistake
// of the code.
func encoded[T any](p *place, codec Codec, what string, v T) []byte {
	b, err := codec.Encode(cbor.Typed(v))
	if err != nil {
		p.c.misuse(p.name, fmt.Sprintf("its %s can't be encoded: %v", what, err))
	}
	return b
}

// decode ends the run if something recorded is not of its type any more.
func (p *place) decode(err error, what string, v any) {
	if err != nil {
		p.diverged("its %s is no %T: %v", what, v, err)
	}
}

// A looping is one call of a loop.
type looping struct {
	*place
	opts LoopOptions
	k    history.Loop
	m    history.Metadata
	// pruned is the first iteration that may be in the history, ran the one that is over.
	pruned, ran uint32
	// waits is how many states wait for a commit, one after the other.
	waits int
	prune *pruning // nil for none
}

// A pruning is iterations of a loop, [from, to), that nothing needs any more once the state
// of the loop is written that is in memory: they are removed by whatever commit does that.
type pruning struct {
	loop     history.Location
	from, to uint32
	done     atomic.Bool
}

// prune has tx remove the iterations of the loops around c that nothing needs.
func (c *Context) prune(tx *history.Tx) {
	for ; c != nil; c = c.parent {
		if p := c.pruning; p != nil && !p.done.Load() {
			tx.DeleteIterations(p.loop, p.from, p.to)
		}
	}
}

// pruned notes that they are removed, so that no other commit removes them again.
func (c *Context) pruned() {
	for ; c != nil; c = c.parent {
		if p := c.pruning; p != nil {
			p.done.Store(true)
		}
	}
}

func (c *Context) loop(name string, opts *LoopOptions) *looping {
	l := &looping{place: c.enter(name)}
	if opts != nil {
		l.opts = *opts
	}
	l.opts.Commit = cmp.Or(l.opts.Commit, defaultCommit)
	l.opts.Keep = max(0, cmp.Or(l.opts.Keep, l.opts.Commit))
	if l.opts.Commit < 0 {
		c.misuse(name, fmt.Sprintf("a commit after %d iterations", l.opts.Commit))
	}
	l.k, _ = kind[history.Loop](l.place)
	if l.m = l.status(); l.m.Status != history.StatusCompleted && c.r.undoing != nil && !l.found {
		c.stopCollecting()
	}
	return l
}

// begin records a new loop, with whatever its first iteration commits.
func (l *looping) begin(state []byte) {
	l.k = history.Loop{State: state}
	l.m.Status = history.StatusRunning
	l.must(l.record(l.k, l.m, withNext))
}

// iteration returns the context of the present iteration.
func (l *looping) iteration() *Context {
	in := l.c.child(l.at.Iteration(l.index, l.k.Iteration), l.c.life)
	in.pruning = l.prune
	return in
}

// next goes on to the next iteration.
func (l *looping) next(state []byte) {
	if l.c.r.undoing != nil {
		l.c.stopCollecting() // the iteration was not over, or it would not have been replayed
	}
	if l.ran = l.k.Iteration; l.ran == math.MaxUint32 {
		l.c.misuse(l.name, "it has run as often as can be counted: ContinueAsNew begins anew")
	}
	l.k.State = state
	l.k.Iteration++
	if l.waits++; l.c.r.wf.h.Written(l.at) {
		l.waits = 1 // the state before was written with something in the iteration
	}
	due := l.k.Iteration%uint32(l.opts.Commit) == 0
	if l.save(l.waits >= l.opts.Commit || due && l.c.r.wf.small); due {
		l.forget()
	}
}

// forget has the next commit, whatever it is for, remove iterations. It writes the state
// of the loop, too, which doesn't need them.
func (l *looping) forget() {
	if p := l.prune; p != nil && p.done.Load() {
		l.pruned = max(l.pruned, p.to)
	}
	l.prune = nil
	if to := l.unneeded(); to > l.pruned {
		l.prune = &pruning{loop: l.at, from: l.pruned, to: to}
	}
}

// unneeded returns the first iteration that is kept.
func (l *looping) unneeded() uint32 {
	return uint32(max(0, int64(l.k.Iteration)-int64(l.opts.Keep)))
}

// finish ends the loop.
func (l *looping) finish(out []byte) {
	l.ran, l.m, l.k.Output = l.k.Iteration, l.completed(), out
	if l.c.r.undoing != nil {
		l.c.stopCollecting()
	}
	l.save(true)
}

// save records how far the loop is, now or with the next commit. If now, it forgets
// iterations in the same commit, but none that must run again.
func (l *looping) save(now bool) {
	r := l.c.r
	over := l.at.Iteration(l.index, l.ran)
	left := r.leaves(over)
	if !now && !left {
		l.must(l.record(l.k, l.m, withNext))
		return
	}
	tx := r.wf.h.Begin()
	l.must(l.put(tx, l.k, l.m))
	from := l.unneeded()
	small := r.wf.small
	if from > l.pruned && !small {
		tx.DeleteIterations(l.at, l.pruned, from)
	}
	l.must(l.c.commit(tx, func(b *batch.Batch) error {
		if !left {
			return nil
		}
		return r.wf.giveBack(context.WithoutCancel(l.c.life), b, over, nil)
	}))
	tx.Free()
	l.entry, l.found = r.wf.h.Get(l.at)
	for i := l.pruned; small && i < from; i++ {
		// Where commits are small, one for each iteration: nothing needs them any more.
		tx := r.wf.h.Begin()
		tx.DeleteIterations(l.at, i, i+1)
		l.must(l.c.commit(tx, nil))
	}
	l.pruned, l.prune, l.waits = max(l.pruned, from), nil, 0
}
