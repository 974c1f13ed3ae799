package docstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
	"github.com/greenroomdb/greenroom/docstore/internal/text"
)

// An exporter writes what is stored in the documented form.
type exporter struct {
	*lookup
	emit func(key string, value func(w io.Writer) error) error
}

// all emits every key of the store.
func (x *exporter) all(ctx context.Context) error {
	if err := x.entity(ctx, Root, entity{kind: KindContainer}); err != nil {
		return err
	}
	for e, err := range x.rows.prefixed(ctx, "entity:", "") {
		if err != nil {
			return err
		}
		p := Path(pathUnescapes.Replace(string(e.Key)))
		stored, err := parseEntity(e.Value)
		if err != nil {
			return wrapRow("entity:"+string(p), err)
		}
		if p == Root {
			err = x.stored("entity:/", entityKey(Root))
		} else {
			err = x.entity(ctx, p, stored)
		}
		if err != nil {
			return err
		}
	}
	for label, err := range x.rows.sets(ctx, "typeidx:") {
		if err == nil {
			err = x.set(ctx, "typeidx:"+textUnescapes.Replace(label), "typeidx:"+label)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// of emits the keys of what a documented key is about.
func (x *exporter) of(ctx context.Context, key string) error {
	prefix, rest, _ := strings.Cut(key, ":")
	if prefix == "typeidx" {
		return x.set(ctx, key, typeKey(rest))
	}
	for end := len(rest); end > 0; end = strings.LastIndexByte(rest[:end], ':') {
		p := Path(rest[:end])
		if p.check() != nil {
			continue
		}
		e, ok, err := x.find(ctx, p)
		if p == Root {
			e, ok = entity{kind: KindContainer}, true
			if key == "entity:/" && err == nil {
				return x.stored(key, entityKey(p))
			}
		}
		if err == nil && ok {
			err = x.entity(ctx, p, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entity emits the keys of an entity.
func (x *exporter) entity(ctx context.Context, p Path, e entity) error {
	if p != Root {
		if err := x.stored("entity:"+string(p), entityKey(p)); err != nil {
			return err
		}
	}
	switch e.kind {
	case KindDocument:
		return x.stored("props:"+string(p), propsKey(p))
	case KindContainer:
		return x.set(ctx, "children:"+string(p), childrenKey(p))
	}
	key := configKey(e.kind, p)
	if err := x.stored(pathUnescapes.Replace(key), key); err != nil {
		return err
	}
	d, err := x.ownerOf(ctx, &target{entity: e, path: p})
	if err != nil || d.Live == nil {
		return err
	}
	b := base(d.Kind, p, *d.Live)
	switch {
	case e.kind == KindCategory:
		return x.set(ctx, "cat:"+string(p)+":members", b+":members")
	case e.kind == KindCatalogue:
		return x.catalogue(ctx, "catl:"+string(p), b)
	case d.Problem != nil:
		for e, err := range x.rows.prefixed(ctx, b+rawPart, "") {
			rest, piece, _ := strings.Cut(string(e.Key), "\x00")
			if err == nil && strings.Trim(piece, "\x00") == "" {
				err = x.stored("idx:"+string(p)+rest, b+rawPart+rest)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return x.index(ctx, "idx:"+string(p), d, b)
}

// stored emits a value as it is stored, if it is.
func (x *exporter) stored(documented, key string) error {
	return x.emit(documented, func(w io.Writer) error {
		b, ok, err := x.rows.find(context.Background(), key)
		if err == nil && !ok {
			err = errMissing
		}
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	})
}

// errMissing: there is nothing to write for a key.
var errMissing = fmt.Errorf("%w: nothing is stored under the key", ErrNotFound)

// set emits a set, unless it is empty: an array as it is stored, rows as the array that they stand for.
func (x *exporter) set(ctx context.Context, documented string, keys ...string) error {
	var sets []iter.Seq2[string, error]
	for _, key := range keys {
		_, size, err := x.rows.array(ctx, key)
		if err != nil {
			return err
		}
		if size > 0 && len(keys) == 1 {
			return x.stored(documented, key)
		}
		sets = append(sets, x.rows.members(ctx, key, ""))
	}
	n := 0
	if err := merge(sets, func(string, int) bool { n++; return true }); err != nil || n == 0 {
		return err
	}
	return x.emit(documented, func(w io.Writer) error {
		_, err := w.Write(element.AppendArrayHeader(nil, n))
		var buf []byte
		merged := merge(sets, func(m string, _ int) bool {
			if err == nil {
				buf = element.AppendString(buf[:0], m)
				_, err = w.Write(buf)
			}
			return err == nil
		})
		if err == nil {
			err = merged
		}
		return err
	})
}

// list emits a set that is in memory.
func (x *exporter) list(documented string, members []string) error {
	return x.emit(documented, func(w io.Writer) error {
		_, err := w.Write(appendStrings(nil, members))
		return err
	})
}

// catalogue emits groups, and their list. Groups that the documented form calls the same are one there.
func (x *exporter) catalogue(ctx context.Context, documented, base string) error {
	byText := map[string][]string{}
	for g, err := range x.groupKeys(ctx, base) {
		if err != nil {
			return err
		}
		byText[groupText(g)] = append(byText[groupText(g)], g)
	}
	texts := slices.Sorted(maps.Keys(byText))
	for _, t := range texts {
		var keys []string
		for _, g := range byText[t] {
			keys = append(keys, base+groups+g)
		}
		if err := x.set(ctx, documented+groups+t, keys...); err != nil {
			return err
		}
	}
	if _, size, err := x.rows.array(ctx, base+":keys"); err != nil || size > 0 {
		if err != nil {
			return err
		}
		return x.stored(documented+":keys", base+":keys")
	}
	if len(texts) == 0 {
		return nil
	}
	return x.list(documented+":keys", texts)
}

// index emits the documents of a text index with their texts, and the grams.
func (x *exporter) index(ctx context.Context, documented string, d *derived, base string) error {
	label, _, err := x.config(ctx, d.Kind, d.path)
	if err != nil {
		return err
	}
	for e, err := range x.rows.prefixed(ctx, base+":doc:", "") {
		if err != nil {
			return err
		}
		p := Path(pathUnescapes.Replace(string(e.Key)))
		err := x.emit(documented+":doc:"+string(p), func(w io.Writer) error {
			doc, err := x.load(ctx, p, label)
			if err != nil {
				return err
			}
			s, _, err := x.content(ctx, d, label, doc)
			if err == nil {
				_, err = w.Write(element.AppendString(nil, s))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	all, err := x.grams(ctx, documented, textIndex{x.rows, base})
	if err != nil {
		return err
	}
	return x.shorter(documented, all)
}

// grams emits which documents have which trigrams, and returns those.
func (x *exporter) grams(ctx context.Context, documented string, ix textIndex) (all []string, err error) {
	pending, names := map[string][]string{}, map[uint32][]string{}
	var grams []text.Gram
	err = ix.pending(ctx, x.rows.reader, func(doc Path, normalized string) bool {
		grams = text.Grams(grams[:0], normalized)
		for _, g := range grams {
			key := string(g.AppendKey(nil))
			pending[key] = append(pending[key], string(doc))
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	out, err := ix.left(ctx, x.rows.reader)
	if err != nil {
		return nil, err
	}
	one := func(key string) error {
		g, ok := text.ParseGram(key)
		if !ok || g.Padded() {
			return nil
		}
		hits, err := ix.postings(ctx, ix.gramKey(g)+"\x00")
		if err != nil {
			return err
		}
		docs := pending[key]
		for _, h := range hits {
			if gone := out[h.segment]; gone != nil {
				h.set.AndNot(gone)
			}
			if names[h.segment] == nil {
				if names[h.segment], err = ix.names(ctx, h.segment); err != nil {
					return err
				}
			}
			for n := range h.set.All() {
				docs = append(docs, names[h.segment][n])
			}
		}
		if len(docs) == 0 {
			return nil
		}
		slices.Sort(docs)
		all = append(all, g.String())
		return x.list(documented+":tri:"+g.String(), docs)
	}
	stored, waiting := x.rows.sets(ctx, ix.base+":tri:"), values(slices.Sorted(maps.Keys(pending)))
	failed := merge([]iter.Seq2[string, error]{stored, waiting}, func(key string, _ int) bool {
		err = one(key)
		return err == nil
	})
	return all, errors.Join(err, failed)
}

// shorter emits which trigrams have a pair of characters, and which pairs begin with a character.
func (x *exporter) shorter(documented string, trigrams []string) error {
	byPair, byRune := map[string][]string{}, map[string][]string{}
	for _, t := range trigrams {
		r := []rune(t)
		for _, pair := range slices.Compact([]string{string(r[:2]), string(r[1:])}) {
			byPair[pair] = append(byPair[pair], t)
		}
	}
	for _, pair := range slices.Sorted(maps.Keys(byPair)) {
		first := string([]rune(pair)[:1])
		byRune[first] = append(byRune[first], pair)
		if err := x.list(documented+":bi:"+pair, byPair[pair]); err != nil {
			return err
		}
	}
	for _, r := range slices.Sorted(maps.Keys(byRune)) {
		if err := x.list(documented+":uni:"+r, byRune[r]); err != nil {
			return err
		}
	}
	return nil
}
