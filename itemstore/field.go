package itemstore

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/internal/filter"
)

// What makes the ID of a field, and what a field has of the metadata.
const (
	genUUID     = "uuid"
	genRand53   = "rand53"
	genSequence = "sequence"

	metaCreatedTime     = "createdtime"
	metaModifiedTime    = "modifiedtime"
	metaCreatedVersion  = "createdversion"
	metaModifiedVersion = "modifiedversion"
)

// A field is one of an item type. What is exported stands in the catalog.
type field struct {
	Name       string // in this version of the schema
	Stored     string // in payloads: the name in the first version
	Kind       string // see kindOf
	Removed    bool   `json:",omitempty"` // this version lacks it
	Required   bool   `json:",omitempty"`
	Default    string `json:",omitempty"` // as in the tag
	Make       string `json:",omitempty"` // uuid, rand53 or sequence
	Valid      string `json:",omitempty"` // a condition
	Deprecated bool   `json:",omitempty"`

	was   string
	index int // of the Go field
	typ   reflect.Type
	meta  string          // of metadata
	def   reflect.Value   // Default; invalid without one
	valid *filter.Program // Valid; nil without one
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	versionType  = reflect.TypeFor[Version]()
	metaType     = reflect.TypeFor[Meta]()
)

// word reads one word of the tag item.
func (f *field) word(word string) error {
	key, value, _ := strings.Cut(word, "=")
	fits := true
	switch key {
	case "required":
		f.Required = true
	case "deprecated":
		f.Deprecated = true
	case "was":
		f.was = value
	case "default":
		f.Default = value
	case genUUID:
		f.Make, fits = key, idKindOf(f.typ) == idUUID
	case genRand53, genSequence:
		f.Make, fits = key, f.typ.Kind() == reflect.Uint64 || f.typ.Kind() == reflect.Int64
	case metaCreatedTime, metaModifiedTime:
		f.meta, fits = key, f.typ == timeType
	case metaCreatedVersion, metaModifiedVersion:
		f.meta, fits = key, f.typ == versionType
	default:
		return fmt.Errorf("unknown word %q", clip(word))
	}
	if !fits {
		return fmt.Errorf("%s is not for a %s", key, f.typ)
	}
	return nil
}

// compile makes what is needed of the texts.
func (f *field) compile() (err error) {
	if f.Default != "" {
		v := reflect.New(f.typ)
		if f.typ.Kind() == reflect.String && !strings.HasPrefix(f.Default, `"`) {
			v.Elem().SetString(f.Default)
		} else if err := json.Unmarshal([]byte(f.Default), v.Interface()); err != nil {
			return fmt.Errorf("default: %w", err)
		}
		if f.def = v.Elem(); f.def.IsZero() {
			return fmt.Errorf("the default is zero, as a field is without one")
		}
	}
	if f.Valid != "" {
		if f.valid, err = compile(f.Valid); err != nil {
			return fmt.Errorf("valid: %w", err)
		}
	}
	return nil
}

// compile compiles an expression about this.
func compile(text string) (*filter.Program, error) {
	return filter.Compile(text, &filter.Options{Names: []string{"this"}})
}

// A ttl says when items of a type end.
type ttl struct {
	from  string        // ttlAt, ttlCreated, ttlModified; "" for never
	field string        // the time, or the duration
	after time.Duration // in place of a field
}

const (
	ttlAt       = "at"
	ttlCreated  = "created"
	ttlModified = "modified"
)

// parseTTL reads the tag ttl.
func parseTTL(text string) (t ttl, err error) {
	words := strings.Fields(text)
	if len(words) == 3 && words[0] == "from" && (words[1] == ttlCreated || words[1] == ttlModified) {
		words = words[1:]
	} else if len(words) != 2 || words[0] != ttlAt {
		return t, fmt.Errorf(`ttl %q is none of "at :Field", "from created …" and "from modified …"`, clip(text))
	}
	t.from = words[0]
	name, ok := strings.CutPrefix(words[1], ":")
	switch {
	case ok:
		t.field = name
	case t.from == ttlAt:
		err = fmt.Errorf("ttl %q: a field is a colon and its name", clip(text))
	default:
		if t.after, err = time.ParseDuration(words[1]); err == nil && t.after < time.Second {
			err = fmt.Errorf("ttl %q: less than a second", clip(text))
		}
	}
	return t, err
}

// kindOf returns what a catalog calls the values of a Go type; a number by its Go type, and a pointer with a star.
func kindOf(t reflect.Type) string {
	switch t {
	case timeType:
		return "time"
	case durationType:
		return "duration"
	}
	switch k := idKindOf(t); {
	case k == idNumber:
		return t.Kind().String()
	case k != idNone:
		return string(k)
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Float32, reflect.Float64:
		return t.Kind().String()
	case reflect.Pointer:
		return "*" + kindOf(t.Elem())
	case reflect.Slice, reflect.Array:
		if elem := kindOf(t.Elem()); !encodes(t) && goTypeOf(elem) != anyType {
			return "[]" + elem
		} else if !encodes(t) {
			return "list"
		}
	case reflect.Map, reflect.Struct:
		if !encodes(t) && (t.Kind() == reflect.Struct || t.Key().Kind() == reflect.String && !encodes(t.Key())) {
			return "object"
		}
	}
	return "any"
}

// encodes reports whether a type has an encoding of its own.
func encodes(t reflect.Type) bool {
	for _, m := range []reflect.Type{reflect.TypeFor[interface{ MarshalCBOR() ([]byte, error) }](), reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(m) || reflect.PointerTo(t).Implements(m) {
			return true
		}
	}
	return false
}

// A Codec turns items of one type into bytes and back. It is safe for concurrent use.
type Codec interface {
	// Append appends what item, a pointer to the type, holds to dst, which it
	// doesn't keep, and returns the extended slice.
	Append(dst []byte, item any) ([]byte, error)
	// Decode sets item, a pointer to the type's zero value, to what Append made b of. It
	// doesn't keep b.
	Decode(b []byte, item any) error
}
