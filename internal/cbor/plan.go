package cbor

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// What the library writes and can't read is refused here, before it is encoded, if the
// type or the value shows it; what the encoded bytes show is refused by the rewriter.
// A type is analysed once. Most have nothing that needs a look at their values.

// A plan is what the encoder must know about a type.
type plan struct {
	typ    reflect.Type
	look   bool         // values must be looked at
	keys   bool         // keys of one map may be encoded alike, or there is CBOR that others wrote
	text   bool         // some type in it is encoded by its MarshalText
	oneWay reflect.Type // some type in it that has MarshalText and no UnmarshalText
	both   reflect.Type // some type in it that has both, and isn't encoded by them

	bad    string // why no value can be stored
	badKey string // of a map: why none of its keys can
	day    bool   // a struct that embeds a time alone, and is encoded by its methods
	lost   bool   // a struct of which only the zero value can be stored

	key, elem *plan
	fields    []field
	covered   []covered
	nests     bool    // it is a nester
	parts     []*plan // all plans of above
	open      bool    // it is being made
}

// A field is one of a struct that is encoded.
type field struct {
	*plan
	index    int
	name     []byte
	embedded bool // its fields are those of the struct
	empty    bool // embedded, and has none
	hidden   bool // the decoder can't set it
}

var (
	plans sync.Map // of reflect.Type to *plan

	typeAny    = reflect.TypeFor[any]()
	typeTime   = reflect.TypeFor[time.Time]()
	typeBigInt = reflect.TypeFor[big.Int]()
	typeTag    = reflect.TypeFor[cbor.Tag]()
	// The text of a big.Float has no precision, with which it would have to be read.
	typeBigFloat = reflect.TypeFor[big.Float]()
	typePath     = reflect.TypeFor[plan]().PkgPath()
	typeNester   = reflect.TypeFor[nester]()
)

// A nester is a type of this package that holds others, in a way of its own.
type nester interface{ parts(c *checker) error }

// A method is a pair of methods, one of which reads what the other writes.
type method struct {
	write, read reflect.Type
	names       [2]string
}

var (
	methodCBOR = method{
		reflect.TypeFor[cbor.Marshaler](), reflect.TypeFor[cbor.Unmarshaler](), [2]string{"MarshalCBOR", "UnmarshalCBOR"},
	}
	methodBinary = method{
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](), [2]string{"MarshalBinary", "UnmarshalBinary"},
	}
	methodText = method{
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](), [2]string{"MarshalText", "UnmarshalText"},
	}
)

// writes reports whether values of t are written by the method.
func (m method) writes(t reflect.Type) bool { return reflect.PointerTo(t).Implements(m.write) }

// trouble says why what the method writes of a t can't be read, "" if it can.
func (m method) trouble(t reflect.Type) string {
	if !reflect.PointerTo(t).Implements(m.read) {
		return fmt.Sprintf("a %v, which has %s and no %s", t, m.names[0], m.names[1])
	}
	if t.Kind() != reflect.Struct {
		return ""
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous {
			continue
		}
		// A method of a pointer would be called with nil, by the decoder. One of a field
		// knows nothing of the others.
		promoted := f.Type.Implements(m.write)
		if f.Type.Kind() != reflect.Pointer && f.Type.Kind() != reflect.Interface {
			promoted = m.writes(f.Type) && (t.NumField() > 1 || m.trouble(f.Type) != "")
		}
		if promoted {
			return fmt.Sprintf("a %v, whose %s may be that of the embedded %v alone", t, m.names[0], f.Type)
		}
	}
	return ""
}

// planOf returns the plan of a type.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	made := planner{}
	p := made.plan(t)
	for changed := true; changed; {
		changed = false
		for _, p := range made {
			changed = p.inherit() || changed
		}
	}
	for t, p := range made {
		plans.Store(t, p)
	}
	return p
}

// inherit adds to a plan what is in its parts, and reports whether that is more.
func (p *plan) inherit() bool {
	was := *p
	for _, q := range p.parts {
		p.look = p.look || q.look || q.bad != ""
		p.keys = p.keys || q.keys
		p.text = p.text || q.text
		p.oneWay = cmp.Or(p.oneWay, q.oneWay)
		p.both = cmp.Or(p.both, q.both)
	}
	return was.look != p.look || was.keys != p.keys || was.text != p.text || was.oneWay != p.oneWay || was.both != p.both
}

// A planner has the plans that are being made.
type planner map[reflect.Type]*plan

func (m planner) plan(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := m[t]
	if p == nil {
		p = &plan{typ: t, open: true}
		m[t] = p
		m.describe(p)
		p.open = false
	} else if p.open {
		p.look = true // its values may hold themselves
	}
	return p
}

// part returns the plan of a part of p.
func (m planner) part(p *plan, t reflect.Type) *plan {
	q := m.plan(t)
	p.parts = append(p.parts, q)
	return q
}

func (m planner) describe(p *plan) {
	t := p.typ
	switch {
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		m.indirect(p)
	case t == typeTime:
		p.look = true
	case t == typeBigInt:
	case t == typeTag:
		p.keys = true
		m.nested(p)
	case t.PkgPath() == typePath && methodCBOR.writes(t):
		p.nests = t.Implements(typeNester)
		p.look, p.keys = p.nests, true
	case methodCBOR.writes(t):
		p.bad, p.keys = methodCBOR.trouble(t), true
	case methodBinary.writes(t):
		p.bad = methodBinary.trouble(t)
		p.day = isDay(t)
		p.look = p.day
	default:
		m.nested(p)
		m.texts(p)
	}
}

