package traces

import (
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestAsGo gives values as what they are in Go.
func TestAsGo(t *testing.T) {
	at, huge := time.UnixMilli(1_700_000_000_123).UTC(), new(big.Int).Lsh(big.NewInt(1), 100)
	for _, c := range []struct {
		v    Value
		want any
	}{
		{Value{}, nil}, {BoolValue(true), true}, {IntValue(-3), int64(-3)}, {FloatValue(1.5), 1.5}, {StringValue("a"), "a"},
		{BytesValue([]byte{0, 255}), []byte{0, 255}}, {TimeValue(at), at}, {BigValue(huge), huge}, {BigValue(big.NewInt(5)), int64(5)},
		{ArrayValue(IntValue(1)), []Value{IntValue(1)}}, {MapValue(Int("n", 1)), []Attr{Int("n", 1)}},
	} {
		if got := c.v.Any(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: got %#v, want %#v", c.v, got, c.want)
		}
	}
}

// TestDeep: what is stored is read back as what it is, and not as bytes, however deep it is.
func TestDeep(t *testing.T) {
	for depth := range maxDepth + 4 {
		for what, v := range map[string]Value{
			"number": IntValue(1), "time": TimeValue(time.Unix(1, 0)), "bigint": BigValue(new(big.Int).Lsh(big.NewInt(1), 80)), "array": ArrayValue(),
		} {
			for range depth {
				v = ArrayValue(v)
			}
			b, ok := new(valueEncoder).append(nil, &v, 0)
			if last := depth <= maxDepth || depth == maxDepth+1 && what != "array"; ok != last {
				t.Errorf("%s at %d: stored is %v", what, depth, ok)
			}
			if got := decodeValue(b); ok && (got.typ != v.typ || got.String() != v.String()) {
				t.Errorf("%s at %d: read is %v", what, depth, got)
			}
		}
	}
}

// TestEncoderBound: values that hold one another in many places are given up when they are
// longer than a record.
func TestEncoderBound(t *testing.T) {
	v := StringValue(strings.Repeat("x", 1000))
	for range 30 {
		v = ArrayValue(v, MapValue(Attr{"k", v}))
	}
	r := newRig(t, quiet())
	r.Begin("s", &StartOptions{Attributes: []Attr{{"k", v}}}).End()
	want(t, "dropped", r.one(Query{}).DroppedAttributes, 1)
}
