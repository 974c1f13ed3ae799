package workflow

import (
	"fmt"

	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// An Entry is one thing that a workflow did or waits for, at its place in the code.
type Entry struct {
	ID       string   // the entry's own, a UUID in text unless Options.NewID makes others
	Location Location // not the root
	Kind     Kind     // not nil
	// Metadata is how the entry got on, nil if nothing is recorded of that.
	Metadata *Metadata
}

// Type is the name of the entry's Kind, which must not be nil, as RemovedEntry.Original has it:
// "step", "loop", "sleep", "message", "rollback_checkpoint", "join", "race", "removed" or
// "version_check".
func (e Entry) Type() string { return history.Entry{Kind: e.Kind.stored()}.Type() }

// A Metadata is how an entry got on. A nil pointer in it says that there was nothing yet.
type Metadata struct {
	Status              EntryStatus
	Error               *string // of the last attempt
	Attempts            uint32  // how many were begun
	LastAttemptAt       Millis  // when the last one was begun; 0: never
	CreatedAt           Millis
	CompletedAt         *Millis
	RollbackCompletedAt *Millis // when what the entry did had been undone
	RollbackError       *string // why that went wrong
}

// An EntryStatus says how far an entry has come.
type EntryStatus uint8

// The statuses of an entry.
const (
	StatusPending EntryStatus = iota
	StatusRunning
	StatusCompleted
	StatusFailed    // and is tried again
	StatusExhausted // failed, and is not tried again
)

// String returns "pending", "running", "completed", "failed" or "exhausted", and "unknown" for
// any other value.
func (s EntryStatus) String() string { return history.Status(s).String() }

// A Kind is what an entry records, a value of one of these types: StepEntry, LoopEntry,
// SleepEntry, MessageEntry, CheckpointEntry, JoinEntry, RaceEntry, RemovedEntry and
// VersionEntry. The bytes in them are shared with the workflow, and must not be changed.
//
// Values are encoded by the workflow's codec. Where a text or a value may be missing it is a
// pointer, or a slice, that is nil then; an empty value is not missing.
type Kind interface{ stored() history.Kind }

// A StepEntry is a piece of work with a result. The entry's metadata alone say whether it
// completed: the output of a step without a result is nil, too.
type StepEntry struct {
	Output []byte
	Error  *string // of the last attempt
}

// A LoopEntry is repeated until it has an output.
type LoopEntry struct {
	State     []byte // with which the iteration begins
	Iteration uint32 // the one that runs, or runs next, from 0
	Output    []byte // nil while it runs; and for the output of a loop that has none
}

// A SleepEntry is a time that the workflow waits for.
type SleepEntry struct {
	Deadline Millis
	State    SleepState
}

// A SleepState says what became of a SleepEntry.
type SleepState uint8

// The states of a SleepEntry.
const (
	SleepPending     SleepState = iota
	SleepCompleted              // its time came
	SleepInterrupted            // something else came first
)

// String returns "pending", "completed" or "interrupted", and "unknown" for any other value.
func (s SleepState) String() string { return history.SleepState(s).String() }

// A MessageEntry is a received message, or the number of those that were received together.
type MessageEntry struct {
	Name string
	Data []byte // the body, and what is known of the message, in CBOR
}

// A CheckpointEntry is a RollbackCheckpoint.
type CheckpointEntry struct{ Name string }

// A JoinEntry is branches that are all waited for.
type JoinEntry struct{ Branches []BranchEntry }

// A RaceEntry is branches of which the first to succeed wins.
type RaceEntry struct {
	Winner   *string // the name of a branch
	Branches []BranchEntry
}

// A BranchEntry is a branch of a JoinEntry or a RaceEntry. Their names are different, and their
// order is that of the code.
type BranchEntry struct {
	Name   string
	Status BranchStatus
	Output []byte
	Error  *string
}

// A BranchStatus says how far a BranchEntry has come.
type BranchStatus uint8

// The statuses of a BranchEntry.
const (
	BranchPending BranchStatus = iota
	BranchRunning
	BranchCompleted
	BranchFailed
	BranchCancelled
)

// String returns "pending", "running", "completed", "failed" or "cancelled", and "unknown" for
// any other value.
func (s BranchStatus) String() string { return history.BranchStatus(s).String() }

// A RemovedEntry stands for an entry whose code is gone.
type RemovedEntry struct {
	Original string  // the Type of the Entry that was there
	Name     *string // of what was there
}

// A VersionEntry is the version of the code that a workflow goes on with at this place.
type VersionEntry struct {
	Resolved uint32 // the version to go on with, from 1
	Latest   uint32 // the version that the code had
}

func (k StepEntry) stored() history.Kind { return history.Step(k) }
func (k LoopEntry) stored() history.Kind { return history.Loop(k) }
func (k SleepEntry) stored() history.Kind {
	return history.Sleep{Deadline: history.Millis(k.Deadline), State: history.SleepState(k.State)}
}
func (k MessageEntry) stored() history.Kind    { return history.Message(k) }
func (k CheckpointEntry) stored() history.Kind { return history.Checkpoint(k) }
func (k JoinEntry) stored() history.Kind {
	return history.Join{Branches: storedBranches(k.Branches)}
}
func (k RaceEntry) stored() history.Kind {
	return history.Race{Winner: k.Winner, Branches: storedBranches(k.Branches)}
}
func (k RemovedEntry) stored() history.Kind { return history.Removed(k) }
func (k VersionEntry) stored() history.Kind { return history.Version(k) }

// kindOf is the reverse of Kind.stored.
func kindOf(kind history.Kind) Kind {
	switch k := kind.(type) {
	case history.Step:
		return StepEntry(k)
	case history.Loop:
		return LoopEntry(k)
	case history.Sleep:
		return SleepEntry{Millis(k.Deadline), SleepState(k.State)}
	case history.Message:
		return MessageEntry(k)
	case history.Checkpoint:
		return CheckpointEntry(k)
	case history.Join:
		return JoinEntry{branchesOf(k.Branches)}
	case history.Race:
		return RaceEntry{k.Winner, branchesOf(k.Branches)}
	case history.Removed:
		return RemovedEntry(k)
	case history.Version:
		return VersionEntry(k)
	}
	panic(fmt.Sprintf("workflow: an entry of kind %T", kind))
}

func storedBranches(branches []BranchEntry) []history.Branch {
	return each(branches, func(b BranchEntry) history.Branch {
		return history.Branch{Name: b.Name, Status: history.BranchStatus(b.Status), Output: b.Output, Error: b.Error}
	})
}

func branchesOf(branches []history.Branch) []BranchEntry {
	return each(branches, func(b history.Branch) BranchEntry {
		return BranchEntry{b.Name, BranchStatus(b.Status), b.Output, b.Error}
	})
}

func (m *Metadata) stored() *history.Metadata {
	if m == nil {
		return nil
	}
	return &history.Metadata{
		Status: history.Status(m.Status), Error: m.Error, Attempts: m.Attempts,
		LastAttemptAt: history.Millis(m.LastAttemptAt), CreatedAt: history.Millis(m.CreatedAt),
		CompletedAt: m.CompletedAt.stored(), RollbackCompletedAt: m.RollbackCompletedAt.stored(), RollbackError: m.RollbackError,
	}
}

// metadataOf is the reverse of Metadata.stored.
func metadataOf(m *history.Metadata) *Metadata {
	if m == nil {
		return nil
	}
	return &Metadata{
		Status: EntryStatus(m.Status), Error: m.Error, Attempts: m.Attempts,
		LastAttemptAt: Millis(m.LastAttemptAt), CreatedAt: Millis(m.CreatedAt),
		CompletedAt: millisOf(m.CompletedAt), RollbackCompletedAt: millisOf(m.RollbackCompletedAt), RollbackError: m.RollbackError,
	}
}

func (e Entry) stored() history.Entry {
	return history.Entry{ID: e.ID, Location: history.Location(e.Location), Kind: e.Kind.stored(), Metadata: e.Metadata.stored()}
}

func entryOf(e history.Entry) Entry {
	return Entry{e.ID, Location(e.Location), kindOf(e.Kind), metadataOf(e.Metadata)}
}

// each returns what fn makes of each of vs; nil for nil.
func each[V, W any](vs []V, fn func(V) W) []W {
	if vs == nil {
		return nil
	}
	ws := make([]W, len(vs))
	for i, v := range vs {
		ws[i] = fn(v)
	}
	return ws
}
