package tuple_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/tuple"
)

// elementGen draws an element of any kind, in any of the Go types it may have.
func elementGen(depth int) *rapid.Generator[tuple.Element] {
	kinds := []*rapid.Generator[tuple.Element]{
		rapid.Just[tuple.Element](nil),
		rapid.SliceOf(rapid.SampledFrom([]byte{0, 1, 'a', 0xfe, 0xff})).AsAny(),
		rapid.StringOf(rapid.SampledFrom([]rune{0, 1, 'a', 'é', '日', '😀'})).AsAny(),
		rapid.Int64().AsAny(),
		rapid.Int().AsAny(),
		rapid.Uint64().AsAny(),
		rapid.Uint().AsAny(),
		rapid.Custom(bigInt).AsAny(),
		rapid.Custom(func(t *rapid.T) float32 { return math.Float32frombits(rapid.Uint32().Draw(t, "bits")) }).AsAny(),
		rapid.Custom(func(t *rapid.T) float64 { return math.Float64frombits(rapid.Uint64().Draw(t, "bits")) }).AsAny(),
		rapid.Bool().AsAny(),
		rapid.Custom(func(t *rapid.T) tuple.UUID { return tuple.UUID(drawBytes(t, 16)) }).AsAny(),
		rapid.Custom(func(t *rapid.T) tuple.Versionstamp {
			return tuple.Versionstamp{Transaction: [10]byte(drawBytes(t, 10)), User: rapid.Uint16().Draw(t, "user")}
		}).AsAny(),
		rapid.Custom(func(t *rapid.T) tuple.User {
			return tuple.NewID(tuple.UUID(drawBytes(t, 16)), rapid.Uint16().Draw(t, "label"))
		}).AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds, tupleGen(depth-1).AsAny())
	}
	return rapid.OneOf(kinds...)
}

func tupleGen(depth int) *rapid.Generator[tuple.Tuple] {
	return rapid.Custom(func(t *rapid.T) tuple.Tuple {
		return rapid.SliceOfN(elementGen(depth), 0, 4).Draw(t, "elements")
	})
}

func drawBytes(t *rapid.T, n int) []byte {
	return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes")
}

func bigInt(t *rapid.T) *big.Int {
	v := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, rapid.SampledFrom([]int{9, 20, 255}).Draw(t, "size")).Draw(t, "magnitude"))
	if rapid.Bool().Draw(t, "negative") {
		v.Neg(v)
	}
	return v
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := tupleGen(3).Draw(t, "tuple")
		packed := in.Pack()
		out, err := tuple.Unpack(packed)
		if err != nil {
			t.Fatalf("Unpack(%x): %v", packed, err)
		}
		if tuple.Compare(in, out) != 0 {
			t.Fatalf("Unpack(%x) = %v, want %v", packed, out, in)
		}
		if again := out.Pack(); !bytes.Equal(again, packed) {
			t.Fatalf("packed %x, unpacked and packed %x", packed, again)
		}
	})
}

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := tupleGen(3).Draw(t, "a"), tupleGen(3).Draw(t, "b")
		if rapid.Bool().Draw(t, "common beginning") {
			b = append(append(tuple.Tuple{}, a...), b...)
		}
		want := bytes.Compare(a.Pack(), b.Pack())
		if got := tuple.Compare(a, b); got != want {
			t.Fatalf("Compare(%v, %v) = %d, bytes.Compare(%x, %x) = %d", a, b, got, a.Pack(), b.Pack(), want)
		}
	})
}

func TestConcatenation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := tupleGen(2).Draw(t, "a"), tupleGen(2).Draw(t, "b")
		got := append(a.Pack(), b.Pack()...)
		want := append(append(tuple.Tuple{}, a...), b...).Pack()
		if !bytes.Equal(got, want) {
			t.Fatalf("Pack(a)+Pack(b) = %x, Pack(a+b) = %x", got, want)
		}
	})
}

// TestIntegerTypes: the same value is the same bytes and compares equal, whatever
// Go type holds it.
func TestIntegerTypes(t *testing.T) {
	for _, same := range []tuple.Tuple{
		{0, int64(0), uint(0), uint64(0), new(big.Int)},
		{300, int64(300), uint(300), uint64(300), big.NewInt(300)},
		{-300, int64(-300), big.NewInt(-300)},
		{int64(math.MinInt64), big.NewInt(math.MinInt64)},
		{uint(math.MaxUint64), uint64(math.MaxUint64), new(big.Int).SetUint64(math.MaxUint64)},
	} {
		want := tuple.Tuple{same[0]}
		for _, el := range same[1:] {
			got := tuple.Tuple{el}
			if !bytes.Equal(got.Pack(), want.Pack()) || tuple.Compare(got, want) != 0 {
				t.Errorf("%T %v: packed %x, Compare %d; want %x, 0", el, el, got.Pack(), tuple.Compare(got, want), want.Pack())
			}
		}
	}
}

func TestFloatOrder(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	order := []float64{math.Copysign(nan, -1), -inf, -1, math.Copysign(0, -1), 0, 5e-324, 1, inf, nan}
	for i := 1; i < len(order); i++ {
		a, b := tuple.Tuple{order[i-1]}, tuple.Tuple{order[i]}
		if tuple.Compare(a, b) >= 0 || bytes.Compare(a.Pack(), b.Pack()) >= 0 {
			t.Errorf("%v does not sort before %v", a, b)
		}
	}
}

