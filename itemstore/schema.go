package itemstore

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A Schema is one version of the item types of a store. It doesn't change, and is safe
// for concurrent use.
type Schema struct{ catalog }

// NewSchema returns the schema of a version, from 1, with its types. Errors wrap
// ErrSchema; a key path that breaks a rule comes as a *TemplateError.
func NewSchema(version int, types ...Type) (*Schema, error) {
	s := &Schema{catalog{Version: version}}
	if version < 1 || len(types) == 0 {
		return nil, fmt.Errorf("%w: version %d of %d types: versions begin with 1, and have types", ErrSchema, version, len(types))
	}
	for _, t := range types {
		it, err := newItemType(t)
		if err != nil {
			return nil, err
		}
		if s.byName(it.Name) != nil || slices.ContainsFunc(s.Types, func(o *itemType) bool { return o.goType == it.goType }) {
			return nil, fmt.Errorf("%w: %s is there twice", ErrSchema, it.Name)
		}
		s.Types = append(s.Types, it)
	}
	_, err := s.shapes()
	return s, err
}

// A Type is an item type of a Schema; see TypeOf.
type Type struct {
	goType reflect.Type
	opts   TypeOptions
}

// TypeOptions are the options of TypeOf. The zero value is what nil means.
type TypeOptions struct {
	// Codec stores the items' fields; nil means CBOR. The fields of a type with a
	// Codec of its own are the Codec's business: a later version of the schema can
	// neither rename nor remove them, and a store without Go types can't read it.
	Codec Codec
}

// TypeOf returns the item type that a struct declares. The struct says what its key
// paths are in the tag of a field named _, the first one being the primary one:
//
//	type Student struct {
//		_              struct{}  `path:"/student-:StudentID, /classof-:GraduatingYear/student-:StudentID"`
//		StudentID      uint64    `item:"rand53"`
//		GraduatingYear uint64
//		Name           string    `item:"required"`
//		Joined         time.Time `item:"createdtime"`
//	}
//
// # Key paths
//
// A template is segments of a namespace, a hyphen, a colon and the field that is the ID:
// /namespace-:Field. Nested fields are named by dots, and have no other name in a tag json or cbor. The rules:
//
//	R1  It begins with a slash; no segment is empty, and it ends with none.
//	R2  A namespace has letters and underscores.
//	R3  The first segment, the group, has an ID.
//	R4  Only the last segment may lack its ID.
//	R5  An ID is a colon and a field that is a string, an integer, a []byte or a [16]byte.
//	R6  A type has at least one key path.
//	R7  Two key paths of a type differ in their namespaces.
//	R8  The fields of the primary key path are never zero, so they have no default.
//	R9  At one place in a group's paths, all types have IDs of one kind.
//
// All key paths but the first are aliases. An item of which a field in an alias is zero isn't
// there. Behind a template stand its options, after spaces: ref (the row of an alias leads to
// the item in place of a copy of it: writing costs less, reading through it one read more),
// nosync (Sync doesn't know of changes there) and versioned (the group counts its
// commits, see Version; its writers then wait for each other).
//
// An index is a key path whose second segment begins with an at sign, as in
// /course-:CourseID/@byName-:Name: it isn't unique, and is listed beside its group, as
// /course-MATH321/@byName.
//
// # Fields
//
// The tag item of a field is words, by commas:
//
//	required        zero is ErrInvalid, or with a default becomes that when the item is put
//	default=V       what a reader gets in place of zero: JSON, or a text; the last word, as V may hold commas
//	uuid, rand53    made when it is zero: random 16 bytes, an integer below 2^53
//	sequence        made when it is zero: 1, 2, 3, … below one parent path; the ID of the primary path's last segment
//	createdtime, modifiedtime        a time.Time: when the item was first, and last, put
//	createdversion, modifiedversion  a Version: likewise, in the group that it is read in
//	deprecated      said by greenroom items schema, and nothing else
//	was=Name        its name in the version before
//
// The tag valid of a field is a condition in CEL, with the field's value as this. A zero value isn't checked.
//
// # Types
//
// The tags of the field _ are path; name (the type's name, if it isn't Go's); was (its
// name in the version before); ttl, when an item ends: "at :Field" of a time.Time,
// or "from created" or "from modified" and ":Field" of a time.Duration, or a duration as
// in "from created 24h"; a zero Field means never; and removed, fields of the version before
// that are gone, by commas.
//
// Other struct tags are ignored, and so are unexported fields. Embedded fields are refused.
func TypeOf[T any](opts *TypeOptions) Type {
	t := Type{goType: reflect.TypeFor[T]()}
	if opts != nil {
		t.opts = *opts
	}
	return t
}

// newItemType reads the tags of a struct.
func newItemType(t Type) (*itemType, error) {
	if t.goType.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %s is not a struct", ErrSchema, t.goType)
	}
	it := &itemType{Name: t.goType.Name(), goType: t.goType, codec: t.opts.Codec, Codec: t.opts.Codec != nil}
	var paths []string
	for i := range t.goType.NumField() {
		f := t.goType.Field(i)
		switch {
		case f.Name == "_":
			paths = splitTag(f.Tag.Get("path"))
			it.Name, it.was = tagOr(f.Tag, "name", it.Name), f.Tag.Get("was")
			it.TTL, it.removed = f.Tag.Get("ttl"), splitTag(f.Tag.Get("removed"))
		case f.Anonymous:
			return nil, fmt.Errorf("%w: %s: embedded field %s", ErrSchema, it.Name, f.Name)
		case f.IsExported():
			if err := it.addField(f); err != nil {
				return nil, fmt.Errorf("%w: %s.%s: %w", ErrSchema, it.Name, f.Name, err)
			}
		}
	}
	if it.Name == "" {
		return nil, fmt.Errorf("%w: %s has no name", ErrSchema, t.goType)
	}
	if err := it.addPaths(paths); err != nil {
		return nil, err
	}
	if err := it.compile(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSchema, it.Name, err)
	}
	return it, nil
}

