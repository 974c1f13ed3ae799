package docstore

import (
	"context"
	"fmt"
	"iter"
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

// A method here that returns an error has changed nothing then. What goes wrong later ends the transaction.

// create stores a new entity, and makes it a child of its container.
func (c *changer) create(ctx context.Context, p Path, e entity) error {
	if err := c.creatable(ctx, p, e.kind); err != nil {
		return err
	}
	c.attach(ctx, p, e)
	c.emit(ctx, &Event{Op: OpCreate, Path: p, Kind: e.kind})
	return nil
}

// creatable returns why an entity can't be created at a path.
func (c *changer) creatable(ctx context.Context, p Path, k Kind) error {
	if err := c.writable(); err != nil {
		return err
	}
	if err := p.checkNew(); err != nil {
		return err
	}
	if p == Root {
		return ErrExists
	}
	if n := len(escape(string(p))); k == KindIndex && n > maxIndexPath {
		return fmt.Errorf("%w: the path of an index that takes %d bytes in keys, the bound is %d", ErrTooLarge, n, maxIndexPath)
	}
	if parent := p.Parent(); parent != Root {
		e, ok := c.entity(ctx, parent)
		if !ok {
			return fmt.Errorf("%w: %s", ErrNotFound, clip(parent))
		}
		if e.kind != KindContainer {
			return fmt.Errorf("%w: %s is a %v, and only containers have children", ErrOperation, clip(parent), e.kind)
		}
	}
	if _, ok := c.entity(ctx, p); ok {
		return ErrExists
	}
	return nil
}

// attach stores what an entity is, and makes it a child of its container; detach does the opposite.
func (c *changer) attach(ctx context.Context, p Path, e entity) {
	c.change(ctx, childrenKey(p.Parent()), p.segment(), true)
	c.putEntity(p, e)
}

func (c *changer) detach(ctx context.Context, p Path) {
	c.change(ctx, childrenKey(p.Parent()), p.segment(), false)
	c.unset(entityKey(p))
}

func (c *changer) createDocument(ctx context.Context, p Path, label string, props Properties) error {
	if err := checkLabel(label); err != nil {
		return err
	}
	d := &document{path: p, label: label, props: props}
	b, err := d.encode()
	if err == nil {
		err = c.creatable(ctx, p, KindDocument)
	}
	if err != nil {
		return err
	}
	c.attach(ctx, p, entity{KindDocument, label})
	c.replace(ctx, nil, d, b, &Event{Op: OpCreate})
	return nil
}

// replace stores a document in place of another one, which may lie elsewhere; either may be nil. b is how is is
// stored.
func (c *changer) replace(ctx context.Context, was, is *document, b []byte, e *Event) {
	c.deriveAll(ctx, was, is)
	e.Kind = KindDocument
	old := 0
	if was != nil {
		e.Path, e.Label, e.Before = was.path, was.label, was.props
		if old = was.size; is == nil || is.path != was.path {
			c.clear(propsKey(was.path), was.size)
			old = 0
		}
	}
	if is != nil {
		e.Path, e.Label, e.After = is.path, is.label, is.props
		c.put(propsKey(is.path), b, old)
	}
	c.emit(ctx, e)
}

// update changes the document at a path, which may be a virtual one.
func (c *changer) update(ctx context.Context, p Path, fn func(d *document)) error {
	if err := c.writable(); err != nil {
		return err
	}
	was, err := c.documentAt(ctx, p)
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
		c.putEntity(is.path, entity{KindDocument, is.label})
	}
	c.replace(ctx, was, is, b, &Event{Op: OpUpdate})
	return nil
}

// createDerived creates a category, catalogue or index.
func (c *changer) createDerived(ctx context.Context, p Path, k Kind, label, expression string) error {
	if err := checkLabel(label); err != nil {
		return err
	}
	if _, err := compile(expression); err != nil {
		return err
	}
	if err := c.creatable(ctx, p, k); err != nil {
		return err
	}
	c.attach(ctx, p, entity{kind: k})
	c.putDerived(ctx, p, k, label, expression)
	c.emit(ctx, &Event{Op: OpCreate, Path: p, Kind: k})
	return nil
}

// putDerived stores what a category, catalogue or index is of, and builds it if that is little.
func (c *changer) putDerived(ctx context.Context, p Path, k Kind, label, expression string) {
	b, err := element.AppendPair(nil, label, expression)
	c.fail(err)
	c.put(configKey(k, p), b, 0)
	c.register(label, p, &registration{Kind: k, Expression: expression, Next: new(int)})
	d, _ := c.derivedAt(ctx, k, p)
	c.buildSome(ctx, d, label, buildLimit{docs: c.rows.bounds.inline, whole: true})
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
	e, ok := c.entity(ctx, p)
	if !ok {
		return false, ErrNotFound
	}
	if !recursive {
		for range c.childNames(ctx, p, e) {
			return false, ErrNotEmpty
		}
	}
	if limit == 0 {
		limit = math.MaxInt
	}
	c.deleteTree(ctx, p, e, &limit)
	return limit >= 0, nil
}

