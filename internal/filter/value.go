package filter

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// null is the null of data and of expressions. CEL's own has no fields; a field of this one is null.
type null struct{ types.Null }

// missing is the one null. A const would be of type Null, which isn't comparable with it.
var missing ref.Val = null{}

// Get returns null: so this.a.b is null where this.a is missing.
func (null) Get(ref.Val) ref.Val { return missing }

// IsSet returns false: null has no fields.
func (null) IsSet(ref.Val) ref.Val { return types.False }

// Equal compares with every kind of null.
func (null) Equal(other ref.Val) ref.Val { return types.Bool(other.Type() == types.NullType) }

// An adapter makes CEL's values of Go's, one level at a time.
type adapter struct{}

// NativeToValue implements types.Adapter. What has no place in an expression becomes an error,
// which ends the evaluation with ErrMismatch if it is used.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case nil, types.Null, cbor.Undefined:
		return missing
	case ref.Val:
		return v
	case bool:
		return types.Bool(v)
	case string:
		return types.String(v)
	case float64:
		return types.Double(v)
	case float32:
		return types.Double(v)
	case map[string]any:
		return mapping[stringMap]{v}
	case Object:
		return mapping[lazyObject]{lazyObject{v}}
	case cbor.Object:
		return mapping[cborObject]{cborObject(v)}
	case []any:
		return types.NewDynamicList(a, v)
	case []byte:
		return types.Bytes(v)
	case time.Time:
		return types.Timestamp{Time: v}
	case time.Duration:
		return types.Duration{Duration: v}
	}
	if n, ok := integer(value); ok {
		return n
	}
	return a.rare(value)
}

// rare is NativeToValue of what is seldom met, and of what the interpreter makes.
func (a adapter) rare(value any) ref.Val {
	switch v := value.(type) {
	case map[any]any:
		return mapping[anyMap]{v}
	case cbor.Map:
		return mapping[cborMap]{cborMap(v)}
	case cbor.Set:
		return types.NewDynamicList(a, []any(v))
	case cbor.Uint8Array:
		return types.Bytes(v)
	case cbor.Date:
		return types.Timestamp{Time: v.Time}
	case *big.Int:
		return bigInteger(v)
	case []ref.Val:
		return types.NewRefValList(a, v)
	}
	return types.NewErr("a value of the type %T", value)
}

// integer returns a Go integer as CEL's int or uint.
func integer(value any) (ref.Val, bool) {
	switch v := value.(type) {
	case int64:
		return types.Int(v), true
	case int:
		return types.Int(v), true
	case int32:
		return types.Int(v), true
	case int16:
		return types.Int(v), true
	case int8:
		return types.Int(v), true
	case uint64:
		return types.Uint(v), true
	case uint:
		return types.Uint(v), true
	case uint32:
		return types.Uint(v), true
	case uint16:
		return types.Uint(v), true
	case uint8:
		return types.Uint(v), true
	}
	return nil, false
}

// bigInteger returns the int, else the uint, else the double nearest to n.
func bigInteger(n *big.Int) ref.Val {
	switch {
	case n == nil:
		return missing
	case n.IsInt64():
		return types.Int(n.Int64())
	case n.IsUint64():
		return types.Uint(n.Uint64())
	}
	f, _ := n.Float64()
	return types.Double(f)
}

// errNative is what nothing meets: the interpreter converts values by this package alone.
var errNative = errors.New("filter: no such conversion")

// fields are what a mapping is made of. Each implementation is one pointer where it can be,
// so that a value of it needs no memory.
type fields interface {
	// field returns the value of a key, and false if the key is missing.
	field(key ref.Val) (any, bool)
	// keys returns all keys in an order of its own.
	keys() []any
	length() int
}

// A mapping is CEL's map over any fields. It isn't a traits.Mapper, in which a missing key is
// an error: a missing one is null here, unless a program asks whether it is there.
type mapping[F fields] struct{ f F }

// A mapper is any mapping.
type mapper interface {
	ref.Val
	fields
}

func (m mapping[F]) field(key ref.Val) (any, bool) { return m.f.field(key) }
func (m mapping[F]) keys() []any                   { return m.f.keys() }
func (m mapping[F]) length() int                   { return m.f.length() }

// Get implements traits.Indexer.
func (m mapping[F]) Get(key ref.Val) ref.Val {
	v, ok := m.f.field(key)
	if !ok {
		return missing
	}
	return adapter{}.NativeToValue(v)
}

// IsSet implements traits.FieldTester.
func (m mapping[F]) IsSet(key ref.Val) ref.Val {
	_, ok := m.f.field(key)
	return types.Bool(ok)
}

// Contains implements traits.Container: whether there is such a key.
func (m mapping[F]) Contains(key ref.Val) ref.Val { return m.IsSet(key) }

// Iterator implements traits.Iterable.
func (m mapping[F]) Iterator() traits.Iterator {
	return types.NewDynamicList(adapter{}, m.f.keys()).Iterator()
}

// Size implements traits.Sizer.
func (m mapping[F]) Size() ref.Val { return types.Int(m.f.length()) }

// ConvertToNative implements ref.Val.
func (m mapping[F]) ConvertToNative(reflect.Type) (any, error) { return nil, errNative }

// ConvertToType implements ref.Val.
func (m mapping[F]) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return m
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from 'map' to '%s'", t.TypeName())
}

// Equal implements ref.Val. Nothing calls it: expressions compare by counter.equal.
func (m mapping[F]) Equal(ref.Val) ref.Val { return types.NoSuchOverloadErr() }

// Type implements ref.Val.
func (m mapping[F]) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m mapping[F]) Value() any { return m.f }

// toGo returns a result as Eval gives it, in at most left steps.
func toGo(v ref.Val, left *uint64) (any, error) {
	if *left == 0 {
		return nil, ErrTooCostly
	}
	*left--
	switch v := v.(type) {
	case null, types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		return float64(v), nil
	case types.String:
		return string(v), nil
	case types.Bytes:
		return []byte(v), nil
	case types.Timestamp:
		return v.Time, nil
	case types.Duration:
		return v.Duration, nil
	case traits.Lister:
		list := []any{}
		for i, n := types.Int(0), v.Size().(types.Int); i < n; i++ {
			item, err := toGo(v.Get(i), left)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	case mapper:
		return mapToGo(v, left)
	case *types.Err:
		return nil, &mismatch{v}
	}
	return nil, &mismatch{fmt.Errorf("the result is of the type %s", v.Type().TypeName())}
}

// mapToGo is toGo of a mapping.
func mapToGo(m mapper, left *uint64) (any, error) {
	out := map[string]any{}
	for _, k := range m.keys() {
		key := adapter{}.NativeToValue(k)
		name, ok := key.(types.String)
		if !ok {
			return nil, &mismatch{fmt.Errorf("the result is a map with a key of the type %s", key.Type().TypeName())}
		}
		value, _ := m.field(key)
		var err error
		if out[string(name)], err = toGo(adapter{}.NativeToValue(value), left); err != nil {
			return nil, err
		}
	}
	return out, nil
}
