package cbor_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

type flatOne struct {
	_     struct{}
	Text  string
	Bytes []byte `cbor:"bytes,omitzero"`
	I     int
	I8    int8
	U     uint64 `cbor:"u,omitempty"`
	U8    uint8
	F     float64
	B     bool
	D     time.Duration
	skip  int
}

// A libraryOne has the same fields, and one because of which the library reads it.
type libraryOne struct {
	_     struct{}
	Text  string
	Bytes []byte `cbor:"bytes,omitzero"`
	I     int
	I8    int8
	U     uint64 `cbor:"u,omitempty"`
	U8    uint8
	F     float64
	B     bool
	D     time.Duration
	skip  int
	Never *int `cbor:"never,omitempty"`
}

// sameFlat holds that data is read alike into both.
func sameFlat(t *testing.T, data []byte) {
	t.Helper()
	a, b := flatOne{Text: "before", I: 7}, libraryOne{Text: "before", I: 7}
	errA, errB := cbor.Unmarshal(data, &a), cbor.Unmarshal(data, &b)
	if b.Never != nil {
		return
	}
	if (errA == nil) != (errB == nil) {
		t.Fatalf("%x: %v, and %v by the library", data, errA, errB)
	}
	same := a.Text == b.Text && string(a.Bytes) == string(b.Bytes) && (a.Bytes == nil) == (b.Bytes == nil) && a.I == b.I && a.I8 == b.I8 &&
		a.U == b.U && a.U8 == b.U8 && math.Float64bits(a.F) == math.Float64bits(b.F) && a.B == b.B && a.D == b.D && a.skip == b.skip
	if errA == nil && !same {
		t.Fatalf("%x is %+v, and %+v by the library", data, a, b)
	}
}

func flatExamples() (list [][]byte) {
	ints := []int64{0, 1, -1, 23, 24, -24, -25, 127, 128, -128, -129, 255, 256, 1<<32 - 1, 1 << 32, -1 << 32, -1<<32 - 1, 1<<53 - 1, 1 << 53, -1 << 53, math.MaxInt64, math.MinInt64}
	add := func(v any) {
		if b, err := cbor.Marshal(v); err == nil {
			list = append(list, b)
		}
	}
	for _, n := range ints {
		add(flatOne{Text: "ä", Bytes: []byte{}, I: int(n), I8: int8(n), U: uint64(n), U8: uint8(n), F: float64(n), B: n > 0, D: time.Duration(n)})
		for _, name := range []string{"I", "I8", "u", "U8", "F", "D", "Text", "bytes", "B", "i8", "BYTES", "unknown"} {
			add(cbor.Object{{Name: name, Value: n}})
			add(cbor.Object{{Name: name, Value: float64(n) + 0.5}})
			add(cbor.Object{{Name: name, Value: nil}, {Name: "I", Value: n}})
		}
	}
	for _, v := range []any{"x", []byte{1}, true, nil, cbor.Undefined{}, []any{1}, math.Copysign(0, -1)} {
		for _, name := range []string{"I", "u", "F", "Text", "bytes", "B"} {
			add(cbor.Object{{Name: name, Value: v}})
		}
		add(v)
	}
	list = append(list, []byte{0xa0}, []byte{0xa2, 0x61, 'I', 1, 0x61, 'I', 2}, []byte{0xbf, 0x61, 'I', 1, 0xff}, []byte{0xa1, 0x64, 'T', 'e', 'x', 't', 0x61, 0xff},
		[]byte{0xa1, 0x64, 'T', 'e', 'x', 't', 0x7f, 0x61, 'a', 0xff}, []byte{0xa1, 1, 2}, []byte{0xa1, 0x61, 'I', 0xc2, 0x41, 5})
	return list
}

// TestFlat: what is read without the library is read as by the library, also of damaged bytes.
func TestFlat(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, data := range flatExamples() {
		sameFlat(t, data)
		for range 50 {
			b := append([]byte{}, data...)
			for range 1 + rnd.IntN(2) {
				b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
			}
			sameFlat(t, b)
		}
	}
}

// FuzzFlat looks for bytes that are read in another way than by the library.
func FuzzFlat(f *testing.F) {
	for _, data := range flatExamples() {
		f.Add(data)
	}
	f.Fuzz(sameFlat)
}
