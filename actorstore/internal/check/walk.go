package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// A State is what is checked, and what package actorstore says of what may be there.
type State struct {
	Src      kv.Reader
	Only     *layout.ID   // the actor to check, nil for the whole store
	Limits   batch.Limits // of a key and of a value
	MaxHints int          // bytes of an actor's hints
	MaxNotes int          // notes of an actor
	// MaxNoteKey and MaxNoteValue are in bytes.
	MaxNoteKey, MaxNoteValue int
	// Name says what is wrong with the name of an actor, nil if nothing is.
	Name func(name string) error
	// Describe returns a key in words, and whether the layout with that number has such keys.
	Describe func(layout uint8, key []byte) (words string, known bool)
	// Unknown is what Run's error wraps if nothing of the actor is stored.
	Unknown error
}

// A Finding is an actorstore.Finding. It is harmless if it is Unfinished, and never Unchecked.
type Finding struct {
	Actor       layout.ID
	Where, What string
	Unfinished  bool
}

// A walk is one check. Once it has an error it reads and reports nothing more.
type walk struct {
	*State
	ctx   context.Context
	yield func(Finding) bool
	err   error // the engine's, errStopped, or one that wraps Unknown
}

// errStopped ends a walk whose consumer wants no more.
var errStopped = errors.New("check: the check was stopped")

// fail ends the walk, unless err is nil.
func (w *walk) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// get reads a row of the store's own, and says whether it is there.
func (w *walk) get(key []byte) (row []byte, ok bool) {
	if w.err != nil {
		return nil, false
	}
	row, err := w.Src.Get(w.ctx, key, nil)
	if !errors.Is(err, kv.ErrNotFound) {
		w.fail(err)
	}
	return row, err == nil
}

// scan calls do with each row of r.
func (w *walk) scan(r kv.Range, do func(kv.Entry)) {
	if w.err != nil {
		return
	}
	for e, err := range w.Src.Scan(w.ctx, r) {
		if w.fail(err); w.err == nil {
			do(e)
		}
		if w.err != nil {
			return
		}
	}
}

// prefixRange returns the range of all keys that begin with p.
func prefixRange(p []byte) kv.Range { return kv.Range{Start: p, End: kv.PrefixEnd(p)} }

// find reports a finding.
func (w *walk) find(actor layout.ID, where, format string, args ...any) {
	w.tell(Finding{Actor: actor, Where: where, What: fmt.Sprintf(format, args...)})
}

// unknown reports a row that the store doesn't have.
func (w *walk) unknown(actor layout.ID, key []byte) {
	w.find(actor, rowWords(key), "the store has no row of this kind")
}

func (w *walk) tell(f Finding) {
	if w.err == nil && !w.yield(f) {
		w.err = errStopped
	}
}

// rowWords says which row a physical key is.
func rowWords(key []byte) string { return fmt.Sprintf("row %x", key) }

// andMore says how many rows behind the one that is told are like it.
func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", like %d more behind it", n)
}

// clause says why a row can't be read, without what the finding says already.
func clause(err error) string {
	var newer *kv.FormatError
	if errors.As(err, &newer) {
		return fmt.Sprintf("it is of version %d, known are versions up to %d", newer.Found, newer.Known)
	}
	if errors.Is(err, kv.ErrCorrupt) {
		// What the row is, and that it is damaged, frame the reason.
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			return "it can't be read: " + all.Unwrap()[0].Error()
		}
		return "it can't be read: " + strings.TrimSuffix(err.Error(), ": "+kv.ErrCorrupt.Error())
	}
	return "it can't be used: " + err.Error()
}
