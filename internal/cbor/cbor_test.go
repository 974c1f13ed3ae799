package cbor

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func bigInt(text string) *big.Int {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		panic(text)
	}
	return n
}

// values are the vectors' inputs in Go, by name.
var values = map[string]any{
	"null": nil, "undefined": Undefined{}, "true": true, "0": 0, "23": 23, "24": 24, "255": 255, "256": 256, "65536": 65536,
	"4294967295": uint32(math.MaxUint32), "4294967296": int64(1 << 32), "2^53-1": int64(1<<53 - 1), "-1": -1, "-24": -24, "-25": -25,
	"-4294967297": int64(-1<<32 - 1), "1.5": 1.5, "-0": math.Copysign(0, -1), "1700000000000": int64(1700000000000),
	"bigint 10": bigInt("10"), "bigint 2^64-1": bigInt("18446744073709551615"), "bigint 2^64": bigInt("18446744073709551616"),
	"bigint -2^64-1": bigInt("-18446744073709551617"), "str empty": "", "str a": "a", "str 24": strings.Repeat("x", 24),
	"str 256": strings.Repeat("x", 256), "emoji": "😀", "array": []int{1, 2, 3}, "array empty": []string(nil), "obj empty": map[string]int{},
	"obj {a:1}": struct {
		A int `json:"a"`
	}{1},
	"obj nested":               Object{{"a", Object{{"b", []any{nil, Undefined{}}}}}},
	"obj with undefined field": Object{{"a", Undefined{}}, {"b", 1}},
	"Uint8Array":               Uint8Array{1, 2, 3}, "Buffer": []byte{1, 2, 3}, "ArrayBuffer": []byte{1, 2, 3},
	"Date 2023-11-14T22:13:20Z": Date{time.UnixMilli(1700000000000)}, "Date .5ms": Date{time.UnixMilli(1700000000500)},
	"Map {a:1}": Map{{"a", 1}}, "Set {1}": Set{1},
	"Error": Tag{27, []any{"Error", "boom"}}, "RegExp": Tag{27, []any{"RegExp", "a", "g"}}, "Float32Array": Tag{85, []byte{0, 0, 0xc0, 0x3f}},
}

// TestGolden encodes what cbor-x encoded, and decodes and encodes its bytes again.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/cbor-x.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct{ Name, Hex string }
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) != len(values) {
		t.Errorf("%d vectors, %d values", len(vectors), len(values))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			in, ok := values[v.Name]
			if !ok {
				t.Fatal("no value")
			}
			if got := marshal(t, in); hex.EncodeToString(got) != v.Hex {
				t.Errorf("Marshal(%v) = %x, want %s", in, got, v.Hex)
			}
			want, err := hex.DecodeString(v.Hex)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := Decode(want)
			if err != nil {
				t.Fatal(err)
			}
			if got := marshal(t, decoded); !bytes.Equal(got, want) {
				t.Errorf("Marshal(Decode(%x) = %#v) = %x", want, decoded, got)
			}
		})
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := Marshal(v)
	if err != nil {
		t.Fatalf("Marshal(%#v): %v", v, err)
	}
	return b
}

