package workflow

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// A State is what a workflow is at.
type State uint8

// The states of a workflow. One that was started is Pending until its first run has
// recorded something; RollingBack is one that has failed, and is being undone.
const (
	Pending State = iota
	Running
	Sleeping
	Failed
	Completed
	Cancelled
	RollingBack
)

// String returns "pending", "running", "sleeping", "failed", "completed", "cancelled" or
// "rolling_back", and "unknown" for any other value.
func (s State) String() string { return history.State(s).String() }

// A Snapshot is everything that is stored of a workflow, or was in memory at a moment. It
// belongs to the caller that got it, but the bytes in it are shared with the workflow, and must
// not be changed. It is safe for concurrent reads.
type Snapshot struct {
	State  State
	Input  []byte // encoded by the workflow's codec; nil for none
	Output []byte // encoded by the workflow's codec; nil for none
	// Error is why the workflow has failed, or is being rolled back; nil for neither.
	Error *StoredError
	// Names are those that the code of the workflow has used, by NameIndex.
	Names []string
	// Entries are sorted by Location.
	Entries []Entry
	// Rested is what the workflow waited for when a run came to rest last, nil if that isn't recorded; Waits says what
	// it waits for.
	Rested []Wait
	// Orphans are metadata of entries that aren't there, by the entry's ID; nil for none. A
	// process that ended between two commits may have left them, and they do no harm.
	Orphans map[string]*Metadata
}

// Empty reports whether nothing is stored of a workflow.
func (s *Snapshot) Empty() bool {
	return s.Input == nil && s.State == Pending && len(s.Entries)+len(s.Names) == 0
}

// A StoredError is the error with which a workflow failed, as it is stored. In Status.Failure, and from
// Runner.Output, it is a Failure.
type StoredError struct {
	Name    string // the Failure's Code, "Error" for none; RivetKit stores the error's type
	Message string
	Stack   string // "" for none
	// Metadata are further properties of the error, which RivetKit stores, in their order:
	// texts, numbers, truth values and nil. nil for none.
	Metadata []ErrorProperty
}

// An ErrorProperty is a named value of a StoredError.
type ErrorProperty struct {
	Name  string
	Value any
}

// Error returns the name and the message.
func (e *StoredError) Error() string { return e.stored().Error() }

func (e *StoredError) stored() *history.Failure {
	if e == nil {
		return nil
	}
	member := func(p ErrorProperty) cbor.Member { return cbor.Member(p) }
	return &history.Failure{Name: e.Name, Message: e.Message, Stack: e.Stack, Metadata: each(e.Metadata, member)}
}

// errorOf is the reverse of StoredError.stored.
func errorOf(f *history.Failure) *StoredError {
	if f == nil {
		return nil
	}
	property := func(m cbor.Member) ErrorProperty { return ErrorProperty(m) }
	return &StoredError{f.Name, f.Message, f.Stack, each(f.Metadata, property)}
}

// stored returns s as package history has it.
func (s *Snapshot) stored() *history.Snapshot {
	h := &history.Snapshot{
		State: history.State(s.State), Input: s.Input, Output: s.Output, Error: s.Error.stored(),
		Names: s.Names, Entries: each(s.Entries, Entry.stored), Rested: each(s.Rested, Wait.stored),
	}
	for id, m := range s.Orphans {
		if h.Orphans == nil {
			h.Orphans = make(map[string]*history.Metadata, len(s.Orphans))
		}
		h.Orphans[id] = m.stored()
	}
	return h
}

// snapshotOf is the reverse of Snapshot.stored.
func snapshotOf(h *history.Snapshot) *Snapshot {
	s := &Snapshot{
		State: State(h.State), Input: h.Input, Output: h.Output, Error: errorOf(h.Error),
		Names: h.Names, Entries: each(h.Entries, entryOf), Rested: each(h.Rested, waitOf),
	}
	for id, m := range h.Orphans {
		if s.Orphans == nil {
			s.Orphans = make(map[string]*Metadata, len(h.Orphans))
		}
		s.Orphans[id] = metadataOf(m)
	}
	return s
}

// Waits returns what the workflow waits for, what is due first at the front, as far as it can be known without its code. A
// workflow that has something to do at once, or runs, waits for a run; one that is over, or was never started, for nothing.
//
// A run records what it waits for when it comes to rest. Of a workflow whose last run made no such record, of an older version
// or of RivetKit, sleeps and steps that failed are known, and the latter without a time.
func (s *Snapshot) Waits() []Wait { return each(s.stored().Waits(), waitOf) }

// Stuck reports whether the workflow came to rest, and nothing that comes by itself can wake it: neither a time, nor a message that
// it asks for, nor the next attempt at a step. It is paused then, and goes on with Resume, or its input is gone. Of a workflow whose last run made no
// record of what it waits for, of an older version or of RivetKit, that isn't known, and it is false.
func (s *Snapshot) Stuck() bool { return s.stored().Stuck() }

// Path returns a location in words, for people: names with "/" between them, and iterations as
// "loop[3]". A name that holds more than letters, digits and some plain signs is quoted, and one
// that isn't among s.Names is "#" and its index; so different locations have different words. The
// root is ".".
//
//	order/charge    orders[3]/"a/b"    orders[3]/pick/left/#17
func (s *Snapshot) Path(l Location) string {
	return (&history.Snapshot{Names: s.Names}).Path(history.Location(l))
}

