package traces

import (
	"bytes"
	"fmt"
	"math/big"
	"reflect"
	"testing"
	"time"
)

// TestAsGo gives values as what they are in Go, also those that wait to be encoded.
func TestAsGo(t *testing.T) {
	at, big := time.UnixMilli(1_700_000_000_123).UTC(), new(big.Int).Lsh(big.NewInt(1), 100)
	for _, c := range []struct {
		v    Value
		want any
	}{
		{Value{}, nil}, {BoolValue(true), true}, {IntValue(-3), int64(-3)}, {FloatValue(1.5), 1.5}, {StringValue("a"), "a"},
		{BytesValue([]byte{0, 255}), []byte{0, 255}}, {AnyValue(at), at}, {AnyValue(big), big}, {AnyValue(big.Int64()), int64(0)},
		{ArrayValue(IntValue(1)), []Value{IntValue(1)}}, {MapValue(Int("n", 1)), []Attr{Int("n", 1)}},
		{AnyValue(struct{ N int }{1}), []Attr{Int("N", 1)}}, {AnyValue(make(chan int)), nil},
	} {
		if got := c.v.Any(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: got %#v, want %#v", c.v, got, c.want)
		}
	}
}

// encoded is a value that is in CBOR already.
type encoded []byte

func (e encoded) MarshalCBOR() ([]byte, error) { return e, nil }

func (e *encoded) UnmarshalCBOR(b []byte) error {
	*e = bytes.Clone(b)
	return nil
}

// TestDeepAndForeign: what is stored is read back as what it is, and not as bytes, however deep it is, and whoever encodes it.
func TestDeepAndForeign(t *testing.T) {
	values := map[string]any{
		"endless": encoded{0x9f, 1, 0xff}, "deep": encoded(append(bytes.Repeat([]byte{0x81}, 100), 1)), "a number": encoded{1},
	}
	for depth := range maxDepth + 4 {
		for what, leaf := range map[string]any{"number": 1, "time": time.Unix(1, 0), "bigint": new(big.Int).Lsh(big.NewInt(1), 80)} {
			typed, list := reflect.ValueOf(leaf), leaf
			for range depth {
				typed = reflect.Append(reflect.MakeSlice(reflect.SliceOf(typed.Type()), 0, 1), typed)
				list = []any{list}
			}
			values[fmt.Sprintf("%s at %d", what, depth)], values[fmt.Sprintf("%s of any at %d", what, depth)] = typed.Interface(), list
		}
	}
	stored := 0
	for what, x := range values {
		v, e := AnyValue(x), valueEncoder{}
		if b, ok := e.append(nil, &v, 0); ok {
			stored++
			if got := decodeValue(b); got.typ == typeBytes {
				t.Errorf("%s is read as bytes", what)
			}
		}
	}
	if stored < maxDepth {
		t.Errorf("%d values are stored", stored)
	}
}
