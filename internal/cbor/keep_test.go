package cbor

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// kept is bytes that are kept for others.
type kept []byte

func (k *kept) UnmarshalCBOR(b []byte) error {
	*k = Keep(b)
	return nil
}

func (k kept) MarshalCBOR() ([]byte, error) { return k, nil }

// TestKeep holds that values which are kept as bytes are what they were: numbers stay
// numbers, and bigints stay bigints.
func TestKeep(t *testing.T) {
	for _, n := range []int64{0, 1, 1 << 32, 1<<32 - 1, 1 << 40, 1<<53 - 1, 1 << 53, math.MaxInt64} {
		for _, n := range []int64{n, -n, -n - 1} {
			for _, in := range []any{n, float64(n), Object{{"n", n}, {"b", headNumber}}, []any{n, "grnm", n}} {
				want := marshal(t, in)
				var out struct {
					A kept
					B int64
					C any
				}
				whole := marshal(t, Object{{"A", kept(want)}, {"B", 1 << 40}, {"C", 1 << 40}})
				if err := Unmarshal(whole, &out); err != nil {
					t.Fatalf("%x: %v", whole, err)
				}
				if !bytes.Equal(out.A, want) {
					t.Errorf("%v is %x, and kept as %x", in, want, out.A)
				}
				if out.B != 1<<40 || out.C != int64(1<<40) {
					t.Errorf("beside it there are %d and %v", out.B, out.C)
				}
			}
		}
	}
	// A bigint that no number is too large for, at the end of a way as long as may be.
	deep := bytes.Repeat([]byte{0x81}, maxDepth-2)
	for _, end := range [][]byte{{0x1b, 0, 0, 1, 0, 0, 0, 0, 0}, marshal(t, 1<<40)} {
		var out []kept
		whole := append(bytes.Clone(deep), end...)
		if err := Unmarshal(whole, &out); err != nil || !bytes.Equal(out[0], whole[1:]) {
			t.Errorf("%x became %x, %v", whole, out, err)
		}
	}
	var set any // a tag without a type that wants it
	if err := Unmarshal(marshal(t, Set{1 << 40}), &set); err != nil || !reflect.DeepEqual(set, []any{int64(1 << 40)}) {
		t.Errorf("a Set became %#v, %v", set, err)
	}
	if got := Keep(headNumber); !bytes.Equal(got, headNumber) {
		t.Errorf("what isn't a value became %x", got)
	}
}

// TestKeptByOthers: bytes that an UnmarshalCBOR has kept as it got them are stored as what they were, however often.
func TestKeptByOthers(t *testing.T) {
	want := marshal(t, []any{1 << 40, Object{{"a", -1 << 40}}, 1.5})
	kept := cbor.RawMessage(bytes.Clone(want))
	for range 3 {
		b := marshal(t, kept)
		if !bytes.Equal(b, want) {
			t.Fatalf("%x became %x", want, b)
		}
		if err := Unmarshal(b, &kept); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzKeep: kept bytes stand for the same value.
func FuzzKeep(f *testing.F) {
	f.Add([]byte{0x82, 0xfb, 0x42, 0x70, 0, 0, 0, 0, 0, 0, 0x1b, 0, 0, 1, 0, 0, 0, 0, 0})
	f.Add([]byte{0xda, 0x67, 0x72, 0x6e, 0x6d, 0xfb, 0x42, 0x70, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		want, err := Decode(data)
		if err != nil || bytes.Contains(data, headNumber) { // the tag, which this package alone writes, is lost
			return
		}
		var k []kept
		if err := Unmarshal(append([]byte{0x81}, data...), &k); err != nil {
			return // one level too deep
		}
		got, err := Decode(k[0])
		if err != nil {
			t.Fatalf("%x became %x: %v", data, k[0], err)
		}
		a, err := Marshal(want)
		if err != nil {
			return // of those that JavaScript couldn't have written
		}
		if b := marshal(t, got); !bytes.Equal(a, b) {
			t.Errorf("%x became %x: %x, not %x", data, k[0], b, a)
		}
	})
}
