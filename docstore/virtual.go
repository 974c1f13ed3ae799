package docstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/docstore/internal/text"
)

// A lookup finds what lies at paths.
type lookup struct{ records }

// A target is what a path leads to.
type target struct {
	entity
	path Path // of a document, and of everything that is stored, its own
	// Of what is virtual:
	owner  Path          // the catalogue or index
	group  string        // of a group, its key
	search *text.Pattern // of a search
}

// resolve returns what a path leads to. Documents below categories, groups and searches are those documents.
func (l *lookup) resolve(ctx context.Context, p Path) (*target, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return l.lead(ctx, p)
}

// lead is resolve for a path that was checked.
func (l *lookup) lead(ctx context.Context, p Path) (*target, error) {
	if p == Root {
		return &target{entity: entity{kind: KindContainer}, path: Root}, nil
	}
	if e, ok := l.entity(ctx, p); ok {
		return &target{entity: e, path: p}, nil
	}
	if p.Parent() == Root {
		return nil, ErrNotFound
	}
	parent, err := l.lead(ctx, p.Parent())
	if err != nil {
		return nil, err
	}
	name := p.segment()
	switch {
	case parent.owner != "" || parent.kind == KindCategory:
		return l.memberNamed(ctx, parent, name)
	case parent.kind == KindCatalogue:
		return l.groupNamed(ctx, parent.path, name)
	case parent.kind == KindIndex:
		return &target{entity: entity{kind: KindContainer}, path: p, owner: parent.path, search: text.Parse(nameUnescapes.Replace(name))}, nil
	}
	return nil, ErrNotFound
}

// documentAt returns the document at a path, which may be a virtual one.
func (l *lookup) documentAt(ctx context.Context, p Path) (*document, error) {
	t, err := l.resolve(ctx, p)
	if err != nil {
		return nil, err
	}
	if t.kind != KindDocument {
		return nil, fmt.Errorf("%w: a %v has no properties", ErrOperation, t.kind)
	}
	return l.load(ctx, t.path, t.label), nil
}

// groupNamed returns the group of a catalogue that a name in a path stands for.
func (l *lookup) groupNamed(ctx context.Context, catalogue Path, name string) (*target, error) {
	t := &target{entity: entity{kind: KindContainer}, path: catalogue.below(name), owner: catalogue}
	for _, t.group = range segmentGroups(name) {
		for _, err := range l.membersOf(ctx, t, "") {
			return t, err
		}
	}
	if l.meta.Arrays { // an imported catalogue may list groups without members
		for p, err := range l.membersOf(ctx, &target{entity: entity{kind: KindCatalogue}, path: catalogue}, "") {
			if err != nil || p == t.path {
				t.group = segmentGroups(name)[0]
				return t, err
			}
		}
	}
	return nil, ErrNotFound
}

// memberNamed returns the member of a category, group or search that a name in a path stands for: the whole path of
// a document, or its last name, if no other member has that.
func (l *lookup) memberNamed(ctx context.Context, parent *target, name string) (*target, error) {
	var found []Path
	if whole := Path(nameUnescapes.Replace(name)); strings.HasPrefix(string(whole), "/") && parent.search == nil {
		key, err := l.setKey(ctx, parent)
		if err != nil {
			return nil, err
		}
		if l.contains(ctx, key, string(whole)) {
			found = append(found, whole)
		}
	} else {
		for p, err := range l.membersOf(ctx, parent, "") {
			if err != nil {
				return nil, err
			}
			if p == whole {
				found = []Path{p}
				break
			}
			if p.segment() == name {
				found = append(found, p)
			}
		}
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("%w: %s and %s", ErrAmbiguous, clip(found[0]), clip(found[1]))
	}
	if len(found) == 1 {
		if e, ok := l.entity(ctx, found[0]); ok {
			return &target{entity: e, path: found[0]}, nil
		}
	}
	return nil, ErrNotFound
}

// ownerOf returns the category, catalogue or index of a target: itself, or the one that it lies in.
func (l *lookup) ownerOf(ctx context.Context, t *target) *derived {
	p, k := t.path, t.kind
	switch {
	case t.search != nil:
		p, k = t.owner, KindIndex
	case t.owner != "":
		p, k = t.owner, KindCatalogue
	}
	d, _ := l.derivedAt(ctx, k, p)
	return d
}

