package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/host/internal/wire"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A schema is one of package cbor, with those that it refers to.
type schema struct {
	Ref        string             `json:"$ref"`
	Defs       map[string]*schema `json:"$defs"`
	AnyOf      []*schema          `json:"anyOf"`
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Encoding   string             `json:"contentEncoding"`
	Items      *schema            `json:"items"`
	Properties map[string]*schema `json:"properties"`
	Additional *schema            `json:"additionalProperties"`
	Required   []string           `json:"required"`
}

// check says what of a value isn't as the schema says, nil for nothing. Of an object all members must be in it.
func (s *schema) check(v any, defs map[string]*schema) error {
	if s.Ref != "" {
		s = defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
	}
	if s.AnyOf != nil {
		var why error
		for _, s := range s.AnyOf {
			if why = s.check(v, defs); why == nil {
				break
			}
		}
		return why
	}
	is := "null"
	var err error
	switch v := v.(type) {
	case bool:
		is = "boolean"
	case string:
		is = "string"
		if s.Format == "date-time" {
			_, err = time.Parse(time.RFC3339Nano, v)
		} else if s.Encoding == "base64" {
			var b []byte
			err = json.Unmarshal([]byte(`"`+v+`"`), &b)
		}
	case json.Number:
		is = "number"
		if _, ok := new(big.Int).SetString(v.String(), 10); ok && s.Type == "integer" {
			is = "integer"
		}
	case []any:
		is = "array"
		for i := 0; i < len(v) && s.Items != nil && err == nil; i++ {
			err = s.Items.check(v[i], defs)
		}
	case map[string]any:
		is = "object"
		err = s.checkMembers(v, defs)
	}
	if s.Type != "" && s.Type != is {
		err = fmt.Errorf("%v isn't %q", v, s.Type)
	}
	return err
}

func (s *schema) checkMembers(v map[string]any, defs map[string]*schema) error {
	for name, v := range v {
		of := s.Additional
		if s.Properties != nil {
			of = s.Properties[name]
		}
		if of == nil && s.Type != "" {
			return fmt.Errorf("there is no %q", name)
		} else if of == nil {
			continue
		}
		if err := of.check(v, defs); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return fmt.Errorf("%q is missing", name)
		}
	}
	return nil
}

type (
	degrees float64
	level   int
	letter  uint8
	hex     int
	secret  struct{ s string }
	shown   struct{ S string }
	words   []string
	flag    struct{ on byte }
	loud    struct{ X int }
	day     struct{ time.Time }
	base    struct {
		ID    int
		Where string `json:"where"`
	}
	Base struct{ N int }
	deep struct{ base }
	flat struct {
		ID   int
		Only bool
	}
	list        []list
	dict        map[string]dict
	node[T any] struct {
		Value T
		Next  *node[T]
	}
	own struct {
		//lint:ignore U1000 it is looked at by reflection
		*own
		A int
	}
	left  struct{ Right *right }
	right struct{ Left []left }
)

func (h hex) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%x", int(h)), nil }
func (h *hex) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "%x", (*int)(h))
	return err
}
func (s secret) MarshalText() ([]byte, error)   { return []byte(s.s), nil }
func (s *secret) UnmarshalText(b []byte) error  { s.s = string(b); return nil }
func (s shown) MarshalText() ([]byte, error)    { return []byte(s.S), nil }
func (s *shown) UnmarshalText(b []byte) error   { s.S = string(b); return nil }
func (w words) MarshalText() ([]byte, error)    { return []byte(strings.Join(w, " ")), nil }
func (w *words) UnmarshalText(b []byte) error   { *w = strings.Fields(string(b)); return nil }
func (f flag) MarshalBinary() ([]byte, error)   { return []byte{f.on}, nil }
func (f *flag) UnmarshalBinary(b []byte) error  { f.on = b[0]; return nil }
func (loud) MarshalJSON() ([]byte, error)       { return []byte(`"!"`), nil }
func (l *loud) UnmarshalJSON(text []byte) error { return nil }

// read reads JSON, with numbers as they are.
func read(t *testing.T, text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	testkit.Must(t, d.Decode(&v))
	return v
}

// holds checks that a value in JSON is as the schema of its type says. With back an action gets it from JSON, too.
func holds[T any](v T, back bool) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		of, err := json.Marshal(cbor.Schema(reflect.TypeFor[T]()))
		testkit.Must(t, err)
		s := &schema{}
		testkit.Must(t, json.Unmarshal(of, s))
		raw, err := host.Encode(cbor.Typed(v))
		testkit.Must(t, err)
		text, err := wire.ToJSON(raw)
		testkit.Must(t, err)
		in := read(t, text)
		if err := s.check(in, s.Defs); err != nil {
			t.Errorf("%T: %s is not %s: %v", v, text, of, err)
		}
		if !back {
			return
		}
		echo := abi.NewAction[host.Raw](" ", func(_ struct{}, v T) (T, error) { return v, nil }, func(err error) error { return err })
		args, err := wire.FromJSON(text)
		testkit.Must(t, err)
		out, err := echo.Run(struct{}{}, args)
		if err != nil {
			t.Errorf("%T: %s isn't taken: %v", v, text, err)
			return
		}
		again, err := wire.ToJSON(out)
		testkit.Must(t, err)
		if !reflect.DeepEqual(read(t, again), in) {
			t.Errorf("%T: %s comes back as %s", v, text, again)
		}
	}
}

