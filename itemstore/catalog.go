package itemstore

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// A catalog is one version of a schema, and as JSON what a store keeps of it when it was published. It
// then has all types, fields and key paths of the versions before as well, since programs of
// those still read and write: a number for each type and key path, and for each field the
// name under which it is stored, which never change.
type catalog struct {
	Version int
	Types   []*itemType
}

// An itemType is an item type. What is exported stands in the catalog.
type itemType struct {
	Number  uint64 // from 1
	Name    string
	Removed bool   `json:",omitempty"` // this version lacks it
	Codec   bool   `json:",omitempty"` // the payload isn't CBOR
	TTL     string `json:",omitempty"` // the tag
	Fields  []*field
	Paths   []*keyPath // the primary one first

	was       string
	removed   []string
	goType    reflect.Type
	codec     Codec
	metadata  []*field
	ttl       ttl
	generated *field // the one whose ID is made, if there is one
}

// first returns the first of list that is what is asked for, or nil.
func first[T any](list []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}

func (c *catalog) byName(name string) *itemType {
	return first(c.Types, func(t *itemType) bool { return t.Name == name && !t.Removed })
}

func (it *itemType) byName(name string) *field {
	return first(it.Fields, func(f *field) bool { return f.Name == name && !f.Removed })
}

func (it *itemType) byStored(name string) *field {
	return first(it.Fields, func(f *field) bool { return f.Stored == name })
}

// path returns the key path of a number, or nil.
func (it *itemType) path(number uint64) *keyPath {
	return first(it.Paths, func(p *keyPath) bool { return p.Number == number })
}

// shapes returns the tree of all key paths. Those that don't fit together are a *TemplateError.
func (c *catalog) shapes() (*shapes, error) {
	tree, versioned := newShapes(), map[string]bool{}
	for _, t := range c.Types {
		for _, p := range t.Paths {
			if err := tree.add(t.Name, p); err != nil {
				return nil, err
			}
			group := p.segs[0].ns
			if v, ok := versioned[group]; ok && v != p.Versioned && !p.index() {
				return nil, &TemplateError{t.Name, p.Template, "R9", 0, "all key paths of a group are versioned, or none is: " + group}
			} else if !p.index() {
				versioned[group] = p.Versioned
			}
		}
	}
	return tree, nil
}

// load makes a catalog that was read ready for use.
func (c *catalog) load() error {
	for _, t := range c.Types {
		for i, p := range t.Paths {
			again, err := parseTemplate(t.Name, p.Template)
			if err != nil || len(again.segs) != len(p.Kinds) {
				return fmt.Errorf("itemstore: key path %q in the catalog: %w", p.Template, ErrCorrupt)
			}
			t.Paths[i].segs = again.segs
		}
	}
	return nil
}

// next returns the catalog of a schema s, which follows c, or is c if the version is the same. What
// would break programs of a version before is ErrIncompatible.
func (c *catalog) next(s *catalog) (*catalog, error) {
	n := &catalog{Version: s.Version}
	var taken []*itemType
	number := uint64(len(c.Types)) // of a new type
	for _, it := range s.Types {
		before := c.byName(it.Name)
		if before == nil && it.was != "" && c.Version > 0 {
			if before = c.byName(it.was); before == nil {
				return nil, it.breaks("version %d has no type %s that it was", c.Version, it.was)
			}
		}
		if before == nil {
			number++
			before = &itemType{Number: number, Codec: it.Codec}
		}
		if slices.Contains(taken, before) {
			return nil, it.breaks("two types were %s", before.Name)
		}
		t, err := before.next(it)
		if err != nil {
			return nil, err
		}
		taken = append(taken, before)
		n.Types = append(n.Types, t)
	}
	for _, t := range c.Types {
		if slices.Contains(taken, t) {
			continue
		}
		if s.byName(t.Name) != nil {
			return nil, t.breaks("a type of that name was removed, and another one can't take it")
		}
		gone := *t
		gone.Removed = true
		n.Types = append(n.Types, &gone)
	}
	slices.SortFunc(n.Types, func(a, b *itemType) int { return int(a.Number) - int(b.Number) })
	if _, err := n.shapes(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIncompatible, err)
	}
	return n, nil
}

// equal reports whether two catalogs say the same.
func (c *catalog) equal(o *catalog) bool {
	a, errA := json.Marshal(c)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && string(a) == string(b)
}

func (it *itemType) breaks(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrIncompatible, it.Name, fmt.Sprintf(format, args...))
}

// next returns what the catalog has of it, which was t before: a t without key paths is new.
func (t *itemType) next(it *itemType) (*itemType, error) {
	n := *it
	n.Number, n.Fields, n.Paths = t.Number, nil, nil
	if n.Codec != t.Codec {
		return nil, it.breaks("its codec can't change")
	}
	var taken []*field
	for _, f := range it.Fields {
		c := *f
		before := t.byName(f.Name)
		if before == nil && f.was != "" {
			before = t.byName(f.was)
		}
		if before != nil && slices.Contains(taken, before) {
			return nil, it.breaks("two fields were %s", before.Name)
		}
		if err := c.follow(t, before); err != nil {
			return nil, err
		}
		n.Fields = append(n.Fields, &c)
		if taken = append(taken, before); it.generated == f {
			n.generated = &c
		}
	}
	for _, f := range t.Fields {
		if slices.Contains(taken, f) {
			continue
		}
		gone := *f
		switch {
		case f.Removed:
		case !slices.Contains(it.removed, f.Name):
			return nil, it.breaks("field %s is gone: say so in the tag removed, or was at its new name", f.Name)
		case f.Required && f.Default == "":
			return nil, it.breaks("field %s can't be removed, as programs of versions before require it: make it optional with a default first", f.Name)
		case t.Codec:
			return nil, it.breaks("field %s can't be removed, as the type has a codec", f.Name)
		}
		gone.Removed, gone.Required = true, false
		n.Fields = append(n.Fields, &gone)
	}
	return &n, n.nextPaths(t, it)
}

