package history

import (
	"context"

	"github.com/greenroomdb/greenroom/batch"
)

// A Tx is changes that land together, in the order of the calls: what is put after a
// Delete stays, what was put before doesn't. It keeps what it is given, which must not be
// changed. It is not safe for concurrent use, and reads of the History don't see it before
// it lands.
type Tx struct {
	h *History
}

// Put adds an entry, or replaces the one at its location. One without an ID gets that of
// the entry that it replaces, or a new one. With the same ID the metadata stay; with
// another they are removed. e.Metadata is ignored.
//
// Errors are a *SizeError, when the entry is larger than the store takes, and ErrInvalid;
// then tx is as it was.
func (tx *Tx) Put(e Entry) error { panic("history: not written yet") }

// PutMetadata replaces the metadata of the entry at l, which must be there, or put by tx
// before. Errors are those of Put.
func (tx *Tx) PutMetadata(l Location, m Metadata) error { panic("history: not written yet") }

// Delete removes the entry at scope and all in it, with their metadata. Names stay. The
// root is everything.
func (tx *Tx) Delete(scope Location) { panic("history: not written yet") }

// DeleteIterations removes all entries in the iterations [from, to) of the loop at l, with
// one write for all and one for each that has metadata.
func (tx *Tx) DeleteIterations(l Location, from, to uint32) { panic("history: not written yet") }

// SetState changes the workflow's state. Completed removes the error, and the output
// unless tx has one; Failed and RollingBack remove the output.
//
// A change that the state doesn't allow (State.May) is a *TransitionError, now or when tx
// is written, and then all of tx is refused.
func (tx *Tx) SetState(s State) error { panic("history: not written yet") }

// SetInput stores what the workflow is started with; nil removes it. Errors of this and of
// the next two are those of Put, and ErrCancelled, now or when tx is written.
func (tx *Tx) SetInput(v []byte) error { panic("history: not written yet") }

// SetOutput stores what the workflow returned; nil removes it.
func (tx *Tx) SetOutput(v []byte) error { panic("history: not written yet") }

// SetError stores the error with which the workflow failed; nil removes it. A stack, and
// then metadata, that make it too large are left out.
func (tx *Tx) SetError(f *Failure) error { panic("history: not written yet") }

// Reset removes everything of the workflow but its names, and makes its state Pending, as
// if it had never run: what tx does after that is the next run's. A workflow that is
// cancelled stays, with ErrCancelled, now or when tx is written.
func (tx *Tx) Reset() error { panic("history: not written yet") }

// Restore makes the workflow what a Snapshot is. It must be empty, with no names: else
// ErrInvalid.
func (tx *Tx) Restore(s *Snapshot) error { panic("history: not written yet") }

// Stage has tx land with b, together with everything that was deferred and all new names.
// What is written is decided under the actor's commit lock, when b is sealed; b must be
// Atomic, else it is refused then, as it is with the errors of the methods above. Memory
// changes when b is applied. If b is given up tx is as it was, and may be staged again.
//
// A commit reads nothing for it, unless Reset is part of it.
func (tx *Tx) Stage(b *batch.Batch) { panic("history: not written yet") }

// Commit lands tx in a batch of its own and returns when it is on stable storage. Errors
// are those of the methods above and of Actor.Commit. If there is nothing to write it is
// History.Flush.
func (tx *Tx) Commit(ctx context.Context) error { panic("history: not written yet") }

// Defer changes memory at once, and leaves it to the next commit of this History to write
// it, or never. What is deleted can't be deferred: then it panics. The errors are those of
// Stage.
func (tx *Tx) Defer() error { panic("history: not written yet") }