// Lookup returns the index of a name, and whether it is among s.Names.
func (s *Snapshot) Lookup(name string) (NameIndex, bool) {
	i, ok := (&history.Snapshot{Names: s.Names}).Lookup(name)
	return NameIndex(i), ok
}

// ByAge returns the entries in the order in which they were created, as their metadata say;
// those of one millisecond, and those without metadata, which come first, by Location.
func (s *Snapshot) ByAge() []Entry { return each(s.stored().ByAge(), entryOf) }

// MarshalJSON returns s in a form to be kept in a file, which holds everything: values are in
// base64, and each entry has its path beside it, for people. An error says that a property of
// s.Error can't be stored.
func (s *Snapshot) MarshalJSON() ([]byte, error) { return s.stored().MarshalJSON() }

// UnmarshalJSON reads what MarshalJSON makes. It doesn't look at paths, and at what else is for
// people. An error says what makes no sense, such as an entry with a name that is missing; s is
// as it was then. It keeps nothing of b.
func (s *Snapshot) UnmarshalJSON(b []byte) error {
	var h history.Snapshot
	if err := h.UnmarshalJSON(b); err != nil {
		return err
	}
	*s = *snapshotOf(&h)
	return nil
}

// A Change is what one commit has changed of a workflow. It belongs to the function that gets
// it, but the bytes in it are shared, and must not be changed.
type Change struct {
	State     State     // after it
	FirstName NameIndex // index of the first of Names
	Names     []string  // that were added
	Entries   []Entry   // that were put, or whose metadata were, sorted by Location
	Deleted   []Entry   // that are gone; also one in whose place is another, by its ID
}

// observer returns a function that hands changes of the history to fn; nil for nil.
func observer(fn func(Change)) func(history.Change) {
	if fn == nil {
		return nil
	}
	return func(c history.Change) {
		fn(Change{State(c.State), NameIndex(c.FirstName), c.Names, each(c.Entries, entryOf), each(c.Deleted, entryOf)})
	}
}

// A Damage is one thing that is wrong with what is stored of a workflow.
type Damage struct {
	Key []byte // of the actor; actorstore.Describe has it in words
	Err error  // wraps actorstore.ErrCorrupt or actorstore.ErrNewerFormat
	// Harmless says that no run is changed by it, as by metadata of an entry that isn't there.
	Harmless bool
}

// String returns the key in words, and what is wrong.
func (d Damage) String() string { return history.Damage(d).String() }

// Read returns what is stored of the workflow of an actor, owned or not (a View has a
// Snapshot), and what is wrong with it, in the order of the keys. What can't be read is left out
// of the Snapshot. It reads one range of the engine, and more only where something is damaged. An
// error is the engine's.
func Read(ctx context.Context, s *actorstore.Snapshot) (*Snapshot, []Damage, error) {
	return readOf(history.Read(ctx, s))
}

// ReadEntries is Read of entries that lie elsewhere, as in a table, under the keys of a layout and in their order. An error is that of entries.
func ReadEntries(l actorstore.Layout, entries iter.Seq2[actorstore.Entry, error]) (*Snapshot, []Damage, error) {
	return readOf(history.ReadEntries(l, entries))
}

func readOf(h *history.Snapshot, damages []history.Damage, err error) (*Snapshot, []Damage, error) {
	if err != nil {
		return nil, nil, err
	}
	return snapshotOf(h), each(damages, func(d history.Damage) Damage { return Damage(d) }), nil
}

// Unfinished reports whether a workflow of the actor was started and is not over: for a
// program that doesn't have its code. It reads one or two keys. An error is the engine's, or
// that the state can't be read.
func Unfinished(ctx context.Context, s *actorstore.Snapshot) (bool, error) {
	state, started, err := history.Peek(ctx, s)
	return started && !over(State(state)), err
}

// Snapshot returns everything, as it is in memory.
func (w *Workflow) Snapshot() *Snapshot { return snapshotOf(w.h.Snapshot()) }

// Found returns by which state of its workflow the actor is found that r shows, "" if it has none, whether the workflow is stuck
// (Snapshot.Stuck), and when the state was stored, zero if that isn't known: what actorstore.Attributes say. It reads nothing of the history but that.
//
// Errors: ErrCorrupt; those of reading.
func Found(ctx context.Context, r actorstore.Reader) (state string, stuck bool, since time.Time, err error) {
	return FoundIn(r.Layout(), func(key []byte) iter.Seq2[actorstore.Entry, error] {
		return r.List(ctx, actorstore.ListOptions{Start: key, End: append(bytes.Clone(key), 0)})
	})
}

// FoundIn is Found of a workflow whose entries lie elsewhere, as in a table, under the keys of a layout: at yields the entry of a key, if it is there. An error is
// that of at, or ErrCorrupt.
func FoundIn(l actorstore.Layout, at func(key []byte) iter.Seq2[actorstore.Entry, error]) (state string, stuck bool, since time.Time, err error) {
	return history.Found(l, at)
}
