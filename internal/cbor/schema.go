package cbor

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Schema returns the JSON Schema (https://json-schema.org/draft/2020-12) of values of a type in JSON, as a front says them: bytes
// are base64, and times RFC 3339, the zero time null. A struct's members that may be left out are not required. A type of which that isn't known is {}, which is anything.
func Schema(t reflect.Type) map[string]any {
	s := schemas{text: planOf(t).text, defs: map[string]any{}, names: map[reflect.Type]string{}}
	s.find(t, map[reflect.Type]bool{})
	schema := s.of(t)
	if len(s.defs) > 0 {
		schema["$defs"] = s.defs
	}
	return schema
}

// schemas makes a schema.
type schemas struct {
	text  bool                    // types with MarshalText are encoded by it
	defs  map[string]any          // of the types that occur more than once; nil for one that is being written
	names map[reflect.Type]string // of these in defs
}

// find names the types with a name of their own that t leads to more than once, so that each is written out once and one that holds itself
// ends. seen are those that were looked into.
func (s *schemas) find(t reflect.Type, seen map[reflect.Type]bool) {
	parts := planOf(t).parts
	if len(parts) == 0 || s.asText(t) || s.names[t] != "" {
		return
	}
	if seen[t] && t.Name() != "" {
		s.names[t] = s.name(t)
		return
	}
	seen[t] = true
	for _, part := range parts {
		s.find(part.typ, seen)
	}
}

// In the name of a generic type, the packages of its arguments, and what a reference would have to escape.
var (
	packages = regexp.MustCompile(`[^\[\],*]*[./]`)
	escaped  = regexp.MustCompile(`\W+`)
)

// name returns a name for a type that no other one has: another package's type may be called the same.
func (s *schemas) name(t reflect.Type) string {
	plain := strings.Trim(escaped.ReplaceAllString(packages.ReplaceAllString(t.Name(), ""), "_"), "_")
	name, taken := plain, map[string]bool{"": true}
	for _, other := range s.names {
		taken[other] = true
	}
	for n := 2; taken[name]; n++ {
		name = fmt.Sprint(plain, "_", n)
	}
	return name
}

// asText reports whether values of t are encoded by their MarshalText.
func (s *schemas) asText(t reflect.Type) bool {
	return s.text && t != typeTime && t != typeBigInt && methodText.writes(t) && !methodCBOR.writes(t) && !methodBinary.writes(t)
}

// of returns the schema of a type, or a reference to it.
func (s *schemas) of(t reflect.Type) map[string]any {
	name := s.names[t]
	if name == "" {
		return s.written(t)
	}
	if _, begun := s.defs[name]; !begun {
		s.defs[name] = nil
		s.defs[name] = s.written(t)
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// written returns the schema of a type, written out.
func (s *schemas) written(t reflect.Type) map[string]any {
	is := func(of string) map[string]any { return map[string]any{"type": of} }
	p := planOf(t)
	switch k := t.Kind(); {
	case k == reflect.Interface, t == typeTag, methodCBOR.writes(t), p.bad != "":
		return map[string]any{}
	case t == typeTime:
		return orNull(map[string]any{"type": "string", "format": "date-time"})
	case t == typeBigInt:
		return is("integer")
	case k == reflect.Pointer:
		return orNull(s.of(t.Elem()))
	case methodBinary.writes(t):
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case s.asText(t), k == reflect.String:
		return is("string")
	case (k == reflect.Slice || k == reflect.Array) && t.Elem().Kind() == reflect.Uint8:
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case k == reflect.Bool:
		return is("boolean")
	case k >= reflect.Int && k <= reflect.Uint64:
		return is("integer")
	case k == reflect.Float32, k == reflect.Float64:
		return is("number")
	case k == reflect.Slice, k == reflect.Array:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case k == reflect.Map && (s.asText(t.Key()) || t.Key().Kind() == reflect.String && !methodCBOR.writes(t.Key()) && !methodBinary.writes(t.Key())):
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case k == reflect.Struct:
		return s.object(p)
	}
	return map[string]any{} // a map with other keys, which is an array of pairs or an object
}

// orNull returns the schema of what of describes, or null.
func orNull(of map[string]any) map[string]any {
	if of["anyOf"] != nil { // it may be null already
		return of
	}
	return map[string]any{"anyOf": []any{of, map[string]any{"type": "null"}}}
}

// object returns the schema of a struct.
func (s *schemas) object(p *plan) map[string]any {
	if f, ok := p.typ.FieldByName("_"); ok && strings.Contains(f.Tag.Get("cbor"), "toarray") {
		return map[string]any{} // an array
	}
	o := objectSchema{members: map[string]any{}, covered: map[string]bool{}}
	for _, f := range p.covered {
		o.covered[fmt.Sprint(f.index)] = true
	}
	o.add(s, p, nil, false)
	if o.pairs {
		return map[string]any{} // an array of pairs
	}
	schema := map[string]any{"type": "object", "properties": o.members}
	if len(o.required) > 0 {
		schema["required"] = o.required
	}
	return schema
}

// An objectSchema is that of a struct, while it is being made.
type objectSchema struct {
	covered  map[string]bool // the fields that others cover, and embedded structs whose fields all are
	members  map[string]any
	required []string
	pairs    bool // a member has a number
}

// add adds the members of a struct that is embedded at an index, and of those that are embedded in it. Those of a pointer may be missing.
func (o *objectSchema) add(s *schemas, p *plan, at []int, missing bool) {
	for _, f := range p.fields {
		index := append(slices.Clone(at), f.index)
		if o.covered[fmt.Sprint(index)] {
			continue
		}
		if f.embedded {
			o.add(s, flat(f.plan), index, missing || f.typ.Kind() == reflect.Pointer)
			continue
		}
		name := string(f.name)
		o.members[name] = s.of(f.typ)
		_, options, _ := strings.Cut(fieldTag(p.typ.Field(f.index)), ",")
		o.pairs = o.pairs || strings.Contains(options, "keyasint")
		if !missing && !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			o.required = append(o.required, name)
		}
	}
}
