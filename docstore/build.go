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
// and has taken the place of what was there.
//
// Changes of documents are written to it from the beginning, whether the build has come to them or not, so it need look
// at each document only once, as it is then. A document that it looks at counts as read: if another transaction
// changes it before this one lands, this one runs again.
func (c *changer) buildSome(ctx context.Context, p Path, k Kind, label string, limit buildLimit) (done bool, err error) {
	d, err := c.derivedAt(ctx, label, p)
	if err != nil || d.Next == nil {
		return err == nil, err
	}
	var progress Progress
	started, err := c.rows.findJSON(ctx, buildKey(p), &progress)
	if err != nil {
		return false, err
	}
	docs, bytes := []string(nil), 0
	done = true
	for doc, err := range c.rows.membersOf(ctx, c.rows.snap, typeKey(label), string(progress.After)) {
		if err != nil {
			return false, err
		}
		if len(docs) == limit.docs {
			done = false
			break
		}
		docs = append(docs, doc)
	}
	if limit.whole && !done {
		return false, c.rows.putJSON(buildKey(p), progress)
	}
	b := base(k, p, *d.Next)
	for _, doc := range docs {
		n, err := c.buildDocument(ctx, d, b, label, Path(doc))
		if err != nil {
			return false, err
		}
		progress.After, progress.Docs = Path(doc), progress.Docs+1
		if bytes += n; bytes > buildBytes {
			done = false
			break
		}
	}
	if !done {
		return false, c.rows.putJSON(buildKey(p), progress)
	}
	if d.Live != nil {
		if err := c.rows.clearPrefix(base(k, p, *d.Live) + ":"); err != nil {
			return false, err
		}
	}
	if started {
		if err := c.rows.w.Clear([]byte(buildKey(p))); err != nil {
			return false, err
		}
	}
	return true, c.register(label, p, &registration{Kind: k, Expression: d.Expression, Live: d.Next})
}

// buildDocument adds a document to what is being built, and returns how long it is.
func (c *changer) buildDocument(ctx context.Context, d *derived, base, label string, p Path) (int, error) {
	e, ok, err := c.find(ctx, p)
	if err != nil || !ok || e.label != label { // it was deleted or changed since the list was read
		return 0, err
	}
	doc, err := c.load(ctx, p, label)
	if err != nil {
		return 0, err
	}
	if d.Kind == KindIndex {
		content, ok, err := c.content(ctx, d, label, doc)
		if ok && err == nil {
			err = textIndex{c.rows, base}.add(ctx, p, content)
		}
		return doc.size, err
	}
	place, ok, err := c.place(ctx, d, label, doc)
	if ok && err == nil {
		err = c.setMember(ctx, d, base, place, p, true)
	}
	return doc.size, err
}

// rebuild begins to build a category, catalogue or index anew, beside what it has. A build that is under way
// begins again.
func (c *changer) rebuild(ctx context.Context, p Path) error {
	d, label, err := c.derivedStored(ctx, p)
	if err != nil {
		return err
	}
	r := registration{Kind: d.Kind, Expression: d.Expression, Live: d.Live, Next: new(int)}
	if d.Problem != nil { // the expression language may have learned it
		if _, err := compile(d.Expression); err != nil {
			return fmt.Errorf("%w: %w", ErrDisabled, err)
		}
	}
	if d.Next != nil {
		if err := c.rows.clearPrefix(base(d.Kind, p, *d.Next) + ":"); err != nil {
			return err
		}
		*r.Next = *d.Next
	} else if d.Live != nil {
		*r.Next = *d.Live + 1
	}
	if err := c.rows.w.Clear([]byte(buildKey(p))); err != nil {
		return err
	}
	return c.register(label, p, &r)
}
