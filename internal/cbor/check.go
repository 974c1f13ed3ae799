package cbor

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"time"
)

// mostSteps bounds how deep a value is looked into, pointers included.
const mostSteps = 4 * maxDepth

// A checker looks at a value.
type checker struct {
	path  path
	steps int
	anys  int // how many of the steps are into an any
	left  int // of how many values it may still be made

	keys, text bool
	oneWay     reflect.Type
	both       reflect.Type // in an any, where its form must not depend on what is beside it
}

// refuse returns the error of a value at the place where the checker is.
func (c *checker) refuse(format string, args ...any) error {
	return &ValueError{c.path.String(), clip(fmt.Sprintf(format, args...))}
}

// any looks at a value of any type.
func (c *checker) any(v any) error {
	if done, err := c.common(v); done {
		return err
	}
	in := reflect.ValueOf(v)
	return c.check(in, planOf(in.Type()))
}

// common looks at a value of one of the types that JSON has, as any does, and without
// reflection: they are most of what an any holds. It reports whether v is of such a type.
func (c *checker) common(v any) (done bool, err error) {
	switch v := v.(type) {
	case []any:
		if err = c.enter(); err != nil {
			return true, err
		}
		for i := 0; i < len(v) && err == nil; i++ {
			if !scalar(v[i]) {
				err = c.held(step{index: i}, v[i])
			}
		}
	case map[string]any:
		if err = c.enter(); err != nil {
			return true, err
		}
		for name, v := range v {
			if scalar(v) {
				continue
			}
			if err = c.held(step{name: []byte(name)}, v); err != nil {
				break
			}
		}
	default:
		return scalar(v), nil
	}
	c.steps--
	return true, err
}

// scalar reports whether v is of one of the types that JSON has and that hold no others.
func scalar(v any) bool {
	switch v.(type) {
	case nil, bool, string, int, int64, float64, []byte:
		return true
	}
	return false
}

// held looks at what an any holds, to which s leads.
func (c *checker) held(s step, v any) error {
	c.path = append(c.path, s)
	err := c.inAny(v)
	c.path = c.path[:len(c.path)-1]
	return err
}

// inAny looks at what an any holds.
func (c *checker) inAny(v any) error {
	c.anys++
	defer func() { c.anys-- }()
	if done, err := c.common(v); done {
		return err
	}
	in := reflect.ValueOf(v)
	p := planOf(in.Type())
	c.both = cmp.Or(c.both, p.both)
	return c.check(in, p)
}

// enter begins to look into a value.
func (c *checker) enter() error {
	switch {
	case c.steps == mostSteps:
		return c.refuse("a value that is nested too deep, or holds itself,")
	case c.left == 0:
		return c.refuse("a value of too many parts")
	}
	c.steps++
	c.left--
	return nil
}

// check looks at a value whose plan is not a part of that of another one.
func (c *checker) check(v reflect.Value, p *plan) error {
	c.keys = c.keys || p.keys
	c.text = c.text || p.text
	c.oneWay = cmp.Or(c.oneWay, p.oneWay)
	return c.value(v, p)
}

func (c *checker) value(v reflect.Value, p *plan) (err error) {
	switch {
	case p.bad != "":
		return c.refuse("%s", p.bad)
	case !p.look:
		return nil
	}
	if err := c.enter(); err != nil {
		return err
	}
	err = c.inner(v, p)
	c.steps--
	return err
}

func (c *checker) inner(v reflect.Value, p *plan) error {
	switch {
	case p.typ == typeTime:
		return c.time(v.Interface().(time.Time))
	case p.day: // the bytes of a time lose a part of some offsets that aren't in minutes
		if at, ok := v.Interface().(clock); ok {
			return c.time(at)
		}
		return nil
	case p.nests:
		return v.Interface().(nester).parts(c)
	case p.lost:
		return c.zero(v)
	}
	switch v.Kind() {
	case reflect.Interface:
		return c.dynamic(v)
	case reflect.Pointer:
		if !v.IsNil() {
			return c.value(v.Elem(), p.elem)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := c.at(step{index: i}, v.Index(i), p.elem); err != nil {
				return err
			}
		}
	case reflect.Map:
		return c.members(v, p)
	case reflect.Struct:
		return c.fields(v, p)
	}
	return nil
}