// follow makes f what follows before, a field of t or nil.
func (f *field) follow(t *itemType, before *field) error {
	lacks := f.Required && f.Default == ""
	switch {
	case before == nil && f.was != "" && len(t.Paths) > 0:
		return t.breaks("field %s: the version before has no field %s", f.Name, f.was)
	case before == nil:
		for t.byStored(f.Stored) != nil {
			f.Stored += "'"
		}
		if lacks && len(t.Paths) > 0 {
			return t.breaks("field %s is required, and items of before lack it: give it a default", f.Name)
		}
		return nil
	case before.Kind != f.Kind:
		return t.breaks("field %s was %s, and is %s", f.Name, before.Kind, f.Kind)
	case t.Codec && before.Name != f.Name:
		return t.breaks("field %s can't get another name, as the type has a codec", before.Name)
	case lacks && !before.Required && before.Make == "":
		return t.breaks("field %s becomes required, and items may lack it: give it a default", f.Name)
	case before.Required && before.Default == "" && !f.Required && f.Default == "" && f.Make == "":
		return t.breaks("field %s is no longer required, and programs of versions before rely on it: give it a default", f.Name)
	}
	f.Stored = before.Stored
	return nil
}

// nextPaths gives n the key paths of it, and those of t that it lacks.
func (n *itemType) nextPaths(t, it *itemType) error {
	var taken []*keyPath
	number := uint64(len(t.Paths)) // of a new one: none is ever taken out
	for i, p := range it.Paths {
		c := *p
		c.segs, c.Template = renamed(p.segs, func(name string) string { return n.byName(name).Stored })
		at := slices.IndexFunc(t.Paths, func(p *keyPath) bool { return p.shape() == c.shape() })
		switch {
		case at < 0 && i == 0 && len(t.Paths) > 0:
			return it.breaks("the primary key path was %s, and can't change", t.Paths[0].Template)
		case at < 0:
			c.Number, number = number, number+1
		case t.Paths[at].Removed || t.Paths[at].Template != c.Template || (at == 0) != (i == 0) || t.Paths[at].pathOptions != c.pathOptions:
			return it.breaks("key path %s was there before, and can neither change nor come back", p.Template)
		default:
			c.Number = t.Paths[at].Number
			taken = append(taken, t.Paths[at])
		}
		n.Paths = append(n.Paths, &c)
	}
	for _, p := range t.Paths {
		if !slices.Contains(taken, p) {
			gone := *p
			gone.Removed = true // still written, for the versions before
			n.Paths = append(n.Paths, &gone)
		}
	}
	if len(n.Paths) > maxPaths {
		return it.breaks("%d key paths, with those that were removed: %d are allowed", len(n.Paths), maxPaths)
	}
	return nil
}

// compile makes what is needed of the texts of the type and its fields.
func (it *itemType) compile() (err error) {
	for _, f := range it.Fields {
		if f.Removed {
			continue
		}
		if err := f.compile(); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if f.Make == "" {
			continue
		}
		in := slices.IndexFunc(it.Paths[0].segs, func(s part) bool {
			return len(s.ref) == 1 && s.ref[0] == f.Name || s.ref != nil && s.ref[0] == f.Stored
		})
		switch {
		case it.generated != nil:
			return fmt.Errorf("%s and %s are both made: one field may be", it.generated.Name, f.Name)
		case in < 0:
			return fmt.Errorf("%s is made, and not in the primary key path", f.Name)
		case f.Make == genSequence && (in == 0 || in != len(it.Paths[0].segs)-1):
			return fmt.Errorf("%s is a sequence, which is the ID of the primary path's last segment and not of the group", f.Name)
		}
		it.generated = f
	}
	if it.TTL != "" {
		it.ttl, err = parseTTL(it.TTL)
		want := map[string]reflect.Type{ttlAt: timeType, ttlCreated: durationType, ttlModified: durationType}[it.ttl.from]
		if f := it.byName(it.ttl.field); err == nil && it.ttl.field != "" && (f == nil || f.typ != want) {
			err = fmt.Errorf("ttl: %s is not a field of type %s", it.ttl.field, want)
		}
	}
	return err
}

// info returns what is shown of the type.
func (it *itemType) info() TypeInfo {
	info := TypeInfo{Name: it.Name, TTL: it.TTL, Codec: it.Codec}
	for _, p := range it.Paths {
		if !p.Removed {
			info.Paths = append(info.Paths, it.pathInfo(p))
		}
	}
	for _, f := range it.Fields {
		if !f.Removed {
			info.Fields = append(info.Fields, FieldInfo{f.Name, f.Kind, f.Required, f.Default, f.Make, f.Valid, f.Deprecated})
		}
	}
	return info
}

// pathInfo returns a key path as the tag of this version has it.
func (it *itemType) pathInfo(p *keyPath) string {
	_, info := renamed(p.segs, func(stored string) string { return it.byStored(stored).Name })
	for _, o := range []struct {
		set  bool
		word string
	}{{p.Ref, "ref"}, {p.NoSync, "nosync"}, {p.Versioned, "versioned"}} {
		if o.set {
			info += " " + o.word
		}
	}
	return info
}
