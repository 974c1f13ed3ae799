package element_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// unhex reads hexadecimal bytes with spaces. In it #4 is a length or count of 4.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "#", "000000000000000").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// golden has one form of each type, and values that the documented text shows.
var golden = []struct {
	name string
	give any
	hex  string
	want any // what is read, if it isn't what was given
}{
	{"null", nil, "00", nil},
	{"false", false, "01 00", nil},
	{"true", true, "01 01", nil},
	{"int64", int64(-2), "02 ff ff ff ff ff ff ff fe", nil},
	{"int64 least", int64(math.MinInt64), "02 8000000000000000", nil},
	{"int", 1, "02 #1", int64(1)},
	{"int8", int8(-1), "02 ffffffffffffffff", int64(-1)},
	{"int16", int16(258), "02 0000000000000102", int64(258)},
	{"int32", int32(1), "02 #1", int64(1)},
	{"uint64", uint64(math.MaxUint64), "03 ffffffffffffffff", nil},
	{"uint", uint(1), "03 #1", uint64(1)},
	{"uint8", uint8(255), "03 00000000000000ff", uint64(255)},
	{"uint16", uint16(2), "03 #2", uint64(2)},
	{"uint32", uint32(3), "03 #3", uint64(3)},
	{"double", 1.5, "04 3ff8000000000000", nil},
	{"double -0", math.Copysign(0, -1), "04 8000000000000000", nil},
	{"double inf", math.Inf(1), "04 7ff0000000000000", nil},
	{"float32", float32(0.5), "04 3fe0000000000000", 0.5},
	{"string", "a", "05 #1 61", nil},
	{"string empty", "", "05 #0", nil},
	{"string of characters", "é漢", "05 #5 c3a9 e6bca2", nil},
	{"string with a zero", "a\x00b", "05 #3 610062", nil},
	{"binary", []byte{0xff, 0}, "06 #2 ff00", nil},
	{"binary nil", []byte(nil), "06 #0", []byte{}},
	{"array", []any{"a"}, "07 #1 05 #1 61", nil},
	{"array of all", []any{nil, true, 1, []any{}}, "07 #4 00 01 01 02 #1 07 #0", []any{nil, true, int64(1), []any{}}},
	{"array nil", []any(nil), "07 #0", []any{}},
	{"strings", []string{"b", "a"}, "07 #2 05 #1 62 05 #1 61", []any{"b", "a"}},
	{"dictionary", map[string]any{"b": 1, "a": nil}, "08 #2 #1 61 00 #1 62 02 #1", map[string]any{"b": int64(1), "a": nil}},
	{"dictionary nil", map[string]any(nil), "08 #0", map[string]any{}},
	{"dictionary with an empty key", map[string]any{"": "x"}, "08 #1 #0 05 #1 78", nil},

	{"children:/users", []string{"john", "jane", "admin"}, "07 #3 05 #4 6a6f686e 05 #4 6a616e65 05 #5 61646d696e", []any{"john", "jane", "admin"}},
	{
		"props:/users/john", map[string]any{"name": "John Doe", "email": "john@example.com", "age": 30},
		"08 #3" +
			"#3 616765 02 000000000000001e" +
			"#5 656d61696c 05 0000000000000010 6a6f686e406578616d706c652e636f6d" +
			"#4 6e616d65 05 #8 4a6f686e20446f65",
		map[string]any{"name": "John Doe", "email": "john@example.com", "age": int64(30)},
	},
	{"idx:/i:doc:/docs/doc1", "The fox", "05 #7 54686520666f78", nil},
}

func TestGolden(t *testing.T) {
	for _, tt := range golden {
		want := unhex(t, tt.hex)
		got, err := element.Append([]byte("x"), tt.give)
		if err != nil || !bytes.Equal(got[1:], want) || got[0] != 'x' {
			t.Errorf("%s: written as %x and %v, want %x", tt.name, got, err, want)
		}
		value := tt.want
		if value == nil {
			value = tt.give
		}
		v, err := element.Decode(want)
		if err != nil || !reflect.DeepEqual(v, value) {
			t.Errorf("%s: read as %#v and %v, want %#v", tt.name, v, err, value)
		}
	}
}

