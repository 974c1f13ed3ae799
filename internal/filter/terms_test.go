package filter_test

import (
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/internal/filter"
)

func TestTerms(t *testing.T) {
	bound := filter.Map{"p0": 7, "p1": "v", "p2": struct{}{}, "p3": []any{1}}
	for _, tt := range []struct {
		source string
		want   []filter.Term
	}{
		{`role == 'admin' && 2==(a.b)`, []filter.Term{{`role == "admin"`, "role", "==", "admin"}, {`2 == a.b`, "a.b", "==", int64(2)}}},
		{`a && (b && (c && d))`, []filter.Term{{Source: "a"}, {Source: "b"}, {Source: "c"}, {Source: "d"}}},
		{`a == 1 || b == 2`, []filter.Term{{Source: "a == 1 || b == 2"}}},
		{`(a == 1 || b) && c`, []filter.Term{{Source: "a == 1 || b"}, {Source: "c"}}},
		{`!(a && b)`, []filter.Term{{Source: "!(a && b)"}}},
		{`(a && b) == true`, []filter.Term{{`(a && b) == true`, "a && b", "==", true}}},
		{`true`, []filter.Term{{Source: "true"}}},

		// Literals of all types.
		{`a == null`, []filter.Term{{`a == null`, "a", "==", nil}}},
		{`a == -1`, []filter.Term{{`a == -1`, "a", "==", int64(-1)}}},
		{`a == 0x10u`, []filter.Term{{`a == 16u`, "a", "==", uint64(16)}}},
		{`a == 1.0`, []filter.Term{{`a == 1.0`, "a", "==", 1.0}}},
		{`a == b"\xff"`, []filter.Term{{`a == b"\377"`, "a", "==", []byte{0xff}}}},
		{`a == [1]`, []filter.Term{{Source: `a == [1]`}}},
		{`a == b`, []filter.Term{{Source: `a == b`}}},
		{`1 == 2`, []filter.Term{{`1 == 2`, "1", "==", int64(2)}}},
		{`a != 1`, []filter.Term{{Source: `a != 1`}}},
		{`a < 1`, []filter.Term{{Source: `a < 1`}}},

		// Texts.
		{`(t).contains( 'x' )`, []filter.Term{{`t.contains("x")`, "t", "contains", "x"}}},
		{`t["k"].startsWith('x')`, []filter.Term{{`t["k"].startsWith("x")`, `t["k"]`, "startsWith", "x"}}},
		{`(t + u).endsWith("x")`, []filter.Term{{`(t + u).endsWith("x")`, "t + u", "endsWith", "x"}}},
		{`t.matches("^x") && matches(u, "y$")`, []filter.Term{{`t.matches("^x")`, "t", "matches", "^x"}, {`matches(u, "y$")`, "u", "matches", "y$"}}},
		{`t.contains(u)`, []filter.Term{{Source: `t.contains(u)`}}},
		{`t.contains(1)`, []filter.Term{{Source: `t.contains(1)`}}},
		{`t.size() == 3`, []filter.Term{{`t.size() == 3`, "t.size()", "==", int64(3)}}},
		{`t.size()`, []filter.Term{{Source: `t.size()`}}},

		// Macros have the text that they were written as.
		{`xs.exists(x, x == 1) && has(a.b)`, []filter.Term{{Source: `xs.exists(x, x == 1)`}, {Source: `has(a.b)`}}},
		{`xs.filter(x, x > 1) == 'a'`, []filter.Term{{`xs.filter(x, x > 1) == "a"`, "xs.filter(x, x > 1)", "==", "a"}}},

		// A parameter is its value, and no text names one.
		{`role == p0`, []filter.Term{{"", "role", "==", int64(7)}}},
		{`.p0 == role`, []filter.Term{{"", "role", "==", int64(7)}}},
		{`p0 == p1`, []filter.Term{{}}},
		{`p0 == 7`, []filter.Term{{}}},
		{`t.contains(p1)`, []filter.Term{{"", "t", "contains", "v"}}},
		{`t.contains(p0)`, []filter.Term{{}}},
		{`p1.contains("v")`, []filter.Term{{}}},
		{`a == p2`, []filter.Term{{}}},
		{`a == p3`, []filter.Term{{"", "a", "==", []any{int64(1)}}}},
		{`a.p0 == 1 && a[p0] == 1`, []filter.Term{{"a.p0 == 1", "a.p0", "==", int64(1)}, {}}},
		{`xs.all(x, x == p0) && xs.all(x, x == 1)`, []filter.Term{{}, {Source: "xs.all(x, x == 1)"}}},

		// Parentheses that an unparser would forget.
		{`(-a).b == 1 && (!a)[0] == 1 && -(-1) == a && c == 1`, []filter.Term{{}, {}, {}, {"c == 1", "c", "==", int64(1)}}},
		{`(!a).exists(x, true) && (-2.5).b && !(!a) && (-a).getHours() == 1`, []filter.Term{{}, {}, {}, {}}},
	} {
		p := compile(t, tt.source, nil)
		if got := p.Terms(bound); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tt.source, got, tt.want)
		}
	}
	// Without parameters p0 is a variable like others.
	want := []filter.Term{{Source: "role == p0"}, {"p0 == 7", "p0", "==", int64(7)}}
	if got := compile(t, `role == p0 && p0 == 7`, nil).Terms(nil); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCanonical(t *testing.T) {
	for want, sources := range map[string][]string{
		`a == "x" && b`:                {`a=='x'&&b`, "a == \"x\" // comment\n && b", `((a) == """x""") && (b)`, `(a == r'x' && b)`},
		`a && b && c && d`:             {`a && (b && (c && d))`, `(a && b) && (c && d)`},
		`(a || b) && c`:                {`(a||b)&&c`, `((a || b)) && (c)`},
		`a - (b - c)`:                  {`a-(b-c)`, `(a) - (b - (c))`},
		`a - b - c`:                    {`(a - b) - c`},
		`xs.map(x, x > 1, [x, "é\n"])`: {`xs.map( x , x>1, [x,'é\n'])`, `(xs).map(x, (x > 1), [x, "\u00e9\n"])`},
		`!(!a)`:                        {`!(!a)`},
		`a`:                            {`(a)`, `!!a`},
	} {
		for _, source := range sources {
			if got := compile(t, source, nil).Canonical(); got != want {
				t.Errorf("%s: got %s, want %s", source, got, want)
			}
		}
	}
	long := strings.Repeat("a_long_name && ", 40) + "b"
	if got := compile(t, long, nil).Canonical(); got != long {
		t.Errorf("a long source became %q", got)
	}
}

