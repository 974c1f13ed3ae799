package itemstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/greenroomdb/greenroom/tuple"
)

// A putter prepares items for a stage.
type putter struct {
	stage
	made []made   // IDs that were made, and may have to be taken back
	put  []*draft // items that are told their versions
}

// A made is an item with an ID that was made, and if it is one of a sequence, what last had for it.
type made struct {
	*content
	key string
	had uint64
}

// A draft is an item that is about to be put.
type draft struct {
	c       *content
	ch      *change
	rec     *record
	payload []byte
	was     Meta // what the item's metadata had before
}

// putAll puts all of items at once.
func (w *putter) putAll(ctx context.Context, items []any, opts *PutOptions) error {
	before := len(w.made)
	var drafts []*draft
	at := map[string]int{}
	err := error(nil)
	for _, item := range items {
		var d *draft
		if d, err = w.draft(ctx, item, opts); err != nil {
			break
		}
		if i, ok := at[string(d.ch.key)]; ok {
			d.ch, drafts[i] = drafts[i].ch, d
		} else {
			at[string(d.ch.key)] = len(drafts)
			drafts = append(drafts, d)
		}
	}
	if err == nil {
		err = w.checkPaths(ctx, drafts, opts.MustNotExist)
	}
	if err != nil {
		w.undo(before)
		return err
	}
	for _, d := range drafts {
		if err := w.replace(d.ch, d.rec, d.payload); err != nil {
			return err
		}
		d.was = d.c.meta()
		d.c.setMeta(d.rec.meta(w.name(d.ch.key)))
		w.put = append(w.put, d)
	}
	return nil
}

// draft prepares an item.
func (w *putter) draft(ctx context.Context, item any, opts *PutOptions) (*draft, error) {
	c, err := w.types.content(item)
	if err != nil {
		return nil, err
	}
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	ch, err := w.primary(ctx, c)
	if err != nil {
		return nil, err
	}
	if old := c.meta().Primary; old != "" && old != w.name(ch.key) {
		return nil, fmt.Errorf("%w: %s, not %s", ErrMoved, clip(string(old)), clip(string(w.name(ch.key))))
	}
	base := ch.new
	if base != nil && base.expired(w.now) {
		base = nil
	}
	if base != nil && base.typ != c.Number {
		return nil, &PathTakenError{w.name(ch.key), w.name(ch.key)}
	}
	if base != nil && base.schema != uint64(w.schema) {
		old, err := w.payload(ctx, base, ch.key)
		if err == nil {
			err = c.keep(old)
		}
		if err != nil {
			return nil, err
		}
	}
	m := Meta{}
	if opts.KeepTimes {
		m = c.meta()
	}
	return w.compose(c, ch, base, m.Created, m.Modified)
}

// compose makes the row of an item that replaces base, which may be nil. Times that are zero are
// those of base, and now.
func (w *putter) compose(c *content, ch *change, base *record, created, modified time.Time) (*draft, error) {
	r := &record{typ: c.Number, schema: uint64(w.schema), stamp: pendingVersion}
	if r.modified = modified.UnixMicro(); modified.IsZero() {
		r.modified = w.now.UnixMicro()
	}
	r.created = created.UnixMicro()
	if r.pathVersions = base.since(0, nil); created.IsZero() {
		if r.created = r.modified; base != nil {
			r.created = base.created
		}
	}
	if err := c.setEnd(r, w.now); err != nil {
		return nil, err
	}
	for _, p := range c.newest.Paths[1:] {
		key, _, err := c.path(p, len(p.segs))
		if err != nil {
			return nil, err
		}
		if key != nil {
			r.paths = append(r.paths, pathEntry{p.Number, key, base.since(p.Number, key)})
		}
	}
	payload, err := c.payload()
	if err != nil {
		return nil, err
	}
	if len(c.extra) > 0 {
		r.schema = 0
	}
	if r.payload = payload; len(payload) > maxPayload || len(payload)+r.beside()+len(ch.key) > maxRow {
		r.chunked, r.payload = true, binary.LittleEndian.AppendUint64(nil, uint64(len(payload)))
	}
	return &draft{c: c, ch: ch, rec: r, payload: payload}, nil
}

// maxPayload is the length of the longest payload that stands in the rows themselves, in bytes.
const maxPayload = 90_000

// maxRow is how long a row with a payload may be. Rows have at most 100,000 bytes.
const maxRow = 99_000

