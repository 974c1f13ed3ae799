package itemstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/filter"
	"github.com/greenroomdb/greenroom/tuple"
)

// A bound is an item type of a store: as the program's version of the schema has it, nil if
// that lacks it, and as the newest version has it, whose key paths are those that must be written.
type bound struct {
	*itemType
	newest *itemType
	stored reflect.Type // goType with the stored names of the fields
}

// bind returns the type.
func bind(own, newest *itemType) (*bound, error) {
	b := &bound{itemType: own, newest: newest}
	if own == nil || own.goType == nil {
		return b, nil
	}
	var list []reflect.StructField
	for i := range own.goType.NumField() {
		f := own.goType.Field(i)
		g := reflect.StructField{Name: f.Name, PkgPath: f.PkgPath, Type: f.Type}
		if o := own.byName(f.Name); o != nil {
			g.Tag = reflect.StructTag(fmt.Sprintf("cbor:%q", o.Stored+",omitzero"))
			if n := newest.byStored(o.Stored); o.Default == "" && n != nil && n.Default != "" {
				later := *o // what it may lack since a later version
				later.Default = n.Default
				if err := later.compile(); err != nil {
					return nil, fmt.Errorf("itemstore: default of %s.%s in the catalog: %w: %w", own.Name, o.Name, err, ErrCorrupt)
				}
				// Others go by own at the same time.
				t := *b.itemType
				t.Fields = slices.Clone(t.Fields)
				t.Fields[slices.Index(t.Fields, o)] = &later
				later.Default, b.itemType = o.Default, &t
			}
		} else if f.IsExported() {
			g.Tag = `cbor:"-"`
		}
		list = append(list, g)
	}
	b.stored = reflect.StructOf(list)
	return b, nil
}

// content is the fields of an item.
type content struct {
	*bound
	v     reflect.Value // the struct
	extra cbor.Object   // fields that other versions of the schema put there, by their stored names
}

// field returns the value of a field.
func (c *content) field(f *field) reflect.Value { return c.v.Field(f.index) }

// value returns what lies under names, the first of which is a stored one; nil for nothing.
func (c *content) value(ref []string) any {
	var v any
	if f := c.byStored(ref[0]); f != nil && !f.Removed {
		v = c.field(f).Interface()
	} else {
		v = c.extra.Get(ref[0])
	}
	for _, name := range ref[1:] {
		if m, ok := v.(map[string]anyValue); ok {
			v = m[name].v
			continue
		}
		if a, ok := v.(anyValue); ok {
			v = a.v
		}
		if o, ok := v.(cbor.Object); ok {
			v = o.Get(name)
			continue
		}
		rv := reflect.ValueOf(v)
		if rv.Kind() != reflect.Struct {
			return nil
		}
		v, _ = fieldOf(rv, name)
	}
	return v
}

// path packs a key path of the newest version. key is nil if one of its fields is zero; then name is that field.
func (c *content) path(p *keyPath, segs int) (key []byte, name string, err error) {
	for i, s := range p.segs[:segs] {
		key = tuple.AppendString(key, s.ns)
		if s.ref == nil {
			key = appendElement(key, nil)
			continue
		}
		name = strings.Join(s.ref, ".")
		el, ok := elementAs(p.Kinds[i], c.value(s.ref))
		if !ok {
			return nil, name, &FieldError{c.Name, name, fmt.Sprintf("can't be an ID of kind %s", p.Kinds[i])}
		}
		if el == nil {
			return nil, name, nil
		}
		key = appendElement(key, el)
	}
	return key, "", nil
}

// primary packs segments of the primary key path, none of whose fields may be zero.
func (c *content) primary(segs int) ([]byte, error) {
	key, name, err := c.path(c.newest.Paths[0], segs)
	if err == nil && key == nil {
		err = &FieldError{c.Name, name, "is required, as an ID of the primary path"}
	}
	return key, err
}

// elementAs returns v as an ID of kind k, and whether it can be one: as it stands in a struct, or in
// decoded CBOR. Nothing, and zero, is nil.
func elementAs(k idKind, v any) (tuple.Element, bool) {
	switch n := v.(type) {
	case nil, cbor.Undefined:
		return nil, true
	case float64:
		if n == math.Trunc(n) && math.Abs(n) <= 1<<53 {
			v = int64(n)
		}
	case *big.Int:
		if v = n.Int64(); n.IsUint64() {
			v = n.Uint64()
		}
	}
	el, kind := elementOf(v)
	if b, is := el.([]byte); is && k == idUUID && len(b) == len(tuple.UUID{}) {
		el, kind = tuple.UUID(b), k
	}
	if kind != k {
		return nil, false
	}
	if rv := reflect.ValueOf(el); rv.IsZero() || kind == idBytes && rv.Len() == 0 {
		return nil, true
	}
	s, isText := el.(string)
	return el, !isText || utf8.ValidString(s)
}

// check holds the item against the rules of its fields, and sets defaults of fields that are required.
func (c *content) check(ctx context.Context) error {
	for _, f := range c.Fields {
		if f.Removed {
			continue
		}
		v := c.field(f)
		if v.IsZero() {
			if f.Required && f.def.IsValid() {
				v.Set(f.def)
			} else if f.Required {
				return &FieldError{c.Name, f.Name, "is required"}
			}
			continue
		}
		if f.valid == nil {
			continue
		}
		ok, err := f.valid.Match(ctx, filter.Map{"this": expressionValue(v.Interface())})
		switch {
		case errors.Is(err, filter.ErrMismatch), err == nil && !ok:
			return &FieldError{c.Name, f.Name, "doesn't meet " + clip(f.Valid)}
		case err != nil:
			return fmt.Errorf("itemstore: condition of %s.%s: %w", c.Name, f.Name, err)
		}
	}
	return nil
}

