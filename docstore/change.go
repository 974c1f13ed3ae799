package docstore

import (
	"context"
	"fmt"
	"maps"
	"math"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
)

const (
	// maxMove is how many entities are moved at once at most.
	maxMove = 1000
	// maxHooks is how deep hooks may call each other.
	maxHooks = 16
	// maxIndexPath bounds the path of an index as it stands in keys: each gram has it.
	maxIndexPath = 300
)

// create stores a new entity, and makes it a child of its container.
func (c *changer) create(ctx context.Context, p Path, e entity) error {
	if err := c.createQuietly(ctx, p, e); err != nil {
		return err
	}
	return c.emit(ctx, &Event{Op: OpCreate, Path: p, Kind: e.kind, Label: e.label})
}

// createQuietly is create without hooks.
func (c *changer) createQuietly(ctx context.Context, p Path, e entity) error {
	if err := c.writable(); err != nil {
		return err
	}
	if err := p.checkNew(); err != nil {
		return err
	}
	if p == Root {
		return ErrExists
	}
	if n := len(escape(string(p))); e.kind == KindIndex && n > maxIndexPath {
		return fmt.Errorf("%w: the path of an index that takes %d bytes in keys, the bound is %d", ErrTooLarge, n, maxIndexPath)
	}
	if err := c.inContainer(ctx, p); err != nil {
		return err
	}
	if _, ok, err := c.find(ctx, p); ok || err != nil {
		if ok && err == nil {
			err = ErrExists
		}
		return err
	}
	if err := c.rows.change(ctx, childrenKey(p.Parent()), p.segment(), true); err != nil {
		return err
	}
	return c.putEntity(p, e)
}

// inContainer returns why an entity can't be created at p because of what it would lie in.
func (c *changer) inContainer(ctx context.Context, p Path) error {
	parent := p.Parent()
	if parent == Root {
		return nil
	}
	e, ok, err := c.find(ctx, parent)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w: %s", ErrNotFound, clip(parent))
	case e.kind != KindContainer:
		return fmt.Errorf("%w: %s is a %v, and only containers have children", ErrOperation, clip(parent), e.kind)
	}
	return nil
}

func (c *changer) createDocument(ctx context.Context, p Path, label string, props Properties) error {
	if err := checkLabel(label); err != nil {
		return err
	}
	d := &document{path: p, label: label, props: props}
	b, err := d.encode()
	if err != nil {
		return err
	}
	if err := c.createQuietly(ctx, p, entity{KindDocument, label}); err != nil {
		return err
	}
	return c.replace(ctx, nil, d, b, &Event{Op: OpCreate})
}

// replace stores a document in place of another one, which may lie elsewhere; either may be nil. b is how is is
// stored.
func (c *changer) replace(ctx context.Context, was, is *document, b []byte, e *Event) error {
	if err := c.deriveAll(ctx, was, is); err != nil {
		return err
	}
	e.Kind = KindDocument
	old := 0
	if was != nil {
		e.Path, e.Label, e.Before = was.path, was.label, was.props
		old = was.size
		if is == nil || is.path != was.path {
			if err := c.rows.clear(propsKey(was.path), was.size); err != nil {
				return err
			}
			old = 0
		}
	}
	if is != nil {
		e.Path, e.Label, e.After = is.path, is.label, is.props
		if err := c.rows.put(propsKey(is.path), b, old); err != nil {
			return err
		}
	}
	return c.emit(ctx, e)
}

// update changes the document at a path, which may be a virtual one.
func (c *changer) update(ctx context.Context, p Path, fn func(d *document)) error {
	if err := c.writable(); err != nil {
		return err
	}
	was, err := c.document(ctx, p)
	if err != nil {
		return err
	}
	is := &document{path: was.path, label: was.label, props: maps.Clone(was.props)}
	fn(is)
	b, err := is.encode()
	if err != nil {
		return err
	}
	if is.label != was.label {
		if err := c.putEntity(is.path, entity{KindDocument, is.label}); err != nil {
			return err
		}
	}
	return c.replace(ctx, was, is, b, &Event{Op: OpUpdate})
}

