package traces

import (
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
