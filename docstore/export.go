package docstore

import (
	"context"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
	"github.com/greenroomdb/greenroom/docstore/internal/text"
)

// An exporter writes what is stored in the documented form. An error of emit ends it.
type exporter struct {
	*lookup
	emit   func(key string, value func(w io.Writer) error) error
	failed error // of emit
}

// out emits a key, unless something has failed.
func (x *exporter) out(key string, value func(w io.Writer) error) {
	if x.failed == nil && x.err == nil {
		x.failed = x.emit(key, func(w io.Writer) error {
			if err := value(w); err != nil {
				return err
			}
			return x.err
		})
	}
}

// all emits every key of the store.
func (x *exporter) all(ctx context.Context) error {
	x.stored(ctx, "entity:/", entityKey(Root))
	x.container(ctx, Root)
	for key := range x.prefixed(ctx, "entity:", "") {
		if p := Path(pathUnescapes.Replace(key)); p != Root {
			x.entityKeys(ctx, p, x.mustBe(ctx, p))
		}
	}
	for label := range x.sets(ctx, "typeidx:") {
		x.set(ctx, "typeidx:"+textUnescapes.Replace(label), "typeidx:"+label)
	}
	return x.failed
}

// of emits the keys of what a documented key is about.
func (x *exporter) of(ctx context.Context, key string) error {
	prefix, rest, _ := strings.Cut(key, ":")
	if prefix == "typeidx" {
		x.set(ctx, key, typeKey(rest))
	}
	for end := len(rest); end > 0; end = strings.LastIndexByte(rest[:end], ':') {
		p := Path(rest[:end])
		if p == Root {
			x.stored(ctx, "entity:/", entityKey(Root))
			x.container(ctx, p)
		} else if p.check() == nil {
			if e, ok := x.entity(ctx, p); ok {
				x.entityKeys(ctx, p, e)
			}
		}
	}
	return x.failed
}

func (x *exporter) container(ctx context.Context, p Path) {
	x.set(ctx, "children:"+string(p), childrenKey(p))
}

// entityKeys emits the keys of an entity.
func (x *exporter) entityKeys(ctx context.Context, p Path, e entity) {
	x.stored(ctx, "entity:"+string(p), entityKey(p))
	switch e.kind {
	case KindDocument:
		x.stored(ctx, "props:"+string(p), propsKey(p))
		return
	case KindContainer:
		x.container(ctx, p)
		return
	}
	key := configKey(e.kind, p)
	x.stored(ctx, pathUnescapes.Replace(key), key)
	d, label := x.derivedAt(ctx, e.kind, p)
	if d.Live == nil {
		return
	}
	b := base(d.Kind, p, *d.Live)
	switch {
	case e.kind == KindCategory:
		x.set(ctx, "cat:"+string(p)+":members", b+":members")
	case e.kind == KindCatalogue:
		x.catalogue(ctx, "catl:"+string(p), b)
	case d.Problem != nil:
		for rest := range x.sets(ctx, b+rawPart) {
			x.stored(ctx, "idx:"+string(p)+rest, b+rawPart+rest)
		}
	default:
		x.index(ctx, "idx:"+string(p), d, label)
	}
}

// stored emits a value as it is stored, if it is.
func (x *exporter) stored(ctx context.Context, documented, key string) {
	if b, ok := x.find(ctx, key); ok {
		x.out(documented, func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		})
	}
}

// set emits a set, unless it is empty: an array as it is stored, rows as the array that they stand for.
func (x *exporter) set(ctx context.Context, documented string, keys ...string) {
	var sets []iter.Seq2[string, error]
	for _, key := range keys {
		if _, size := x.array(ctx, key); size > 0 && len(keys) == 1 {
			x.stored(ctx, documented, key)
			return
		}
		sets = append(sets, func(yield func(string, error) bool) {
			for m := range x.members(ctx, key, "") {
				if !yield(m, nil) {
					return
				}
			}
		})
	}
	n := 0
	if x.fail(merge(sets, func(string, int) bool { n++; return true })); n == 0 {
		return
	}
	x.out(documented, func(w io.Writer) error {
		_, err := w.Write(element.AppendArrayHeader(nil, n))
		var buf []byte
		x.fail(merge(sets, func(m string, _ int) bool {
			if err == nil {
				buf = element.AppendString(buf[:0], m)
				_, err = w.Write(buf)
			}
			return err == nil
		}))
		return err
	})
}

