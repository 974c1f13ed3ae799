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
// what can't be read as it was written is a [DamageError], since a run that doesn't see an
// entry would do its work once more.
package history

import (
	"context"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// NewID makes the ids of entries; nil means random UUIDs of version 4. What it returns
	// must be new.
	NewID func() string
	// Changed, unless it is nil, is told of every commit that changed something stored, in
	// their order, after memory has changed. It is called under the actor's commit lock, so
	// it must be quick and must neither commit nor wait for who does. What it is given is
	// its own, but for the bytes.
	Changed func(Change)
}

// A Change is what one commit has changed of a workflow.
type Change struct {
	State     State     // after it
	FirstName NameIndex // index of the first of Names
	Names     []string  // that were added
	Entries   []Entry   // that were put, or whose metadata were, sorted by Location
	Deleted   []Entry   // that are gone; of one that was replaced by another ID as well
}

// A History is the history of an actor's workflow, for the actor's owner. It is safe for
// concurrent use. Its methods return the actor's errors as they are.
type History struct {
	actor  *actorstore.Actor
	opts   Options
	limits batch.Limits
	free   func() // gives the namespace back
	works  sync.Pool

	dirty batch.Dirty[dirty] // what was deferred

	// mu is held for memory alone: never while the engine is asked, nor during a commit,
	// whose hooks take it.
	mu     sync.RWMutex
	m      memory // +checklocks:mu
	closed bool   // +checklocks:mu
}

// Open reads the workflow of an actor; nil opts are the zero Options. It writes nothing,
// and an actor without a workflow has an empty history, in the state Pending. There can
// be one History of an actor at a time: another is actorstore.ErrKept. It must be closed
// before the actor is.
//
// It reads one range of the engine, however much there is, and takes time and memory in
// proportion. Damage that isn't harmless is a *DamageError.
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*History, error) {
	panic("history: not written yet")
}

// Close ends the history, not the actor. What was deferred and not written is lost, and
// what is staged can't be committed any more. A second Close does nothing. It must not be
// called by hooks of a batch.
func (h *History) Close() { panic("history: not written yet") }

// Reload forgets what was deferred and reads the store again: for who gives a run up after
// a failure, and begins anew with what is stored. Its errors are those of Open, after
// which memory is as it was.
func (h *History) Reload(ctx context.Context) error { panic("history: not written yet") }

// Err returns why nothing can be staged: ErrClosed, or what the actor's Err says.
func (h *History) Err() error { panic("history: not written yet") }

// State returns the workflow's state.
func (h *History) State() State { panic("history: not written yet") }

// Input returns what the workflow was started with, encoded; nil if it wasn't. The bytes
// must not be changed.
func (h *History) Input() []byte { panic("history: not written yet") }

// Output returns what the workflow returned, encoded; nil for none. The bytes must not be
// changed.
func (h *History) Output() []byte { panic("history: not written yet") }

// Failure returns the error with which the workflow failed, nil for none. It must not be
// changed.
func (h *History) Failure() *Failure { panic("history: not written yet") }

// Get returns the entry at a location.
func (h *History) Get(l Location) (Entry, bool) { panic("history: not written yet") }

// ByID returns the entry that has the id.
func (h *History) ByID(id string) (Entry, bool) { panic("history: not written yet") }

// In returns the entries in a scope, not the one at it, sorted by Location.
func (h *History) In(scope Location) []Entry { panic("history: not written yet") }

// Name returns the index of a name, which is registered if it is new; it is written with
// the next commit of whatever is. A name that is not UTF-8 is ErrInvalid, and one of more
// than MaxName bytes ErrTooLarge.
func (h *History) Name(name string) (NameIndex, error) { panic("history: not written yet") }

// Lookup returns the index of a name that is registered.
func (h *History) Lookup(name string) (NameIndex, bool) { panic("history: not written yet") }

// NameOf returns the name of that index, "" if there is none.
func (h *History) NameOf(i NameIndex) string { panic("history: not written yet") }

// Path returns a location in words: see Snapshot.Path.
func (h *History) Path(l Location) string { panic("history: not written yet") }

// Usage returns how much there is: entries, and the bytes that are stored for the workflow
// as the actor's quota counts them, names, metadata, input and output too. What was
// deferred counts as an entry, and not in bytes.
func (h *History) Usage() (entries int, bytes int64) { panic("history: not written yet") }

// Snapshot returns everything, as it is in memory.
func (h *History) Snapshot() *Snapshot { panic("history: not written yet") }

// Check returns the error that Tx.Put would return: a *SizeError when e, with its names,
// its ID or a new one, and its Location, can't be stored; ErrInvalid when nothing like it
// can. A runner asks before it repeats what can't be recorded.
func (h *History) Check(e Entry) error { panic("history: not written yet") }

// MaxName is the length of the longest name, in bytes.
const MaxName = 4096

// Begin returns an empty transaction. It takes no lock, and needn't be ended.
func (h *History) Begin() *Tx { panic("history: not written yet") }

// Flush writes what was deferred, and returns when everything that was committed before is
// on stable storage. If there is nothing to wait for it does nothing.
func (h *History) Flush(ctx context.Context) error { panic("history: not written yet") }

type memory struct{}
type dirty struct{}
