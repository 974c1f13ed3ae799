package docstore

import (
	"context"
	"slices"

	"github.com/greenroomdb/greenroom/kv/txn"
)

// A changer changes what is in a store.
type changer struct {
	lookup
	tx       *Tx // for hooks
	readOnly bool
	made     bool         // the store has its row
	hooks    int          // how many run inside each other
	pending  map[Path]int // how many documents each text index got
}

// writable returns why nothing can be changed, and sees to it that a store is one.
func (c *changer) writable() error {
	if c.readOnly {
		return txn.ErrReadOnly
	}
	if c.made {
		return nil
	}
	c.made = true
	return c.rows.putJSON(metaKey, c.rows.meta)
}

// derive brings what follows from a document up to date, of one category, catalogue or index of a type: it was
// was, and is is. Only what differs is written.
func (c *changer) derive(ctx context.Context, d *derived, label string, was, is *document) error {
	moved := was == nil || is == nil || was.path != is.path
	if d.Kind == KindIndex {
		before, had, err := c.content(ctx, d, label, was)
		if err != nil {
			return err
		}
		after, has, err := c.content(ctx, d, label, is)
		if err != nil || had == has && before == after && !moved {
			return err
		}
		for _, b := range d.bases() {
			ix := textIndex{c.rows, b}
			if had && (!has || moved) {
				err = ix.remove(ctx, was.path)
			}
			if err == nil && has {
				c.pending[d.path]++
				err = ix.add(ctx, is.path, after)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	before, had, err := c.place(ctx, d, label, was)
	if err != nil {
		return err
	}
	after, has, err := c.place(ctx, d, label, is)
	if err != nil || had == has && before == after && !moved {
		return err
	}
	for _, b := range d.bases() {
		if had {
			err = c.setMember(ctx, d, b, before, was.path, false)
		}
		if err == nil && has {
			err = c.setMember(ctx, d, b, after, is.path, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setMember adds a document to the set of a category or catalogue, or removes it.
func (c *changer) setMember(ctx context.Context, d *derived, base, place string, doc Path, add bool) error {
	if d.Kind == KindCatalogue && c.rows.meta.Arrays {
		if err := c.rows.w.Clear([]byte(base + ":keys")); err != nil {
			return err
		}
	}
	return c.rows.change(ctx, base+place, string(doc), add)
}

// deriveAll brings everything up to date that follows from a document, its place among those of its type included.
func (c *changer) deriveAll(ctx context.Context, was, is *document) error {
	var labels []string
	for _, d := range []*document{was, is} {
		if d != nil && !slices.Contains(labels, d.label) {
			labels = append(labels, d.label)
		}
	}
	for _, label := range labels {
		all, err := c.derivedOf(ctx, label)
		if err != nil {
			return err
		}
		for _, d := range all {
			if err := c.derive(ctx, d, label, was, is); err != nil {
				return err
			}
		}
	}
	if was != nil && is != nil && was.path == is.path && was.label == is.label {
		return nil
	}
	if was != nil {
		if err := c.rows.change(ctx, typeKey(was.label), string(was.path), false); err != nil {
			return err
		}
	}
	if is == nil {
		return nil
	}
	return c.rows.change(ctx, typeKey(is.label), string(is.path), true)
}
