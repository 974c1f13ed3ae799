package cbor

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/greenroomdb/greenroom/internal/cbor/cbortest"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestRoundTrip holds that Unmarshal gives back what Marshal accepts, and that what it
// doesn't is a ValueError.
func TestRoundTrip(t *testing.T) {
	if !testkit.InZones(t) {
		return
	}
	stored := 0
	n := testkit.Pick(200, 2_000, 20_000)
	for seed := range uint64(n) {
		if roundTrip(t, cbortest.New(seed).Next()) {
			stored++
		}
	}
	if stored < n/4 {
		t.Errorf("of %d values %d can be stored", n, stored)
	}
}

// roundTrip stores what v points to and reads it again; it reports whether that can be
// stored.
func roundTrip(t *testing.T, v any) bool {
	t.Helper()
	typ := reflect.TypeOf(v).Elem()
	b, err := Marshal(v)
	if err != nil {
		if !errors.Is(err, ErrUnsupported) || len(err.Error()) > mostText {
			t.Fatalf("%v: %v", typ, err)
		}
		return false
	}
	got := reflect.New(typ)
	if err := Unmarshal(b, got.Interface()); err != nil {
		t.Fatalf("%v: %x: %v", typ, b, err)
	}
	if !cbortest.Equal(v, got.Interface()) {
		t.Fatalf("%v: %x\n%s\n%s", typ, b, show(v), show(got.Interface()))
	}
	if err := Valid(b); err != nil {
		t.Fatalf("%v: %x: %v", typ, b, err)
	}
	return true
}

func show(v any) string { return fmt.Sprintf("%+v", reflect.ValueOf(v).Elem()) }

// FuzzRoundTrip is TestRoundTrip for any seed.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { roundTrip(t, cbortest.New(seed).Next()) })
}

// FuzzAny holds that an any that was read can be stored and read again, or is refused.
func FuzzAny(f *testing.F) {
	f.Add([]byte{0xa2, 0x61, 'a', 0x82, 1, 0xf6, 0x61, 'b', 0x40})
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		if Unmarshal(data, &v) == nil {
			roundTrip(t, &v)
		}
	})
}

type loop struct{ Next *loop }

type self *self

type inner struct{ C int }

type hidden struct{ *inner }

// Fields of one name, of which the library stores one or none.
type (
	Inner struct{ N int }
	Other struct{ N int }

	sameTag struct {
		A int `cbor:"x"`
		B int `cbor:"x"`
	}
	sameNames struct {
		Inner
		Other
	}
	outerName struct {
		Inner
		N string
	}
	Repeated struct {
		X int
		*Repeated
	}
	farKey struct {
		A int `cbor:"4294967296,keyasint"`
	}
)

// Types whose methods are those of a struct that another one embeds.
type (
	again    struct{ cbortest.Dated }
	againDay struct{ cbortest.Day }
)

type named interface{ Name() string }

type name string

func (n name) Name() string { return string(n) }

// TestRefused holds what is refused, and where it is said to be.
func TestRefused(t *testing.T) {
	cycle := &loop{}
	cycle.Next = cycle
	var in any
	in = &in
	object := Object{{"a", nil}}
	object[0].Value = object
	var deep any
	for range maxValue {
		deep = []any{deep}
	}
	for what, c := range map[string]struct {
		v    any
		path string
	}{
		"text":                      {[]any{map[string]string{"a": "caf\xe9"}}, "[0].a"},
		"text of a key":             {map[string]any{"b": map[string]int{"caf\xe9": 1}}, "b"},
		"depth":                     {struct{ A any }{deep}, ""},
		"a cycle":                   {cycle, ""},
		"a cycle of pointers":       {in, ""},
		"a pointer to itself":       {struct{ P self }{}, "P"},
		"a cycle of objects":        {object, ""},
		"an interface":              {struct{ A []named }{[]named{nil, name("x")}}, "A[1]"},
		"an error":                  {struct{ A any }{errors.New("x")}, "A"},
		"an error by itself":        {Typed(error(&ValueError{})), ""},
		"keys that are one":         {map[string]any{"m": map[any]int{1: 1, 1.0: 2}}, "m"},
		"keys that are one float":   {map[any]int{int64(maxExact): 1, float64(maxExact): 2}, ""},
		"an embedded pointer":       {struct{ P hidden }{hidden{&inner{1}}}, "P"},
		"members of one name":       {Object{{"a", 1}, {"a", 2}}, ""},
		"a key in a typed any":      {Typed(any(map[cbortest.Key]int{{}: 1})), ""},
		"a key that is nil":         {map[any]int{nil: 1}, ""},
		"a pointer for a key":       {[]any{map[*int]int{new(int): 1}}, "[0]"},
		"a lost embedded":           {struct{ P cbortest.Priced }{priced()}, "P"},
		"borrowed methods":          {cbortest.Dated{}, ""},
		"borrowed methods, deeper":  {again{cbortest.Dated{Note: "x"}}, ""},
		"an old time zone, deeper":  {[]againDay{{cbortest.Day{Time: time.Unix(0, 0).In(time.FixedZone("LMT", -1172))}}}, "[0]"},
		"fields of one tag":         {[]sameTag{{}, {A: 1}}, "[1]"},
		"fields of one name":        {sameNames{Other: Other{1}}, ""},
		"a field of an outer name":  {struct{ P outerName }{outerName{Inner: Inner{1}}}, "P"},
		"a struct within itself":    {Repeated{1, &Repeated{X: 2}}, ""},
		"a key beyond 32 bits":      {struct{ P farKey }{farKey{1}}, "P"},
		"a tag 0 without a time":    {[]any{cbor.Tag{Number: tagTime, Content: "x"}}, "[0]"},
		"a tag 1 without a time":    {[]any{cbor.Tag{Number: tagDate, Content: 1e300}}, "[0]"},
		"a tag 2 without a bigint":  {[]any{cbor.Tag{Number: tagBig, Content: "x"}}, "[0]"},
		"a simple value":            {[]any{cbor.SimpleValue(5)}, "[0]"},
		"a channel":                 {map[string]any{"c": make(chan int)}, "c"},
		"a year":                    {struct{ At any }{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "At"},
		"an old time zone of a day": {[]cbortest.Day{{Time: time.Unix(0, 0).In(time.FixedZone("LMT", -1172))}}, "[0]"},
		"an old time zone":          {[]time.Time{time.Unix(0, 0).In(time.FixedZone("LMT", 1172))}, "[0]"},
	} {
		_, err := Marshal(c.v)
		var bad *ValueError
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v, want a ValueError", what, err)
		} else if bad.Path != c.path && c.path != "" {
			t.Errorf("%s: %v, want it at %q", what, err, c.path)
		}
	}
}

