package actorstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// Attributes are what an actor is found by, beside its name and its id: see Store.Actors. They lie in a row beside the actor's head, and
// the store has an index of each of them that is set, which the commit that changes an attribute changes with it.
type Attributes struct {
	// Workflow is the state of the actor's workflow, "" if the actor has none, and Since is when the workflow entered it, in whole
	// milliseconds. Stuck says that nothing that comes by itself wakes the workflow.
	Workflow string
	Since    time.Time
	Stuck    bool
	// Schema is the version of the schema of the actor's database, 0 for none: its PRAGMA user_version.
	Schema uint64
	// Slept is when the actor fell asleep last, in whole milliseconds; zero if that isn't known.
	Slept time.Time
	// Labels are texts that the actor's code gives the actor, by their keys; nil for none. A label of "" counts as one that isn't set.
	Labels map[string]string
}

// Bounds of the labels of an actor: their number, and the bytes of a key and of a value.
const (
	MaxLabels     = 16
	MaxLabelKey   = 64
	MaxLabelValue = 256
)

// ErrLabel says that a label can't be set: its key is empty, it isn't UTF-8, or it is beyond MaxLabels, MaxLabelKey or MaxLabelValue.
var ErrLabel = errors.New("actorstore: label can't be set")

// CheckLabel returns an error that wraps ErrLabel if a label of an actor can't have that key and value.
func CheckLabel(key, value string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: its key is empty", ErrLabel)
	case len(key) > MaxLabelKey:
		return fmt.Errorf("%w: a key of %d bytes, limit %d", ErrLabel, len(key), MaxLabelKey)
	case len(value) > MaxLabelValue:
		return fmt.Errorf("%w: a value of %d bytes under %q, limit %d", ErrLabel, len(value), key, MaxLabelValue)
	case !utf8.ValidString(key) || !utf8.ValidString(value):
		return fmt.Errorf("%w: %q=%q isn't UTF-8", ErrLabel, key, value)
	}
	return nil
}

// attributesOf returns what a row says.
func attributesOf(a *layout.Attributes) (at Attributes) {
	if a == nil {
		return at
	}
	at = Attributes{Workflow: a.Workflow, Stuck: a.Stuck, Schema: a.Schema}
	if at.Workflow != "" {
		at.Since = time.UnixMilli(a.Since)
	}
	if a.Slept != 0 {
		at.Slept = time.UnixMilli(a.Slept)
	}
	for _, l := range a.Labels {
		if at.Labels == nil {
			at.Labels = make(map[string]string, len(a.Labels))
		}
		at.Labels[l.Key] = l.Value
	}
	return at
}

// Equal reports whether a and o are the same.
func (a *Attributes) Equal(o *Attributes) bool {
	return a.Workflow == o.Workflow && a.Since.Equal(o.Since) && a.Stuck == o.Stuck && a.Schema == o.Schema &&
		a.Slept.Equal(o.Slept) && maps.Equal(a.Labels, o.Labels)
}

// settle says what the edits of a batch come to, when all of them were called: nothing, if the row stays what it is.
func (f *found) settle() error {
	if f.wanted == nil {
		return nil
	}
	if err := f.wanted.check(); err != nil {
		return err
	}
	was := f.row.Load()
	if was == nil {
		was = &layout.Attributes{}
	}
	if f.wanted.row().Equal(was) {
		f.wanted = nil
	}
	return nil
}

// row returns what is stored for a.
func (a *Attributes) row() *layout.Attributes {
	at := &layout.Attributes{Workflow: a.Workflow, Stuck: a.Stuck && a.Workflow != "", Schema: a.Schema}
	if a.Workflow != "" && !a.Since.IsZero() {
		at.Since = a.Since.UnixMilli()
	}
	if !a.Slept.IsZero() {
		at.Slept = a.Slept.UnixMilli()
	}
	for key, value := range a.Labels {
		at.SetLabel(key, value)
	}
	return at
}

// check says why a can't be stored.
func (a *Attributes) check() error {
	if len(a.Labels) > MaxLabels {
		return fmt.Errorf("%w: %d labels, limit %d", ErrLabel, len(a.Labels), MaxLabels)
	}
	for key, value := range a.Labels {
		if err := CheckLabel(key, value); err != nil {
			return err
		}
	}
	return nil
}

// found is what a handle knows of what its actor is found by.
type found struct {
	row    atomic.Pointer[layout.Attributes] // as the newest applied commit left it; nil for nothing
	wanted *Attributes                       // what StageAttributes wants of the commit that is being made; the commit lock guards it
	now    func() int64                      // in ms
}

// Attributes returns what the actor is found by, as the newest applied commit left it.
func (f *found) Attributes() Attributes { return attributesOf(f.row.Load()) }

// StageAttributes has edit change what the actor is found by, with b: edit is called when b is committed, under the actor's
// commit lock, with a copy of what is stored, or of what an edit before it in b has made of that. It may return an error, which refuses b.
// If that changes nothing in the end, nothing is written; else an actor that doesn't exist is made by it. Only what all edits of b come to is held
// against the bounds of labels.
//
// It may be called while b is open, and by Late functions of b.
//
// Errors of the commit: edit's; ErrLabel.
func (f *found) StageAttributes(b *batch.Batch, edit func(at *Attributes) error) {
	b.Late(func(*batch.Batch) error {
		at := f.Attributes()
		if f.wanted != nil {
			at = *f.wanted
		}
		if err := edit(&at); err != nil {
			return err
		}
		maps.DeleteFunc(at.Labels, func(_, value string) bool { return value == "" })
		f.wanted = &at
		return nil
	})
}

// StageWorkflow has the state of the actor's workflow land with b, "" for no workflow; see Attributes. Since is then, if the state is another
// one. If the store says the same already, nothing is staged: b must be the only one
// that is under way and changes it.
func (f *found) StageWorkflow(b *batch.Batch, state string, stuck bool) {
	if at := f.row.Load(); at == nil && state == "" || at != nil && at.Workflow == state && at.Stuck == stuck {
		return
	}
	f.StageAttributes(b, func(at *Attributes) error {
		if at.Workflow != state {
			at.Workflow, at.Since = state, time.UnixMilli(f.now())
		}
		at.Stuck = stuck
		return nil
	})
}

// StageSchema has the version of the schema of the actor's database land with b, as StageWorkflow does a state.
func (f *found) StageSchema(b *batch.Batch, version uint64) {
	if at := f.row.Load(); at == nil && version == 0 || at != nil && at.Schema == version {
		return
	}
	f.StageAttributes(b, func(at *Attributes) error {
		at.Schema = version
		return nil
	})
}

// appendAttributes appends what puts the row at, and its rows of the index, in the place of old; nil stands for a missing row.
func appendAttributes(ops []kv.Op, id ID, old, at *layout.Attributes) []kv.Op {
	key := layout.RecordKey(layout.ID(id), layout.PartIndex)
	if at == nil {
		ops = append(ops, kv.Clear(key))
	} else {
		ops = append(ops, kv.Set(key, at.Append(nil)))
	}
	was, is := indexRows(id, old), indexRows(id, at)
	for _, row := range was {
		if !slices.Contains(is, row) {
			ops = append(ops, kv.Clear(row.Key()))
		}
	}
	for _, row := range is {
		if !slices.Contains(was, row) {
			ops = append(ops, kv.Set(row.Key(), nil))
		}
	}
	return ops
}

// indexRows returns the rows of the index that an actor with a row has.
func indexRows(id ID, at *layout.Attributes) []layout.IndexRow {
	if at == nil {
		return nil
	}
	return at.Rows(layout.ID(id))
}