// document returns the document at a path, which may be a virtual one.
func (c *changer) document(ctx context.Context, p Path) (*document, error) {
	t, err := c.resolve(ctx, p)
	if err != nil {
		return nil, err
	}
	if t.kind != KindDocument {
		return nil, fmt.Errorf("%w: a %v has no properties", ErrOperation, t.kind)
	}
	return c.load(ctx, t.path, t.label)
}

// createDerived creates a category, catalogue or index.
func (c *changer) createDerived(ctx context.Context, p Path, k Kind, label, expression string) error {
	if err := checkLabel(label); err != nil {
		return err
	}
	if _, err := compile(expression); err != nil {
		return err
	}
	b, err := element.AppendPair(nil, label, expression)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrValue, err)
	}
	if err := c.createQuietly(ctx, p, entity{kind: k}); err != nil {
		return err
	}
	if err := c.rows.put(configKey(k, p), b, 0); err != nil {
		return err
	}
	if err := c.register(label, p, &registration{Kind: k, Expression: expression, Next: new(int)}); err != nil {
		return err
	}
	if _, err := c.buildSome(ctx, p, k, label, buildLimit{docs: c.bounds.inline, whole: true}); err != nil {
		return err
	}
	return c.emit(ctx, &Event{Op: OpCreate, Path: p, Kind: k})
}

// deleteSome deletes the entity at a path and, if it is a container, first what is in it: at most limit entities,
// or all if that is 0. It reports whether the entity itself is deleted.
func (c *changer) deleteSome(ctx context.Context, p Path, recursive bool, limit int) (bool, error) {
	if err := c.writable(); err != nil {
		return false, err
	}
	if err := p.check(); err != nil {
		return false, err
	}
	if p == Root {
		return false, fmt.Errorf("%w: the root is always there", ErrOperation)
	}
	e, ok, err := c.find(ctx, p)
	if err == nil && !ok {
		err = ErrNotFound
	}
	if err != nil {
		return false, err
	}
	if limit == 0 {
		limit = math.MaxInt
	}
	err = c.deleteTree(ctx, p, e, recursive, &limit)
	return limit >= 0, err
}

// deleteTree deletes an entity after what is in it, until left is used up, which is then below 0.
func (c *changer) deleteTree(ctx context.Context, p Path, e entity, recursive bool, left *int) error {
	if e.kind == KindContainer {
		for name, err := range c.rows.members(ctx, childrenKey(p), "") {
			if err != nil {
				return err
			}
			if !recursive {
				return ErrNotEmpty
			}
			child := p.below(name)
			sub, ok, err := c.find(ctx, child)
			if err == nil && !ok {
				err = fmt.Errorf("%w: %s is missing", ErrCorrupt, clip(child))
			}
			if err == nil {
				err = c.deleteTree(ctx, child, sub, true, left)
			}
			if err != nil || *left < 0 {
				return err
			}
		}
	}
	if *left--; *left < 0 {
		return nil
	}
	return c.deleteOne(ctx, p, e)
}

// deleteOne deletes an entity without children.
func (c *changer) deleteOne(ctx context.Context, p Path, e entity) error {
	if err := c.detach(ctx, p); err != nil {
		return err
	}
	switch e.kind {
	case KindDocument:
		d, err := c.load(ctx, p, e.label)
		if err != nil {
			return err
		}
		return c.replace(ctx, d, nil, nil, &Event{Op: OpDelete})
	case KindContainer:
	default:
		if err := c.dropDerived(ctx, p, e.kind); err != nil {
			return err
		}
	}
	return c.emit(ctx, &Event{Op: OpDelete, Path: p, Kind: e.kind})
}

// detach removes an entity from its container, and what it is.
func (c *changer) detach(ctx context.Context, p Path) error {
	if err := c.rows.change(ctx, childrenKey(p.Parent()), p.segment(), false); err != nil {
		return err
	}
	return c.rows.w.Clear([]byte(entityKey(p)))
}