// childNames yields the names of what lies in an entity, as they stand in paths.
func (c *changer) childNames(ctx context.Context, p Path, e entity) iter.Seq[string] {
	if e.kind != KindContainer {
		return func(func(string) bool) {}
	}
	return c.members(ctx, childrenKey(p), "")
}

// eachChild calls fn, which takes the child away, for each that lies in an entity, until fn returns false. Hooks may change
// what lies there meanwhile: a child that is gone is passed over, and one that has come is not left behind.
func (c *changer) eachChild(ctx context.Context, p Path, e entity, fn func(child Path, e entity) bool) {
	for again := true; again && c.err == nil; {
		again = false
		for name := range c.childNames(ctx, p, e) {
			child := p.below(name)
			if is, ok := c.entity(ctx, child); !ok {
				c.change(ctx, childrenKey(p), name, false)
			} else if again = len(c.opts.Hooks) > 0; !fn(child, is) {
				return
			}
		}
	}
}

// gone reports whether hooks have taken a container away.
func (c *changer) gone(ctx context.Context, p Path, e entity) bool {
	if e.kind != KindContainer || len(c.opts.Hooks) == 0 {
		return false
	}
	_, ok := c.entity(ctx, p)
	return !ok
}

// deleteTree deletes an entity after what is in it, until left is used up, which is then below 0.
func (c *changer) deleteTree(ctx context.Context, p Path, e entity, left *int) {
	c.eachChild(ctx, p, e, func(child Path, e entity) bool {
		c.deleteTree(ctx, child, e, left)
		return *left >= 0
	})
	if *left < 0 || c.gone(ctx, p, e) {
		return
	}
	if *left--; *left < 0 || c.err != nil {
		return
	}
	c.detach(ctx, p)
	switch e.kind {
	case KindDocument:
		c.replace(ctx, c.load(ctx, p, e.label), nil, nil, &Event{Op: OpDelete})
		return
	case KindContainer:
	default:
		c.dropDerived(ctx, p, e.kind)
	}
	c.emit(ctx, &Event{Op: OpDelete, Path: p, Kind: e.kind})
}

// dropDerived removes all rows of a category, catalogue or index but its entity, and returns what it was.
func (c *changer) dropDerived(ctx context.Context, p Path, k Kind) (d *derived, label string) {
	d, label = c.derivedAt(ctx, k, p)
	for _, g := range []*int{d.Live, d.Next} {
		if g != nil {
			c.clearPrefix(base(k, p, *g) + ":")
		}
	}
	delete(c.derived, label)
	delete(c.pending, p)
	c.unset(registryKey(label) + "\x00" + string(p))
	c.unset(buildKey(p))
	b, _ := c.find(ctx, configKey(k, p))
	c.clear(configKey(k, p), len(b))
	return d, label
}

// move moves an entity with everything in it.
func (c *changer) move(ctx context.Context, from, to Path) error {
	if err := from.check(); err != nil {
		return err
	}
	if from == Root || from == to || from.IsAncestorOf(to) {
		return fmt.Errorf("%w: it can't be moved into itself", ErrOperation)
	}
	e, ok := c.entity(ctx, from)
	if !ok {
		return ErrNotFound
	}
	if err := c.creatable(ctx, to, e.kind); err != nil {
		return err
	}
	left := maxMove
	c.moveTree(ctx, from, to, e, &left)
	return nil
}

func (c *changer) moveTree(ctx context.Context, from, to Path, e entity, left *int) {
	if *left--; *left < 0 {
		c.fail(&Error{"move", from, fmt.Errorf("%w: more than %d entities", ErrTooLarge, maxMove)})
	}
	c.fail(c.creatable(ctx, to, e.kind)) // a path that becomes too long, or a child that a hook created
	if c.err != nil {
		return
	}
	c.attach(ctx, to, e)
	c.eachChild(ctx, from, e, func(child Path, e entity) bool {
		c.moveTree(ctx, child, to.below(child.segment()), e, left)
		return true
	})
	if c.gone(ctx, from, e) {
		return
	}
	c.detach(ctx, from)
	switch e.kind {
	case KindDocument:
		was := c.load(ctx, from, e.label)
		is := &document{path: to, label: e.label, props: was.props}
		b, err := is.encode()
		c.fail(err)
		c.replace(ctx, was, is, b, &Event{Op: OpMove, From: from})
		return
	case KindContainer:
	default:
		d, label := c.dropDerived(ctx, from, e.kind)
		if d.Problem != nil {
			c.fail(fmt.Errorf("%w: %s can't be built elsewhere: %w", ErrDisabled, clip(from), d.Problem))
		}
		c.putDerived(ctx, to, e.kind, label, d.Expression)
	}
	c.emit(ctx, &Event{Op: OpMove, Path: to, From: from, Kind: e.kind})
}

// emit calls the hooks.
func (c *changer) emit(ctx context.Context, e *Event) {
	if len(c.opts.Hooks) == 0 || c.err != nil {
		return
	}
	if c.hooks == maxHooks {
		c.fail(fmt.Errorf("%w: hooks call each other %d deep", ErrOperation, maxHooks))
		return
	}
	c.hooks++
	defer func() { c.hooks-- }()
	for _, h := range c.opts.Hooks {
		if c.fail(h(ctx, c.tx, e)); c.err != nil {
			return
		}
	}
}
