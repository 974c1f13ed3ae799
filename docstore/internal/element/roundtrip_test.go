package element_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
)

// values are values of all types, as Decode returns them.
func values() *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Uint64().AsAny(), rapid.Float64().AsAny(),
		rapid.String().AsAny(), rapid.SliceOfN(rapid.Byte(), 0, 20).AsAny(),
	)
	all := scalar
	for range 4 {
		all = rapid.OneOf(scalar, rapid.SliceOfN(all, 0, 4).AsAny(), rapid.MapOfN(rapid.String(), all, 0, 4).AsAny())
	}
	return all
}

// TestRoundTrip: what is written is read again, alone, in a pair, and with the same bytes each time.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := values().Draw(t, "a"), values().Draw(t, "b")
		first, err := element.Append(nil, a)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := element.Append(nil, a); err != nil || !bytes.Equal(again, first) {
			t.Fatalf("written as %x and then as %x and %v", first, again, err)
		}
		if got, err := element.Decode(first); err != nil || !reflect.DeepEqual(got, a) {
			t.Fatalf("got %#v and %v, want %#v", got, err, a)
		}
		pair, err := element.AppendPair(nil, a, b)
		if err != nil {
			t.Fatal(err)
		}
		if x, y, err := element.DecodePair(pair); err != nil || !reflect.DeepEqual([]any{x, y}, []any{a, b}) {
			t.Fatalf("got %#v, %#v and %v, want %#v, %#v", x, y, err, a, b)
		}
	})
}

// FuzzDecode: no bytes make a panic, and what is read is written in a form that is read as the same.
func FuzzDecode(f *testing.F) {
	for _, tt := range golden {
		f.Add(unhex(f, tt.hex))
	}
	b, err := element.Append(nil, rich)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(unhex(f, "08 #2 05 #1 61 01 01 #1 62 00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := element.Decode(data)
		if err != nil {
			var e *element.Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(data) {
				t.Fatalf("%x: %#v", data, err)
			}
			return
		}
		written, err := element.Append(nil, v)
		if err != nil {
			t.Fatalf("%x: %v", data, err)
		}
		again, err := element.Decode(written)
		if err != nil {
			t.Fatalf("%x, written as %x: %v", data, written, err)
		}
		// Bytes tell NaNs from each other, and == doesn't.
		if twice, err := element.Append(nil, again); err != nil || !bytes.Equal(twice, written) {
			t.Fatalf("%x: written as %x, and then as %x and %v", data, written, twice, err)
		}
	})
}
