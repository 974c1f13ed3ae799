package filter_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/filter"
)

// items are programs over one variable.
var items = &filter.Options{Names: []string{"this"}}

func compile(t testing.TB, source string, opts *filter.Options) *filter.Program {
	t.Helper()
	p, err := filter.Compile(source, opts)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return p
}

// A record is an object that is decoded field by field. It counts how many fields were.
type record struct {
	fields  map[string]any
	decoded *int
}

func (r record) Field(name string) (any, bool) {
	*r.decoded++
	v, ok := r.fields[name]
	return v, ok
}

func (r record) Names() (names []string) {
	for name := range r.fields {
		names = append(names, name)
	}
	return names
}

// jsMap is a JavaScript Map, which only Decode makes.
func jsMap(t testing.TB) any {
	t.Helper()
	// Tag 259, a map of 1 to "one" and "a" to [2].
	v, err := cbor.Decode([]byte{0xd9, 0x01, 0x03, 0xa2, 0x01, 0x63, 'o', 'n', 'e', 0x61, 'a', 0x81, 0x02})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func item(t testing.TB) filter.Map {
	t.Helper()
	huge := new(big.Int).Lsh(big.NewInt(1), 70)
	return filter.Map{"this": map[string]any{
		"a": 1, "i8": int8(-8), "u8": uint8(8), "u64": ^uint64(0), "f": 2.5, "f32": float32(0.5),
		"s": "héllo", "n": nil, "undefined": cbor.Undefined{}, "b": []byte("abc"), "u8s": cbor.Uint8Array("abc"),
		"l": []any{1, "x", nil}, "set": cbor.Set{"p", "q"}, "t": time.Unix(0, 0).UTC(), "d": 90 * time.Second,
		"date": cbor.Date{Time: time.Unix(1, 0).UTC()}, "js": jsMap(t), "m": map[any]any{1: "one", "k": 2, 3.5: "x"},
		"o":     cbor.Object{{Name: "x", Value: int64(1)}, {Name: "inner", Value: cbor.Object{{Name: "y", Value: true}}}},
		"small": big.NewInt(-5), "big": new(big.Int).SetUint64(1 << 63), "huge": huge, "other": struct{}{},
		"rec": record{map[string]any{"p": 1, "q": "two"}, new(int)},
	}}
}

func TestEval(t *testing.T) {
	mismatch := errors.New("mismatch")
	tests := []struct {
		source string
		want   any
	}{
		{`this.a`, int64(1)}, {`this.i8`, int64(-8)}, {`this.u8`, uint64(8)}, {`this.u64`, ^uint64(0)},
		{`this.f`, 2.5}, {`this.f32`, 0.5}, {`this.s`, "héllo"}, {`this.b`, []byte("abc")}, {`this.u8s`, []byte("abc")},
		{`this.t`, time.Unix(0, 0).UTC()}, {`this.d`, 90 * time.Second}, {`this.date`, time.Unix(1, 0).UTC()},
		{`this.l`, []any{int64(1), "x", nil}}, {`this.set`, []any{"p", "q"}},
		{`this.o`, map[string]any{"x": int64(1), "inner": map[string]any{"y": true}}},
		{`this.rec`, map[string]any{"p": int64(1), "q": "two"}},
		{`this.small`, int64(-5)}, {`this.big`, uint64(1 << 63)}, {`this.huge`, float64(1 << 70)},
		{`{"a": [1, {"b": null}]}`, map[string]any{"a": []any{int64(1), map[string]any{"b": nil}}}},
		{`this.js`, mismatch}, {`{1: 2}`, mismatch}, {`this.other`, mismatch}, {`type(1)`, mismatch},
		{`this.other == 1`, mismatch}, {`{[1]: 1}`, mismatch}, {`{1: 1, 1.0: 1}`, mismatch},

		// Missing and null.
		{`this.missing`, nil}, {`this.missing.field`, nil}, {`this.missing[0]`, nil}, {`{"a": 1}.b`, nil}, {`null.a`, nil},
		{`this.o.missing`, nil}, {`this.rec.missing`, nil}, {`this.undefined`, nil}, {`this.js.missing`, nil},
		{`has(this.missing)`, false}, {`has(this.missing.field)`, false}, {`has(this.n)`, true}, {`has(this.n.a)`, false},
		{`has(this.a)`, true}, {`has(this.rec.p)`, true}, {`has(this.o.inner.y)`, true}, {`has({"a": 1}.b)`, false},
		{`this.n == null && null == this.missing && this.undefined == null`, true}, {`this.n != null`, false},
		{`null == 0 || null == false || null == ""`, false}, {`[null] == [this.missing]`, true},
		{`null < 1`, mismatch}, {`null + 1`, mismatch}, {`!null`, mismatch}, {`size(null)`, mismatch}, {`1 in null`, mismatch},
		{`null.all(x, true)`, mismatch}, {`[1][5]`, mismatch}, {`[1][-1]`, mismatch}, {`"text".field`, mismatch}, {`this.a.b`, mismatch},

		// Maps of all kinds.
		{`this.m[1]`, "one"}, {`this.m[1.0]`, "one"}, {`this.m[1u]`, "one"}, {`this.m.k`, int64(2)}, {`this.m[3.5]`, "x"}, {`this.m[[this.a]]`, mismatch},
		{`this.js[1]`, "one"}, {`this.js[1.0]`, "one"}, {`this.js.a`, []any{int64(2)}}, {`size(this.js)`, int64(2)}, {`this[1]`, nil},
		{`size(this.o)`, int64(2)}, {`size(this.rec)`, int64(2)}, {`"p" in this.rec`, true}, {`"z" in this.o`, false}, {`1 in this.m`, true},
		{`this.o.exists(k, this.o[k] == 1)`, true}, {`this.js.exists(k, k == "a")`, true}, {`this.rec.map(k, 1)`, []any{int64(1), int64(1)}},
		{`this.rec == {"q": "two", "p": 1.0}`, true}, {`{"q": "two", "p": 2} == this.rec`, false}, {`this.o == {"x": 1}`, false},
		{`{"a": null} == {"b": null}`, false}, {`this.o == [1]`, false}, {`[1] == this.o`, false}, {`{"a": 1, "a" + "b": 2}.ab`, int64(2)},

		// Lists and macros.
		{`this.l + [2]`, []any{int64(1), "x", nil, int64(2)}}, {`"x" in this.l`, true}, {`null in this.l`, true}, {`[1] in [[1.0]]`, true},
		{`this.l.exists_one(x, x == "x")`, true}, {`this.l.filter(x, x != null)`, []any{int64(1), "x"}}, {`this.l.all(x, x == 1)`, false},
		{`this.l.map(x, x == null, {"v": x})`, []any{map[string]any{"v": nil}}}, {`this.exists(this, this == "a")`, true},
		{`[3, 4].map(a, [a, 5].map(b, a * b))`, []any{[]any{int64(9), int64(15)}, []any{int64(16), int64(20)}}},
		{`[1, 2].all(x, x / 0 == 1)`, mismatch}, {`[{}].map(x, x.f)`, []any{nil}}, {`.this.a`, int64(1)},

		// Functions and logic.
		{`this.s.size()`, int64(5)}, {`this.s.startsWith("hé") && this.s.endsWith("lo") && this.s.contains("l")`, true},
		{`this.s.matches("^h.l+o$")`, true}, {`this.s.matches("l{2}")`, true}, {`this.s.matches(this.s)`, true}, {`this.s.matches("(" + "")`, mismatch},
		{`this.a.matches("1")`, mismatch}, {`this.t.getFullYear()`, int64(1970)}, {`this.t.getHours("Europe/Berlin")`, int64(1)},
		{`this.t.getHours("../x")`, mismatch}, {`type(this.a) == int`, true}, {`(this.a == 1 ? this.o : this.l).x`, int64(1)},
		{`this.a ? 1 : 2`, mismatch}, {`1 && true`, mismatch}, {`1 / 0 == 1 || true`, true}, {`false && 1 / 0 == 1`, false}, {`this.b == b"abc"`, true},
	}
	for _, tt := range tests {
		p := compile(t, tt.source, items)
		got, err := p.Eval(t.Context(), item(t))
		if tt.want == mismatch {
			if !errors.Is(err, filter.ErrMismatch) {
				t.Errorf("%s: got %v and %v, want a mismatch", tt.source, got, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %T %v and %v, want %v", tt.source, got, got, err, tt.want)
		}
		matches, err := p.Match(t.Context(), item(t))
		if b, ok := tt.want.(bool); matches != b || (err == nil) != ok || !ok && !errors.Is(err, filter.ErrMismatch) {
			t.Errorf("%s: Match returns %v and %v", tt.source, matches, err)
		}
	}
}

// TestDocument: without names every identifier is looked up, and is null where it isn't found.
func TestDocument(t *testing.T) {
	document := filter.Map{"status": "open", "type": "user", "p0": 3, "a": map[string]any{"b": 4}}
	for source, want := range map[string]any{
		`status == "open" && p0 < 4`: true, `missing`: nil, `missing.field == null`: true, `a.b`: int64(4), `int`: nil,
		`type == "user"`: true, `type(p0) == type(1)`: true, `[1].exists(status, status == 1)`: true, `this`: nil,
	} {
		if got, err := compile(t, source, nil).Eval(t.Context(), document); got != want || err != nil {
			t.Errorf("%s: got %v and %v, want %v", source, got, err, want)
		}
	}
}

// TestLazy: a field that isn't needed isn't decoded.
func TestLazy(t *testing.T) {
	var decoded int
	this := record{map[string]any{"a": 1, "b": 2, "c": 3}, &decoded}
	if ok, err := compile(t, `this.a == 2 && this.b == 2`, items).Match(t.Context(), filter.Map{"this": this}); ok || err != nil || decoded != 1 {
		t.Errorf("got %v and %v, %d fields decoded", ok, err, decoded)
	}
}

// TestNumbers evaluates each row of the table of docs/expressions.md.
func TestNumbers(t *testing.T) {
	page, err := os.ReadFile("../../docs/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## Numbers\n")
	text, _, _ = strings.Cut(text, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `(.+?)` \\| (?:`(.+?)`|(mismatch))").FindAllStringSubmatch(text, -1)
	if len(rows) < 50 {
		t.Errorf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		got, err := compile(t, row[1], items).Eval(t.Context(), filter.Map{})
		if row[3] != "" {
			if !errors.Is(err, filter.ErrMismatch) {
				t.Errorf("%s: got %v and %v, want a mismatch", row[1], got, err)
			}
			continue
		}
		if want, _ := compile(t, row[2], items).Eval(t.Context(), filter.Map{}); err != nil || got != want {
			t.Errorf("%s: got %T %v and %v, want %s", row[1], got, got, err, row[2])
		}
	}
}

func TestSyntaxError(t *testing.T) {
	nested := strings.Repeat("(", 150) + "1" + strings.Repeat(")", 150)
	for _, tt := range []struct {
		source               string
		line, column, offset int
		message              string
	}{
		{``, 1, 1, 0, "mismatched input '<EOF>'"},
		{`1 +`, 1, 4, 3, "mismatched input '<EOF>'"},
		{"this.\n  a ==== 2", 2, 7, 12, "extraneous input '=='"},
		{`this.in`, 1, 6, 5, "no viable alternative at input '.in'"},
		{`this.l[?0]`, 1, 7, 6, "unsupported syntax '[?'"},
		{`other`, 1, 1, 0, "there is no variable other"},
		{"'é' +\n 'ü' + other", 2, 8, 15, "there is no variable other"},
		{`this.all(x, x == y)`, 1, 18, 17, "there is no variable y"},
		{`this.all(x, x) && x`, 1, 19, 18, "there is no variable x"},
		{`this.all(x, .x)`, 1, 14, 13, "there is no variable x"},
		{`this.foo(1)`, 1, 9, 8, "there is no function foo"},
		{`foo()`, 1, 4, 3, "there is no function foo"},
		{`this.s.contains()`, 1, 16, 15, "the function contains isn't called like this"},
		{`contains("a", "b")`, 1, 9, 8, "the function contains isn't called like this"},
		{`has(this)`, 1, 5, 4, "invalid argument to has() macro"},
		{`this.s.matches("(")`, 1, 16, 15, "error parsing regexp: missing closing ): `(`"},
		{`this.s.matches("(abcd){700}")`, 1, 16, 15, "the regular expression has 4202 instructions, at most 2000 are allowed"},
		{`int("x")`, 1, 4, 3, "type conversion error from 'string' to 'int'"},
		{`Item{a: 1}`, 1, 5, 4, "there are no messages: Item{} can't be made"},
		{`@counter`, 1, 1, 0, "token recognition error at: '@'"},
		{"'\xff'", 1, 1, 0, "the expression is not UTF-8"},
		{nested, 1, 1, 0, "expression recursion limit exceeded: 100"},
		{strings.Repeat(" ", 4096) + "1", 1, 1, 0, "the expression has 4097 bytes, at most 4096 are allowed"},
	} {
		_, err := filter.Compile(tt.source, items)
		var got *filter.SyntaxError
		if !errors.As(err, &got) {
			t.Errorf("%.50q: got %v, want a SyntaxError", tt.source, err)
			continue
		}
		if want := (filter.SyntaxError{Line: tt.line, Column: tt.column, Offset: tt.offset, Message: tt.message}); *got != want {
			t.Errorf("%.50q: got %+v, want %+v", tt.source, *got, want)
		}
	}
	if _, err := filter.Compile("12345", &filter.Options{MaxSource: 4}); err == nil {
		t.Error("a source of 5 bytes was taken where 4 are allowed")
	}
	compile(t, "this"+strings.Repeat(" || this", 500), items)
}

// TestCost: an evaluation ends soon, however much it would do.
func TestCost(t *testing.T) {
	list := make([]any, 100_000)
	for i := range list {
		list[i] = i
	}
	wide := map[string]any{}
	for i := range 2000 {
		wide[fmt.Sprint(i)] = i
	}
	vars := filter.Map{"this": map[string]any{"wide": wide, "big": list, "s": strings.Repeat("a", 1<<20), "tail": map[string]any{"big": list}}}
	times := func(head, part string, n int) string { return head + strings.Repeat(part, n) }
	for _, source := range []string{
		`this.big.all(x, this.big.all(y, x >= 0))`,
		`this.big.all(x, this.big.filter(y, true) != [])`,
		`this.big.all(x, this.big == this.big)`,
		`this.big.all(x, this.tail == this.tail)`,
		`this.big.all(x, !("x" in this.big))`,
		`this.big.all(x, size(this.s) > 0)`,
		`this.big.all(x, !this.s.contains("b"))`,
		`this.big.all(x, this.s + this.s != "")`,
		`this.big.all(x, timestamp(0).getHours("Europe/Berlin") > 0)`,
		`this.big.all(x, !this.s.matches("(.*a){2}b"))`,
		`this.big.all(x, {}[this.s] == null)`,
		`this.big.all(x, {}[true ? this.s : ""] == null)`,
		`this.big.all(x, this.wide.exists(k, true))`,
		`this.s.matches("(.*a){20}b")`,
		times(`["a"]`, `.map(a, a + a)`, 60) + ` == []`,
		times(`[[1]]`, `.map(a, a + a)`, 70) + ` == []`,
		`[` + times(`[1]`, `.map(a, [a, a])`, 60) + `].all(x, x == ` + times(`[1]`, `.map(a, [a, a])`, 60) + `)`,
		`[` + times(`[1]`, `.map(a, {"k": a, "l": a})`, 40) + `].all(x, x == ` + times(`[1]`, `.map(a, {"k": a, "l": a})`, 40) + `)`,
	} {
		if ok, err := compile(t, source, items).Match(t.Context(), vars); ok || !errors.Is(err, filter.ErrTooCostly) {
			t.Errorf("%.60s: got %v and %v, want %v", source, ok, err, filter.ErrTooCostly)
		}
	}
	// Whatever a loop goes over, its turns are counted.
	few := &filter.Options{CostLimit: 1000}
	for _, over := range []string{
		`list`, `this.big`, `this["big"]`, `[this.big][0]`, `(true ? this.big : [])`, `(true ? this : {}).big`, `this.big.map(x, x)`, `this.big.filter(x, true)`,
		`(this.big + this.big)`, `dyn(this.big)`, `this.wide`, `{"a": this.big}.a`,
	} {
		for _, loop := range []string{`.all(x, true)`, `.exists(x, false)`, `.exists_one(x, true)`, `.map(x, x)`, `.filter(x, false)`} {
			if _, err := compile(t, over+loop, few).Eval(t.Context(), filter.Map{"this": vars["this"], "list": list}); !errors.Is(err, filter.ErrTooCostly) {
				t.Errorf("%s%s: got %v, want %v", over, loop, err, filter.ErrTooCostly)
			}
		}
	}
	// What comes out is counted, too.
	if _, err := compile(t, times(`[1]`, `.map(a, [a, a])`, 60), items).Eval(t.Context(), vars); !errors.Is(err, filter.ErrTooCostly) {
		t.Errorf("got %v, want %v", err, filter.ErrTooCostly)
	}
	// A loop that is left early costs little.
	cheap := &filter.Options{Names: []string{"this"}, CostLimit: 100}
	if ok, err := compile(t, `this.big.exists(x, x == 3)`, cheap).Match(t.Context(), vars); !ok || err != nil {
		t.Errorf("got %v and %v, want true", ok, err)
	}
	if _, err := compile(t, `this.big.exists(x, x == 300)`, cheap).Match(t.Context(), vars); !errors.Is(err, filter.ErrTooCostly) {
		t.Errorf("got %v, want %v", err, filter.ErrTooCostly)
	}
}

// A canceler ends its context when its tenth field is read.
type canceler struct {
	left   int
	cancel context.CancelCauseFunc
}

var errEnough = errors.New("enough")

func (c *canceler) Names() []string { return nil }

func (c *canceler) Field(string) (any, bool) {
	if c.left--; c.left == 0 {
		c.cancel(errEnough)
	}
	return true, true
}

// TestContext: the end of the context is the end of a loop, also where a mismatch would be taken for false.
func TestContext(t *testing.T) {
	list := make([]any, 10_000)
	for _, source := range []string{`list.all(x, this.a)`, `list.exists(x, !this.a) || true`} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := &canceler{10, cancel}
		if ok, err := compile(t, source, nil).Match(ctx, filter.Map{"list": list, "this": c}); ok || !errors.Is(err, errEnough) || c.left < -100 {
			t.Errorf("%s: got %v and %v after %d more fields, want %v", source, ok, err, -c.left, errEnough)
		}
		if _, err := compile(t, `true`, nil).Match(ctx, filter.Map{}); !errors.Is(err, errEnough) {
			t.Errorf("got %v, want %v", err, errEnough)
		}
	}
}

type panics struct{}

func (panics) Lookup(string) (any, bool) { panic("lookup") }
func (panics) Field(string) (any, bool)  { panic("field") }
func (panics) Names() []string           { panic("names") }

// TestPanic: a panic of the caller's own code is an error, and not one of the data.
func TestPanic(t *testing.T) {
	for _, vars := range []filter.Vars{panics{}, filter.Map{"this": panics{}}} {
		for _, source := range []string{`this`, `this.a`, `this == this`, `this.all(k, true)`} {
			if _, err := compile(t, source, items).Eval(t.Context(), vars); err == nil || errors.Is(err, filter.ErrMismatch) || errors.Is(err, filter.ErrTooCostly) {
				t.Errorf("%T: %s: got %v", vars, source, err)
			}
		}
	}
}

// TestConcurrent: one program, many goroutines; some of them meet the errors that cel-go shares.
func TestConcurrent(t *testing.T) {
	p := compile(t, `this.l.exists(x, x == this.n) && this.s.matches("^i") || timestamp(this.n + 4611686018427387904) > timestamp(0) || this.t.getHours(1) == 2`, items)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				this := map[string]any{"l": []any{1, g, 3}, "n": i % 10, "s": fmt.Sprint("i", i), "t": time.Unix(0, 0)}
				want := i%10 == 1 || i%10 == 3 || i%10 == g
				if got, err := p.Match(t.Context(), filter.Map{"this": this}); got != want || (err == nil) != want {
					t.Errorf("%v: got %v and %v, want %v", this, got, err, want)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzEval: no expression and no data make a panic, an error without a name, or endless work.
func FuzzEval(f *testing.F) {
	for _, source := range []string{
		`this.a == 1 && has(this.b.c)`, `this.l.exists(x, x.startsWith("a"))`, `{"a": [1, 2.0, 3u]}["a"][this.i]`, `this.map(k, this[k]).filter(v, v in [1, "x", null])`,
		`this.s.matches("a+") ? timestamp(this.i).getHours("UTC") : duration("1s")`, `[[1]].map(a, a + a).map(a, [a, a]) == this.l`, `this.l.exists_one(x, x == b"a" || type(x) == int)`,
	} {
		f.Add(source, "text", int64(7), 1.5, []byte{0xa1, 0x61, 'a', 0x01})
	}
	opts := &filter.Options{CostLimit: 1 << 14}
	f.Fuzz(func(t *testing.T, source, s string, i int64, d float64, data []byte) {
		p, err := filter.Compile(source, opts)
		if err != nil {
			var bad *filter.SyntaxError
			if !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > len(source) || bad.Line < 1 || bad.Column < 1 {
				t.Fatalf("%q: %#v", source, err)
			}
			if strings.Contains(bad.Message, "can't be compiled") {
				t.Fatalf("%q: %v", source, err)
			}
			return
		}
		p.Terms(filter.Map{"i": i, "s": s, "d": d})
		if text := p.Canonical(); compile(t, text, &filter.Options{MaxSource: 1 << 20}).Canonical() != text {
			t.Fatalf("%q: the canonical %q has another canonical text", source, text)
		}
		var o any
		if v, err := cbor.Decode(data); err == nil {
			o = v
		}
		this := map[string]any{"a": o, "l": []any{s, i, d, data, o, nil}, "s": s, "i": i, "d": d, "m": map[any]any{i: s, s: d}}
		_, err = p.Eval(t.Context(), filter.Map{"this": this, "o": o, "s": s, "i": i, "d": d})
		if err != nil && !errors.Is(err, filter.ErrMismatch) && !errors.Is(err, filter.ErrTooCostly) {
			t.Fatalf("%q: %v", source, err)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	vars := filter.Map{"this": map[string]any{
		"status": "open", "priority": int64(3), "owner": map[string]any{"name": "anna"}, "tags": []any{"a", "b", "c"},
	}}
	for _, bm := range []struct{ name, source string }{
		{"equal", `this.status == "open"`},
		{"and", `this.status == "open" && this.priority >= 2`},
		{"nested", `this.owner.name == "anna"`},
		{"missing", `this.nobody.name == "anna"`},
		{"in", `this.status in ["open", "new"]`},
		{"mismatch", `this.status < 3`},
		{"matches", `this.status.matches("^o")`},
		{"exists", `this.tags.exists(t, t == "c")`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			p := compile(b, bm.source, items)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = p.Match(b.Context(), vars)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		compile(b, `this.status == "open" && this.priority >= 2`, items)
	}
}
