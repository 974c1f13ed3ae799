// Package importer moves the actors of RivetKit's file-system driver, of the versions 2.1 and 2.2, into a store. A
// Dir reads the driver's files, and an Importer writes actors. The keys of an actor are taken over byte for byte; the
// caller reads the database that has them.
//
// It is not a way to keep two places in step: an actor that is there is left as it is.
package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// ErrExists: there is an actor of the same name that was made otherwise, or has been started since it was imported.
var ErrExists = errors.New("importer: actor exists")

// An ActorError says why one actor isn't imported, or is in part only. Others can be.
type ActorError struct {
	Name string // in the store
	Err  error
}

// Error says what Err says.
func (e *ActorError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ActorError) Unwrap() error { return e.Err }

// An Actor is what is imported of one actor.
type Actor struct {
	State State
	Wake  int64 // when it must be woken, in Unix milliseconds; 0 for never
	// Keys yields its keys, each once, and the same ones each time it is called: with their values, or with the sizes
	// of these alone. The slices are valid until the next iteration. An error ends it.
	Keys func(values bool) iter.Seq2[Entry, error]
}

// An Outcome is what became of an actor that could be imported.
type Outcome uint8

// The outcomes.
const (
	Imported  Outcome = iota + 1
	Resumed           // imported, after an import that was cut off
	Present           // left as it is, because an earlier import was complete
	Destroyed         // left out, because it was being destroyed
)

// String returns a word for o.
func (o Outcome) String() string {
	return [...]string{"none", "imported", "resumed", "present", "destroyed"}[o]
}

// A Result is what was done with an actor.
type Result struct {
	Outcome Outcome
	ID      actorstore.ID // zero for one that is left out
	Keys    int           // that were written
	Bytes   int64         // of these keys and their values
}

// An Importer writes actors into a store.
type Importer struct {
	Store  *actorstore.Store
	Engine kv.Engine    // below the store
	Limits batch.Limits // of the store's actors; zero: the default
}

// commitBytes bounds what is held in memory, and committed at once.
const commitBytes = 4 << 20

// Import writes one actor. What is returned is on stable storage. An actor is complete when it has the engine's record,
// which is in the last commit, and the mark of an import isn't there without it otherwise: so an import that was cut
// off can be told from an actor that was made by another program, and is done again.
//
// An error that isn't an *ActorError is of the store, or the context's.
func (im *Importer) Import(ctx context.Context, a *Actor) (Result, error) {
	if a.State.Destroyed {
		return Result{Outcome: Destroyed}, nil
	}
	name := a.State.ActorName()
	id, outcome, err := im.look(ctx, name, a.State.Created)
	if err != nil || outcome == Present {
		return Result{Outcome: outcome, ID: id}, of(name, err)
	}
	if err := im.measure(a); err != nil {
		return Result{}, unlessEnded(&ActorError{name, err})
	}
	actor, err := im.Store.Actor(ctx, id, &actorstore.ActorOptions{Name: name, Layout: actorstore.LayoutRivetKit})
	if err != nil {
		return Result{}, of(name, err)
	}
	w := &writer{ctx: ctx, actor: actor, result: Result{Outcome: outcome, ID: id}}
	err = errors.Join(w.write(a), actor.Close())
	return w.result, of(name, err)
}

// look finds out what the store has of an actor: its id, which is a new one for one that isn't there, and whether
// it is to be Imported or Resumed, or is Present.
func (im *Importer) look(ctx context.Context, name string, created int64) (_ actorstore.ID, _ Outcome, err error) {
	id, err := im.Store.Lookup(ctx, name)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return actorstore.NewID(), Imported, nil
	}
	if err != nil {
		return id, 0, err
	}
	v, err := im.Store.View(ctx, id)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return id, Imported, nil
	}
	if err != nil {
		return id, 0, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	if v.Layout() != actorstore.LayoutRivetKit {
		return id, 0, fmt.Errorf("%w, with Greenroom's layout of keys", ErrExists)
	}
	row, err := v.Get(ctx, rivetstore.RecordKey(), nil)
	if err == nil {
		return id, Present, imported(row, created)
	}
	if !errors.Is(err, actorstore.ErrNotFound) {
		return id, 0, err
	}
	_, err = v.Get(ctx, rivetstore.ImportKey(), nil)
	switch {
	case err == nil:
		return id, Resumed, nil
	case !errors.Is(err, actorstore.ErrNotFound):
		return id, 0, err
	case v.Info().Used > 0:
		return id, 0, fmt.Errorf("%w, and was not imported", ErrExists)
	}
	return id, Imported, nil
}