func TestUnsupported(t *testing.T) {
	cycle := tuple.Tuple{nil}
	cycle[0] = cycle
	tooBig := new(big.Int).Lsh(big.NewInt(1), 8*255)
	for _, c := range []struct {
		el  tuple.Element
		why string
	}{
		{int32(1), "int32"},
		{[]any{1}, "[]interface"},
		{struct{}{}, "struct"},
		{(*big.Int)(nil), "nil *big.Int"},
		{tooBig, "256 bytes"},
		{new(big.Int).Neg(tooBig), "256 bytes"},
		{"a\xff", "UTF-8"},
		{cycle, "nested deeper"},
		{nested(tuple.MaxDepth + 1), "nested deeper"},
		{tuple.Tuple{tuple.Tuple{'a'}}, "int32"},
		{tuple.User{Code: 0x41, Body: []byte{1}}, "0x41"},
		{tuple.User{Code: 0x3f}, "0x3f"},
		{tuple.User{Code: 0x40, Body: make([]byte, 19)}, "unknown version"},
		{tuple.User{Code: 0x40, Body: []byte{1}}, "1 bytes"},
	} {
		dst := []byte("dst")
		got, err := tuple.Append(dst, tuple.Tuple{1, c.el})
		if !errors.Is(err, tuple.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), c.why) {
			t.Errorf("%T: error %v, want ErrUnsupported with %q", c.el, err, c.why)
		}
		if string(got) != "dst" {
			t.Errorf("%T: Append returned %q, want dst as it was", c.el, got)
		}
	}
}

// nested returns a tuple in n tuples, counting itself.
func nested(n int) tuple.Tuple {
	t := tuple.Tuple{}
	for range n - 1 {
		t = tuple.Tuple{t}
	}
	return t
}

func TestPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"Pack":        func() { tuple.Tuple{int8(1)}.Pack() },
		"NewSubspace": func() { tuple.NewSubspace(tuple.Tuple{int8(1)}) },
		"Compare":     func() { tuple.Compare(tuple.Tuple{int8(1)}, tuple.Tuple{int8(1)}) },
	} {
		func() {
			defer func() {
				if r := recover(); !strings.HasPrefix(fmt.Sprint(r), "tuple: ") {
					t.Errorf("%s: panic %v, want one that begins with tuple:", name, r)
				}
			}()
			f()
		}()
	}
}

func TestDepth(t *testing.T) {
	in := tuple.Tuple{nested(tuple.MaxDepth)}
	out, err := tuple.Unpack(in.Pack())
	if err != nil || tuple.Compare(in, out) != 0 {
		t.Errorf("Unpack of the deepest tuple: %v", err)
	}
}

func TestAppendHelpers(t *testing.T) {
	uuid := tuple.UUID{0, 1, 15: 2}
	stamp := tuple.Versionstamp{Transaction: [10]byte{9: 1}, User: 7}
	id := tuple.NewID(uuid, 7)
	want := tuple.Tuple{[]byte{0}, "s", int64(-5), uint64(5), -2.5, true, false, uuid, stamp, id, tuple.Tuple{1}}.Pack()

	b := tuple.AppendBytes(nil, []byte{0})
	b = tuple.AppendString(b, "s")
	b = tuple.AppendInt(b, -5)
	b = tuple.AppendUint(b, 5)
	b = tuple.AppendFloat64(b, -2.5)
	b = tuple.AppendBool(tuple.AppendBool(b, true), false)
	b = tuple.AppendUUID(b, uuid)
	b = tuple.AppendVersionstamp(b, stamp)
	b = tuple.AppendID(b, uuid, 7)
	b = tuple.AppendNestedEnd(tuple.AppendInt(tuple.AppendNestedStart(b), 1))
	if !bytes.Equal(b, want) {
		t.Errorf("got %x, want %x", b, want)
	}
	if got := append(tuple.AppendEscaped([]byte{1}, []byte("a\x00b")), 0); !bytes.Equal(got, tuple.AppendBytes(nil, []byte("a\x00b"))) {
		t.Errorf("AppendEscaped made %x", got)
	}
}

func TestID(t *testing.T) {
	uuid := tuple.UUID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	packed := tuple.Tuple{tuple.NewID(uuid, 7)}.Pack()
	if want := unhex(t, "400100112233445566778899aabbccddeeff0007"); !bytes.Equal(packed, want) {
		t.Errorf("packed %x, want %x", packed, want)
	}
	out, err := tuple.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	gotUUID, label, ok := out[0].(tuple.User).ID()
	if gotUUID != uuid || label != 7 || !ok {
		t.Errorf("ID = %v, %d, %v, want %v, 7, true", gotUUID, label, ok, uuid)
	}
	if _, _, ok := (tuple.User{Code: 0x41}).ID(); ok {
		t.Error("user code 41 is an id")
	}
	if got, want := uuid.String(), "00112233-4455-6677-8899-aabbccddeeff"; got != want {
		t.Errorf("String = %s, want %s", got, want)
	}
}
