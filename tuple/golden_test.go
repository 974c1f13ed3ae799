package tuple_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"github.com/greenroomdb/greenroom/tuple"
)

// A vector is one golden tuple.
type vector struct {
	Name       string
	Input      []element
	Hex        string
	RangeBegin string `json:"range_begin"`
	RangeEnd   string `json:"range_end"`
}

// An element is how the vectors write one in JSON: its type, and the value in a
// field that depends on it.
type element struct {
	T    string
	V    json.RawMessage
	Hex  string
	Bits string
}

// value returns e as Unpack would give it.
func (e element) value(t *testing.T) tuple.Element {
	t.Helper()
	switch e.T {
	case "null":
		return nil
	case "bytes":
		return unhex(t, e.Hex)
	case "str":
		return decode[string](t, e.V)
	case "bool":
		return decode[bool](t, e.V)
	case "int":
		return integer(t, decode[string](t, e.V))
	case "float":
		return math.Float32frombits(uint32(bits(t, e.Bits)))
	case "double":
		return math.Float64frombits(bits(t, e.Bits))
	case "uuid":
		return tuple.UUID(unhex(t, e.Hex))
	case "versionstamp":
		b := unhex(t, e.Hex)
		return tuple.Versionstamp{Transaction: [10]byte(b), User: uint16(b[10])<<8 | uint16(b[11])}
	case "nested":
		return elements(t, decode[[]element](t, e.V))
	}
	t.Fatalf("unknown type %q", e.T)
	return nil
}

func elements(t *testing.T, es []element) tuple.Tuple {
	tup := tuple.Tuple{}
	for _, e := range es {
		tup = append(tup, e.value(t))
	}
	return tup
}

func integer(t *testing.T, s string) tuple.Element {
	v, ok := new(big.Int).SetString(s, 10)
	switch {
	case !ok:
		t.Fatalf("%q is no integer", s)
	case v.IsInt64():
		return v.Int64()
	case v.IsUint64():
		return v.Uint64()
	}
	return v
}

func decode[T any](t testing.TB, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func bits(t *testing.T, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func readJSON[T any](t testing.TB, file string) T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return decode[T](t, b)
}

func TestGolden(t *testing.T) {
	vectors := readJSON[[]vector](t, "tuple.json")
	if len(vectors) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			in, want := elements(t, v.Input), unhex(t, v.Hex)
			got, err := tuple.Append(nil, in)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("Append = %x, %v, want %x", got, err, want)
			}
			out, err := tuple.Unpack(want)
			if err != nil || !same(out, in) {
				t.Errorf("Unpack = %v, %v, want %v", out, err, in)
			}
			begin, end := tuple.Range(want)
			if hex.EncodeToString(begin) != v.RangeBegin || hex.EncodeToString(end) != v.RangeEnd {
				t.Errorf("Range = %x, %x, want %s, %s", begin, end, v.RangeBegin, v.RangeEnd)
			}
			testCut(t, want)
		})
	}
}

// testCut cuts b short everywhere. What is left either is refused or is a tuple
// of fewer elements, which packs to the bytes left.
func testCut(t *testing.T, b []byte) {
	for n := range b {
		got, err := tuple.Unpack(b[:n])
		if err == nil && !bytes.Equal(got.Pack(), b[:n]) {
			t.Errorf("Unpack of the first %d bytes = %v, which packs to %x", n, got, got.Pack())
		}
	}
}

// same is reflect.DeepEqual with floats compared bit by bit.
func same(a, b tuple.Tuple) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		switch x := a[i].(type) {
		case float32:
			y, ok := b[i].(float32)
			if !ok || math.Float32bits(x) != math.Float32bits(y) {
				return false
			}
		case float64:
			y, ok := b[i].(float64)
			if !ok || math.Float64bits(x) != math.Float64bits(y) {
				return false
			}
		case tuple.Tuple:
			y, ok := b[i].(tuple.Tuple)
			if !ok || !same(x, y) {
				return false
			}
		case *big.Int:
			y, ok := b[i].(*big.Int)
			if !ok || x.Cmp(y) != 0 {
				return false
			}
		default:
			if !reflect.DeepEqual(a[i], b[i]) {
				return false
			}
		}
	}
	return true
}

// TestGoldenOrder compares every pair of the golden order, by value and by bytes.
func TestGoldenOrder(t *testing.T) {
	file := readJSON[struct {
		Order []struct{ Name, Hex string }
	}](t, "tuple-order.json")
	if len(file.Order) == 0 {
		t.Fatal("no vectors")
	}
	var tuples []tuple.Tuple
	var packed [][]byte
	for _, v := range file.Order {
		b := unhex(t, v.Hex)
		tup, err := tuple.Unpack(b)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		tuples, packed = append(tuples, tup), append(packed, b)
	}
	for i := range tuples {
		for j := range tuples {
			want := bytes.Compare(packed[i], packed[j])
			if (i < j) != (want < 0) {
				t.Errorf("golden order is not the order of bytes: %s, %s", file.Order[i].Name, file.Order[j].Name)
			}
			if got := tuple.Compare(tuples[i], tuples[j]); got != want {
				t.Errorf("Compare(%s, %s) = %d, want %d", file.Order[i].Name, file.Order[j].Name, got, want)
			}
		}
	}
}
