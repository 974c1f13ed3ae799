package cbor

import (
	"reflect"
	"strings"
)

// Schema returns the JSON Schema (https://json-schema.org/draft/2020-12) of values of a type in JSON, as a front says them: bytes
// are base64, and times RFC 3339. A struct's members that may be left out are not required. A type of which that isn't known is {}, which is anything.
func Schema(t reflect.Type) map[string]any {
	s := schemas{defs: map[string]any{}, names: map[reflect.Type]string{}, open: map[reflect.Type]bool{}}
	s.find(t, map[reflect.Type]bool{})
	schema := s.of(t)
	if len(s.defs) > 0 {
		schema["$defs"] = s.defs
	}
	return schema
}

// schemas makes a schema.
type schemas struct {
	defs  map[string]any          // of the types that hold themselves
	names map[reflect.Type]string // of these in defs
	open  map[reflect.Type]bool   // those that are being defined, or are
}

// find names the types that hold themselves, above which those of above are.
func (s *schemas) find(t reflect.Type, above map[reflect.Type]bool) {
	switch p := planOf(t); {
	case t.Name() != "" && above[t]:
		if s.names[t] == "" {
			s.names[t] = t.Name()
			for other, name := range s.names { // of another package, or of the arguments of a generic type
				if other != t && name == t.Name() {
					s.names[t] += "_"
				}
			}
		}
	default:
		above[t] = true
		for _, part := range p.parts {
			s.find(part.typ, above)
		}
		delete(above, t)
	}
}

// of returns the schema of a type, or a reference to it.
func (s *schemas) of(t reflect.Type) map[string]any {
	name := s.names[t]
	if name == "" {
		return s.written(t)
	}
	if !s.open[t] {
		s.open[t] = true
		s.defs[name] = s.written(t)
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// written returns the schema of a type, written out.
func (s *schemas) written(t reflect.Type) map[string]any {
	is := func(of string) map[string]any { return map[string]any{"type": of} }
	p := planOf(t)
	switch k := t.Kind(); {
	case t == typeTime || p.day:
		return map[string]any{"type": "string", "format": "date-time"}
	case t == typeBigInt:
		return is("integer")
	case k == reflect.Pointer:
		return map[string]any{"anyOf": []any{s.of(t.Elem()), is("null")}}
	case k == reflect.Interface, methodCBOR.writes(t), p.bad != "":
		return map[string]any{}
	case methodBinary.writes(t), (k == reflect.Slice || k == reflect.Array) && t.Elem().Kind() == reflect.Uint8:
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case k == reflect.String, k == reflect.Struct && p.text && p.fields == nil:
		return is("string")
	case k == reflect.Bool:
		return is("boolean")
	case k >= reflect.Int && k <= reflect.Uint64:
		return is("integer")
	case k == reflect.Float32, k == reflect.Float64:
		return is("number")
	case k == reflect.Slice, k == reflect.Array:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case k == reflect.Map && t.Key().Kind() == reflect.String:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case k == reflect.Struct:
		return s.object(p)
	}
	return map[string]any{} // a map with other keys, which is an array of pairs or an object
}

// object returns the schema of a struct.
func (s *schemas) object(p *plan) map[string]any {
	members, required := map[string]any{}, []string{}
	s.members(p, members, &required)
	schema := map[string]any{"type": "object", "properties": members}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// members adds those of a struct, and of the structs that are embedded in it.
func (s *schemas) members(p *plan, members map[string]any, required *[]string) {
	for _, f := range p.fields {
		name := string(f.name)
		if f.embedded || members[name] != nil { // covered by the one of above
			continue
		}
		members[name] = s.of(f.typ)
		_, options, _ := strings.Cut(fieldTag(p.typ.Field(f.index)), ",")
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
	for _, f := range p.fields {
		if f.embedded {
			s.members(flat(f.plan), members, required)
		}
	}
}
