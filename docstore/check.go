package docstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
func (k *checker) run(ctx context.Context) ([]string, error) {
	for e, err := range k.rows.prefixed(ctx, "entity:", "") {
		if err != nil {
			return nil, err
		}
		p := Path(pathUnescapes.Replace(string(e.Key)))
		stored, err := parseEntity(e.Value)
		if err != nil || p.checkNew() != nil {
			k.problem("%s: %v", clip(p), err)
			continue
		}
		if p == Root {
			continue
		}
		k.expected[entityKey(p)] = true
		if err := k.entity(ctx, p, stored); err != nil {
			return nil, err
		}
	}
	for e, err := range k.rows.Scan(ctx, kv.Range{}) {
		if err != nil {
			return nil, err
		}
		if key := string(e.Key); key != metaKey && key != entityKey(Root) && !k.known(key) {
			k.problem("row %q belongs to nothing", clip(key))
		}
	}
	for key, yes := range k.expected {
		if _, ok, err := k.rows.find(ctx, key); err != nil {
			return nil, err
		} else if yes && !ok {
			k.problem("row %q is missing", clip(key))
		}
	}
	for key, list := range k.arrays {
		for m := range list {
			k.problem("array %q has %s, which doesn't belong there", clip(key), clip(m))
		}
	}
	slices.Sort(k.problems)
	return k.problems, nil
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
	whole, _, ok := strings.Cut(key, "\x00\x00") // a piece
	return ok && k.expected[whole]
}

// set expects a member in a set; in its array, if it has one.
func (k *checker) set(ctx context.Context, key, member string) error {
	row := key + "\x00" + member
	list, err := k.array(ctx, key)
	if err != nil || list == nil {
		k.expected[row] = err == nil
		return err
	}
	if !list[member] {
		k.problem("array %q lacks %s", clip(key), clip(member))
	}
	delete(list, member)
	if _, ok, err := k.rows.get(ctx, row); err != nil || ok { // the array is being taken apart
		k.expected[row] = true
		return err
	}
	return nil
}

// array returns those members of a set's array that the checker hasn't expected yet, and nil if the set is rows.
func (k *checker) array(ctx context.Context, key string) (map[string]bool, error) {
	if list, ok := k.arrays[key]; ok || !k.rows.meta.Arrays {
		return list, nil
	}
	list, size, err := k.rows.array(ctx, key)
	if err != nil {
		return nil, err
	}
	k.arrays[key] = nil
	if size > 0 {
		k.expected[key] = true
		k.arrays[key] = map[string]bool{}
		for _, m := range list {
			k.arrays[key][m] = true
		}
	}
	return k.arrays[key], nil
}

// entity expects the rows of an entity.
func (k *checker) entity(ctx context.Context, p Path, e entity) error {
	if parent := p.Parent(); parent != Root {
		above, ok, err := k.find(ctx, parent)
		if err != nil {
			return err
		}
		if !ok || above.kind != KindContainer {
			k.problem("%s lies in %s, which is no container", clip(p), clip(parent))
		}
	}
	if err := k.set(ctx, childrenKey(p.Parent()), p.segment()); err != nil {
		return err
	}
	switch e.kind {
	case KindContainer:
		_, err := k.array(ctx, childrenKey(p))
		return err
	case KindDocument:
		return k.document(ctx, p, e.label)
	}
	key := configKey(e.kind, p)
	k.expected[key] = true
	label, expression, err := k.config(ctx, e.kind, p)
	if err != nil {
		k.problem("%s: %v", clip(p), err)
		return nil
	}
	k.expected[registryKey(label)+"\x00"+string(p)] = true
	d, err := k.derivedAt(ctx, label, p)
	if err != nil {
		k.problem("%s: %v", clip(p), err)
		return nil
	}
	if d.Expression != expression || d.Kind != e.kind {
		k.problem("%s is registered as another one", clip(p))
	}
	if d.Next != nil {
		k.loose = append(k.loose, buildKey(p), base(d.Kind, p, *d.Next)+":")
	}
	if d.Live == nil {
		return nil
	}
	b := base(d.Kind, p, *d.Live)
	switch {
	case d.Problem != nil:
		k.loose = append(k.loose, b+":")
	case d.Kind == KindCategory:
		_, err = k.array(ctx, b+":members")
		return err
	case d.Kind == KindCatalogue:
		k.loose = append(k.loose, b+":keys")
	case d.Kind == KindIndex:
		return k.index(ctx, d, label, textIndex{k.rows, b})
	}
	return nil
}

