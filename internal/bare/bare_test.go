package bare_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// TestBytes holds one form of each type, from the examples of the specification
// or by hand.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"uint 0", bare.AppendUint(nil, 0), "00"},
		{"uint 1", bare.AppendUint(nil, 1), "01"},
		{"uint 126", bare.AppendUint(nil, 126), "7e"},
		{"uint 127", bare.AppendUint(nil, 127), "7f"},
		{"uint 128", bare.AppendUint(nil, 128), "8001"},
		{"uint 129", bare.AppendUint(nil, 129), "8101"},
		{"uint 255", bare.AppendUint(nil, 255), "ff01"},
		{"uint max", bare.AppendUint(nil, math.MaxUint64), "ffffffffffffffffff01"},
		{"u8", bare.AppendU8(nil, 0xfe), "fe"},
		{"u16", bare.AppendU16(nil, 0x0102), "0201"},
		{"u32", bare.AppendU32(nil, 0x01020304), "04030201"},
		{"u64", bare.AppendU64(nil, 0x0102030405060708), "0807060504030201"},
		{"i64", bare.AppendI64(nil, -12345678987654321), "4f0b6e9dab23d4ff"},
		{"false", bare.AppendBool(nil, false), "00"},
		{"true", bare.AppendBool(nil, true), "01"},
		{"str", bare.AppendString(nil, "BAREé"), "0642415245c3a9"},
		{"data", bare.AppendData(nil, []byte{0xaa, 0xee}), "02aaee"},
		{"data[2]", bare.AppendFixed(nil, []byte{0xaa, 0xee}), "aaee"},
		{"version", bare.AppendVersion(nil, 4), "0400"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// read reads a value of one type, as text.
var read = map[string]func(*bare.Reader) string{
	"uint":    func(r *bare.Reader) string { return fmt.Sprint(r.Uint()) },
	"u8":      func(r *bare.Reader) string { return fmt.Sprint(r.U8()) },
	"u16":     func(r *bare.Reader) string { return fmt.Sprint(r.U16()) },
	"u32":     func(r *bare.Reader) string { return fmt.Sprint(r.U32()) },
	"u64":     func(r *bare.Reader) string { return fmt.Sprint(r.U64()) },
	"i64":     func(r *bare.Reader) string { return fmt.Sprint(r.I64()) },
	"bool":    func(r *bare.Reader) string { return fmt.Sprint(r.Bool()) },
	"tag of3": func(r *bare.Reader) string { return fmt.Sprint(r.Tag(3)) },
	"len<=5":  func(r *bare.Reader) string { return fmt.Sprint(r.Len(5)) },
	"data":    func(r *bare.Reader) string { return fmt.Sprintf("%x", r.Data()) },
	"copy":    func(r *bare.Reader) string { return fmt.Sprintf("%x", r.DataCopy()) },
	"str":     func(r *bare.Reader) string { return r.String() },
	"data[3]": func(r *bare.Reader) string { return fmt.Sprintf("%x", r.Fixed(3)) },
}

func TestReader(t *testing.T) {
	for _, c := range []struct{ typ, hex, want string }{
		{"uint", "00", "0"},
		{"uint", "7f", "127"},
		{"uint", "8001", "128"},
		{"uint", "ffffffffffffffffff01", "18446744073709551615"},
		{"u8", "ff", "255"},
		{"u16", "0201", "258"},
		{"u32", "04030201", "16909060"},
		{"u64", "ffffffffffffffff", "18446744073709551615"},
		{"i64", "0000000000000080", "-9223372036854775808"},
		{"bool", "00", "false"},
		{"bool", "01", "true"},
		{"tag of3", "02", "2"},
		{"data", "02aaee", "aaee"},
		{"data", "00", ""},
		{"copy", "02aaee", "aaee"},
		{"str", "0642415245c3a9", "BAREé"},
		{"data[3]", "010203", "010203"},
	} {
		r := bare.NewReader(unhex(t, c.hex))
		got := read[c.typ](r)
		if err := r.Done(); err != nil || got != c.want {
			t.Errorf("%s %s: got %s, %v, want %s", c.typ, c.hex, got, err, c.want)
		}
	}
}

func TestCorrupt(t *testing.T) {
	for _, c := range []struct{ typ, hex, why string }{
		{"uint", "", "without an end"},
		{"uint", "80", "without an end"},
		{"uint", "ffffffffffffffffff", "without an end"},
		{"uint", "8000", "shortest form"},
		{"uint", "ff8000", "shortest form"},
		{"uint", "80808080808080808000", "shortest form"},
		{"uint", "ffffffffffffffffff02", "64 bits"},
		{"uint", "ffffffffffffffffffff01", "64 bits"},
		{"uint", "0100", "1 bytes remain"},
		{"u8", "", "1 bytes wanted, 0 left"},
		{"u16", "01", "2 bytes wanted, 1 left"},
		{"u32", "010203", "4 bytes wanted"},
		{"u64", "01020304050607", "8 bytes wanted"},
		{"i64", "01020304050607", "8 bytes wanted"},
		{"bool", "", "1 bytes wanted"},
		{"bool", "02", "bool is 2"},
		{"bool", "ff", "bool is 255"},
		{"tag of3", "03", "invalid tag 3 of 3"},
		{"tag of3", "82", "invalid tag 130"},
		{"len<=5", "06010203040506", "count 6, limit 5"},
		{"len<=5", "050102", "2 bytes left"},
		{"len<=5", "ffffffffffffffffff01", "count 18446744073709551615"},
		{"data", "0301", "length 3, 1 bytes left"},
		{"data", "ffffffffffffffffff01", "length 18446744073709551615, 0 bytes left"},
		{"copy", "ffffffff0f", "length 4294967295, 0 bytes left"},
		{"str", "01ff", "not valid UTF-8"},
		{"str", "03eda080", "not valid UTF-8"},
		{"str", "0261", "length 2, 1 bytes left"},
		{"data[3]", "0102", "3 bytes wanted, 2 left"},
		{"data[3]", "01020304", "1 bytes remain"},
	} {
		r := bare.NewReader(unhex(t, c.hex))
		read[c.typ](r)
		err := r.Done()
		if !errors.Is(err, bare.ErrMalformed) || !strings.Contains(fmt.Sprint(err), c.why) {
			t.Errorf("%s %s: error %v, want ErrMalformed with %q", c.typ, c.hex, err, c.why)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, b := range [][]byte{nil, {1}} {
		if _, _, err := bare.Version(b); !errors.Is(err, bare.ErrMalformed) {
			t.Errorf("Version(%x): error %v, want ErrMalformed", b, err)
		}
	}
	v, rest, err := bare.Version([]byte{0x34, 0x12, 7})
	if v != 0x1234 || string(rest) != "\x07" || err != nil {
		t.Errorf("Version = %#x, %x, %v, want 0x1234, 07", v, rest, err)
	}
}

// TestErrorSticks: what is read after an error is zero, and the first error stays.
func TestErrorSticks(t *testing.T) {
	r := bare.NewReader([]byte{2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
	r.Bool()
	first := r.Err()
	if first == nil {
		t.Fatal("no error for a bool that is 2")
	}
	for typ, f := range read {
		want := map[string]string{"bool": "false", "data": "", "copy": "", "str": "", "data[3]": ""}
		w, ok := want[typ]
		if !ok {
			w = "0"
		}
		if got := f(r); got != w {
			t.Errorf("%s after an error: got %s, want %s", typ, got, w)
		}
	}
	r.Fail("another")
	if rest := r.Rest(); rest != nil {
		t.Errorf("Rest after an error = %x, want nil", rest)
	}
	if err := r.Done(); err != first {
		t.Errorf("error %v, want the first one, %v", err, first)
	}
}

func TestRestAndFail(t *testing.T) {
	r := bare.NewReader([]byte{1, 2, 3})
	r.U8()
	if got := r.Rest(); string(got) != "\x02\x03" {
		t.Errorf("Rest = %x, want 0203", got)
	}
	r.Fail("key %q occurs twice", "a")
	want := `bare: malformed at byte 1: key "a" occurs twice`
	if err := r.Err(); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestMaxSize(t *testing.T) {
	b := make([]byte, bare.MaxSize+1)
	if err := bare.NewReader(b[:bare.MaxSize]).Err(); err != nil {
		t.Errorf("MaxSize bytes: %v", err)
	}
	r := bare.NewReader(b)
	if got := r.U8(); got != 0 || !errors.Is(r.Err(), bare.ErrMalformed) {
		t.Errorf("one byte more: read %d, error %v, want ErrMalformed", got, r.Err())
	}
}

// TestAliases: Data is a part of the message that can't grow into it, DataCopy
// has memory of its own.
func TestAliases(t *testing.T) {
	b := []byte{1, 'a', 1, 'b', 'c'}
	r := bare.NewReader(b)
	data, own := r.Data(), r.DataCopy()
	_ = append(data, 'X')
	if b[2] != 1 {
		t.Error("appending to Data overwrote the message")
	}
	b[1], b[3] = 'A', 'B'
	if string(data) != "A" || string(own) != "b" {
		t.Errorf("Data, DataCopy = %s, %s, want A (aliased), b (copied)", data, own)
	}
}

func TestNoAllocations(t *testing.T) {
	dst := make([]byte, 0, 64)
	var sum uint64
	allocs := testing.AllocsPerRun(100, func() {
		dst = bare.AppendVersion(dst[:0], 1)
		dst = bare.AppendUint(dst, 300)
		dst = bare.AppendString(dst, "name")
		dst = bare.AppendU64(dst, 7)
		_, body, err := bare.Version(dst)
		if err != nil {
			t.Fatal(err)
		}
		r := bare.NewReader(body)
		sum += r.Uint()
		sum += uint64(len(r.Data()))
		sum += r.U64()
		if err := r.Done(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations per message, want 0", allocs)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLengthPosition: of a length or a count that is too large the error says where it is.
func TestLengthPosition(t *testing.T) {
	for what, read := range map[string]func(*bare.Reader){
		"data":  func(r *bare.Reader) { r.Data() },
		"count": func(r *bare.Reader) { r.Len(10) },
	} {
		r := bare.NewReader([]byte{7, 9, 1})
		r.U8()
		if read(r); r.Err() == nil || !strings.Contains(r.Err().Error(), "at byte 1:") {
			t.Errorf("%s: got %v", what, r.Err())
		}
	}
}
