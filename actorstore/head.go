package actorstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
)

// A record is what a store has recorded about an actor.
type record struct {
	head  layout.Head
	row   []byte // the head row, nil without one
	name  string
	owner []byte // the row of the owner, nil without one
	hints []byte // what is read first, nil if that was never said

	layout Layout
	wake   *wakeRow           // nil when nothing wakes it
	found  *layout.Attributes // what it is found by; nil if nothing is set
	usage  []byte             // what it has used, nil if that was never counted
}

// written says whether the actor exists. A head of no commit is a claim: the actor
// was opened, and never written to.
func (rec *record) written() bool { return rec.row != nil && rec.head.Seq > 0 }

// loadRecord reads everything that is known of an actor with one scan.
func loadRecord(ctx context.Context, src kv.Reader, id ID) (rec record, err error) {
	// Rows of no known kind are read as well: they are damage, and add says so.
	start, end := layout.RecordRange(layout.ID(id))
	for e, err := range src.Scan(ctx, kv.Range{Start: start, End: end}) {
		if err == nil {
			err = rec.add(id, e)
		}
		if err != nil {
			return record{}, err
		}
	}
	return rec, rec.check(id)
}

// loadNamedRecord is loadRecord, and reads the row of a name besides, with the same read if src
// can. named is nil if no actor has the name, or there isn't one.
func loadNamedRecord(ctx context.Context, src kv.Reader, id ID, name string) (rec record, named *layout.Named, err error) {
	var ranges [2]kv.Range
	ranges[0].Start, ranges[0].End = layout.RecordRange(layout.ID(id))
	if name != "" {
		key := layout.NameKey(name)
		ranges[1] = kv.Range{Start: key, End: append(slices.Clip(key), 0)}
	}
	rows := kv.ScanRanges(ctx, src, ranges[:])
	if name == "" || rows == nil {
		if name != "" {
			n, err := loadNamed(ctx, src, name)
			if err == nil {
				named = &n
			} else if !errors.Is(err, ErrUnknownActor) {
				return rec, nil, err
			}
		}
		rec, err = loadRecord(ctx, src, id)
		return rec, named, err
	}
	for e, err := range rows {
		if err == nil && bytes.Equal(e.Key, ranges[1].Start) {
			var n layout.Named
			n, err = layout.ParseNamed(name, e.Value)
			named = &n
		} else if err == nil {
			err = rec.add(id, e)
		}
		if err != nil {
			return record{}, nil, err
		}
	}
	return rec, named, rec.check(id)
}

// check says what can't be about a record that was read to its end.
func (rec *record) check(id ID) error {
	if rec.row == nil && rec.name != "" {
		return fmt.Errorf("actorstore: actor %s has a name and no head: %w", id, ErrCorrupt)
	}
	return nil
}

// add takes one row of an actor's record. It copies what it keeps.
func (rec *record) add(id ID, e kv.Entry) (err error) {
	k, err := keys.Parse[layout.RecordRow](e.Key)
	if err != nil || ID(k.ID) != id {
		return fmt.Errorf("actorstore: row %x is no head of actor %s: %w", e.Key, id, ErrCorrupt)
	}
	return rec.part(k, append([]byte{}, e.Value...))
}

// part takes one row of an actor's record, and keeps it.
func (rec *record) part(k layout.RecordRow, row []byte) (err error) {
	switch k.Part {
	case layout.PartHead:
		rec.row = row
		rec.head, err = layout.ParseHead(k.ID, row)
	case layout.PartName:
		if rec.name = string(row); checkName(rec.name) != nil {
			return fmt.Errorf("actorstore: name of actor %s: %w", k.ID, ErrCorrupt)
		}
	case layout.PartOwner:
		// Read where it is needed: without one, or with one that belongs to no host, an actor is as
		// good as any.
		rec.owner = row
	case layout.PartHints:
		rec.hints = row
	case layout.PartLayout:
		var l uint8
		l, err = layout.ParseLayout(k.ID, row)
		rec.layout = Layout(l)
	case layout.PartWake:
		rec.wake, err = parseWake(ID(k.ID), row)
	case layout.PartIndex:
		var at layout.Attributes
		at, err = layout.ParseAttributes(k.ID, row)
		rec.found = &at
	case layout.PartUsage:
		rec.usage = row // read where it is needed, as the owner is
	default:
		return fmt.Errorf("actorstore: row %d of actor %s is of no known kind: %w", k.Part, k.ID, ErrCorrupt)
	}
	return err
}

// loadNamed reads the row of a name; ErrUnknownActor without one.
func loadNamed(ctx context.Context, src kv.Reader, name string) (layout.Named, error) {
	n, ok, err := keys.Find(ctx, src, layout.NameRow{Name: name})
	if err == nil && !ok {
		err = ErrUnknownActor
	}
	return n, rowError(err)
}

// rowError is an error of typed keys in the words of this package: what a row holds
// says by itself whose it is, and a row of another form is damage.
func rowError(err error) error {
	var of *keys.Error
	switch {
	case errors.As(err, &of):
		return of.Err
	case errors.Is(err, keys.ErrOtherKey):
		return fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	return err
}

// ActorInfo is what a store has recorded about an actor.
type ActorInfo struct {
	ID      ID
	Name    string // "" when it has none
	Created time.Time
	Used    int64  // bytes stored: Σ(key + 2 + value)
	Seq     uint64 // number of the newest commit
	Epoch   uint64 // how often the actor was taken over, counting from 1
	Layout  Layout // of its keys
	// Host has claimed the actor, where several hosts use the store; zero for none. It
	// is gone if it isn't among Store.Hosts.
	Host HostID
	// Attributes are what the actor is found by.
	Attributes Attributes
	// Wake is when the actor must be woken. Its Tried must not be changed.
	Wake Wake
	// Usage is what the actor has used, as far as its host has stored it.
	Usage Usage
	// Position is where the actor stands in the listing that yielded it, for ActorsOptions.After; else "".
	Position string
}

func (rec *record) info(id ID) ActorInfo {
	info := ActorInfo{
		ID: id, Name: rec.name, Created: time.UnixMilli(rec.head.Created),
		Used: rec.head.Used, Seq: rec.head.Seq, Epoch: rec.head.Epoch, Layout: rec.layout,
		Attributes: attributesOf(rec.found), Wake: rec.wake.wake(), Usage: usageOf(id, rec.usage),
	}
	if rec.owner == nil {
		return info
	}
	if o, err := layout.ParseOwner(layout.ID(id), rec.owner); err == nil {
		info.Host = o.Host // one that can't be read is for the next owner to find
	}
	return info
}
