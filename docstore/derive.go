package docstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/kv/txn"
)

// A changer changes what is in a store.
type changer struct {
	lookup
	tx       *Tx // for hooks
	readOnly bool
	made     bool         // the store has its row
	hooks    int          // how many run inside each other
	pending  map[Path]int // how many documents each text index got or lost; long ones count for more
}

// writable returns why nothing can be changed, and sees to it that a store is one.
func (c *changer) writable() error {
	if c.readOnly {
		return txn.ErrReadOnly
	}
	if !c.made {
		c.made = true
		c.putJSON(metaKey, c.meta)
	}
	return nil
}

// deriveAll brings everything up to date that follows from a document, its place among those of its type included: it was
// was, and is is.
func (c *changer) deriveAll(ctx context.Context, was, is *document) {
	for _, doc := range []*document{was, is} {
		if doc == nil || doc == is && was != nil && was.label == is.label {
			continue
		}
		for _, d := range c.derivedOf(ctx, doc.label) {
			c.derive(ctx, d, doc.label, was, is)
		}
	}
	if was != nil && is != nil && was.path == is.path && was.label == is.label {
		return
	}
	if was != nil {
		c.change(ctx, typeKey(was.label), string(was.path), false)
	}
	if is != nil {
		c.change(ctx, typeKey(is.label), string(is.path), true)
	}
}

// derive brings a category, catalogue or index of a type up to date. Only what differs is written.
func (c *changer) derive(ctx context.Context, d *derived, label string, was, is *document) {
	moved := was == nil || is == nil || was.path != is.path
	before, had := c.has(ctx, d, label, was)
	after, has := c.has(ctx, d, label, is)
	if had == has && before == after && !moved {
		return
	}
	replaces := d.Kind == KindIndex && has && !moved // a text takes the place of the one before
	for _, b := range d.bases() {
		if had && !replaces {
			c.leave(ctx, d, b, before, was.path)
		}
		if !has {
			continue
		}
		if c.enter(ctx, d, b, after, is.path); d.Kind == KindIndex {
			c.pending[d.path] += 1 + len(after)*c.rows.bounds.segment/segmentText
		}
	}
}

// enter adds a document to a generation of a category, catalogue or index, which has of it what has returns, and leave
// removes it.
func (c *changer) enter(ctx context.Context, d *derived, base, what string, doc Path) {
	if d.Kind == KindIndex {
		c.addText(ctx, textIndex{c.rows, base}, doc, what)
	} else {
		c.setMember(ctx, d, base+what, doc, true)
	}
}

func (c *changer) leave(ctx context.Context, d *derived, base, what string, doc Path) {
	if d.Kind == KindIndex {
		c.pending[d.path]++ // a segment may be half empty then
		textIndex{c.rows, base}.remove(ctx, doc)
	} else {
		c.setMember(ctx, d, base+what, doc, false)
	}
}

// addText adds a document to a text index. A text that is too long ends the transaction: a query that goes by the index would
// miss the document.
func (c *changer) addText(ctx context.Context, ix textIndex, p Path, s string) {
	if len(s) > maxText {
		c.fail(&Error{"index", p, fmt.Errorf("%w: a text of %d bytes for %q, the bound is %d", ErrTooLarge, len(s), ix.base, maxText)})
	}
	ix.add(ctx, p, s)
}

// setMember adds a document to a set of a category or catalogue, or removes it.
func (c *changer) setMember(ctx context.Context, d *derived, key string, doc Path, add bool) {
	if d.Kind == KindCatalogue && c.meta.Arrays {
		base, _, _ := strings.Cut(key, groups)
		c.unset(base + ":keys")
	}
	c.change(ctx, key, string(doc), add)
}