// dropDerived removes all rows of a category, catalogue or index but its entity.
func (c *changer) dropDerived(ctx context.Context, p Path, k Kind) error {
	label, _, err := c.config(ctx, k, p)
	if err != nil {
		return err
	}
	d, err := c.derivedAt(ctx, label, p)
	if err != nil {
		return err
	}
	for _, g := range []*int{d.Live, d.Next} {
		if g != nil {
			if err := c.rows.clearPrefix(base(k, p, *g) + ":"); err != nil {
				return err
			}
		}
	}
	delete(c.derived, label)
	delete(c.pending, p)
	if err := c.rows.w.Clear([]byte(registryKey(label) + "\x00" + string(p))); err != nil {
		return err
	}
	if err := c.rows.w.Clear([]byte(buildKey(p))); err != nil {
		return err
	}
	return c.rows.clearSet(configKey(k, p))
}

// move moves an entity with everything in it.
func (c *changer) move(ctx context.Context, from, to Path) error {
	if err := c.writable(); err != nil {
		return err
	}
	if err := from.check(); err != nil {
		return err
	}
	if from == Root || from == to || from.IsAncestorOf(to) {
		return fmt.Errorf("%w: it can't be moved into itself", ErrOperation)
	}
	e, ok, err := c.find(ctx, from)
	if err == nil && !ok {
		err = ErrNotFound
	}
	if err != nil {
		return err
	}
	left := maxMove
	return c.moveTree(ctx, from, to, e, &left)
}

func (c *changer) moveTree(ctx context.Context, from, to Path, e entity, left *int) error {
	if *left--; *left < 0 {
		return fmt.Errorf("%w: more than %d entities", ErrTooLarge, maxMove)
	}
	if err := c.createQuietly(ctx, to, e); err != nil {
		return err
	}
	switch e.kind {
	case KindContainer:
		for name, err := range c.rows.members(ctx, childrenKey(from), "") {
			if err != nil {
				return err
			}
			sub, ok, err := c.find(ctx, from.below(name))
			if err == nil && !ok {
				err = fmt.Errorf("%w: %s is missing", ErrCorrupt, clip(from.below(name)))
			}
			if err == nil {
				err = c.moveTree(ctx, from.below(name), to.below(name), sub, left)
			}
			if err != nil {
				return err
			}
		}
	case KindDocument:
		was, err := c.load(ctx, from, e.label)
		if err != nil {
			return err
		}
		is := &document{path: to, label: e.label, props: was.props}
		b, err := is.encode()
		if err == nil {
			err = c.detach(ctx, from)
		}
		if err != nil {
			return err
		}
		return c.replace(ctx, was, is, b, &Event{Op: OpMove, From: from})
	default:
		if err := c.moveDerived(ctx, from, to, e.kind); err != nil {
			return err
		}
	}
	if err := c.detach(ctx, from); err != nil {
		return err
	}
	return c.emit(ctx, &Event{Op: OpMove, Path: to, From: from, Kind: e.kind})
}

// moveDerived builds a category, catalogue or index at another path, whose entity is there.
func (c *changer) moveDerived(ctx context.Context, from, to Path, k Kind) error {
	label, expression, err := c.config(ctx, k, from)
	if err != nil {
		return err
	}
	d, err := c.derivedAt(ctx, label, from)
	if err != nil {
		return err
	}
	if d.Problem != nil {
		return fmt.Errorf("%w: %s: %w", ErrDisabled, clip(from), d.Problem)
	}
	b, err := element.AppendPair(nil, label, expression)
	if err == nil {
		err = c.dropDerived(ctx, from, k)
	}
	if err == nil {
		err = c.rows.put(configKey(k, to), b, 0)
	}
	if err == nil {
		err = c.register(label, to, &registration{Kind: k, Expression: expression, Next: new(int)})
	}
	if err == nil {
		_, err = c.buildSome(ctx, to, k, label, buildLimit{docs: c.bounds.inline, whole: true})
	}
	return err
}

// emit calls the hooks.
func (c *changer) emit(ctx context.Context, e *Event) error {
	if len(c.opts.Hooks) == 0 {
		return nil
	}
	if c.hooks == maxHooks {
		return fmt.Errorf("%w: hooks call each other %d deep", ErrOperation, maxHooks)
	}
	c.hooks++
	defer func() { c.hooks-- }()
	for _, h := range c.opts.Hooks {
		if err := h(ctx, c.tx, e); err != nil {
			return err
		}
	}
	return nil
}
