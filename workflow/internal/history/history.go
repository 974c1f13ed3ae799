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

// Files, from the top down:
//
//	land.go orphans.go plan.go fields.go saved.go tx.go encode.go names.go history.go load.go
//	snapshot.go codec.go memory.go waits.go entry.go keys.go path.go state.go failure.go kind.go location.go
//	errors.go millis.go

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/drain"
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// NewID makes the ids of entries; nil means random UUIDs of version 4. What it returns
	// must be new.
	NewID func() string
	// Changed, unless it is nil, is told of every commit that changed something stored, in
	// their order, after the change of memory. It is called under the actor's commit lock, so
	// it must be quick and must neither commit nor wait for a commit. What it is given is
	// its own, but for the bytes.
	Changed func(Change)
}

// A Change is what one commit has changed of a workflow.
type Change struct {
	State     State     // after it
	FirstName NameIndex // index of the first of Names
	Names     []string  // that were added
	Entries   []Entry   // that were put, or whose metadata were, sorted by Location
	Deleted   []Entry   // that are gone; also one in whose place is another, by its ID

	fields bool // whether the state or a value has changed
}

func (c *Change) any() bool {
	return len(c.Names)+len(c.Entries)+len(c.Deleted) > 0 || c.fields
}

// A History is the history of an actor's workflow, for the actor's owner. It is safe for
// concurrent use. Its methods return the actor's errors as they are.
type History struct {
	actor  *actorstore.Actor
	opts   Options
	limits batch.Limits
	free   func()     // gives the namespace back
	works  sync.Pool  // of *batch.Batch
	txs    sync.Pool  // of *Tx, empty
	gate   drain.Gate // of commits under way; closed is set before it is
	end    sync.Once  // of free

	dirty batch.Dirty[deferred]

	// mu is held for memory alone: never while the engine is asked, nor during a commit,
	// whose hooks take it.
	mu     sync.RWMutex
	m      memory // +checklocks:mu
	begun  uint64 // how many commits have entered the gate  +checklocks:mu
	closed bool   // +checklocks:mu
}

// A deferred is something that was changed in memory and is to be written: an entry, the
// metadata of one, or a field.
type deferred struct {
	what  what
	at    Location
	field field
}

type what uint8

const (
	whatEntry what = iota
	whatMetadata
	whatField
)

// Open reads the workflow of an actor; nil opts are the zero Options. It writes nothing,
// and an actor without a workflow has an empty history, in the state Pending. There can
// be one History of an actor at a time: another is actorstore.ErrKept. It must be closed
// before the actor is.
//
// It reads one range of the engine, however much there is, and takes time and memory in
// proportion. Damage that isn't harmless is a *damageError.
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*History, error) {
	h := &History{actor: a, limits: a.Limits()}
	h.works.New = func() any { return new(batch.Batch) }
	h.txs.New = func() any { return h.newTx() }
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

// NewID returns a random UUID (https://www.rfc-editor.org/rfc/rfc9562#section-5.4).
func NewID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	var text [36]byte
	at := 0
	for i, b := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text[at] = '-'
			at++
		}
		hex.Encode(text[at:], []byte{b})
		at += 2
	}
	return string(text[:])
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
		if h.take(l, begun) {
			return nil
		}
		// A commit began meanwhile, which what was read may not show.
	}
}

// idle waits until every commit that has begun is over, and returns how many have.
func (h *History) idle(ctx context.Context) (begun uint64, err error) {
	h.mu.RLock()
	begun = h.begun
	h.mu.RUnlock()
	if err := h.gate.Idle(ctx); err != nil {
		return 0, err
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	return begun, h.usable()
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

// take makes l the memory, unless a commit began since so many had.
func (h *History) take(l *loader, begun uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun != begun {
		return false
	}
	// An index of a name that was given out stays good.
	for _, name := range h.m.names[min(len(l.names), len(h.m.names)):] {
		l.register(name)
	}
	h.m = l.memory
	h.dirty.Clear(h.dirty.Capture())
	return true
}

// usable returns why nothing can be staged: ErrClosed, or what the actor's Err says.
//
// +checklocksread:h.mu
func (h *History) usable() error {
	if h.closed {
		return ErrClosed
	}
	return h.actor.Err()
}

// State returns the workflow's state.
func (h *History) State() State {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.m.state
}

// Input returns what the workflow was started with, encoded; nil if it wasn't. The bytes
// must not be changed.
func (h *History) Input() []byte { return h.value(fieldInput) }

// Output returns what the workflow returned, encoded; nil for none. The bytes must not be
// changed.
func (h *History) Output() []byte { return h.value(fieldOutput) }

func (h *History) value(f field) []byte {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.m.values[f]
}

// Failure returns the error with which the workflow failed, nil for none. It must not be
// changed.
func (h *History) Failure() *Failure {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.m.failure
}

// Get returns the entry at a location.
func (h *History) Get(l Location) (Entry, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if rec, ok := h.m.records[l]; ok {
		return rec.Entry, true
	}
	return Entry{}, false
}

// In returns the entries in a scope, not the one at it, sorted by Location.
func (h *History) In(scope Location) []Entry {
	h.mu.RLock()
	defer h.mu.RUnlock()
	es := h.m.entries(in(scope))
	if len(es) > 0 && es[0].Location == scope {
		return es[1:]
	}
	return es
}

// FirstIn returns the first entry that stands in a scope itself, not in something there,
// and whose name is not passed; ok is false for none. passed must not call h.
func (h *History) FirstIn(scope Location, passed func(NameIndex) bool) (l Location, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	from, to := h.m.span(in(scope))
	for _, l := range h.m.order[from:to] {
		if i, direct := l.nameIn(scope); direct && !passed(i) {
			return l, true
		}
	}
	return "", false
}

// Newest returns when and where the entry was created that is the last in Snapshot.ByAge;
// zero values if there are none.
func (h *History) Newest() (created Millis, at Location) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, l := range h.m.order {
		if m := h.m.records[l].Metadata; m != nil && m.CreatedAt >= created {
			created, at = m.CreatedAt, l
		}
	}
	return created, at
}

// Written reports whether the entry at l is stored as it is in memory.
func (h *History) Written(l Location) bool {
	return !h.dirty.Dirty(deferred{what: whatEntry, at: l})
}

// Deferred returns how many writes were deferred, and the bytes of their values but for
// those of fields.
func (h *History) Deferred() (writes, bytes int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if writes = h.dirty.Len(); writes == 0 {
		return 0, 0
	}
	for _, d := range h.dirty.Capture().Keys() {
		switch rec := h.m.records[d.at]; {
		case rec == nil:
		case d.what == whatEntry:
			bytes += len(rec.value)
		case d.what == whatMetadata:
			bytes += len(rec.metaValue)
		}
	}
	return writes, bytes
}

// Usage returns how much there is: entries, and the bytes that are stored for the workflow
// as the actor's quota counts them, names, metadata, input and output too. What was
// deferred counts as an entry, and not in bytes.
func (h *History) Usage() (entries int, bytes int64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.m.order), h.m.bytes
}

// Waiting returns what Snapshot.Waits and Snapshot.Began need: the rest only if that is needed, too.
func (h *History) Waiting() *Snapshot {
	h.mu.RLock()
	s := &Snapshot{State: h.m.state, Input: h.m.values[fieldInput], Rested: rested(h.m.values[fieldWaits])}
	h.mu.RUnlock()
	if s.State == Sleeping && s.Rested == nil {
		return h.Snapshot()
	}
	return s
}

// Snapshot returns everything, as it is in memory.
func (h *History) Snapshot() *Snapshot {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.m.snapshot()
}
