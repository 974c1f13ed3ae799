package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A loader puts together what is read, in the order of the keys: names, entries, fields,
// metadata.
type loader struct {
	memory
	gap     bool // a name is missing: those behind it are left out
	damages []Damage
}

// load reads everything, all of one state.
func load(ctx context.Context, snap *actorstore.Snapshot) (*loader, error) {
	l := &loader{memory: newMemory(snap.Layout())}
	next, end := l.layout.Range(actorstore.NamespaceWorkflow)
	for e, err := range snap.List(ctx, actorstore.ListOptions{Start: next, End: end}) {
		if errors.Is(err, errCorrupt) {
			return l, l.carefully(ctx, snap, next, end)
		}
		if err != nil {
			return nil, err
		}
		next = append(append(next[:0], e.Key...), 0)
		l.found(e.Key, e.Value, nil)
	}
	return l, nil
}

// carefully goes on where rows are damaged: it asks for each key by itself.
func (l *loader) carefully(ctx context.Context, snap *actorstore.Snapshot, start, end []byte) error {
	for e, err := range snap.Survey(ctx, start, end) {
		if err != nil && (e.Key == nil || !errors.Is(err, errCorrupt)) {
			return err
		}
		var value []byte
		if err == nil {
			value, err = snap.Get(ctx, e.Key, nil)
		}
		if err != nil && !errors.Is(err, errCorrupt) {
			return err
		}
		l.found(e.Key, value, err)
	}
	return nil
}

// found takes a key and its value, or what is wrong with its rows. It keeps neither.
func (l *loader) found(key, value []byte, err error) {
	l.bytes += int64(len(key) + batch.WrapperBytes + len(value))
	var k parsedKey
	if err == nil {
		k, err = parseKey(l.layout, key)
	}
	if err == nil {
		switch k.part {
		case actorstore.WorkflowNames:
			err = l.foundName(k.name, value)
		case actorstore.WorkflowHistory:
			err = l.foundEntry(k.location, value)
		case actorstore.WorkflowFields:
			err = l.foundField(k.field, value)
		default:
			err = l.foundMetadata(key, k.id, value)
		}
	}
	if err != nil {
		// A run doesn't need what an earlier one has waited for, and records it anew.
		harmless := k.part == actorstore.WorkflowFields && k.field == actorstore.WorkflowWaits
		l.damages = append(l.damages, Damage{Key: bytes.Clone(key), Err: err, Harmless: harmless})
	}
}

func (l *loader) foundName(i NameIndex, value []byte) error {
	if l.gap = l.gap || int(i) != len(l.names); l.gap {
		return fmt.Errorf("%w: there is no name %d below it", errCorrupt, len(l.names))
	}
	name := string(value)
	l.names = append(l.names, name)
	l.stored = i + 1
	other, twice := l.index[name]
	switch {
	case twice:
		return fmt.Errorf("%w: it is name %d as well", errCorrupt, other)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: not UTF-8", errCorrupt)
	}
	l.index[name] = i
	return nil
}

func (l *loader) foundEntry(at Location, value []byte) error {
	e, err := parseEntry(value)
	if err != nil {
		return err
	}
	if e.Location != at {
		return fmt.Errorf("%w: the entry says that it is at %x", errCorrupt, string(e.Location))
	}
	e.Location = at
	l.records[at] = &record{Entry: e, size: len(value), metaSize: absent}
	l.order = append(l.order, at)
	if other, twice := l.ids[e.ID]; twice {
		return fmt.Errorf("%w: %s has its id, too", errCorrupt, l.describe(other))
	}
	l.ids[e.ID] = at
	for s := range at.segments() {
		if int(s.Name) >= len(l.names) {
			return fmt.Errorf("%w: there is no name %d", errCorrupt, s.Name)
		}
	}
	return nil
}

// describe returns the key of an entry in words.
func (l *loader) describe(at Location) string {
	return actorstore.Describe(appendEntryKey(l.layout, nil, at))
}

func (l *loader) foundField(key actorstore.WorkflowField, value []byte) (err error) {
	i := slices.Index(fieldKeys[:], key)
	if i < 0 {
		return nil // the version, which means nothing
	}
	l.sizes[i], l.values[i] = len(value), append([]byte{}, value...)
	switch field(i) {
	case fieldState:
		l.state, err = parseState(string(value))
	case fieldError:
		l.failure, err = parseFailure(value)
	case fieldWaits:
		if _, err = parseWaits(value); err != nil {
			l.values[i] = nil
		}
	}
	return err
}

func (l *loader) foundMetadata(key []byte, id string, value []byte) error {
	m, err := parseMetadata(value)
	if err != nil {
		return err
	}
	at, ok := l.ids[id]
	if !ok {
		l.orphans.add(lostOrphan{id, orphan{m, len(value)}})
		l.damages = append(l.damages, Damage{Key: bytes.Clone(key), Harmless: true,
			Err: fmt.Errorf("%w: there is no such entry", errCorrupt)})
		return nil
	}
	rec := l.records[at]
	rec.Metadata, rec.metaSize = m, len(value)
	return nil
}

// Read returns what is stored of the workflow of an actor, without owning it, and what is
// wrong with it, in the order of the keys. What can't be read is left out of the Snapshot,
// and so are names behind one that is missing; an entry of which a name is missing is in
// it.
//
// It reads one range of the engine, and more only where rows are damaged. An error is the
// engine's.
func Read(ctx context.Context, snap *actorstore.Snapshot) (*Snapshot, []Damage, error) {
	l, err := load(ctx, snap)
	if err != nil {
		return nil, nil, err
	}
	return l.snapshot(), l.damages, nil
}

// ReadEntries is Read of entries that lie elsewhere, under the keys of a layout and in their order.
func ReadEntries(layout actorstore.Layout, entries iter.Seq2[actorstore.Entry, error]) (*Snapshot, []Damage, error) {
	l := &loader{memory: newMemory(layout)}
	for e, err := range entries {
		if err != nil {
			return nil, nil, err
		}
		l.found(e.Key, e.Value, nil)
	}
	return l.snapshot(), l.damages, nil
}

// Peek returns the state of the workflow of an actor, and whether it was started: whether it
// has an input. It reads no more than that.
func Peek(ctx context.Context, snap *actorstore.Snapshot) (s State, started bool, err error) {
	_, err = snap.Get(ctx, appendFieldKey(snap.Layout(), nil, fieldInput), nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return Pending, false, nil
	}
	if err != nil {
		return Pending, false, err
	}
	text, err := snap.Get(ctx, appendFieldKey(snap.Layout(), nil, fieldState), nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return Pending, true, nil
	}
	if err != nil {
		return Pending, true, err
	}
	s, err = parseState(string(text))
	return s, true, err
}