// document expects the rows of a document, and its places in what is derived of its type.
func (k *checker) document(ctx context.Context, p Path, label string) error {
	k.expected[propsKey(p)] = true
	doc, err := k.load(ctx, p, label)
	if err != nil {
		k.problem("%s: %v", clip(p), err)
		return nil
	}
	if err := k.set(ctx, typeKey(label), string(p)); err != nil {
		return err
	}
	all, err := k.derivedOf(ctx, label)
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.Live == nil || d.Problem != nil {
			continue
		}
		b := base(d.Kind, d.path, *d.Live)
		if d.Kind == KindIndex {
			_, ok, err := k.content(ctx, d, label, doc)
			if err != nil {
				return err
			}
			if ok {
				k.expected[textIndex{k.rows, b}.docKey(p)] = true
			}
			continue
		}
		place, ok, err := k.place(ctx, d, label, doc)
		if err == nil && ok {
			err = k.set(ctx, b+place, string(p))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// index expects the rows of a text index: what its places say, and the texts.
func (k *checker) index(ctx context.Context, d *derived, label string, ix textIndex) error {
	at := map[location]Path{}
	for e, err := range k.rows.prefixed(ctx, ix.base+":doc:", "") {
		if err != nil {
			return err
		}
		p := Path(pathUnescapes.Replace(string(e.Key)))
		doc, err := k.load(ctx, p, label)
		if err != nil {
			return err
		}
		s, _, err := k.content(ctx, d, label, doc)
		if err != nil {
			return err
		}
		l, _ := parseLocation(e.Value)
		if l.segment > 0 {
			if was, twice := at[l]; twice {
				k.problem("%s and %s have one place in %s", clip(was), clip(p), clip(d.path))
			}
			at[l] = p
			_, stored, err := ix.document(ctx, l)
			if err != nil || string(stored) != text.Normalize(s) {
				k.problem("%s has another text in %s: %v", clip(p), clip(d.path), err)
			}
			continue
		}
		k.expected[ix.newKey(p)] = true
		if b, _, err := k.rows.find(ctx, ix.newKey(p)); err != nil || string(b) != text.Normalize(s) {
			k.problem("%s waits in %s with another text: %v", clip(p), clip(d.path), err)
		}
	}
	return k.segments(ctx, d, ix, at)
}

// segments expects the rows of segments.
func (k *checker) segments(ctx context.Context, d *derived, ix textIndex, at map[location]Path) error {
	all, err := ix.everything(ctx)
	if err != nil {
		return err
	}
	for _, h := range all {
		names, err := ix.names(ctx, h.segment)
		if err != nil {
			return err
		}
		k.expected[segmentKey(ix.base, ":seg", h.segment)] = true
		want := map[text.Gram]*text.Set{}
		for n := range names {
			l := location{h.segment, uint16(n)}
			p, s, err := ix.document(ctx, l)
			if err != nil || string(p) != names[n] {
				k.problem("document %d of segment %d of %s: %s and %s, %v", n, h.segment, clip(d.path), clip(p), clip(names[n]), err)
			}
			k.expected[documentKey(ix.base, ":txt", l)] = true
			if at[l] == "" {
				k.expected[documentKey(ix.base, ":out", l)] = true
			}
			delete(at, l)
			for _, g := range text.Grams(nil, string(s)) {
				if want[g] == nil {
					want[g] = new(text.Set)
				}
				want[g].Add(n)
			}
		}
		for g, set := range want {
			key := ix.postingKey(g, h.segment)
			k.expected[key] = true
			var stored text.Set
			if b, _, err := k.rows.find(ctx, key); err != nil || stored.Decode(b) != nil || stored != *set {
				k.problem("postings of %q in segment %d of %s are others: %v", g, h.segment, clip(d.path), err)
			}
		}
	}
	for l, p := range at {
		k.problem("%s has a place in segment %d of %s, which is missing", clip(p), l.segment, clip(d.path))
	}
	return nil
}