// setKey returns the key of the set of a category or group, and what the keys of a catalogue begin with.
func (l *lookup) setKey(ctx context.Context, t *target) (string, error) {
	base, err := l.ownerOf(ctx, t).readable()
	switch {
	case t.kind == KindCategory:
		base += ":members"
	case t.owner != "":
		base += groups + t.group
	}
	return base, err
}

// describe returns the Entity of a target.
func (l *lookup) describe(ctx context.Context, t *target) *Entity {
	e := &Entity{Path: t.path, Kind: t.kind, Label: t.label, Virtual: t.owner != ""}
	switch {
	case e.Virtual && t.search == nil:
		e.Group, _ = groupValue(t.group)
	case t.kind == KindCategory || t.kind == KindCatalogue || t.kind == KindIndex:
		d, label := l.derivedAt(ctx, t.kind, t.path)
		e.Label, e.Expression, e.State = label, d.Expression, d.state()
		if d.Problem != nil {
			e.Problem = d.Problem
		}
	}
	return e
}

// child returns the Entity of a member of t, or nil if it doesn't exist any more.
func (l *lookup) child(ctx context.Context, t *target, p Path) *Entity {
	if t.kind == KindCatalogue {
		g, _ := groupValue(segmentGroups(p.segment())[0])
		return &Entity{Path: p, Kind: KindContainer, Virtual: true, Group: g}
	}
	e, ok := l.entity(ctx, p)
	if !ok {
		return nil
	}
	return l.describe(ctx, &target{entity: e, path: p})
}

// membersOf yields the paths of what lies in t, from the one behind after on.
func (l *lookup) membersOf(ctx context.Context, t *target, after Path) Paths {
	return func(yield func(Path, error) bool) {
		var paths iter.Seq[Path]
		var err error
		switch {
		case t.kind == KindDocument:
			err = fmt.Errorf("%w: a document has no children", ErrOperation)
		case t.kind == KindContainer && t.owner == "":
			paths = l.children(ctx, t.path, after)
		case t.kind == KindIndex:
			return
		case t.search != nil:
			paths, err = l.found(ctx, l.ownerOf(ctx, t), t.search, after)
		default:
			var key string
			if key, err = l.setKey(ctx, t); t.kind == KindCatalogue {
				paths = l.groupPaths(ctx, t.path, key, after)
			} else {
				paths = l.setPaths(ctx, key, after)
			}
		}
		if err == nil {
			for p := range paths {
				if !yield(p, nil) {
					return
				}
			}
			err = l.err
		}
		if err != nil {
			yield("", err)
		}
	}
}

// children yields the paths of what lies in a container.
func (l *lookup) children(ctx context.Context, p, after Path) iter.Seq[Path] {
	return each(l.members(ctx, childrenKey(p), after.segment()), p.below)
}

// setPaths yields the members of a set of documents.
func (l *lookup) setPaths(ctx context.Context, key string, after Path) iter.Seq[Path] {
	return each(l.members(ctx, key, string(after)), func(m string) Path { return Path(m) })
}

// found yields the documents that match a pattern, by path.
func (l *lookup) found(ctx context.Context, d *derived, p *text.Pattern, after Path) (iter.Seq[Path], error) {
	matches, err := l.matches(ctx, d, p, &SearchOptions{After: after})
	return each(slices.Values(matches), func(m Match) Path { return m.Path }), err
}

// each yields what of returns for the values of a sequence.
func each[A, B any](seq iter.Seq[A], of func(A) B) iter.Seq[B] {
	return func(yield func(B) bool) {
		for a := range seq {
			if !yield(of(a)) {
				return
			}
		}
	}
}

// groupPaths yields the groups of a catalogue by path.
func (l *lookup) groupPaths(ctx context.Context, p Path, base string, after Path) iter.Seq[Path] {
	var all []Path
	for g := range l.groupKeys(ctx, base) {
		if q := p.below(groupSegment(g)); q > after {
			all = append(all, q)
		}
	}
	slices.Sort(all)
	return slices.Values(all)
}

// groupKeys yields the keys of the groups of a catalogue: those that have members, in ascending order, and then those
// that an imported catalogue lists besides.
func (l *lookup) groupKeys(ctx context.Context, base string) iter.Seq[string] {
	return func(yield func(string) bool) {
		texts := map[string]bool{}
		for g := range l.sets(ctx, base+groups) {
			if texts[groupText(g)] = true; !yield(g) {
				return
			}
		}
		if !l.meta.Arrays {
			return
		}
		list, _ := l.array(ctx, base+":keys")
		for _, t := range list {
			if !texts[t] && !yield(textEscapes.Replace(t)) {
				return
			}
		}
	}
}