// zero refuses any value but the zero one of a type whose values are all encoded alike.
func (c *checker) zero(v reflect.Value) error {
	if v.IsZero() {
		return nil
	}
	return c.refuse("a value of type %v, of which nothing would be stored,", v.Type())
}

// at looks at the part of a value that s leads to.
func (c *checker) at(s step, v reflect.Value, p *plan) error {
	if !p.look && p.bad == "" {
		return nil
	}
	c.path = append(c.path, s)
	err := c.value(v, p)
	c.path = c.path[:len(c.path)-1]
	return err
}

// member is any for what s leads to.
func (c *checker) member(s step, v any) error {
	c.path = append(c.path, s)
	err := c.any(v)
	c.path = c.path[:len(c.path)-1]
	return err
}

// dynamic looks at what an interface holds. Only an any can be read back.
func (c *checker) dynamic(v reflect.Value) error {
	if v.IsNil() {
		return nil
	}
	if v.NumMethod() > 0 {
		return c.refuse("a value of type %v in the interface %v, which can't be read back,", v.Elem().Type(), v.Type())
	}
	return c.inAny(v.Interface())
}

func (c *checker) members(v reflect.Value, p *plan) error {
	if p.badKey != "" && v.Len() > 0 {
		return c.refuse("%s", p.badKey)
	}
	if c.anys == 0 && !p.key.look && !p.elem.look && p.key.bad == "" && p.elem.bad == "" {
		return nil
	}
	key, elem := reflect.New(p.key.typ).Elem(), reflect.New(p.elem.typ).Elem()
	for it := v.MapRange(); it.Next(); {
		key.SetIterKey(it)
		elem.SetIterValue(it)
		if err := c.key(key, p.key); err != nil {
			return err
		}
		if err := c.at(step{key: key}, elem, p.elem); err != nil {
			return err
		}
	}
	return nil
}

// key looks at the key of a map.
func (c *checker) key(v reflect.Value, p *plan) error {
	if p.typ != typeAny && c.anys == 0 {
		return c.at(step{key: v}, v, p)
	}
	if p.typ == typeAny {
		v = v.Elem()
	}
	if v.IsValid() && plainKey(v.Type()) && !(v.CanUint() && v.Uint() > math.MaxInt64) {
		return nil
	}
	what := "nil"
	if v.IsValid() {
		what = v.Type().String()
	}
	return c.refuse("a key of type %s in a map whose keys are of any type", what)
}

func (c *checker) fields(v reflect.Value, p *plan) error {
	for _, f := range p.covered {
		if in, ok := f.in(v); ok && !in.IsZero() {
			return c.refuse("the field %s of a %v, which another one of its name covers,", f.name, p.typ)
		}
	}
	for _, f := range p.fields {
		in := v.Field(f.index)
		var err error
		switch {
		case f.hidden && !in.IsZero():
			err = c.refuse("an embedded %v, whose type isn't exported,", f.typ)
		case f.empty:
			err = c.zero(in)
		case f.embedded:
			err = c.value(in, f.plan)
		default:
			err = c.at(step{name: f.name}, in, f.plan)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// time refuses what RFC 3339 can't say.
func (c *checker) time(t clock) error {
	if bad := badTime(t); bad != "" {
		return c.refuse("%s", bad)
	}
	return nil
}

// A clock is a time, or a struct that embeds one.
type clock interface {
	Zone() (name string, offset int)
	Year() int
}

// badTime says why a time has no text in RFC 3339, "" if it has one: for the year, or for a
// time zone whose offset isn't in minutes, as many were before there was standard time.
func badTime(t clock) string {
	if _, offset := t.Zone(); offset%60 != 0 || offset <= -24*60*60 || offset >= 24*60*60 {
		return fmt.Sprintf("a time %v from UTC, which isn't minutes within a day,", time.Duration(offset)*time.Second)
	}
	if year := t.Year(); year < 0 || year > 9999 {
		return fmt.Sprintf("a time in the year %d", year)
	}
	return ""
}
