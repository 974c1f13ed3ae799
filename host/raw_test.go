package host

import (
	"bytes"
	"testing"
)

// TestRawWithin: a value within another stays the same, byte for byte: a JavaScript number that
// isn't a bigint doesn't become one.
func TestRawWithin(t *testing.T) {
	type message struct {
		Args Raw   `json:"args"`
		At   int64 `json:"at"`
	}
	for _, v := range []any{1.7e12, int64(1.7e12), []any{"a", -1.7e12}, map[string]any{"at": 1.7e12}} {
		want, err := Encode(v)
		must(t, err)
		b, err := Encode(message{want, 1.7e12})
		must(t, err)
		var got message
		must(t, b.Decode(&got))
		if !bytes.Equal(got.Args, want) || got.At != 1.7e12 {
			t.Errorf("%v is %x, and within another value %x, beside %d", v, want, got.Args, got.At)
		}
	}
}
