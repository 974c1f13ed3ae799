package tuple_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/tuple"
)

// corrupt is what Unpack must refuse, in hexadecimal, and why.
var corrupt = []struct{ hex, why string }{
	{"01", "without an end"},
	{"0161", "without an end"},
	{"0100ff", "without an end"},
	{"0261", "without an end"},
	{"02ff00", "UTF-8"},
	{"02eda08000", "UTF-8"},
	{"05", "without an end"},
	{"0515", "cut short"},
	{"051501", "without an end"},
	{"0500ff", "without an end"},
	{"0500ff05", "without an end"},
	{strings.Repeat("05", tuple.MaxDepth+1) + strings.Repeat("00", tuple.MaxDepth+1), "nested too deep"},
	{strings.Repeat("05", 1<<16), "nested too deep"},
	{"15", "cut short"},
	{"1500", "shortest form"},
	{"1601", "cut short"},
	{"160001", "shortest form"},
	{"1c00ffffffffffffff", "shortest form"},
	{"1cffffffffffffff", "cut short"},
	{"13", "cut short"},
	{"13ff", "shortest form"},
	{"12fffe", "shortest form"},
	{"0cff00000000000000", "shortest form"},
	{"1d", "cut short"},
	{"1d00", "shortest form"},
	{"1d08ffffffffffffffff", "shortest form"},
	{"1d0901000000000000", "cut short"},
	{"1d0900ffffffffffffffff", "shortest form"},
	{"1dff01", "cut short"},
	{"0b", "cut short"},
	{"0bff", "shortest form"},
	{"0bf70000000000000000", "shortest form"},
	{"0bf6ffffffffffffffffff", "shortest form"},
	{"0b00fe", "cut short"},
	{"20bfc000", "cut short"},
	{"21bfc00000000000", "cut short"},
	{"3000", "cut short"},
	{"33000102030405060708090a", "cut short"},
	{"40", "cut short"},
	{"400100112233445566778899aabbccddeeff00", "cut short"},
	{"400000112233445566778899aabbccddeeff0007", "unknown version"},
	{"400200112233445566778899aabbccddeeff0007", "unknown version"},
	{"03", "unknown type code"},
	{"04", "unknown type code"},
	{"0a", "unknown type code"},
	{"1e", "unknown type code"},
	{"22", "unknown type code"},
	{"28", "unknown type code"},
	{"3200000000000000000000", "unknown type code"},
	{"4100", "unknown type code"},
	{"4f", "unknown type code"},
	{"ff", "unknown type code"},
	{"00ff", "unknown type code"}, // the null of nested tuples, outside of one
	{"1501ff", "unknown type code"},
}

func TestCorrupt(t *testing.T) {
	for _, c := range corrupt {
		got, err := tuple.Unpack(unhex(t, c.hex))
		if !errors.Is(err, tuple.ErrMalformed) || !strings.Contains(fmt.Sprint(err), c.why) {
			t.Errorf("%.80s: %v, error %v, want ErrMalformed with %q", c.hex, got, err, c.why)
		}
	}
}

func TestUnpackEmpty(t *testing.T) {
	got, err := tuple.Unpack(nil)
	if got == nil || len(got) != 0 || err != nil {
		t.Errorf("Unpack(nil) = %#v, %v, want an empty tuple", got, err)
	}
	if _, _, err := tuple.Next(nil); !errors.Is(err, tuple.ErrMalformed) {
		t.Errorf("Next(nil): error %v, want ErrMalformed", err)
	}
}

