package actorstore

import (
	"context"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/check"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// A Finding is one thing that is wrong with what is stored.
type Finding struct {
	Actor ID     // whose it is; the zero ID: the store's own
	Where string // the key in words (Describe), the row, or what of the actor
	What  string // what is wrong with it, a clause

	// Harmless: nothing is lost and nothing is read wrongly. It is what a crash may
	// leave behind, and what the next owner removes or rolls back. Of what this
	// package's own checks find, only a fork that isn't complete is: every commit
	// lands whole or not at all.
	Harmless bool
	// Unfinished: a transaction or a fork was under way, or its owner stopped in the
	// middle and the next one rolls it back. It isn't a fault, and always Harmless too.
	// What else is stored can be judged only after that.
	Unfinished bool
	// Unchecked: it could not be looked at here, because that takes something that only its
	// own program has. Nothing is known to be wrong, and it is always Harmless too.
	Unchecked bool
}

// String returns the finding on one line: the actor, unless it is the store's own,
// where and what. "harmless" stands before what is.
func (f Finding) String() string {
	s := f.Where + ": " + f.What
	if !f.Actor.IsZero() {
		s = "actor " + f.Actor.String() + ": " + s
	}
	if f.Harmless {
		s = "harmless: " + s
	}
	return s
}

// Check walks everything that the store has stored, the state at the start of the
// iteration, and yields what is wrong with it; nothing for a healthy store:
//
//   - The store's own rows (keys.go): the format row, heads, names. Each must be
//     readable and of a version that is known; a row of another kind should not be
//     there. The name of an actor and the row that leads from the name to it must
//     agree. A head that counts bytes must have an actor: keys that it counts. One
//     that counts none is fine without; so an actor is whose keys were all deleted,
//     or that was opened and never written to.
//   - The rows of every actor, as CheckActor does, and rows there that belong to
//     none.
//
// Damage of one key or actor yields about one finding, and the walk goes on after
// it. Rows elsewhere in the engine are other people's, and not looked at. What the
// values mean is for others to check: package vfs for SQLite's files.
//
// An error means that the engine failed, not that something is damaged; it comes
// with a zero Finding and ends the sequence. The memory that a check needs doesn't
// depend on what is stored. A damaged format row is found by Open already.
func (r *registry) Check(ctx context.Context) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) { r.checkNewest(ctx, nil, yield) }
}

// CheckActor is Check for one actor: its head, its name, and the rows of its keys.
// It is also for one whose head is missing or damaged, which View refuses. An id of
// which nothing is stored is ErrUnknownActor.
//
// Of the rows of a key none may be missing or too many; they must hold what
// internal/layout says. Each key must be of a form that Describe knows, and keep the
// limits of this Store. The head must count what the keys use. It is compared only
// if the rows of all keys are sound: else what they use can't be told. It alone
// tells that the last row of a value is missing.
func (r *registry) CheckActor(ctx context.Context, id ID) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) { r.checkNewest(ctx, &id, yield) }
}

// checkNewest checks the newest state: of the whole store, or of one actor if only isn't nil.
func (r *registry) checkNewest(ctx context.Context, only *ID, yield func(Finding, error) bool) {
	err := r.check()
	var snap kv.Snapshot
	if err == nil {
		snap, err = r.eng.Snapshot(ctx)
	}
	if err != nil {
		yield(Finding{}, fmt.Errorf("actorstore: check: %w", err))
		return
	}
	more := true
	defer func() {
		if err := snap.Close(); err != nil && more {
			yield(Finding{}, fmt.Errorf("actorstore: check: %w", err))
		}
	}()
	more = checkState(ctx, &check.State{Src: snap, Only: (*layout.ID)(only), Limits: r.limits}, yield)
}

// checkState yields what is wrong with a state, and the error that ended the check. more says
// whether something else may be yielded.
func checkState(ctx context.Context, state *check.State, yield func(Finding, error) bool) (more bool) {
	state.MaxHints, state.MaxNotes, state.MaxNoteKey, state.MaxNoteValue = MaxHints, MaxNotes, maxNoteKey, MaxNoteValue
	state.Name, state.Describe, state.Unknown = checkName, describeBy, ErrUnknownActor
	more = true
	err := check.Run(ctx, state, func(f check.Finding) bool {
		more = yield(Finding{Actor: ID(f.Actor), Where: f.Where, What: f.What, Harmless: f.Unfinished, Unfinished: f.Unfinished}, nil)
		return more
	})
	if err != nil {
		more = false
		yield(Finding{}, fmt.Errorf("actorstore: check: %w", err))
	}
	return more
}

// describeBy is Describe, and says whether the layout with that number has such keys.
func describeBy(l uint8, key []byte) (words string, known bool) {
	if words = Layout(l).describe(key); words != "" {
		return words, true
	}
	return Describe(key), false
}