// TestUnmarshal reads what JavaScript writes into the types of Go.
func TestUnmarshal(t *testing.T) {
	type order struct {
		ID    int64     `json:"id"`
		Price float64   `json:"price"`
		Tags  []string  `json:"tags"`
		At    time.Time `json:"at"`
		Blob  []byte    `json:"blob"`
		Note  *string   `json:"note"`
		Big   *big.Int  `json:"big"`
		Set   []int     `json:"set"`
		Map   map[string]int
	}
	in := Object{
		{"id", 1.7e12}, {"price", 5}, {"tags", []any{"a"}}, {"at", time.UnixMilli(1700000000500)},
		{"blob", Uint8Array{1, 2}}, {"note", Undefined{}}, {"big", big.NewInt(10)}, {"set", Set{3}}, {"Map", Map{{"x", 1}}},
	}
	var got order
	if err := Unmarshal(marshal(t, in), &got); err != nil {
		t.Fatal(err)
	}
	if !got.At.Equal(time.UnixMilli(1700000000500)) {
		t.Errorf("At = %v", got.At)
	}
	got.At = time.Time{}
	want := order{ID: 1700000000000, Price: 5, Tags: []string{"a"}, Blob: []byte{1, 2}, Big: big.NewInt(10), Set: []int{3}, Map: map[string]int{"x": 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var o Object
	if err := Unmarshal(marshal(t, in), &o); err != nil || o.Get("tags").([]any)[0] != "a" || o.Get("none") != nil {
		t.Errorf("object %v, %v", o, err)
	}
	if err := Unmarshal(marshal(t, 1), &o); err == nil {
		t.Error("a number became an object")
	}
	var u Undefined
	if err := Unmarshal(marshal(t, in), &u); err != nil {
		t.Error(err)
	}
	var any any
	if err := Unmarshal(marshal(t, int64(-1<<40)), &any); err != nil || any != int64(-1<<40) {
		t.Errorf("got %v, %v", any, err)
	}
}

// TestTimes: a time is the same instant with its offset, as text; a Date stays one.
func TestTimes(t *testing.T) {
	in := time.Date(2025, 6, 1, 12, 0, 0, 123456789, time.FixedZone("Kathmandu", 20700))
	b := marshal(t, in)
	if want := "\xc0\x78\x232025-06-01T12:00:00.123456789+05:45"; string(b) != want {
		t.Errorf("%v is %q, want %q", in, b, want)
	}
	var out time.Time
	var v any
	if err := errors.Join(Unmarshal(b, &out), Unmarshal(b, &v)); err != nil {
		t.Fatal(err)
	}
	decoded, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []any{out, v, decoded} {
		got := got.(time.Time)
		if _, offset := got.Zone(); !got.Equal(in) || offset != 20700 {
			t.Errorf("%v comes back as %v", in, got)
		}
	}
	date := Date{time.UnixMilli(1700000000500)}
	if err := Unmarshal(marshal(t, date), &out); err != nil || !out.Equal(date.Time) {
		t.Errorf("%v comes back as %v, %v", date, out, err)
	}
	if got, err := Decode(marshal(t, date)); err != nil || !got.(Date).Equal(date.Time) {
		t.Errorf("%v comes back as %v, %v", date, got, err)
	}
	if v, err := Decode([]byte{0xc0, 0x61, 'x'}); !errors.Is(err, errMalformed) {
		t.Errorf("a time of x is %v, %v", v, err)
	}
}

// TestNumbers holds that what Go puts in comes out again, at every border.
func TestNumbers(t *testing.T) {
	for shift := range 64 {
		for _, delta := range []int64{-1, 0, 1} {
			for _, n := range []int64{1<<shift + delta, -(1<<shift + delta)} {
				b := marshal(t, n)
				var got int64
				if err := Unmarshal(b, &got); err != nil || got != n {
					t.Errorf("%d is %x, and comes back as %d, %v", n, b, got, err)
				}
				if exact := n >= -maxExact && n < maxExact; exact != (b[0] != head64 && b[0] != head64|0x20) {
					t.Errorf("%d is %x: a bigint iff no float holds it", n, b)
				}
				var f float64
				if err := Unmarshal(marshal(t, float64(n)), &f); err != nil || f != float64(n) {
					t.Errorf("%v comes back as %v, %v", float64(n), f, err)
				}
			}
		}
	}
	for _, f := range []float64{0.1, math.MaxFloat64, math.SmallestNonzeroFloat64, 1e300, -1.5} {
		var got float64
		if err := Unmarshal(marshal(t, f), &got); err != nil || got != f {
			t.Errorf("%v comes back as %v, %v", f, got, err)
		}
	}
	for _, h := range []struct {
		hex  string
		want float64
	}{{"f93c00", 1}, {"f9c400", -4}, {"f90001", 5.960464477539063e-8}, {"f97bff", 65504}, {"fa47c35000", 100000}} {
		b, _ := hex.DecodeString(h.hex)
		if v, err := Decode(b); err != nil || v != h.want {
			t.Errorf("%s is %v, %v, want %v", h.hex, v, err, h.want)
		}
	}
}

// TestUnsupported holds that what can't be stored is found, and where it is.
func TestUnsupported(t *testing.T) {
	for _, c := range []struct {
		v    any
		path string
	}{
		{math.NaN(), ""},
		{float32(math.Inf(1)), ""},
		{map[string]any{"order": Object{{"n", 1}, {"items", []any{1, Map{{"x", []float64{1, math.Inf(-1)}}}}}}}, "order.items[1].x[1]"},
	} {
		var bad *ValueError
		if _, err := Marshal(c.v); !errors.Is(err, ErrUnsupported) || !errors.As(err, &bad) || bad.Path != c.path {
			t.Errorf("Marshal(%v): %v, want it at %q", c.v, err, c.path)
		}
	}
	many := Object{}
	for i := range maxMembers + 1 {
		many = append(many, Member{fmt.Sprint(i), i})
	}
	for _, v := range []any{make(chan int), func() {}, Object{{"a", make(chan int)}}, many} {
		if _, err := Marshal(v); !errors.Is(err, ErrUnsupported) {
			t.Errorf("Marshal(%T): %v", v, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	deep := append(bytes.Repeat([]byte{0x81}, maxDepth+1), 0)
	for _, b := range [][]byte{nil, {0x18}, {0x61}, {0x81}, {0xa1, 1}, {0xc1}, {0xff}, {0x9f}, {0, 0}, {0x1c}, deep} {
		var v any
		if err := Unmarshal(b, &v); !errors.Is(err, errMalformed) {
			t.Errorf("Unmarshal(%x): %v", b, err)
		}
		if _, err := Decode(b); !errors.Is(err, errMalformed) {
			t.Errorf("Decode(%x): %v", b, err)
		}
	}
	if v, err := Decode([]byte{0xf8, 0x20}); !errors.Is(err, errMalformed) {
		t.Errorf("an unknown simple value is %v, %v", v, err)
	}
	var v map[string]int
	if err := Unmarshal([]byte{0xa2, 0x61, 'a', 1, 0x61, 'a', 2}, &v); err == nil {
		t.Error("two members of one name were accepted")
	}
}

func TestJSON(t *testing.T) {
	b, err := json.Marshal(Object{{"b", 1}, {"a", []any{Undefined{}, nil, Object{}}}})
	if want := `{"b":1,"a":[null,null,{}]}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v, want %s", b, err, want)
	}
	if _, err := json.Marshal(Object{{"a", math.NaN()}}); err == nil {
		t.Error("NaN became JSON")
	}
}

// FuzzDecode holds that what can be decoded can be encoded, and is then in a form that
// doesn't change any more; and that errors are short.
func FuzzDecode(f *testing.F) {
	for _, v := range values {
		b, err := Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x9f, 0x5f, 0x41, 1, 0xff, 0xbf, 0x61, 'a', 1, 0xff, 0xff})
	for _, size := range []int{maxBigint, maxBigint + 1} {
		for _, b := range wrapped(bignum(tagNegBig, size, 1000)) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var n struct{ A int8 }
		for _, to := range []any{&n.A, &n} {
			if err := Unmarshal(data, to); err != nil && len(err.Error()) > mostText {
				t.Errorf("Unmarshal(%x): an error of %d bytes", data, len(err.Error()))
			}
		}
		v, err := Decode(data)
		if err != nil {
			if !errors.Is(err, errMalformed) || len(err.Error()) > mostText {
				t.Errorf("Decode(%x): %v", data, err)
			}
			return
		}
		b, err := Marshal(v)
		if err != nil {
			if !errors.Is(err, ErrUnsupported) {
				t.Errorf("Marshal(%#v): %v", v, err)
			}
			return
		}
		again, err := Decode(b)
		if err != nil {
			t.Fatalf("Decode(Marshal(Decode(%x))): %v", data, err)
		}
		if c := marshal(t, again); !bytes.Equal(b, c) {
			t.Errorf("%x became %x, and then %x", data, b, c)
		}
		var anything any
		if err := Unmarshal(data, &anything); errors.Is(err, errMalformed) {
			t.Errorf("Unmarshal(%x): %v", data, err)
		}
	})
}

func Example() {
	type order struct {
		ID    int64    `json:"id"`
		Items []string `json:"items"`
	}
	b, err := Marshal(order{1700000000000, []string{"tea"}})
	fmt.Printf("%x %v\n", b, err)
	var o order
	fmt.Println(Unmarshal(b, &o), o)
	_, err = Marshal(map[string]float64{"price": math.NaN()})
	fmt.Println(err)
	// Output:
	// b90002626964fb4278bcfe56800000656974656d738163746561 <nil>
	// <nil> {1700000000000 [tea]}
	// cbor: value can't be stored: NaN at price
}

// TestNegativeBigint: a bigint below zero that 8 bytes can hold is one after it was written.
func TestNegativeBigint(t *testing.T) {
	for text, want := range map[string]string{
		"-1":                    "3b0000000000000000",
		"-10":                   "3b0000000000000009",
		"-18446744073709551616": "3bffffffffffffffff",
		"-18446744073709551617": "c349010000000000000000",
	} {
		b, err := Marshal(bigInt(text))
		if got := hex.EncodeToString(b); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
		if v, err := Decode(b); err != nil || fmt.Sprint(v) != text {
			t.Errorf("%s is read as %v, %v", text, v, err)
		}
	}
}
