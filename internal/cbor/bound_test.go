package cbor

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"
)

// bignum returns a bignum of size bytes in pieces of at most piece, of tag 2 or 3.
func bignum(tag uint64, size, piece int) []byte {
	b := AppendHead(nil, majorTag, tag)
	if piece >= size {
		return append(AppendHead(b, majorBytes, uint64(size)), bytes.Repeat([]byte{0xff}, size)...)
	}
	b = append(b, majorBytes|infoIndefinite)
	for ; size > 0; size -= piece {
		piece = min(piece, size)
		b = append(AppendHead(b, majorBytes, uint64(piece)), bytes.Repeat([]byte{0xff}, piece)...)
	}
	return append(b, headBreak)
}

// wrapped returns b in everything that can hold a value, each as a value of its own.
func wrapped(b []byte) map[string][]byte {
	tagged := func(tag uint64, rest ...byte) []byte { return append(AppendHead(nil, majorTag, tag), rest...) }
	return map[string][]byte{
		"itself":               b,
		"in an array":          append([]byte{0x82, 0x01}, b...),
		"in an endless array":  append(append([]byte{0x9f}, b...), headBreak),
		"in an object":         append([]byte{headObject, 0, 1, 0x61, 'a'}, b...),
		"a key":                append(append([]byte{0xa1}, b...), 0),
		"after text":           append(append([]byte{0x82, 0x79, 0x08, 0}, strings.Repeat("\xc2\xa7", 1024)...), b...),
		"under a tag":          append(tagged(55799), b...),
		"in a Set":             append(tagged(tagSet, 0x81), b...),
		"a decimal fraction's": append(tagged(4, 0x82, 0x21), b...),
		"a bigfloat's":         append(tagged(5, 0x82, 0x21), b...),
		"under a bignum's tag": append(tagged(tagBig), b...),
		"with a long head":     append([]byte{0xdb, 0, 0, 0, 0, 0, 0, 0, b[0] & 31}, b[1:]...),
	}
}

// TestBigint holds the bound on every way into a decode: up to it bigints are read and
// written, one byte more is malformed, wherever it stands and whatever is wanted.
func TestBigint(t *testing.T) {
	for _, tag := range []uint64{tagBig, tagNegBig} {
		for _, piece := range []int{1, 100, maxBigint, maxBigint + 1} {
			for name, b := range wrapped(bignum(tag, maxBigint, piece)) {
				if err := Wellformed(b); err != nil {
					t.Errorf("%s, tag %d, pieces of %d: %v", name, tag, piece, err)
				}
			}
			for name, b := range wrapped(bignum(tag, maxBigint+1, piece)) {
				_, err := Decode(b)
				refused(t, name+": Decode", err)
				var n int
				var f float64
				var x big.Int
				var v any
				var m map[any]any
				var o Object
				for _, to := range []any{&n, &f, &x, &v, &m, &o, &struct{ A uint64 }{}, &[]int8{}} {
					refused(t, name+": Unmarshal", Unmarshal(b, to))
					refused(t, name+": UnmarshalExact", UnmarshalExact(b, to))
				}
			}
		}
	}

	largest := new(big.Int).Lsh(big.NewInt(1), 8*maxBigint) // one more than the largest
	for _, n := range []*big.Int{new(big.Int).Sub(largest, big.NewInt(1)), new(big.Int).Neg(largest)} {
		b := marshal(t, Object{{"n", n}})
		var got struct{ N *big.Int }
		if err := Unmarshal(b, &got); err != nil || got.N.Cmp(n) != 0 {
			t.Errorf("a bigint of %d bits comes back as another, %v", n.BitLen(), err)
		}
		if v, err := Decode(b); err != nil || v.(Object).Get("n").(*big.Int).Cmp(n) != 0 {
			t.Errorf("Decode of a bigint of %d bits: %v", n.BitLen(), err)
		}
	}
	var bad *ValueError
	if _, err := Marshal(Object{{"a", []any{largest}}}); !errors.As(err, &bad) || bad.Path != "a[0]" {
		t.Errorf("Marshal of a bigint that can't be read: %v, want a ValueError at a[0]", err)
	}
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, errMalformed) || !strings.Contains(err.Error(), "bigint") {
		t.Errorf("%s: %v, want ErrMalformed for a bigint", what, err)
	}
}

// mostText is more than any error of this package needs.
const mostText = 2 * maxText

// TestErrorTexts holds that errors don't grow with the input.
func TestErrorTexts(t *testing.T) {
	text := strings.Repeat("long\x00\xff", 1<<18)
	long := strings.ToValidUTF8(text, "é")
	item := append(AppendHead(nil, majorText, uint64(len(long))), long...)
	twice := append([]byte{0xa2}, item...)
	twice = append(append(append(twice, 1), item...), 2)
	var n int8
	var v any
	var at time.Time
	_, date := Decode(append([]byte{0xc1}, item...))
	_, path := Marshal(Object{{long, Object{{long, json.Number("1")}, {"nan", bignumOf(maxBigint + 1)}}}})
	for what, err := range map[string]error{
		"a bigint for an int8":  Unmarshal(bignum(tagBig, maxBigint, maxBigint), &n),
		"a text for an int8":    Unmarshal(item, &n),
		"a text for a time":     Unmarshal(append([]byte{0xc0}, item...), &at),
		"a member twice":        Unmarshal(twice, &v),
		"exact, a member twice": UnmarshalExact(twice, &v),
		"a text for a date":     date,
		"the path of a member":  path,
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		} else if s := err.Error(); len(s) > mostText || strings.Contains(s, "cbor: cbor:") {
			t.Errorf("%s: an error of %d bytes: %.100s", what, len(s), s)
		}
	}
}

// bignumOf returns a number of that many bytes.
func bignumOf(size int) *big.Int { return new(big.Int).SetBytes(bytes.Repeat([]byte{1}, size)) }