// TestSchema: values of many types are in JSON as the schemas of their types say, and what is, an action takes.
func TestSchema(t *testing.T) {
	now, text := time.Unix(1e9, 5), "x"
	to := &text
	for _, check := range slices.Concat([]func(*testing.T){
		holds(true, true), holds(int8(1), true), holds(uint64(1<<63), true), holds(int64(1)<<60, true), holds(1.5, true), holds(3.0, true), holds(1e300, true),
		holds(degrees(1), true), holds(level(2), true), holds(hex(255), true), holds("x", true), holds(to, true), holds(&to, true), holds((*string)(nil), true),
		holds([]byte(nil), true), holds([]byte{1}, true), holds([3]byte{1, 2, 3}, true), holds([]letter{1}, true), holds([]int8{1}, true), holds([2]bool{}, true), holds([]string(nil), true), holds([][]byte{{1}}, true),
		holds(map[string]int(nil), true), holds(map[string]int{"a": 1}, true), holds(map[level]string{1: "a"}, false), holds(map[bool]int{true: 1}, false), holds(map[[2]int]int{{1, 2}: 1}, false),
		holds(now, true), holds(time.Time{}, true), holds(&now, true), holds(time.Second, true), holds(day{now}, true), holds([]day{{}}, true), holds(map[time.Time]int{now: 1}, false),
		holds(*big.NewInt(5), true), holds(big.NewInt(5), true), holds((*big.Int)(nil), true), holds(*new(big.Int).Lsh(big.NewInt(1), 200), false), holds(*big.NewRat(1, 3), true),
		holds(flag{1}, true), holds(&flag{1}, true), holds(map[flag]int{{1}: 1}, false), holds(netip.MustParseAddr("1.2.3.4"), true), holds(loud{1}, true), holds(json.RawMessage(`{}`), true), holds(json.Number("1"), true),
		// MarshalText counts only beside a type that nothing else would write.
		holds(secret{"x"}, true), holds(&secret{"x"}, true), holds(shown{"x"}, true), holds(words{"x"}, true), holds(map[hex]int{1: 1}, false), holds(map[secret]int{{"x"}: 1}, true),
		holds(struct {
			A secret
			B shown
			C hex
			D words
			E map[hex]*shown
			F []*words
		}{E: map[hex]*shown{255: {"x"}, 1: nil}}, true),
		holds(list{{}, {{}}}, true), holds(dict{"a": {"b": {}}}, true), holds(node[int]{1, &node[int]{}}, true), holds(node[base]{}, true), holds([]node[node[[]map[string]base]]{{}}, true),
		holds(own{}, true), holds([]left{{&right{[]left{{}}}}}, true), holds(map[string][]left{"a": {{}}}, true),
		holds[any](nil, true), holds[any](map[string]any{"a": []byte{1}}, true), holds(host.Raw{0x01}, true), holds([]any{1, "x", nil}, true),
		holds(cbor.Object{{Name: "a", Value: 1}}, true), holds(cbor.Map{{Key: 1, Value: 2}}, false), holds(cbor.Set{1}, false), holds(struct{ D cbor.Date }{}, false),
	}, structs()) {
		check(t)
	}
}

// structs are the checks of structs.
func structs() []func(*testing.T) {
	return []func(*testing.T){
		holds(struct{}{}, true), holds(struct{ A struct{} }{}, true), holds((*struct{ A int })(nil), true), holds(struct{ low int }{}, true),
		holds(struct{ base }{}, true), holds(struct{ *base }{}, true), holds(struct{ *Base }{}, true), holds(struct{ *Base }{&Base{}}, true), holds(struct {
			base
			Where int
		}{}, true),
		holds(struct { // the less deep one counts
			deep
			flat
		}{flat: flat{1, true}}, true),
		holds(struct { // neither does
			base
			flat
		}{}, true),
		holds(struct {
			base `json:"base"`
		}{}, true),
		holds(struct {
			A int `json:"a,omitempty"`
			B int `json:",omitempty"`
			C int `json:"-"`
			//lint:ignore SA5008 it is the name "-"
			D int `json:"-,"`
			E int `json:"e,string"`
			F int `cbor:"f" json:"g"`
			G *int
			H []int
			I map[string]int
			J any
			K []any
			L map[string]any
			M time.Time `json:"m,omitzero"`
			N time.Time
			O []*int
			P **int
			R struct{ X, Y int }
			S host.Raw
			T error `json:"-"`
		}{}, true),
		holds(struct {
			A int `cbor:"1,keyasint"`
			B string
		}{1, "b"}, false),
		holds(struct {
			_ struct{} `cbor:",toarray"`
			A int
			B string
		}{A: 1}, true),
	}
}

// TestSchemaOfMany: the schema of many types that hold each other is short, and made at once.
func TestSchemaOfMany(t *testing.T) {
	of := reflect.TypeFor[expr]()
	text, err := json.Marshal(cbor.Schema(of))
	if err != nil || len(text) > 1<<16 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// An expr has every kind of expression, each of which has every kind again.
type (
	expr struct {
		A *of[[1]int]
		B *of[[2]int]
		C *of[[3]int]
		D *of[[4]int]
		E *of[[5]int]
		F *of[[6]int]
		G *of[[7]int]
		H *of[[8]int]
		I *of[[9]int]
		J *of[[10]int]
		K *of[[11]int]
		L *of[[12]int]
	}
	of[T any] struct {
		A *of[[1]int]
		B *of[[2]int]
		C *of[[3]int]
		D *of[[4]int]
		E *of[[5]int]
		F *of[[6]int]
		G *of[[7]int]
		H *of[[8]int]
		I *of[[9]int]
		J *of[[10]int]
		K *of[[11]int]
		L *of[[12]int]
		V T
	}
)