// TestMeaning: the canonical text means what the program means, and the program is true where all of its terms are.
func TestMeaning(t *testing.T) {
	vars := filter.Map{"a": 1, "b": true, "s": "text", "m": map[string]any{"s": "text", "n": nil}, "xs": []any{1, 2.5, "x"}, "inf": math.Inf(-1)}
	for _, source := range []string{
		`a == 1 && b && s == "text" && m.s == 'text' && m["s"] == s`, `b && (a == 2 || s.contains("e")) && -a < -(-1)`, `m.n == null && missing == null`,
		`!(!b)`, `!!a`, `-(-a) == 1`, `(-a).b || b`, `b ? (a == 1 ? s : "x") : "y"`, `(b ? s : "x") == "text"`, `xs.all(x, x != 3) && xs.exists_one(x, x == "x")`,
		`xs.map(x, x == 1, [x]).filter(y, y[0] == 1) == [[1]]`, `{"a": 1.0, "b": b"\x00\xff"}.b == b"\000\377"`, `"\x00\u200b\"'\\" == "\0000"`, `a - (2 - 1) == 0`,
		`(a == 1) == b`, `a < 2 == b`, `1e300 > 1.0 && -0.0 == 0.0 && 1u == 1`, `has(m.s) && has(m.missing.x)`, `(a + 1) * 2 == 4 && a + 1 * 2 == 3`, `a % 2 in xs`,
		`type(a) == type(1) && .a == 1`, `inf < -1e308`, "m.`s` == s", `s.matches("^t") && (s + s).endsWith("xt") && size(s + "\t") == 5`,
	} {
		p := compile(t, source, nil)
		got, err := p.Eval(t.Context(), vars)
		same, sameErr := compile(t, p.Canonical(), nil).Eval(t.Context(), vars)
		if !reflect.DeepEqual(same, got) || (sameErr == nil) != (err == nil) {
			t.Errorf("%s is %v and %v, and as %s %v and %v", source, got, err, p.Canonical(), same, sameErr)
		}
		all := true
		for _, term := range p.Terms(nil) {
			if term.Source == "" { // one that keeps its spelling
				continue
			}
			matches, _ := compile(t, term.Source, nil).Match(t.Context(), vars)
			all = all && matches
			if term.Op != "==" {
				continue
			}
			bound := filter.Map{"subject": nil, "value": term.Value}
			bound["subject"], _ = compile(t, term.Subject, nil).Eval(t.Context(), vars)
			if equal, err := compile(t, `subject == value`, nil).Match(t.Context(), bound); err != nil || equal != matches {
				t.Errorf("%s: the term %+v is %v, and its sides are equal: %v and %v", source, term, matches, equal, err)
			}
		}
		if whole, _ := p.Match(t.Context(), vars); whole && !all {
			t.Errorf("%s is true, and its terms %+v together are not", source, p.Terms(nil))
		}
	}
}

// TestTermsConcurrent: several goroutines may ask one program.
func TestTermsConcurrent(t *testing.T) {
	p := compile(t, `1 == a && xs.exists(x, x == 1)`, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				if got := p.Terms(nil); len(got) != 2 || got[0].Subject != "a" || p.Canonical() != p.String() {
					t.Errorf("got %+v and %s", got, p.Canonical())
				}
			}
		})
	}
	wg.Wait()
}
