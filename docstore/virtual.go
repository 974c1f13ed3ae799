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
	if p == Root {
		return &target{entity: entity{kind: KindContainer}, path: Root}, nil
	}
	e, ok, err := l.find(ctx, p)
	if err != nil {
		return nil, err
	}
	if ok {
		return &target{entity: e, path: p}, nil
	}
	if p.Parent() == Root {
		return nil, ErrNotFound
	}
	parent, err := l.resolveParent(ctx, p.Parent())
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

// resolveParent is resolve of something that may have virtual children: what is stored, a group or a search.
func (l *lookup) resolveParent(ctx context.Context, p Path) (*target, error) {
	t, err := l.resolve(ctx, p)
	if err == nil && t.kind == KindDocument && t.path != p {
		err = ErrNotFound // a document below a category has no children
	}
	return t, err
}

// groupNamed returns the group of a catalogue that a name in a path stands for.
func (l *lookup) groupNamed(ctx context.Context, catalogue Path, name string) (*target, error) {
	t := &target{entity: entity{kind: KindContainer}, path: catalogue.below(name), owner: catalogue}
	for _, t.group = range segmentGroups(name) {
		for _, err := range l.membersOf(ctx, t, "") {
			return t, err
		}
	}
	if l.rows.meta.Arrays { // an imported catalogue may list groups without members
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
		if ok, err := l.rows.contains(ctx, key, string(whole)); err != nil {
			return nil, err
		} else if ok {
			found = append(found, whole)
		}
	} else {
		for p, err := range l.membersOf(ctx, parent, "") {
			if err != nil {
				return nil, err
			}
			if p == whole || p.segment() == name {
				found = append(found, p)
			}
			if p == whole {
				break
			}
		}
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("%w: %s and %s", ErrAmbiguous, clip(found[0]), clip(found[1]))
	}
	if len(found) == 0 {
		return nil, ErrNotFound
	}
	e, ok, err := l.find(ctx, found[0])
	if err == nil && !ok {
		err = ErrNotFound
	}
	return &target{entity: e, path: found[0]}, err
}

// setKey returns the key of the set of a category or group.
func (l *lookup) setKey(ctx context.Context, t *target) (string, error) {
	d, err := l.ownerOf(ctx, t)
	if err != nil {
		return "", err
	}
	base, err := d.readable()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, clip(d.path))
	}
	if t.kind == KindCategory {
		return base + ":members", nil
	}
	return base + groups + t.group, nil
}

// describe returns the Entity of a target.
func (l *lookup) describe(ctx context.Context, t *target) (*Entity, error) {
	e := &Entity{Path: t.path, Kind: t.kind, Label: t.label, Virtual: t.owner != ""}
	switch {
	case e.Virtual && t.search == nil:
		e.Group, _ = groupValue(t.group)
	case t.kind == KindCategory || t.kind == KindCatalogue || t.kind == KindIndex:
		var err error
		if e.Label, e.Expression, err = l.config(ctx, t.kind, t.path); err != nil {
			return nil, err
		}
		d, err := l.derivedAt(ctx, e.Label, t.path)
		if err != nil {
			return nil, err
		}
		e.State = d.state()
		if d.Problem != nil {
			e.Problem = d.Problem
		}
	}
	return e, nil
}

// child returns the Entity of a member of t, or nil if it doesn't exist any more.
func (l *lookup) child(ctx context.Context, t *target, p Path) (*Entity, error) {
	if t.kind == KindCatalogue {
		g, _ := groupValue(segmentGroups(p.segment())[0])
		return &Entity{Path: p, Kind: KindContainer, Virtual: true, Group: g}, nil
	}
	e, ok, err := l.find(ctx, p)
	if err != nil || !ok {
		return nil, err
	}
	return l.describe(ctx, &target{entity: e, path: p})
}

