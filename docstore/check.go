package docstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
	"github.com/greenroomdb/greenroom/docstore/internal/text"
	"github.com/greenroomdb/greenroom/kv"
)

// A checker collects the keys that must be there, from what entities are, and then looks whether all others
// are absent. Rows of an index that is disabled, and of what is being built, are taken as they are.
type checker struct {
	*lookup
	expected map[string]bool
	arrays   map[string]map[string]bool
	loose    []string // prefixes of what isn't checked
	problems []string
}

func newChecker(l *lookup) *checker {
	return &checker{lookup: l, expected: map[string]bool{}, arrays: map[string]map[string]bool{}}
}

func (k *checker) problem(format string, args ...any) {
	k.problems = append(k.problems, fmt.Sprintf(format, args...))
}

// run returns what is wrong.
func (k *checker) run(ctx context.Context) []string {
	for key := range k.prefixed(ctx, "entity:", "") {
		if p := Path(pathUnescapes.Replace(key)); p != Root {
			k.expected[entityKey(p)] = true
			k.entityRows(ctx, p, k.mustBe(ctx, p))
		}
	}
	end := []byte{0xff} // behind it are stores whose names begin with this one's and a NUL
	for key, v := range k.scan(ctx, kv.Range{End: end}) {
		if key != metaKey && key != entityKey(Root) && !k.known(key) && !k.emptyArray(key, v) {
			k.problem("row %q belongs to nothing", clip(key))
		}
	}
	for key := range k.expected {
		if _, ok := k.find(ctx, key); !ok && k.err == nil {
			k.problem("row %q is missing", clip(key))
		}
	}
	for key, list := range k.arrays {
		for m := range list {
			k.problem("array %q has %s, which doesn't belong there", clip(key), clip(m))
		}
	}
	slices.Sort(k.problems)
	return k.problems
}

// emptyArray reports whether a row is an array of no documents, as one may be imported.
func (k *checker) emptyArray(key string, value []byte) bool {
	list, err := element.Strings(value)
	return k.meta.Arrays && err == nil && len(list) == 0 && (strings.HasPrefix(key, typeKey("")) || strings.Contains(key, groups))
}

