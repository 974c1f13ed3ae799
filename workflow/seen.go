package workflow

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// What is stored of a workflow, for whoever looks at it.
type (
	// A State is what a workflow is at.
	State = history.State
	// A Snapshot is everything that is stored of a workflow.
	Snapshot = history.Snapshot
	// A Change is what one commit has changed.
	Change = history.Change
	// A Damage is one thing that is wrong with what is stored.
	Damage = history.Damage
	// An Entry is one thing that a workflow did or waits for.
	Entry = history.Entry
	// A Location says where in the code that is.
	Location = history.Location
	// A Metadata says how an entry got on.
	Metadata = history.Metadata
	// Millis is a time of day in milliseconds since 1970, UTC.
	Millis = history.Millis
	// A Kind is what an entry records: one of the next types.
	Kind = history.Kind

	// A StepEntry is a piece of work with a result.
	StepEntry = history.Step
	// A LoopEntry is repeated until it has an output.
	LoopEntry = history.Loop
	// A SleepEntry is a time that is waited for.
	SleepEntry = history.Sleep
	// A MessageEntry is a received message, or the number of those received together.
	MessageEntry = history.Message
	// A CheckpointEntry is a RollbackCheckpoint.
	CheckpointEntry = history.Checkpoint
	// A JoinEntry is branches that are all waited for.
	JoinEntry = history.Join
	// A RaceEntry is branches of which the first to succeed wins.
	RaceEntry = history.Race
	// A BranchEntry is one of their branches.
	BranchEntry = history.Branch
	// A RemovedEntry stands for an entry whose code is gone.
	RemovedEntry = history.Removed
	// A VersionEntry is the version of the code that goes on at a place.
	VersionEntry = history.Version
)

// The states of a workflow. One that was started is Pending until its first run has
// recorded something; RollingBack is one that has failed, and is being undone.
const (
	Pending     = history.Pending
	Running     = history.Running
	Sleeping    = history.Sleeping
	Failed      = history.Failed
	Completed   = history.Completed
	Cancelled   = history.Cancelled
	RollingBack = history.RollingBack
)

// What a step that has failed is at. The other statuses, and those of branches and sleeps, are
// printed by their methods String.
const (
	StatusFailed    = history.StatusFailed    // and is tried again
	StatusExhausted = history.StatusExhausted // and is not
)

// SleepPending is the State of a SleepEntry that is waited for.
const SleepPending = history.SleepPending

// Read returns what is stored of the workflow of an actor, owned or not (a View has a
// Snapshot), and what is wrong with it. It reads one range of the engine. An error is the engine's.
func Read(ctx context.Context, s *actorstore.Snapshot) (*Snapshot, []Damage, error) {
	return history.Read(ctx, s)
}

// Unfinished reports whether a workflow of the actor was started and is not over: for a
// program that doesn't have its code. It reads one or two keys. An error is the engine's, or
// that the state can't be read.
func Unfinished(ctx context.Context, s *actorstore.Snapshot) (bool, error) {
	state, started, err := history.Peek(ctx, s)
	return started && !over(state), err
}

// Snapshot returns everything, as it is in memory.
func (w *Workflow) Snapshot() *Snapshot { return w.h.Snapshot() }