func tagOr(tag reflect.StructTag, name, or string) string {
	if v, ok := tag.Lookup(name); ok {
		return v
	}
	return or
}

// splitTag cuts a tag at its commas.
func splitTag(tag string) []string {
	words := strings.Split(tag, ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return slices.DeleteFunc(words, func(s string) bool { return s == "" })
}

// addPaths parses the key paths, and looks up their fields.
func (it *itemType) addPaths(texts []string) error {
	if len(texts) == 0 {
		return &TemplateError{it.Name, "", "R6", 0, "a type has at least one key path"}
	}
	seen := map[string]bool{}
	for n, text := range texts {
		p, err := parseTemplate(it.Name, text)
		if err != nil {
			return err
		}
		for _, s := range p.segs {
			kind := idNone
			if s.ref != nil {
				if kind, err = it.refKind(p, s, n == 0); err != nil {
					return err
				}
			}
			p.Kinds = append(p.Kinds, kind)
		}
		switch shape := p.shape(); {
		case seen[shape]:
			return &TemplateError{it.Name, p.Template, "R7", 0, "another key path of the type has the same namespaces"}
		case n == 0 && (p.index() || p.Ref):
			return &TemplateError{it.Name, p.Template, "R1", 0, "the primary key path can be neither an index nor a ref"}
		default:
			seen[shape] = true
		}
		it.Paths = append(it.Paths, p)
	}
	return nil
}

// refKind returns the kind of the ID that a segment refers to.
func (it *itemType) refKind(p *keyPath, s part, primary bool) (idKind, error) {
	fail := func(rule, format string, args ...any) (idKind, error) {
		return "", &TemplateError{it.Name, p.Template, rule, s.pos + len(s.ns) + len("-:"), fmt.Sprintf(format, args...)}
	}
	f := it.byName(s.ref[0])
	if f == nil {
		return fail("R5", "the type has no field %s that is stored", s.ref[0])
	}
	typ := f.typ
	for _, name := range s.ref[1:] {
		sub, ok := reflect.StructField{}, false
		if typ.Kind() == reflect.Struct {
			sub, ok = typ.FieldByName(name)
		}
		if !ok || !sub.IsExported() {
			return fail("R5", "%s has no field %s", typ, name)
		}
		if as, _, _ := strings.Cut(cmp.Or(sub.Tag.Get("cbor"), sub.Tag.Get("json")), ","); as != "" && as != name {
			return fail("R5", "%s is stored as %q, by its tag: what is an ID has its own name", name, as)
		}
		typ = sub.Type
	}
	kind := idKindOf(typ)
	switch {
	case kind == idNone:
		return fail("R5", "%s is a %s, which can't be an ID", strings.Join(s.ref, "."), typ)
	case primary && f.Default != "":
		return fail("R8", "%s has a default, so an item may lack it", s.ref[0])
	case primary && len(s.ref) == 1 && f.Make == "":
		f.Required = true
	}
	return kind, nil
}

// addField adds a field of the struct.
func (it *itemType) addField(sf reflect.StructField) error {
	f := &field{Name: sf.Name, Stored: sf.Name, Kind: kindOf(sf.Type), Valid: sf.Tag.Get("valid"), index: sf.Index[0], typ: sf.Type}
	for rest := sf.Tag.Get("item"); rest != ""; {
		word := rest
		if strings.HasPrefix(rest, "default=") {
			rest = ""
		} else {
			word, rest, _ = strings.Cut(rest, ",")
		}
		if err := f.word(word); err != nil {
			return err
		}
	}
	if f.meta != "" || f.typ == metaType {
		it.metadata = append(it.metadata, f)
	} else {
		it.Fields = append(it.Fields, f)
	}
	return nil
}

// A SchemaInfo says what a version of a schema declares, for what shows it.
type SchemaInfo struct {
	Version int        `json:"version"`
	Types   []TypeInfo `json:"types"`
}

// A TypeInfo is an item type.
type TypeInfo struct {
	Name   string      `json:"name"`
	Paths  []string    `json:"paths"`           // key paths with their options, the primary one first
	TTL    string      `json:"ttl,omitempty"`   // as in the tag
	Codec  bool        `json:"codec,omitempty"` // the type has a codec of its own
	Fields []FieldInfo `json:"fields"`          // that are stored; metadata isn't
}

// A FieldInfo is a field of an item type.
type FieldInfo struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"` // text, bytes, uuid, an integer or a float as Go calls it, bool, time, duration, object, list, [] and the kind of its elements, or any; a pointer has a star
	Required   bool   `json:"required,omitempty"`
	Default    string `json:"default,omitempty"` // as in the tag
	Make       string `json:"make,omitempty"`    // uuid, rand53 or sequence
	Valid      string `json:"valid,omitempty"`   // a condition
	Deprecated bool   `json:"deprecated,omitempty"`
}