// known reports whether a row may be there.
func (k *checker) known(key string) bool {
	if k.expected[key] {
		return true
	}
	for _, prefix := range k.loose {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	whole := len(key) - 5 // of a piece
	return whole > 0 && key[whole] == 0 && k.expected[key[:whole]]
}

// set expects a member in a set; in its array, if it has one.
func (k *checker) set(ctx context.Context, key, member string) {
	row := key + "\x00" + member
	list := k.arrayOf(ctx, key)
	if list == nil {
		k.expected[row] = true
		return
	}
	if !list[member] {
		k.problem("array %q lacks %s", clip(key), clip(member))
	}
	delete(list, member)
	if _, ok := k.get(ctx, row); ok { // the array is being taken apart
		k.expected[row] = true
	}
}

// arrayOf returns those members of a set's array that the checker hasn't expected yet, and nil if the set is rows.
func (k *checker) arrayOf(ctx context.Context, key string) map[string]bool {
	list, ok := k.arrays[key]
	if !ok && k.meta.Arrays {
		members, size := k.array(ctx, key)
		if size > 0 {
			k.expected[key], list = true, map[string]bool{}
		}
		for _, m := range members {
			list[m] = true
		}
		k.arrays[key] = list
	}
	return list
}

// entityRows expects the rows of an entity.
func (k *checker) entityRows(ctx context.Context, p Path, e entity) {
	if parent := p.Parent(); parent != Root {
		if above, ok := k.entity(ctx, parent); !ok || above.kind != KindContainer {
			k.problem("%s lies in %s, which is not a container", clip(p), clip(parent))
		}
	}
	k.set(ctx, childrenKey(p.Parent()), p.segment())
	switch e.kind {
	case KindContainer:
		k.arrayOf(ctx, childrenKey(p))
		return
	case KindDocument:
		k.document(ctx, p, e.label)
		return
	}
	k.expected[configKey(e.kind, p)] = true
	d, label := k.derivedAt(ctx, e.kind, p)
	k.expected[registryKey(label)+"\x00"+string(p)] = true
	if _, expression := k.config(ctx, e.kind, p); d.Expression != expression || d.Kind != e.kind {
		k.problem("%s is registered as another one", clip(p))
	}
	if d.Next != nil {
		k.loose = append(k.loose, buildKey(p), base(d.Kind, p, *d.Next)+":")
	}
	if d.Live == nil {
		return
	}
	b := base(d.Kind, p, *d.Live)
	switch {
	case d.Problem != nil:
		k.loose = append(k.loose, b+":")
	case d.Kind == KindCategory:
		k.arrayOf(ctx, b+":members")
	case d.Kind == KindCatalogue:
		k.loose = append(k.loose, b+":keys")
	case d.Kind == KindIndex:
		k.index(ctx, d, label, textIndex{k.rows, b})
	}
}

// document expects the rows of a document, and its places in what is derived of its type.
func (k *checker) document(ctx context.Context, p Path, label string) {
	k.set(ctx, typeKey(label), string(p))
	doc := k.load(ctx, p, label)
	if doc.size > 0 || !k.meta.Arrays { // what is imported may have none
		k.expected[propsKey(p)] = true
	}
	for _, d := range k.derivedOf(ctx, label) {
		if d.Live == nil || d.Problem != nil {
			continue
		}
		b := base(d.Kind, d.path, *d.Live)
		switch what, ok := k.has(ctx, d, label, doc); {
		case !ok:
		case d.Kind == KindIndex:
			k.expected[textIndex{k.rows, b}.docKey(p)] = true
		default:
			k.set(ctx, b+what, string(p))
		}
	}
}

// index expects the rows of a text index: what its places say, and the texts.
func (k *checker) index(ctx context.Context, d *derived, label string, ix textIndex) {
	at := map[location]string{}
	first, _ := ix.rounds(ctx)
	if _, ok := k.get(ctx, ix.base+":round"); ok {
		k.expected[ix.base+":round"] = true
	}
	for key := range k.prefixed(ctx, ix.base+":doc:", "") {
		p := Path(pathUnescapes.Replace(key))
		want, _ := k.content(ctx, d, label, k.load(ctx, p, label))
		l, _ := ix.locate(ctx, p)
		var stored []byte
		if l.number == waiting {
			if l.segment < first {
				k.problem("%s waits in round %d of %s, which is over", clip(p), l.segment, clip(d.path))
			}
			k.expected[ix.newKey(p, l.segment)] = true
			stored, _ = k.find(ctx, ix.newKey(p, l.segment))
		} else {
			if was := at[l]; was != "" {
				k.problem("%s and %s have one place in %s", clip(was), clip(p), clip(d.path))
			}
			at[l] = string(p)
			_, stored = ix.document(ctx, l)
		}
		if string(stored) != text.Normalize(want) {
			k.problem("%s has another text in %s", clip(p), clip(d.path))
		}
	}
	for _, h := range ix.everything(ctx) {
		k.expected[segmentKey(ix.base, ":seg", h.segment)] = true
		var grams text.Segment
		for n, name := range ix.names(ctx, h.segment) {
			l := location{h.segment, uint16(n)}
			doc, s := ix.document(ctx, l)
			if string(doc) != name || at[l] != "" && at[l] != name {
				k.problem("document %d of segment %d of %s is %s, and not %s", n, h.segment, clip(d.path), clip(doc), clip(name))
			}
			k.expected[documentKey(ix.base, ":txt", l)] = true
			if at[l] == "" {
				k.expected[documentKey(ix.base, ":out", l)] = true
			}
			delete(at, l)
			grams.Add(n, string(s))
		}
		for key, want := range ix.rowsOf(&grams, h.segment) {
			k.expected[key] = true
			if b, _ := k.get(ctx, key); !bytes.Equal(b, want) {
				k.problem("the grams %q in segment %d of %s are others", key, h.segment, clip(d.path))
			}
		}
	}
	for l, p := range at {
		k.problem("%s has a place in segment %d of %s, which is missing", clip(p), l.segment, clip(d.path))
	}
}