// TestUnpackCopies: what Unpack returns doesn't change with its input.
func TestUnpackCopies(t *testing.T) {
	in := tuple.Tuple{[]byte("ab"), "cd", tuple.NewID(tuple.UUID{1}, 2), new(big.Int).Lsh(big.NewInt(-1), 100)}
	b := in.Pack()
	out, err := tuple.Unpack(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	if tuple.Compare(in, out) != 0 {
		t.Errorf("got %v after the input was cleared, want %v", out, in)
	}
}

func TestNext(t *testing.T) {
	b := tuple.Tuple{int64(1), "a"}.Pack()
	el, rest, err := tuple.Next(b)
	if el != int64(1) || err != nil {
		t.Fatalf("Next = %v, %v, want 1", el, err)
	}
	el, rest, err = tuple.Next(rest)
	if el != "a" || len(rest) != 0 || err != nil {
		t.Errorf("Next = %v, rest %x, %v, want a and no rest", el, rest, err)
	}
}

func TestNextBytes(t *testing.T) {
	b := append(tuple.AppendBytes(nil, []byte("a\x00b")), 0x14)
	got, rest, err := tuple.NextBytes([]byte("dst:"), b)
	if string(got) != "dst:a\x00b" || !bytes.Equal(rest, []byte{0x14}) || err != nil {
		t.Errorf("NextBytes = %q, %x, %v", got, rest, err)
	}
	for _, bad := range []string{"", "14", "026100", "0161"} {
		if _, _, err := tuple.NextBytes(nil, unhex(t, bad)); !errors.Is(err, tuple.ErrMalformed) {
			t.Errorf("NextBytes(%s): error %v, want ErrMalformed", bad, err)
		}
	}
}

func TestNextInt(t *testing.T) {
	for _, want := range []int64{0, 1, -1, 255, 256, -256, math.MaxInt64, math.MinInt64} {
		got, rest, err := tuple.NextInt(append(tuple.AppendInt(nil, want), 0xff))
		if got != want || !bytes.Equal(rest, []byte{0xff}) || err != nil {
			t.Errorf("NextInt = %d, %x, %v, want %d, ff", got, rest, err, want)
		}
	}
	for _, bad := range []string{"", "00", "26", "15", "1500", "1c8000000000000000", "0c7ffffffffffffffe",
		"1d09010000000000000000", "0bf6feffffffffffffffff"} {
		if _, _, err := tuple.NextInt(unhex(t, bad)); !errors.Is(err, tuple.ErrMalformed) {
			t.Errorf("NextInt(%s): error %v, want ErrMalformed", bad, err)
		}
	}
}

func TestNextString(t *testing.T) {
	b := append(tuple.AppendString(nil, "a\x00ü"), 0x14)
	got, rest, ok := tuple.NextString([]byte("dst:"), b)
	if string(got) != "dst:a\x00ü" || !bytes.Equal(rest, []byte{0x14}) || !ok {
		t.Errorf("NextString = %q, %x, %v", got, rest, ok)
	}
	for _, bad := range []string{"", "14", "016100", "0261", "02ff00"} {
		if got, _, ok := tuple.NextString(nil, unhex(t, bad)); ok {
			t.Errorf("NextString(%s) = %q", bad, got)
		}
	}
}

// TestSkip: Skip says of each element what Next says, but of strings that are not UTF-8.
func TestSkip(t *testing.T) {
	for _, el := range (tuple.Tuple{nil, "", "a\x00\x00b", []byte{0}, []byte{}, 0, -1, uint64(math.MaxUint64), new(big.Int).Lsh(big.NewInt(1), 70),
		1.5, float32(2), true, tuple.UUID{1}, tuple.Versionstamp{User: 1}, tuple.NewID(tuple.UUID{2}, 3), tuple.Tuple{nil, "x", tuple.Tuple{}}}) {
		rest, err := tuple.Skip(append(tuple.Tuple{el}.Pack(), 1, 2))
		if err != nil || !bytes.Equal(rest, []byte{1, 2}) {
			t.Errorf("Skip of %v: %x, %v", el, rest, err)
		}
	}
	for _, c := range corrupt {
		_, _, want := tuple.Next(unhex(t, c.hex))
		if _, err := tuple.Skip(unhex(t, c.hex)); c.why != "UTF-8" && fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("Skip(%.40s): error %v, want %v", c.hex, err, want)
		}
	}
	if _, err := tuple.Skip(nil); !errors.Is(err, tuple.ErrMalformed) {
		t.Errorf("Skip of nothing: error %v", err)
	}
}

// TestNoAllocations: what hot paths use allocates nothing when there is room.
func TestNoAllocations(t *testing.T) {
	dst, value := make([]byte, 0, 256), make([]byte, 0, 64)
	raw := []byte{0, 1} // a literal in the call may escape in instrumented builds
	tup := tuple.Tuple{"name", []byte{0, 1}, nil, tuple.Tuple{true, 1.5}, tuple.NewID(tuple.UUID{}, 1)}
	for _, c := range []struct {
		name string
		f    func() error
	}{
		{"helpers", func() error {
			dst = tuple.AppendString(tuple.AppendBytes(dst[:0], raw), "name")
			dst = tuple.AppendFloat64(tuple.AppendInt(tuple.AppendUint(dst, 1<<40), -1<<40), 1.5)
			dst = tuple.AppendID(tuple.AppendUUID(dst, tuple.UUID{}), tuple.UUID{}, 1)
			return nil
		}},
		{"Append", func() (err error) {
			dst, err = tuple.Append(dst[:0], tup)
			return err
		}},
		{"NextBytes and NextInt", func() (err error) {
			b := tuple.AppendInt(tuple.AppendBytes(dst[:0], raw), 1<<40)
			if value, b, err = tuple.NextBytes(value[:0], b); err == nil {
				_, _, err = tuple.NextInt(b)
			}
			return err
		}},
	} {
		var err error
		allocs := testing.AllocsPerRun(100, func() {
			if e := c.f(); e != nil {
				err = e
			}
		})
		if allocs != 0 || err != nil {
			t.Errorf("%s: %v allocations, error %v, want 0", c.name, allocs, err)
		}
	}
}
