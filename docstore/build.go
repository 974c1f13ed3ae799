package docstore

import (
	"context"
	"fmt"
)

// A Progress says how far a build has come.
type Progress struct {
	After Path `json:"after,omitempty"` // the last document that was looked at
	Docs  int  `json:"docs"`            // how many were looked at
}

// A buildLimit bounds what one transaction does of a build.
type buildLimit struct {
	docs int
	// whole: begin only if that is all there is to do.
	whole bool
}

// buildBytes bounds the documents that one transaction of a build reads.
const buildBytes = 900_000

// buildSome goes on with what is being built of a category, catalogue or index, and reports whether that is complete,
// and took the place of what was there.
//
// Changes of documents are written to it from the beginning, whether the build has come to them or not, so it need look
// at each document only once, as it is then. A document that it looks at counts as read: if another transaction
// changes it before this one lands, this one runs again.
func (c *changer) buildSome(ctx context.Context, d *derived, label string, limit buildLimit) (done bool) {
	if d.Next == nil {
		return true
	}
	p := d.path
	var progress Progress
	c.findJSON(ctx, buildKey(p), &progress)
	var docs []string
	done = true
	list := c.uncounted()
	if limit.whole { // in the transaction that registers it: a document that another one creates meanwhile must not be missed
		list = c.rows
	}
	for doc := range list.members(ctx, typeKey(label), string(progress.After)) {
		if len(docs) == limit.docs {
			done = false
			break
		}
		docs = append(docs, doc)
	}
	if limit.whole && !done {
		c.putJSON(buildKey(p), progress)
		return false
	}
	bytes := 0
	for _, doc := range docs {
		bytes += c.buildDocument(ctx, d, label, Path(doc))
		progress.After, progress.Docs = Path(doc), progress.Docs+1
		if bytes > buildBytes {
			done = false
			break
		}
	}
	if !done {
		c.putJSON(buildKey(p), progress)
		return false
	}
	if d.Live != nil {
		c.clearPrefix(base(d.Kind, p, *d.Live) + ":")
	}
	c.unset(buildKey(p))
	c.register(label, p, &registration{Kind: d.Kind, Expression: d.Expression, Live: d.Next})
	return true
}

// buildDocument adds a document to what is being built, and returns how long it is.
func (c *changer) buildDocument(ctx context.Context, d *derived, label string, p Path) int {
	if e, ok := c.entity(ctx, p); !ok || e.label != label { // it was deleted or changed since the list was read
		return 0
	}
	doc := c.load(ctx, p, label)
	if what, ok := c.has(ctx, d, label, doc); ok {
		c.enter(ctx, d, base(d.Kind, d.path, *d.Next), what, p)
	}
	return doc.size
}

// rebuild begins to build a category, catalogue or index anew, beside what it has. A build that is under way
// begins again.
func (c *changer) rebuild(ctx context.Context, p Path) error {
	if err := c.writable(); err != nil {
		return err
	}
	d, label, err := c.derivedStored(ctx, p)
	if err != nil {
		return err
	}
	reg := registration{Kind: d.Kind, Expression: d.Expression, Live: d.Live, Next: new(int)}
	if d.Problem != nil { // the expression language may have learned it
		if _, err := compile(d.Expression); err != nil {
			return fmt.Errorf("%w: %w", ErrDisabled, err)
		}
		// Nothing has kept right what it has: no query may go by that.
		c.clearPrefix(base(d.Kind, p, *d.Live) + ":")
		reg.Live = nil
	} else if d.Next != nil {
		c.clearPrefix(base(d.Kind, p, *d.Next) + ":")
		*reg.Next = *d.Next
	} else if d.Live != nil {
		*reg.Next = *d.Live + 1
	}
	c.unset(buildKey(p))
	c.register(label, p, &reg)
	return nil
}