// ownerOf returns the category, catalogue or index of a target: itself, or the one that it lies in.
func (l *lookup) ownerOf(ctx context.Context, t *target) (*derived, error) {
	p, k := t.path, t.kind
	switch {
	case t.search != nil:
		p, k = t.owner, KindIndex
	case t.owner != "":
		p, k = t.owner, KindCatalogue
	}
	label, _, err := l.config(ctx, k, p)
	if err != nil {
		return nil, err
	}
	return l.derivedAt(ctx, label, p)
}

// membersOf yields the paths of what lies in t, from the one behind after on.
func (l *lookup) membersOf(ctx context.Context, t *target, after Path) Paths {
	switch {
	case t.kind == KindDocument:
		return failed(fmt.Errorf("%w: a document has no children", ErrOperation))
	case t.kind == KindContainer && t.owner == "":
		return l.childPaths(ctx, t.path, after)
	case t.kind == KindIndex:
		return func(func(Path, error) bool) {}
	case t.kind == KindCatalogue:
		return l.groupPaths(ctx, t, after)
	case t.search != nil:
		return l.searchPaths(ctx, t, after)
	}
	key, err := l.setKey(ctx, t)
	if err != nil {
		return failed(err)
	}
	return l.setPaths(ctx, key, after)
}

// failed yields an error.
func failed(err error) Paths {
	return func(yield func(Path, error) bool) { yield("", err) }
}

// childPaths yields the paths of what lies in a container.
func (l *lookup) childPaths(ctx context.Context, p, after Path) Paths {
	name := ""
	if after != "" {
		name = after.segment()
	}
	return func(yield func(Path, error) bool) {
		for n, err := range l.rows.members(ctx, childrenKey(p), name) {
			if !yield(p.below(n), err) || err != nil {
				return
			}
		}
	}
}

// setPaths yields the members of a set of documents.
func (l *lookup) setPaths(ctx context.Context, key string, after Path) Paths {
	return func(yield func(Path, error) bool) {
		for m, err := range l.rows.members(ctx, key, string(after)) {
			if !yield(Path(m), err) || err != nil {
				return
			}
		}
	}
}

// searchPaths yields the documents that match a pattern, by path.
func (l *lookup) searchPaths(ctx context.Context, t *target, after Path) Paths {
	return func(yield func(Path, error) bool) {
		d, err := l.ownerOf(ctx, t)
		var matches []Match
		if err == nil {
			matches, err = l.matches(ctx, d, t.search, &SearchOptions{After: after})
		}
		if err != nil {
			yield("", err)
			return
		}
		for _, m := range matches {
			if !yield(m.Path, nil) {
				return
			}
		}
	}
}

// groupPaths yields the groups of a catalogue by path.
func (l *lookup) groupPaths(ctx context.Context, t *target, after Path) Paths {
	return func(yield func(Path, error) bool) {
		d, err := l.ownerOf(ctx, t)
		base := ""
		if err == nil {
			base, err = d.readable()
		}
		if err != nil {
			yield("", err)
			return
		}
		var all []Path
		for g, err := range l.groupKeys(ctx, base) {
			if err != nil {
				yield("", err)
				return
			}
			if q := t.path.below(groupSegment(g)); q > after {
				all = append(all, q)
			}
		}
		slices.Sort(all)
		for _, q := range all {
			if !yield(q, nil) {
				return
			}
		}
	}
}

// groupKeys yields the keys of the groups of a catalogue: those that have members, in ascending order, and then those
// that an imported catalogue lists besides.
func (l *lookup) groupKeys(ctx context.Context, base string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		texts := map[string]bool{}
		for g, err := range l.rows.sets(ctx, base+groups) {
			if l.rows.meta.Arrays {
				texts[groupText(g)] = true
			}
			if !yield(g, err) || err != nil {
				return
			}
		}
		if !l.rows.meta.Arrays {
			return
		}
		list, _, err := l.rows.array(ctx, base+":keys")
		if err != nil {
			yield("", err)
			return
		}
		for _, t := range list {
			if !texts[t] && !yield(textEscapes.Replace(t), nil) {
				return
			}
		}
	}
}
