package tuple

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"
	"strings"
)

// Compare returns −1, 0 or +1 as a sorts before, with or after b. It is the order
// of the packed bytes, for all tuples that can be packed:
//
//   - element by element; a tuple sorts before a longer one that it begins;
//   - elements of different kinds: null, bytes, string, tuple, integer, float32,
//     float64, false, true, UUID, versionstamp, user code;
//   - bytes and strings byte by byte, integers by value whatever their Go type,
//     floats as appendFloat32 says.
//
// It panics on an element of a type that a tuple can't hold.
func Compare(a, b Tuple) int {
	for i := range min(len(a), len(b)) {
		if c := compareElements(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compareElements is a flat switch over the types of Element.
func compareElements(a, b Element) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case string:
		return strings.Compare(a, b.(string))
	case Tuple:
		return Compare(a, b.(Tuple))
	case float32:
		return cmp.Compare(orderedFloat32(a), orderedFloat32(b.(float32)))
	case float64:
		return cmp.Compare(orderedFloat64(a), orderedFloat64(b.(float64)))
	case UUID:
		u := b.(UUID)
		return bytes.Compare(a[:], u[:])
	case Versionstamp:
		v := b.(Versionstamp)
		return cmp.Or(bytes.Compare(a.Transaction[:], v.Transaction[:]), cmp.Compare(a.User, v.User))
	case User:
		return bytes.Compare(a.Body, b.(User).Body)
	case nil, bool:
		return 0 // the rank says it all
	}
	return compareInts(a, b)
}

// rank returns the type code of el, and one code for all integers.
func rank(el Element) int {
	switch v := el.(type) {
	case nil:
		return codeNull
	case []byte:
		return codeBytes
	case string:
		return codeString
	case Tuple:
		return codeNested
	case int, int64, uint, uint64, *big.Int:
		return codeZero
	case float32:
		return codeFloat32
	case float64:
		return codeFloat64
	case bool:
		if v {
			return codeTrue
		}
		return codeFalse
	case UUID:
		return codeUUID
	case Versionstamp:
		return codeVersionstamp
	case User:
		return int(v.Code)
	}
	panic(fmt.Sprintf("tuple: can't compare an element of type %T", el))
}

func compareInts(a, b Element) int {
	x, ok := small(a)
	y, ok2 := small(b)
	if ok && ok2 {
		return cmp.Compare(x, y)
	}
	return large(a).Cmp(large(b))
}

// small returns the value of an integer element if it fits an int64.
func small(el Element) (v int64, ok bool) {
	switch v := el.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case uint:
		return int64(v), int64(v) >= 0
	case uint64:
		return int64(v), int64(v) >= 0
	case *big.Int:
		return v.Int64(), v.IsInt64()
	}
	panic(fmt.Sprintf("tuple: %T is no integer", el))
}

// large returns the value of an integer element.
func large(el Element) *big.Int {
	switch v := el.(type) {
	case *big.Int:
		return v
	case uint:
		return new(big.Int).SetUint64(uint64(v))
	case uint64:
		return new(big.Int).SetUint64(v)
	}
	v, _ := small(el)
	return big.NewInt(v)
}
