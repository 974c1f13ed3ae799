// Package history is what a workflow has done, in the keys of its actor: names, entries
// and their metadata, state, input, output and error.
//
// It exists so that a workflow's code can run again from the beginning and find what it
// did before. [Open] reads everything into memory once. After that reading costs nothing,
// and everything is changed by a [Tx]:
//
//	tx := h.Begin()
//	err := tx.Put(history.Entry{Location: scope.Name(i), Kind: history.Step{Output: out}})
//	…
//	err = tx.Commit(ctx) // or tx.Stage(b), to land with what else is in b
//
// A Tx lands whole, in one engine commit, and memory follows then; if it doesn't land
// nothing has changed. [Tx.Defer] changes memory at once, and is written by whatever
// commits next. What the workflow's state may become is looked at when it is written, and
// nothing leaves Cancelled, so that a cancellation can't be overwritten by what was under
// way.
//
// Several goroutines may have transactions at the same time. They land one after the
// other, and don't wait for each other's way to stable storage. Two that change the same
// entry overwrite each other: an entry belongs to the goroutine that runs its scope.
//
// What is stored, byte for byte, is in keys.go and codec.go. Existing encodings will not
// change.
//
// # What it is not
//
// history runs nothing, knows no time, and gives no meaning to values. It doesn't repair:
// what can't be read as it was written is a [damageError], since a run that doesn't see an
// entry would do its work once more.
package history

// History is the front door of a few layers. Each knows those below it; besides, a Tx knows its committer.
//
//	History    what an owner does: open, begin, reload, close
//	Tx         what one batch does: a draft, checked and encoded, that a plan stages and follows
//	plan       what one commit writes, and how memory follows it
//	draft      what a transaction changes
//	committer  what transactions share: the gate of commits under way, used memory
//	view       what callers may ask
//	contents   what memory knows, and what is still to be written; with the lock
//	memory     records and orphans, the registry of names, the fieldSet
//	settings   what Open fixes
//
// Files, from the top down:
//
//	history.go land.go fields.go tx.go follow.go plan.go draft.go commit.go read.go encode.go contents.go options.go load.go saved.go
//	snapshot.go codec.go memory.go orphans.go fieldset.go names.go waits.go entry.go keys.go path.go state.go failure.go kind.go
//	location.go errors.go millis.go

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A History is the history of an actor's workflow, for the actor's owner. It is safe for
// concurrent use. Its methods return the actor's errors as they are.
type History struct {
	committer
	free func()    // gives the namespace back
	end  sync.Once // of free
}

// Open reads the workflow of an actor; nil opts are the zero Options. It writes nothing,
// and an actor without a workflow has an empty history, in the state Pending. There can
// be one History of an actor at a time: another is actorstore.ErrKept. It must be closed
// before the actor is.
//
// It reads one range of the engine, however much there is, and takes time and memory in
// proportion. Damage that isn't harmless is a *damageError.
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*History, error) {
	h := &History{}
	h.actor, h.limits = a, a.Limits()
	h.works.New = func() any { return new(batch.Batch) }
	h.txs.New = func() any { return newTx(&h.committer) }
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.NewID == nil {
		h.opts.NewID = NewID
	}
	free, err := a.Keep(actorstore.NamespaceWorkflow)
	if err != nil {
		return nil, fmt.Errorf("history: open: %w", err)
	}
	h.free = free
	if err := h.Reload(ctx); err != nil {
		free()
		return nil, err
	}
	return h, nil
}

// Close ends the history, not the actor. What was deferred and not written is lost, and
// what is staged can't be committed any more; Close waits for commits of it that are under way. A second Close returns
// when the first is over. It must not be called by hooks of a batch.
func (h *History) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	_ = h.gate.Close(context.Background()) // which doesn't give up
	h.end.Do(h.free)
}

// Reload forgets what was deferred and reads the store again: for a caller that gives a run
// up after a failure, and begins anew with what is stored. Names stay registered. Its errors are
// those of Open, after which memory is as it was.
func (h *History) Reload(ctx context.Context) error {
	for {
		begun, err := h.idle(ctx)
		if err != nil {
			return err
		}
		l, err := h.read(ctx)
		if err != nil {
			return fmt.Errorf("history: load: %w", err)
		}
		if h.replace(l.memory, begun) {
			return nil
		}
		// A commit began meanwhile, which what was read may not show.
	}
}

// read reads what is stored, which must not be damaged.
func (h *History) read(ctx context.Context) (l *loader, err error) {
	snap, err := h.actor.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	if l, err = load(ctx, snap); err != nil {
		return nil, err
	}
	for _, d := range l.damages {
		if !d.Harmless {
			return nil, &damageError{d}
		}
	}
	return l, nil
}

// Begin returns an empty transaction. It takes no lock, and needn't be ended.
func (h *History) Begin() *Tx { return h.txs.Get().(*Tx) }

// StoreNames writes names ahead of what needs them, up to a hundred in a commit, until at
// most so many are left: for a writer of small commits. Errors are those of
// Tx.Commit.
func (h *History) StoreNames(ctx context.Context, left int) error {
	for h.Unstored() > left {
		tx := h.Begin()
		tx.naming = 100
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		tx.Free()
	}
	return nil
}