// primary makes the ID of the item, if one must be made, and returns the change of its primary path.
func (w *putter) primary(ctx context.Context, c *content) (*change, error) {
	wanted := c.generated != nil && c.field(c.generated).IsZero()
	if wanted {
		w.made = append(w.made, made{content: c})
	}
	for range maxTries {
		if wanted {
			if err := w.makeID(ctx, c); err != nil {
				return nil, err
			}
		}
		key, err := c.primary(len(c.newest.Paths[0].segs))
		if err != nil {
			return nil, err
		}
		ch, err := w.change(ctx, key)
		if err != nil || !wanted || ch.new == nil && !ch.alias {
			return ch, err
		}
	}
	return nil, fmt.Errorf("itemstore: no free ID for %s.%s in %d tries", c.Name, c.generated.Name, maxTries)
}

// maxTries is how many IDs are tried before Put gives up.
const maxTries = 16

// makeID sets the field whose ID is made.
func (w *putter) makeID(ctx context.Context, c *content) error {
	var id any
	if c.generated.Make == genSequence {
		parent, err := c.primary(len(c.newest.Paths[0].segs) - 1)
		if err != nil {
			return err
		}
		// Transactions that take a number of the same sequence wait for each other, so that those
		// which land have numbers without a gap.
		key := w.keys.key(partSequence, tuple.AppendUint(nil, c.Number), parent)
		if m := &w.made[len(w.made)-1]; m.key == "" {
			m.key, m.had = string(key), w.last[string(key)]
		}
		n, err := w.next(ctx, key)
		if err != nil {
			return err
		}
		id = n
	} else {
		u := uuid.UUID{}
		if _, err := io.ReadFull(w.opts.Random, u[:]); err != nil {
			return fmt.Errorf("itemstore: ID of %s.%s: %w", c.Name, c.generated.Name, err)
		}
		if c.generated.Make == genUUID {
			u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80 // version 4: RFC 9562 §5.4
			id = u
		} else {
			id = max(1, binary.BigEndian.Uint64(u[:])>>11)
		}
	}
	f := c.field(c.generated)
	f.Set(reflect.ValueOf(id).Convert(f.Type()))
	return nil
}

// checkPaths finds out whether other items have the paths of the drafts. What the drafts give up is free.
func (w *putter) checkPaths(ctx context.Context, drafts []*draft, mustNotExist bool) error {
	taken, free := map[string][]byte{}, map[string]bool{}
	for _, d := range drafts {
		places, err := w.places(d.ch.key, d.ch.new)
		if err != nil {
			return err
		}
		for _, p := range places {
			free[string(p.key)] = true
		}
	}
	for _, d := range drafts {
		if mustNotExist && d.ch.new != nil && !d.ch.new.expired(w.now) {
			return fmt.Errorf("%w: %s", ErrExists, clip(string(w.name(d.ch.key))))
		}
		places, err := w.places(d.ch.key, d.rec)
		if err != nil {
			return err
		}
		for i, p := range places {
			owner := taken[string(p.key)]
			taken[string(p.key)] = d.ch.key
			if owner == nil && !free[string(p.key)] && !p.index() && !(i == 0 && w.unused(d.ch, p)) {
				if owner, err = w.owner(ctx, p); err != nil {
					return err
				}
			}
			if owner == nil || bytes.Equal(owner, d.ch.key) {
				continue
			}
			err := error(&PathTakenError{w.name(p.path), w.name(owner)})
			if mustNotExist {
				err = fmt.Errorf("%w: %w", ErrExists, err)
			}
			return err
		}
	}
	return nil
}

// unused reports whether nothing is at the primary path of an item, as change has found: nothing is stored there, and
// the transaction has put nothing there.
func (w *putter) unused(ch *change, p place) bool {
	_, staged := w.rows.Get(p.key)
	return ch.new == nil && !ch.alias && !staged
}

// owner returns the packed primary path of the item at a row, or nil. An item whose
// time is over is deleted.
func (w *putter) owner(ctx context.Context, p place) ([]byte, error) {
	r, err := w.row(ctx, p.key)
	if err != nil || r == nil {
		return nil, err
	}
	owner := r.owner(p.path)
	if !r.expired(w.now) {
		return owner, nil
	}
	ch, err := w.change(ctx, owner)
	if err != nil {
		return nil, err
	}
	return nil, w.replace(ch, nil, nil)
}

// undo takes back the IDs that were made, since there were so many.
func (w *putter) undo(since int) {
	for _, m := range slices.Backward(w.made[since:]) {
		if m.field(m.generated).SetZero(); m.had == 0 {
			delete(w.last, m.key)
		} else {
			w.last[m.key] = m.had
		}
	}
	w.made = w.made[:since]
}
