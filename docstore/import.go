package docstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A Pair is a key of the documented form with its value.
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
		for label, err := range c.rows.sets(ctx, "reg:") {
			var all []*derived
			if err == nil {
				all, err = c.derivedOf(ctx, textUnescapes.Replace(label))
			}
			if err != nil {
				return err
			}
			for _, d := range all {
				if d.state() == StateBuilding {
					indexes = append(indexes, d.path)
				}
			}
		}
		c.rows.meta.Importing = false
		return c.rows.putJSON(metaKey, c.rows.meta)
	})
	for _, p := range indexes {
		if err == nil {
			err = im.s.build(ctx, p, nil)
		}
	}
	return err
}

// begin makes sure that the store is empty, or that of an import which was cut off, which it removes.
func (im *importer) begin(ctx context.Context) error {
	return im.update(ctx, func(ctx context.Context, c *changer) error {
		for _, err := range c.rows.prefixed(ctx, "entity:", "") {
			if err == nil && !c.rows.meta.Importing {
				err = fmt.Errorf("%w: the store is not empty", ErrExists)
			}
			if err != nil {
				return err
			}
			break
		}
		if err := c.rows.w.ClearRange([]byte{0}, []byte{0xff}); err != nil {
			return err
		}
		c.rows.meta.Importing, c.rows.meta.Arrays = true, true
		return c.rows.putJSON(metaKey, c.rows.meta)
	})
}

// update runs fn in a transaction.
func (im *importer) update(ctx context.Context, fn func(ctx context.Context, c *changer) error) error {
	return im.s.upkeep.Update(ctx, func(t *txn.Tx) error {
		tx, err := im.s.begin(ctx, t)
		if err != nil && !errors.Is(err, ErrImporting) {
			return err
		}
		return fn(ctx, tx.changer)
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
		_, err = parseEntity(p.Value)
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
	if err == nil {
		return c.rows.put(key, p.Value, 0)
	}
	if !errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
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
// refused is disabled.
func (im *importer) registerAll(ctx context.Context, c *changer) error {
	for _, prefix := range []string{"config:", "catcfg:"} {
		for e, err := range c.rows.prefixed(ctx, prefix, "") {
			if err != nil {
				return err
			}
			escaped, _, pieces := strings.Cut(string(e.Key), "\x00")
			p := Path(pathUnescapes.Replace(escaped))
			stored, _, err := c.find(ctx, p)
			if err != nil {
				return err
			}
			k := stored.kind
			if k != KindCategory && k != KindCatalogue && k != KindIndex || configKey(k, p) != prefix+escaped {
				return fmt.Errorf("%w: %s is the configuration of a %v", ErrCorrupt, clip(prefix+escaped), k)
			}
			if pieces && e.Key[len(e.Key)-1] > 0 {
				continue
			}
			label, expression, err := c.config(ctx, k, p)
			if err != nil {
				return err
			}
			reg := &registration{Kind: k, Expression: expression, Live: new(int)}
			if _, err := compile(expression); !errors.As(err, &reg.Problem) {
				if err != nil {
					return err
				}
				if k == KindIndex {
					reg.Live, reg.Next = nil, new(int)
				}
			}
			if err := c.register(label, p, reg); err != nil {
				return err
			}
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
	for i := range rest {
		if rest[i] != ':' {
			continue
		}
		e, ok, err := c.find(ctx, Path(rest[:i]))
		if err != nil {
			return err
		}
		if !ok || e.kind != kind {
			continue
		}
		d, err := c.ownerOf(ctx, &target{entity: e, path: Path(rest[:i])})
		if err != nil {
			return err
		}
		b, part := base(kind, d.path, 0), rest[i:]
		switch group, isGroup := strings.CutPrefix(part, groups); {
		case kind == KindIndex && d.Problem != nil:
			return c.rows.put(b+rawPart+part, p.Value, 0)
		case kind == KindIndex:
			return nil
		case kind == KindCategory && part == ":members":
			if err := checkPaths(p.Value); err != nil {
				return fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
			return c.rows.put(b+part, p.Value, 0)
		case kind == KindCatalogue && part == ":keys":
			if _, err := element.Strings(p.Value); err != nil {
				return err
			}
			return c.rows.put(b+part, p.Value, 0)
		case kind == KindCatalogue && isGroup:
			return im.group(ctx, c, d, b, group, p.Value)
		}
	}
	return fmt.Errorf("%w: no entity is imported that it belongs to", ErrCorrupt)
}

// group stores the members of a group of a catalogue. The documented form calls 1 and "1" the same; the
// documents say which it is. An array whose members are all of one group stays one.
func (im *importer) group(ctx context.Context, c *changer, d *derived, base, text string, value []byte) error {
	if err := checkPaths(value); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	members, err := element.Strings(value)
	if err != nil {
		return err
	}
	label, _, err := c.config(ctx, d.Kind, d.path)
	if err != nil {
		return err
	}
	byKey, order := map[string][]string{}, []string(nil)
	for _, m := range members {
		key := textEscapes.Replace(text)
		doc, err := c.load(ctx, Path(m), label)
		if err != nil {
			return err
		}
		place, ok, err := c.place(ctx, d, label, doc)
		if err != nil {
			return err
		}
		if g := strings.TrimPrefix(place, groups); ok && groupText(g) == text {
			key = g
		}
		if byKey[key] == nil {
			order = append(order, key)
		}
		byKey[key] = append(byKey[key], m)
	}
	if len(order) == 0 {
		order = []string{textEscapes.Replace(text)}
	}
	for _, key := range order {
		if len(order) == 1 {
			err = c.rows.put(base+groups+key, value, 0)
		} else {
			err = c.rows.addRows(base+groups+key, byKey[key])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
