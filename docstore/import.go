package docstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A Pair is a key of the documented form with its value. Import keeps some of the values that it was given until it has
// stored them, so they must not be changed while it runs.
type Pair struct {
	Key   string
	Value []byte
}

// rawPart is what follows the base in the keys of what was imported of an index that is disabled.
const rawPart = ":raw\x00"

// importBytes is how much one transaction of an import stores.
const importBytes = 1 << 20

// An importer stores a dump: first what entities are, then what follows from documents, for which the entities
// say how a key is to be read: in catl:/a:group:b:keys the catalogue may be /a or /a:group:b.
type importer struct {
	s *Store
}

// run stores a dump. Nothing else writes into the store.
func (im *importer) run(ctx context.Context, dump iter.Seq2[Pair, error]) error {
	if err := im.begin(ctx); err != nil {
		return err
	}
	if err := im.pass(ctx, dump, im.first); err != nil {
		return err
	}
	if err := im.update(ctx, im.registerAll); err != nil {
		return err
	}
	if err := im.pass(ctx, dump, im.second); err != nil {
		return err
	}
	var indexes []Path
	err := im.update(ctx, func(ctx context.Context, c *changer) error {
		indexes = indexes[:0]
		for label := range c.sets(ctx, "reg:") {
			for _, d := range c.derivedOf(ctx, textUnescapes.Replace(label)) {
				switch {
				case d.state() == StateBuilding:
					indexes = append(indexes, d.path)
				case d.program != nil:
					im.verify(ctx, c, d, textUnescapes.Replace(label))
				}
			}
		}
		c.meta.Importing = false
		c.putJSON(metaKey, c.meta)
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range indexes {
		err = errors.Join(err, im.s.Build(ctx, p, nil))
	}
	return err
}

// verify disables a category or catalogue whose imported members are not those that the expression gives here: changes of
// documents would go by the one, and find the other.
func (im *importer) verify(ctx context.Context, c *changer, d *derived, label string) {
	want, b := map[string][]string{}, base(d.Kind, d.path, 0)
	for p := range c.members(ctx, typeKey(label), "") {
		if place, ok := c.place(ctx, d, label, c.load(ctx, Path(p), label)); ok {
			want[place] = append(want[place], p)
		}
	}
	got := []string{":members"}
	if d.Kind == KindCatalogue {
		got = nil
		for g := range c.groupKeys(ctx, b) {
			got = append(got, groups+g)
		}
	}
	for _, place := range got {
		if !slices.Equal(want[place], slices.Collect(c.members(ctx, b+place, ""))) {
			want["others"] = nil
		}
		delete(want, place)
	}
	if len(want) > 0 {
		reg := d.registration
		reg.Problem = &ExpressionError{d.Expression, 1, 1, "it gives other members than those that were imported: rebuild it"}
		c.register(label, d.path, &reg)
	}
}

// begin makes sure that the store is empty, or that of an import which was cut off, which it removes.
func (im *importer) begin(ctx context.Context) error {
	return im.update(ctx, func(ctx context.Context, c *changer) error {
		for range c.prefixed(ctx, "entity:", "") {
			if !c.meta.Importing {
				return fmt.Errorf("%w: the store is not empty", ErrExists)
			}
			break
		}
		c.clearRange("\x00", []byte{0xff})
		c.meta.Importing, c.meta.Arrays = true, true
		c.putJSON(metaKey, c.meta)
		return nil
	})
}

// update runs fn in a transaction.
func (im *importer) update(ctx context.Context, fn func(ctx context.Context, c *changer) error) error {
	return im.s.upkeep.Update(ctx, func(t *txn.Tx) error {
		tx, err := im.s.begin(ctx, t)
		if err == nil || errors.Is(err, ErrImporting) {
			err = fn(ctx, tx.changer)
		}
		return cmp.Or(tx.err, err)
	})
}

// pass calls store for each pair, in transactions of some of them.
func (im *importer) pass(ctx context.Context, dump iter.Seq2[Pair, error], store func(ctx context.Context, c *changer, p Pair) error) error {
	var some []Pair
	size := 0
	flush := func() error {
		err := im.update(ctx, func(ctx context.Context, c *changer) error {
			for _, p := range some {
				if err := store(ctx, c, p); err != nil {
					return fmt.Errorf("key %q: %w", clip(p.Key), err)
				}
			}
			return nil
		})
		some, size = some[:0], 0
		return err
	}
	for p, err := range dump {
		if err != nil {
			return err
		}
		some, size = append(some, p), size+len(p.Key)+len(p.Value)
		if size > importBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// first stores what entities are. All that is stored is checked, and then stored byte for byte.
func (im *importer) first(_ context.Context, c *changer, p Pair) error {
	prefix, rest, _ := strings.Cut(p.Key, ":")
	path := Path(rest)
	key, err := "", error(nil)
	switch prefix {
	case "cat", "catl", "idx":
		return nil
	case "typeidx":
		if key, err = typeKey(rest), checkLabel(rest); err == nil {
			err = checkPaths(p.Value)
		}
		path = Root
	case "entity":
		key = entityKey(path)
		var e entity
		if e, err = parseEntity(p.Value); err == nil && e.kind == KindDocument {
			err = checkLabel(e.label)
		}
	case "props":
		key = propsKey(path)
		if _, err = parseProperties(p.Value); err == nil && len(p.Value) > maxDocument {
			err = fmt.Errorf("%w: a document of %d bytes, the bound is %d", ErrTooLarge, len(p.Value), maxDocument)
		}
	case "children":
		key = childrenKey(path)
		var names []string
		names, err = element.Strings(p.Value)
		for _, n := range names {
			if strings.Contains(n, "/") {
				err = fmt.Errorf("%w: the name %q has a slash", ErrPath, clip(n))
			} else if err == nil {
				err = path.below(n).checkNew()
			}
		}
	case "config", "catcfg":
		key = prefix + ":" + escape(rest)
		var label string
		if label, _, err = parseConfig(p.Value); err == nil {
			err = checkLabel(label)
		}
	default:
		return fmt.Errorf("%w: it is not a documented key", ErrCorrupt)
	}
	if err == nil {
		err = path.checkNew()
	}
	if err != nil && !errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err == nil {
		c.put(key, p.Value, 0)
	}
	return err
}

// checkPaths returns why a value is not an array of paths of documents.
func checkPaths(b []byte) error {
	paths, err := element.Strings(b)
	for _, p := range paths {
		if err == nil {
			err = Path(p).checkNew()
		}
	}
	return err
}

// registerAll makes the rows of categories, catalogues and indexes among those of their types. One whose expression is
// refused is disabled. One without its label and expression is ErrCorrupt, as nothing could read or delete it, and so are
// properties of what is not a document, and children of what is not a container.
func (im *importer) registerAll(ctx context.Context, c *changer) error {
	for prefix, kind := range map[string]Kind{"props:": KindDocument, "children:": KindContainer} {
		for escaped := range c.sets(ctx, prefix) {
			p := Path(pathUnescapes.Replace(escaped))
			if e, _ := c.entity(ctx, p); e.kind != kind && p != Root {
				return fmt.Errorf("%w: %s is not of a %v", ErrCorrupt, clip(prefix+escaped), kind)
			}
		}
	}
	for escaped, row := range c.prefixed(ctx, "entity:", "") {
		p := Path(pathUnescapes.Replace(escaped))
		if e, err := parseEntity(row); err == nil && e.kind != KindDocument && e.kind != KindContainer {
			if _, ok := c.find(ctx, configKey(e.kind, p)); !ok && c.err == nil {
				return fmt.Errorf("%w: %s is missing", ErrCorrupt, clip(configKey(e.kind, p)))
			}
		}
	}
	for _, prefix := range []string{"config:", "catcfg:"} {
		for escaped := range c.sets(ctx, prefix) {
			p := Path(pathUnescapes.Replace(escaped))
			e, _ := c.entity(ctx, p)
			if k := e.kind; k != KindCategory && k != KindCatalogue && k != KindIndex || configKey(k, p) != prefix+escaped {
				return fmt.Errorf("%w: %s is not of an entity of its kind", ErrCorrupt, clip(prefix+escaped))
			}
			if n := len(escape(string(p))); e.kind == KindIndex && n > maxIndexPath {
				return fmt.Errorf("%w: the path of an index that takes %d bytes in keys, the bound is %d", ErrTooLarge, n, maxIndexPath)
			}
			label, expression := c.config(ctx, e.kind, p)
			reg := &registration{Kind: e.kind, Expression: expression, Live: new(int)}
			if _, err := compile(expression); !errors.As(err, &reg.Problem) {
				if c.fail(err); e.kind == KindIndex {
					reg.Live, reg.Next = nil, new(int)
				}
			}
			c.register(label, p, reg)
		}
	}
	return nil
}

// second stores what follows from documents: members of categories and catalogues. An index is built
// from the documents, unless it is disabled.
func (im *importer) second(ctx context.Context, c *changer, p Pair) error {
	prefix, rest, _ := strings.Cut(p.Key, ":")
	kind := map[string]Kind{"cat": KindCategory, "catl": KindCatalogue, "idx": KindIndex}[prefix]
	if kind == 0 {
		return nil
	}
	bad := errors.New("no entity is imported that it belongs to")
	for i := range rest {
		if rest[i] != ':' {
			continue
		}
		e, ok := c.entity(ctx, Path(rest[:i]))
		if !ok || e.kind != kind {
			continue
		}
		d, label := c.derivedAt(ctx, kind, Path(rest[:i]))
		key, part := base(kind, d.path, 0)+rest[i:], rest[i:]
		group, isGroup := strings.CutPrefix(part, groups)
		err := checkPaths(p.Value)
		switch {
		case kind == KindIndex && d.Problem != nil:
			key, err = base(kind, d.path, 0)+rawPart+part, nil
		case kind == KindIndex:
			return nil
		case kind == KindCategory && part == ":members":
		case kind == KindCatalogue && part == ":keys":
			_, err = element.Strings(p.Value)
		case kind == KindCatalogue && isGroup && err == nil:
			im.group(ctx, c, d, label, group, p.Value)
			return nil
		case kind != KindCatalogue || !isGroup:
			continue
		}
		if err != nil { // it may be of an entity with a longer path
			bad = err
			continue
		}
		c.put(key, p.Value, 0)
		return nil
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, bad)
}

// group stores the members of a group of a catalogue. The documented form calls 1 and "1" the same; the
// documents say which it is. An array whose members are all of one group stays one.
func (im *importer) group(ctx context.Context, c *changer, d *derived, label, text string, value []byte) {
	members, _ := element.Strings(value)
	byKey, key := map[string][]string{}, textEscapes.Replace(text)
	for _, m := range members {
		key = textEscapes.Replace(text)
		place, ok := c.place(ctx, d, label, c.load(ctx, Path(m), label))
		if g := strings.TrimPrefix(place, groups); ok && groupText(g) == text {
			key = g
		}
		byKey[key] = append(byKey[key], m)
	}
	b := base(d.Kind, d.path, 0) + groups
	if len(byKey) <= 1 {
		c.put(b+key, value, 0)
		return
	}
	for key, members := range byKey {
		c.addRows(b+key, members)
	}
}