// isDay reports whether a type is a struct that embeds a time alone, or another such struct.
func isDay(t reflect.Type) bool {
	embeds := false
	for t.Kind() == reflect.Struct && t.NumField() == 1 && t.Field(0).Anonymous {
		t, embeds = t.Field(0).Type, true
	}
	return embeds && t == typeTime
}

// indirect describes pointers and interfaces.
func (m planner) indirect(p *plan) {
	if p.typ.Kind() == reflect.Interface {
		p.look = true
		return
	}
	if target(p.typ).Kind() == reflect.Pointer {
		p.bad = fmt.Sprintf("a %v, which points to itself", p.typ)
		return
	}
	p.elem = m.part(p, p.typ.Elem())
}

// target returns the type that a pointer leads to: still a pointer if that is to itself.
func target(t reflect.Type) reflect.Type {
	for range maxDepth {
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	return t
}

// nested describes what the library takes apart.
func (m planner) nested(p *plan) {
	switch t := p.typ; t.Kind() {
	case reflect.Slice, reflect.Array:
		p.elem = m.part(p, t.Elem())
	case reflect.Map:
		p.key, p.elem = m.part(p, t.Key()), m.part(p, t.Elem())
		p.badKey = badKey(t.Key())
		p.keys = p.keys || !plainKey(t.Key())
		k := t.Key().Kind()
		p.look = !plainKey(t.Key()) || k == reflect.Uint || k == reflect.Uint64 // in an any they may come back as others
	case reflect.Struct:
		m.structure(p)
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.Uintptr, reflect.UnsafePointer:
		p.bad = fmt.Sprintf("a %v", t)
	}
}

// texts says whether values are encoded by MarshalText: those of which nothing would be left
// otherwise.
func (m planner) texts(p *plan) {
	if !methodText.writes(p.typ) {
		return
	}
	trouble := methodText.trouble(p.typ)
	switch {
	case p.lost && trouble == "" && p.typ != typeBigFloat:
		*p = plan{typ: p.typ, text: true, open: p.open}
	case trouble != "":
		p.oneWay = p.typ
	default:
		p.both = p.typ
	}
}

// structure describes a struct, whose fields are those that the library encodes.
func (m planner) structure(p *plan) {
	left, unexported := 0, 0
	for i := range p.typ.NumField() {
		f := p.typ.Field(i)
		to := target(f.Type)
		if !f.IsExported() && (!f.Anonymous || to.Kind() != reflect.Struct) {
			if f.Name != "_" {
				unexported++
			}
			continue
		}
		tag := fieldTag(f)
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if n, err := strconv.ParseInt(name, 10, 64); err == nil && floatKey(n) && slices.Contains(strings.Split(options, ","), "keyasint") {
			p.bad = fmt.Sprintf("a %v, whose key %d is beyond 32 bits,", p.typ, n)
		}
		in := field{index: i, name: []byte(name), embedded: f.Anonymous && to.Kind() == reflect.Struct && name == ""}
		if name == "" {
			in.name = []byte(f.Name)
		}
		in.hidden = !f.IsExported() && (f.Type.Kind() == reflect.Pointer || !in.embedded)
		in.plan = m.part(p, f.Type)
		in.empty = in.embedded && !in.open && len(flat(in.plan).fields) == 0
		p.look = p.look || in.hidden || in.empty
		p.fields = append(p.fields, in)
		if !in.empty {
			left++
		}
	}
	p.covered = coveredFields(p.typ)
	p.look = p.look || len(p.covered) > 0
	// A struct in which all is lost is one whose fields aren't exported, or are such structs.
	p.lost = left == 0 && (unexported > 0 || len(p.fields) > 0)
	p.look = p.look || p.lost
}

// floatKey reports whether an integer is written as a float, which the library takes for no key of a struct.
func floatKey(n int64) bool {
	return (n > math.MaxUint32 || n < -1<<32) && n > -maxExact && n < maxExact
}

// flat returns the plan of what a pointer points to.
func flat(p *plan) *plan {
	for p.elem != nil && p.typ.Kind() == reflect.Pointer {
		p = p.elem
	}
	return p
}

// plainKey reports whether different keys of the type are always encoded differently.
func plainKey(t reflect.Type) bool {
	switch k := t.Kind(); {
	case methodCBOR.writes(t) || methodBinary.writes(t) || methodText.writes(t):
		return false
	default:
		return k >= reflect.Bool && k <= reflect.Float64 || k == reflect.String
	}
}

// badKey says why keys of the type can't be read back as what they were, "" if they can.
func badKey(t reflect.Type) string {
	switch k := t.Kind(); {
	case t == typeAny || t == typeTime || k != reflect.Interface && (methodCBOR.writes(t) || methodBinary.writes(t)):
	case k == reflect.Pointer || k == reflect.Interface:
		return fmt.Sprintf("a key of type %v", t)
	case k == reflect.Array:
		return badPart(t.Elem())
	case k == reflect.Struct:
		for i := range t.NumField() {
			if bad := badPart(t.Field(i).Type); bad != "" {
				return bad
			}
		}
	}
	return ""
}

// badPart is badKey of a part of a key.
func badPart(t reflect.Type) string {
	if t == typeAny {
		return "a key that holds an any"
	}
	return badKey(t)
}