// list emits a set that is in memory.
func (x *exporter) list(documented string, members []string) {
	x.out(documented, func(w io.Writer) error {
		_, err := w.Write(appendStrings(nil, members))
		return err
	})
}

// catalogue emits groups, and their list. Groups that the documented form calls the same are one there.
func (x *exporter) catalogue(ctx context.Context, documented, base string) {
	byText := map[string][]string{}
	for g := range x.groupKeys(ctx, base) {
		byText[groupText(g)] = append(byText[groupText(g)], base+groups+g)
	}
	texts := slices.Sorted(maps.Keys(byText))
	for _, t := range texts {
		x.set(ctx, documented+groups+t, byText[t]...)
	}
	if _, size := x.array(ctx, base+":keys"); size > 0 {
		x.stored(ctx, documented+":keys", base+":keys")
	} else if len(texts) > 0 {
		x.list(documented+":keys", texts)
	}
}

// index emits the documents of a text index with their texts, and the grams.
func (x *exporter) index(ctx context.Context, documented string, d *derived, label string) {
	ix := textIndex{x.rows, base(d.Kind, d.path, *d.Live)}
	for key := range x.prefixed(ctx, ix.base+":doc:", "") {
		p := pathUnescapes.Replace(key)
		x.out(documented+":doc:"+p, func(w io.Writer) error {
			s, _ := x.content(ctx, d, label, x.load(ctx, Path(p), label))
			_, err := w.Write(element.AppendString(nil, s))
			return err
		})
	}
	all, byPair, byRune := x.grams(ctx, documented, ix), map[string][]string{}, map[string][]string{}
	for _, t := range all {
		r := []rune(t)
		for _, pair := range slices.Compact([]string{string(r[:2]), string(r[1:])}) {
			byPair[pair] = append(byPair[pair], t)
		}
	}
	for _, pair := range slices.Sorted(maps.Keys(byPair)) {
		first := string([]rune(pair)[:1])
		byRune[first] = append(byRune[first], pair)
		x.list(documented+":bi:"+pair, byPair[pair])
	}
	for _, r := range slices.Sorted(maps.Keys(byRune)) {
		x.list(documented+":uni:"+r, byRune[r])
	}
}

// grams emits which documents have which trigrams, and returns those.
func (x *exporter) grams(ctx context.Context, documented string, ix textIndex) (all []string) {
	byPair := map[string]map[rune][]string{} // of pending documents; of others pair by pair
	has := func(pair string, third rune, doc string) {
		if byPair[pair] == nil {
			byPair[pair] = map[rune][]string{}
		}
		byPair[pair][third] = append(byPair[pair][third], doc)
	}
	ix.waitingDocs(ctx, func(_ uint32, doc, normalized []byte) bool {
		for _, g := range text.Grams(nil, string(normalized)) {
			has(g.Pair(), g.Third(), string(doc))
		}
		return true
	})
	flush := func(pair string) {
		for _, third := range slices.Sorted(maps.Keys(byPair[pair])) {
			docs := byPair[pair][third]
			slices.Sort(docs)
			if gram := pair + string(third); !text.Padded(gram) {
				all = append(all, gram)
				x.list(documented+":tri:"+gram, docs)
			}
		}
		delete(byPair, pair)
	}
	out, names := ix.left(ctx), map[uint32][]string{}
	for key := range x.sets(ctx, ix.base+":tri:") {
		pair, _ := text.ParseKey(key)
		for k, row := range x.prefixed(ctx, ix.base+":tri:"+key+"\x00", "") {
			segment := ix.segmentAt(k, 0)
			if names[segment] == nil {
				names[segment] = ix.names(ctx, segment)
			}
			for len(row) > 0 && x.err == nil {
				third, postings, rest, err := text.NextGram(row)
				var set text.Set
				if err == nil {
					err = set.Decode(postings)
				}
				if row = rest; err != nil {
					x.corrupt(ix.base+":tri:"+key, "%w", err)
				}
				if gone := out[segment]; gone != nil {
					set.AndNot(gone)
				}
				for n := range set.All() {
					has(pair, third, names[segment][n])
				}
			}
		}
		flush(pair)
	}
	for _, pair := range slices.Sorted(maps.Keys(byPair)) {
		flush(pair)
	}
	slices.Sort(all)
	return all
}
