package filter

import (
	"maps"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// An Object is an object whose fields are decoded when they are asked for.
type Object interface {
	// Field returns the value of a field, one of those that Vars.Lookup returns, and false if
	// the object lacks it.
	Field(name string) (value any, ok bool)
	// Names returns the names of all fields, for macros, size, == and Eval's result.
	Names() []string
}

type (
	stringMap  map[string]any
	anyMap     map[any]any // one written in an expression, {"a": 1}, too
	lazyObject struct{ Object }
	cborObject cbor.Object
	cborMap    cbor.Map
)

func (m stringMap) field(key ref.Val) (any, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	v, ok := m[string(name)]
	return v, ok
}

// keys are in order, so that the same data gives the same list.
func (m stringMap) keys() []any { return anys(slices.Sorted(maps.Keys(m))) }
func (m stringMap) length() int { return len(m) }

func (o lazyObject) field(key ref.Val) (any, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	return o.Field(string(name))
}

func (o lazyObject) keys() []any { return anys(o.Names()) }
func (o lazyObject) length() int { return len(o.Names()) }

func (o cborObject) field(key ref.Val) (any, bool) {
	name, ok := key.(types.String)
	for i := 0; ok && i < len(o); i++ {
		if o[i].Name == string(name) {
			return o[i].Value, true
		}
	}
	return nil, false
}

func (o cborObject) keys() []any {
	list := make([]any, len(o))
	for i, m := range o {
		list[i] = m.Name
	}
	return list
}

func (o cborObject) length() int { return len(o) }

// field looks for a number as each type of number that decoders give.
func (m anyMap) field(key ref.Val) (any, bool) {
	for _, k := range [...]any{key.Value(), as[types.Int](key, types.IntType), as[types.Uint](key, types.UintType), as[types.Double](key, types.DoubleType)} {
		switch n := k.(type) {
		case int64:
			if v, ok := m[int(n)]; ok {
				return v, true
			}
		case bool, string, uint64, float64:
		default: // what isn't a key, and might not be hashable
			continue
		}
		if v, ok := m[k]; ok {
			return v, true
		}
	}
	return nil, false
}

// as returns a number as one of another type if it is the same number, else nil.
func as[T ref.Val](key ref.Val, t ref.Type) any {
	switch key.(type) {
	case types.Int, types.Uint, types.Double:
		if n, ok := key.ConvertToType(t).(T); ok && n.Equal(key) == types.True {
			return n.Value()
		}
	}
	return nil
}

func (m anyMap) keys() []any { return slices.Collect(maps.Keys(m)) }
func (m anyMap) length() int { return len(m) }

func (m cborMap) field(key ref.Val) (any, bool) {
	for _, p := range m {
		if k := (adapter{}).NativeToValue(p.Key); scalar(k) && k.Equal(key) == types.True {
			return p.Value, true
		}
	}
	return nil, false
}

func (m cborMap) keys() []any {
	list := make([]any, len(m))
	for i, p := range m {
		list[i] = p.Key
	}
	return list
}

func (m cborMap) length() int { return len(m) }

// scalar says whether a value can be a key.
func scalar(v ref.Val) bool {
	switch v.(type) {
	case types.Bool, types.Int, types.Uint, types.Double, types.String:
		return true
	}
	return false
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}