// TestKeys: a key may have a tag, and one dictionary may hold both kinds.
func TestKeys(t *testing.T) {
	want := map[string]any{"a": true, "b": nil}
	for _, tt := range []struct{ name, hex string }{
		{"without tags", "08 #2 #1 61 01 01 #1 62 00"},
		{"with tags", "08 #2 05 #1 61 01 01 05 #1 62 00"},
		{"mixed", "08 #2 05 #1 61 01 01 #1 62 00"},
		{"in another order", "08 #2 #1 62 00 05 #1 61 01 01"},
	} {
		if got, err := element.Decode(unhex(t, tt.hex)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v and %v, want %v", tt.name, got, err, want)
		}
	}
	// A key of five bytes doesn't look like one with a tag, and an empty one has a form of each kind.
	want = map[string]any{"12345": map[string]any{"": nil}}
	for _, s := range []string{"08 #1 #5 3132333435 08 #1 #0 00", "08 #1 05 #5 3132333435 08 #1 05 #0 00"} {
		if got, err := element.Decode(unhex(t, s)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v and %v, want %v", s, got, err, want)
		}
	}
}

// TestPair: a pair is two elements, or an array of two. The values are those of the documented text.
func TestPair(t *testing.T) {
	two := []any{nil, true}
	for _, tt := range []struct {
		name string
		a, b any
		hex  string
	}{
		{"entity:/users/john", int64(1), "User", "02 #1 05 #4 55736572"},
		{"entity:/categories/active", int64(4), nil, "02 #4 00"},
		{"config:/categories/active-users", "User", "status == 'active'", "05 #4 55736572 05 0000000000000012 737461747573203d3d202761637469766527"},
		{"catcfg:/catalogues/users-by-role", "User", "role", "05 #4 55736572 05 #4 726f6c65"},
		{"an array of two before another", two, "x", "07 #2 00 01 01 05 #1 78"},
		{"an array of two behind another", "x", two, "05 #1 78 07 #2 00 01 01"},
	} {
		want := unhex(t, tt.hex)
		got, err := element.AppendPair([]byte("x"), tt.a, tt.b)
		if err != nil || !bytes.Equal(got[1:], want) {
			t.Errorf("%s: written as %x and %v, want %x", tt.name, got, err, want)
		}
		for _, b := range [][]byte{want, append(element.AppendArrayHeader(nil, 2), want...)} {
			first, second, err := element.DecodePair(b)
			if err != nil || !reflect.DeepEqual([]any{first, second}, []any{tt.a, tt.b}) {
				t.Errorf("%s: %x is read as %v, %v and %v", tt.name, b, first, second, err)
			}
		}
	}
	for _, s := range []string{"", "00", "07 #0", "07 #1 00", "07 #3 00 00 00", "07 #2 00", "00 00 00", "07 #2 00 00 00 00", "00 09", "08 #0"} {
		if a, b, err := element.DecodePair(unhex(t, s)); !errors.Is(err, errkind.ErrCorrupt) || a != nil || b != nil {
			t.Errorf("%q is read as %v, %v and %v, want ErrCorrupt", s, a, b, err)
		}
	}
}

func TestStrings(t *testing.T) {
	stream := element.AppendArrayHeader(nil, 3)
	for _, s := range []string{"b", "", "é"} {
		stream = element.AppendString(stream, s)
	}
	list, err := element.Append(nil, []string{"b", "", "é"})
	if err != nil || !bytes.Equal(stream, list) {
		t.Errorf("a stream is %x, a list %x and %v", stream, list, err)
	}
	got, err := element.Strings(list)
	clear(list) // what was read keeps its own bytes
	if want := []string{"b", "", "é"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q and %v, want %q", got, err, want)
	}
	if got, err := element.Strings(unhex(t, "07 #0")); err != nil || got == nil || len(got) != 0 {
		t.Errorf("an empty array: got %#v and %v", got, err)
	}
	for i := range stream {
		if got, err := element.Strings(stream[:i]); !errors.Is(err, element.ErrCorrupt) || got != nil {
			t.Errorf("%d of %d bytes: got %q and %v, want ErrCorrupt", i, len(stream), got, err)
		}
	}
	for _, tt := range []struct {
		hex    string
		offset int
		what   string
	}{
		{"05 #1 61", 0, "the tag 05, not 07"},
		{"07 #2 05 #1 61 02 #1", 19, "the tag 02, not 05"},
		{"07 #1 05 #1 ff", 18, "not UTF-8"},
		{"07 #1 05 #1 61 00", 19, "1 bytes are left over"},
		{"07 #2 05 #0 00", 1, "a length or count of 2, before 10 bytes"},
		{"07 ffffffffffffffff", 1, "a length or count of -1"},
	} {
		got, err := element.Strings(unhex(t, tt.hex))
		checkError(t, tt.hex, got, err, tt.offset, tt.what)
		if got != nil {
			t.Errorf("%s: got %q", tt.hex, got)
		}
	}
}