// TestCovered: a field that another one of its name covers may be zero, and the other is read back.
func TestCovered(t *testing.T) {
	for _, v := range []any{&outerName{N: "x"}, &Repeated{X: 1}, &sameTag{}, &struct {
		*Inner
		*Other
	}{}} {
		if !roundTrip(t, v) {
			t.Errorf("%+v is refused", v)
		}
	}
}

func priced() (p cbortest.Priced) {
	p.SetInt64(5)
	return p
}

type plain struct {
	ID    int
	Name  string
	Tags  []string
	Count map[string]int
}

func BenchmarkMarshal(b *testing.B) {
	members := map[string]any{}
	for i := range 100 {
		members[fmt.Sprint(i)] = i
	}
	for what, v := range map[string]any{
		"plain": plain{1, "name", []string{"a", "b"}, map[string]int{"x": 1, "y": 2}},
		"times": []time.Time{time.Unix(1, 5), time.Unix(2, 0), time.Unix(3, 7)},
		"any":   members,
	} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := Marshal(v)
				if err != nil {
					b.Fatal(err)
				}
				runtime.KeepAlive(data)
			}
		})
	}
}

// TestValid: bytes of others are refused if they can't be read.
func TestValid(t *testing.T) {
	deep := func(n int) []byte { return append(bytes.Repeat([]byte{0x81}, n), 0) }
	for _, b := range [][]byte{{0x82, 0, 0x61, 0xff}, {0xa2, 1, 0, 0xf9, 0x3c, 0, 0}, {0x7f, 0x61, 0xff, 0xff}, deep(maxValue + 1), {0xa2, 0x61, 'a', 1, 0x61, 'a', 2}, {0x82},
		{0xc0, 0x61, 'x'}, {0xc1, 0xfb, 0x7e, 0xf0, 0, 0, 0, 0, 0, 0}, {0x81, 0xe5}, {0xf8, 0x20}} {
		if err := Valid(b); err == nil {
			t.Errorf("%x is valid", b)
		}
	}
	for _, b := range [][]byte{{0xf9, 0x7e, 0}, {0x9f, 0x7f, 0x61, 'a', 0xff, 0xff}, deep(maxValue), {0xbf, 1, 2, 0xff}, {headUndefined}} {
		if err := Valid(b); err != nil {
			t.Errorf("%x: %v", b, err)
		}
	}
}

// TestText: types of which nothing would be left are stored as their text, if it can be read.
func TestText(t *testing.T) {
	type sums struct {
		Rat   big.Rat
		Money *cbortest.Money
		Level cbortest.Level
	}
	in := sums{*big.NewRat(1, 3), &cbortest.Money{}, 5}
	in.Money.SetInt64(42)
	var out sums
	if err := Unmarshal(marshal(t, in), &out); err != nil || out.Rat.Cmp(&in.Rat) != 0 || out.Money.Cmp(&in.Money.Int) != 0 || out.Level != 5 {
		t.Errorf("%+v, %v", &out, err)
	}
	if b := marshal(t, cbortest.Level(5)); !bytes.Equal(b, []byte{5}) {
		t.Errorf("a number with a text is %x", b)
	}
	var zero cbortest.Guarded
	if err := Unmarshal(marshal(t, &zero), &zero); err != nil {
		t.Error(err)
	}
	zero.N.Store(1)
	for what, v := range map[string]any{
		"a counter": &zero, "a float": big.NewFloat(0.1), "one way beside a text": []any{big.NewRat(1, 3), cbortest.OneWay{}},
		"a level beside a text": []any{big.NewRat(1, 3), cbortest.Level(5)},
	} {
		if _, err := Marshal(v); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