// imported returns nil if an actor's record is one that an import has written.
func imported(row []byte, created int64) error {
	rec, err := rivetstore.ParseRecord(row)
	switch {
	case err != nil:
		return err
	case rec.Generation > 0:
		return fmt.Errorf("%w, and has been started", ErrExists)
	case rec.Created != created:
		return fmt.Errorf("%w, and was made at another time", ErrExists)
	}
	return nil
}

// measure looks at all keys before anything is written.
func (im *Importer) measure(a *Actor) error {
	l := im.Limits.OrDefault()
	zeros := make([]byte, l.ValueSize)
	total := entrySize(rivetstore.RecordKey(), len(record(&a.State)))
	n := 0
	for e, err := range a.Keys(false) {
		switch {
		case err != nil:
			return err
		case rivetstore.Own(e.Key):
			return fmt.Errorf("its key %x begins with 68, which RivetKit's keys don't, and the engine's own do", e.Key)
		case e.Size > l.ValueSize:
			return fmt.Errorf("the value of its key %x has %d bytes: %w, at most %d", e.Key, e.Size, batch.ErrValueTooLarge, l.ValueSize)
		}
		if err := l.Check(batch.Op{Kind: batch.Put, Key: e.Key, Value: zeros[:e.Size]}); err != nil {
			return err
		}
		total += entrySize(e.Key, e.Size)
		n++
	}
	if n == 0 {
		return errors.New("it has no keys, which is less than what RivetKit stores of a new actor")
	}
	if total > l.Storage {
		return &actorstore.QuotaError{Wanted: total, Limit: l.Storage}
	}
	return nil
}

// entrySize is what an entry takes of the actor's storage.
func entrySize(key []byte, value int) int64 { return int64(len(key) + batch.WrapperBytes + value) }

// record returns the engine's record of an actor that has been imported.
func record(s *State) []byte {
	return rivetstore.Record{Created: s.Created, Runner: runner, Started: s.Started, Slept: s.Slept}.Append(nil)
}

// runner is the name of the runners that run the actors of a program unless it chooses another one.
const runner = "default"

// A writer writes one actor.
type writer struct {
	ctx    context.Context
	actor  *actorstore.Actor
	b      batch.Batch
	bytes  int // of b
	result Result
}

// write writes the mark, the keys, the row that wakes the actor, and the record in place of the mark.
func (w *writer) write(a *Actor) error {
	if w.result.Outcome == Resumed {
		w.b.DeleteRange(nil, nil)
	}
	w.b.Put(rivetstore.ImportKey(), rivetstore.AppendImport(nil))
	for e, err := range a.Keys(true) {
		if err != nil {
			return unlessEnded(&ActorError{a.State.ActorName(), err})
		}
		w.b.Put(e.Key, bytes.Clone(e.Value))
		w.bytes += len(e.Key) + len(e.Value)
		w.result.Keys++
		w.result.Bytes += int64(len(e.Key) + len(e.Value))
		if w.bytes >= commitBytes {
			if err := w.commit(); err != nil {
				return err
			}
		}
	}
	if err := w.commit(); err != nil {
		return err
	}
	if err := w.wake(a.Wake); err != nil {
		return err
	}
	w.b.Final().Delete(rivetstore.ImportKey())
	w.b.Final().Put(rivetstore.RecordKey(), record(&a.State))
	attributes.Stage(w.ctx, w.actor, &w.b) // which reads what landed before
	return w.commit()
}

// wake stages when the actor must be woken, which is stored no later than its record.
func (w *writer) wake(at int64) error {
	var wake actorstore.Wake
	if at != 0 {
		wake.At = time.UnixMilli(at)
	}
	return w.actor.StageWake(&w.b, wake)
}

// commit lands what was staged.
func (w *writer) commit() error {
	w.b.Mode = batch.Ordered
	err := w.actor.Commit(w.ctx, &w.b)
	w.b.Reset()
	w.bytes = 0
	return err
}

// aboutActors are the errors of a store that are about one of its actors.
var aboutActors = []error{
	ErrExists, actorstore.ErrInUse, actorstore.ErrName, actorstore.ErrNameTaken, actorstore.ErrLayout, actorstore.ErrQuota,
	actorstore.ErrCorrupt, actorstore.ErrNewerFormat, batch.ErrKeyTooLong, batch.ErrValueTooLarge, batch.ErrTooLarge,
}

// of returns err as an *ActorError of the actor with that name if it is about that actor.
func of(name string, err error) error {
	for _, about := range aboutActors {
		if errors.Is(err, about) && !errors.Is(err, kv.ErrPoisoned) {
			return unlessEnded(&ActorError{name, err})
		}
	}
	return err
}

// unlessEnded returns err, or the context's error if that is what has ended the work on the actor.
func unlessEnded(err *ActorError) error {
	if errors.Is(err.Err, context.Canceled) || errors.Is(err.Err, context.DeadlineExceeded) {
		return err.Err
	}
	return err
}