// checkError wants an *Error of the kind corrupt, with its offset and a part of its text.
func checkError(t *testing.T, name string, got any, err error, offset int, what string) {
	t.Helper()
	var e *element.Error
	if !errors.As(err, &e) || !errors.Is(err, element.ErrCorrupt) || !errors.Is(err, errkind.ErrCorrupt) {
		t.Errorf("%s: got %v and %v, want an *Error", name, got, err)
		return
	}
	if e.Offset != offset || !strings.Contains(e.What, what) || !strings.HasPrefix(e.Error(), "element: corrupt at byte ") {
		t.Errorf("%s: got %v, want %q at byte %d", name, e, what, offset)
	}
}

func TestCorrupt(t *testing.T) {
	for _, tt := range []struct {
		hex    string
		offset int
		what   string
	}{
		{"", 0, "1 bytes are wanted, 0 are left"},
		{"09", 0, "the unknown tag 09"},
		{"ff", 0, "the unknown tag ff"},
		{"00 00", 1, "1 bytes are left over"},
		{"01", 1, "1 bytes are wanted"},
		{"01 02", 1, "a bool of 2"},
		{"01 ff", 1, "a bool of 255"},
		{"02 00", 1, "8 bytes are wanted, 1 are left"},
		{"03 00000000000000", 1, "8 bytes are wanted, 7 are left"},
		{"04", 1, "8 bytes are wanted"},
		{"05 #2 61", 1, "a length or count of 2, before 1 bytes"},
		{"05 ffffffffffffffff 61", 1, "a length or count of -1, before 1 bytes"},
		{"05 8000000000000000", 1, "a length or count of -9223372036854775808"},
		{"05 7fffffffffffffff 61", 1, "a length or count of 9223372036854775807"},
		{"05 #1 ff", 9, "not UTF-8"},
		{"05 #3 eda080", 9, "not UTF-8"},
		{"06 #1", 1, "a length or count of 1, before 0 bytes"},
		{"06 ffffffffffffffff", 1, "a length or count of -1"},
		{"07 #2 00", 1, "a length or count of 2, before 1 bytes"},
		{"07 ffffffffffffffff 00", 1, "a length or count of -1"},
		{"07 7fffffffffffffff 00", 1, "a length or count of 9223372036854775807"},
		{"07 #1 09", 9, "the unknown tag 09"},
		{"07 #1 00 00", 10, "1 bytes are left over"},
		{"08 #1 #0", 1, "a length or count of 1, before 8 bytes"},
		{"08 7fffffffffffffff #0 00", 1, "a length or count of 9223372036854775807"},
		{"08 #1 #1 61 00 00", 19, "1 bytes are left over"},
		{"08 #1 #3 61 00", 9, "a length or count of 3, before 2 bytes"},
		{"08 #1 #1 ff 00", 17, "not UTF-8"},
		{"08 #1 02 #1 00", 9, "a length or count of 144115188075855872"},
		{"08 #2 #1 61 00 #1 61 00", 27, `the key "a" a second time`},
		{"08 #2 #1 61 00 05 #1 61 00", 28, `the key "a" a second time`},
	} {
		got, err := element.Decode(unhex(t, tt.hex))
		checkError(t, tt.hex, got, err, tt.offset, tt.what)
		if got != nil {
			t.Errorf("%s: got %v with an error", tt.hex, got)
		}
	}
}