// setEnd sets when the item ends.
func (c *content) setEnd(r *record, now time.Time) error {
	after := c.ttl.after
	if c.ttl.field != "" {
		f := c.byName(c.ttl.field)
		if c.field(f).IsZero() {
			return nil
		}
		switch v := c.field(f).Interface().(type) {
		case time.Time:
			if r.expires = v.Unix(); r.expires <= now.Unix() {
				return &FieldError{c.Name, f.Name, "is when the item ends, and in the past"}
			}
			return nil
		case time.Duration:
			if after = v; after < time.Second {
				return &FieldError{c.Name, f.Name, "is how long the item stays, and less than a second"}
			}
		}
	}
	switch c.ttl.from {
	case ttlCreated:
		r.expires = time.UnixMicro(r.created).Add(after).Unix()
	case ttlModified:
		r.expires = time.UnixMicro(r.modified).Add(after).Unix()
	}
	return nil
}

// asStored returns a pointer to the struct as one of type stored, which differs in the tags alone. Value.Convert
// would compare the two types, each time.
func (c *content) asStored() any {
	return reflect.NewAt(c.stored, c.v.Addr().UnsafePointer()).Interface()
}

// payload returns the fields as they are stored.
func (c *content) payload() ([]byte, error) {
	if c.codec != nil {
		return c.codec.Append(nil, c.v.Addr().Interface())
	}
	b, err := cbor.Marshal(c.asStored())
	if err != nil || len(c.extra) == 0 {
		return b, err
	}
	v, err := cbor.Decode(b)
	if err != nil {
		return nil, err
	}
	o, _ := v.(cbor.Object)
	return cbor.Marshal(append(o, c.extra...))
}

// content returns the item of a payload, without the defaults.
func (b *bound) content(payload []byte) (c content, err error) {
	c = content{bound: b, v: reflect.New(b.goType).Elem()}
	switch {
	case b.codec != nil:
		err = b.codec.Decode(payload, c.v.Addr().Interface())
	default:
		err = cbor.Unmarshal(payload, c.asStored())
	}
	if err != nil {
		return c, fmt.Errorf("itemstore: fields of a %s: %w: %w", b.Name, err, ErrCorrupt)
	}
	return c, nil
}

// keep has the content keep the fields of a payload that this version of the schema lacks.
func (c *content) keep(payload []byte) error {
	if c.Codec {
		return nil
	}
	v, err := cbor.Decode(payload)
	o, ok := v.(cbor.Object)
	if err != nil || !ok {
		return fmt.Errorf("itemstore: fields of a %s: %v: %w", c.Name, err, ErrCorrupt)
	}
	c.extra = nil
	for _, m := range o {
		if f := c.byStored(m.Name); f == nil || f.Removed {
			c.extra = append(c.extra, m)
		}
	}
	return nil
}

// fill sets the fields that are zero to their defaults.
func (c *content) fill() {
	for _, f := range c.Fields {
		if f.def.IsValid() && c.field(f).IsZero() {
			c.field(f).Set(f.def)
		}
	}
}

// setMeta sets the fields that are metadata.
func (c *content) setMeta(m Meta) {
	if len(c.metadata) == 0 {
		return // without what is allocated below
	}
	from := m
	for _, f := range c.metadata {
		c.field(f).Set(reflect.ValueOf(from.field(f.meta)).Elem())
	}
}

// meta returns what the fields of metadata have.
func (c *content) meta() (m Meta) {
	for _, f := range c.metadata {
		reflect.ValueOf(m.field(f.meta)).Elem().Set(c.field(f))
	}
	return m
}

// field returns a pointer to what a field of metadata has.
func (m *Meta) field(has string) any {
	switch has {
	case metaCreatedTime:
		return &m.Created
	case metaModifiedTime:
		return &m.Modified
	case metaCreatedVersion:
		return &m.First
	case metaModifiedVersion:
		return &m.Version
	}
	return m
}

// untyped gives the types of a catalog Go types that are made of it.
func (c *catalog) untyped() error {
	for _, t := range c.Types {
		if t.Removed {
			continue
		}
		var list []reflect.StructField
		for _, f := range t.Fields {
			if !f.Removed {
				f.index, f.typ = len(list), goTypeOf(f.Kind)
				list = append(list, reflect.StructField{Name: f.Name, Type: f.typ})
			}
		}
		t.goType = reflect.StructOf(list)
		if err := t.compile(); err != nil {
			return fmt.Errorf("itemstore: %s in the catalog: %w: %w", t.Name, err, ErrCorrupt)
		}
	}
	return nil
}

// goTypeOf returns the Go type for the values of a kind in a store without Go types.
func goTypeOf(kind string) reflect.Type {
	if elem, ok := strings.CutPrefix(kind, "[]"); ok {
		return reflect.SliceOf(goTypeOf(elem))
	}
	switch kind {
	case "list":
		return reflect.TypeFor[[]anyValue]()
	case "object":
		return reflect.TypeFor[map[string]anyValue]()
	}
	elem, pointer := strings.CutPrefix(kind, "*")
	for _, v := range []any{false, 0, int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0), uint64(0), float32(0), 0.0,
		"", []byte{}, uuid.UUID{}, time.Time{}, time.Duration(0)} {
		t := reflect.TypeOf(v)
		switch {
		case kindOf(t) != elem:
		case pointer:
			return reflect.PointerTo(t)
		default:
			return t
		}
	}
	return anyType
}