// rich is a value with everything in it.
var rich = map[string]any{
	"null": nil, "bools": []any{true, false}, "int": int64(-7), "uint": uint64(7), "double": 2.5, "text": "héllo",
	"bytes": []byte{0, 0xff}, "deep": []any{map[string]any{"": []any{[]any{}, map[string]any{}, "x"}}},
}

// TestTruncated: no beginning of a value is a value.
func TestTruncated(t *testing.T) {
	b, err := element.Append(nil, rich)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if v, err := element.Decode(b[:i:i]); !errors.Is(err, element.ErrCorrupt) || v != nil {
			t.Errorf("%d of %d bytes: got %v and %v, want ErrCorrupt", i, len(b), v, err)
		}
	}
	if v, err := element.Decode(b); err != nil || !reflect.DeepEqual(v, rich) {
		t.Errorf("got %v and %v, want %v", v, err, rich)
	}
}

// TestOwned: what was read stays as it is when its bytes change.
func TestOwned(t *testing.T) {
	b, err := element.Append(nil, rich)
	if err != nil {
		t.Fatal(err)
	}
	v, err := element.Decode(b)
	clear(b)
	if err != nil || !reflect.DeepEqual(v, rich) {
		t.Errorf("got %v and %v, want %v", v, err, rich)
	}
}

func TestErrValue(t *testing.T) {
	type text string
	loop := []any{nil, nil}
	loop[0], loop[1] = loop, loop
	for _, v := range []any{
		"\xff", []string{"a", "\xff"}, map[string]any{"\xff": 1}, map[string]any{"a": "\xed\xa0\x80"}, []any{1, struct{}{}},
		text("a"), time.Second, map[string]string{}, []int{1}, new(int), complex(1, 2), errors.New("x"), loop, (*int)(nil),
	} {
		dst := []byte("as it was")
		got, err := element.Append(dst[:2], v)
		if !errors.Is(err, element.ErrValue) || errors.Is(err, errkind.ErrCorrupt) || string(got) != "as" {
			t.Errorf("%T: got %q and %v, want ErrValue", v, got, err)
		}
		if got, err := element.AppendPair(dst[:2], nil, v); !errors.Is(err, element.ErrValue) || string(got) != "as" {
			t.Errorf("a pair with %T: got %q and %v, want ErrValue", v, got, err)
		}
	}
}

// TestDepth: a value may stand inside 64 others, in what is written as in what is read.
func TestDepth(t *testing.T) {
	var list, dictionary any = "x", "x"
	array, keyed := unhex(t, "05 #1 78"), unhex(t, "05 #1 78")
	for depth := 1; depth <= element.MaxDepth+1; depth++ {
		list, dictionary = []any{list}, map[string]any{"": dictionary}
		array, keyed = append(unhex(t, "07 #1"), array...), append(unhex(t, "08 #1 #0"), keyed...)
		for _, tt := range []struct {
			v any
			b []byte
		}{{list, array}, {dictionary, keyed}} {
			b, err := element.Append(nil, tt.v)
			v, decodeErr := element.Decode(tt.b)
			if depth > element.MaxDepth {
				if !errors.Is(err, element.ErrValue) || !errors.Is(decodeErr, element.ErrCorrupt) {
					t.Errorf("depth %d: got %v and %v, want errors", depth, err, decodeErr)
				}
				continue
			}
			if err != nil || decodeErr != nil || !bytes.Equal(b, tt.b) || !reflect.DeepEqual(v, tt.v) {
				t.Errorf("depth %d: got %v and %v", depth, err, decodeErr)
			}
		}
	}
}

// TestClaims: arrays that claim to fill what follows, one in the other, take no memory for that.
func TestClaims(t *testing.T) {
	b := make([]byte, 1<<20)
	for i := range element.MaxDepth {
		b[9*i] = 7
		binary.BigEndian.PutUint64(b[9*i+1:], uint64(len(b)-9*i-9))
	}
	b[9*element.MaxDepth] = 0xff
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := element.Decode(b)
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<10); got > most || !errors.Is(err, element.ErrCorrupt) {
		t.Errorf("%d bytes of memory, want at most %d; the error is %v", got, most, err)
	}
}
