package text_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore/internal/text"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// show prints a query: a gram as it is, a prefix with a dash, the pads as < and >.
func show(q *text.Query) string {
	var s string
	var subs []string
	for _, sub := range q.Sub {
		subs = append(subs, show(sub))
	}
	switch q.Op {
	case text.All:
		s = "all"
	case text.None:
		s = "none"
	case text.One:
		s = q.Gram.String()
	case text.Begins:
		s = q.Prefix + "-"
	case text.And:
		s = "(" + strings.Join(subs, " ") + ")"
	case text.Or:
		s = "(" + strings.Join(subs, "|") + ")"
	}
	if q.Exact {
		s += " exact"
	}
	return strings.NewReplacer("\x02", "<", "\x03", ">").Replace(s)
}

// satisfies reports whether a text with grams satisfies q.
func satisfies(q *text.Query, grams []text.Gram) bool {
	sub := func(q *text.Query) bool { return satisfies(q, grams) }
	switch q.Op {
	case text.All:
		return true
	case text.One:
		return slices.Contains(grams, q.Gram)
	case text.Begins:
		return slices.ContainsFunc(grams, func(g text.Gram) bool { return strings.HasPrefix(g.String(), q.Prefix) })
	case text.And:
		return !slices.ContainsFunc(q.Sub, func(q *text.Query) bool { return !sub(q) })
	case text.Or:
		return slices.ContainsFunc(q.Sub, sub)
	}
	return false
}

// leaves returns how many grams and prefixes q has.
func leaves(q *text.Query) int {
	n := 0
	if q.Op == text.One || q.Op == text.Begins {
		n = 1
	}
	for _, sub := range q.Sub {
		n += leaves(sub)
	}
	return n
}

// check reports a text that p matches against its query, or the other way round if the query is exact.
func check(t *testing.T, name string, p *text.Pattern, normalized string) {
	t.Helper()
	match, planned := p.Match([]byte(normalized)), satisfies(p.Query(), text.Grams(nil, normalized))
	if match && !planned || p.Query().Exact && match != planned {
		t.Errorf("%s and %+q: it matches: %v, its query %s: %v", name, normalized, match, show(p.Query()), planned)
	}
	if count := p.Count([]byte(normalized)); match != (count > 0) {
		t.Errorf("%s and %+q: it matches: %v, and %d times", name, normalized, match, count)
	}
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          int
	}{
		{"", "", 1}, {"", "a", 0}, {"a", "", 0}, {"a", "a", 1}, {"a", "aa", 0}, {"ab", "ab", 1}, {"abc", "abc", 1},
		{"*", "", 1}, {"*", "abc", 1}, {"**", "", 1}, {"**", "abc", 1}, {"***", "a*b*", 2}, {"***", "ab", 0}, {"****", "a**b", 1},
		{"*a*", "", 0}, {"*a*", "banana", 3}, {"*ana*", "banana", 1}, {"*aa*", "aaaaa", 2}, {"*aaa*", "aaaaa", 1},
		{"a*", "abca", 1}, {"a*", "ba", 0}, {"*a", "abca", 1}, {"*a", "ab", 0}, {"*ab", "ab", 1}, {"abc*", "abcd", 1},
		{"a*b", "a*b", 1}, {"a*b", "aXb", 0}, {"*a*b*", "xa*by", 1}, {"*a*b", "xa*b", 1},
		{"*z*", "the last is z", 1}, {"*is z*", "the last is z", 1}, {"*z", "the last is z", 1}, // the last character
		{"*HELLO*", "say hello", 1}, {"*hello*", "SAY HELLO", 1}, {"STRASSE", "Straße", 1}, {"*ß*", "STRASSE", 1}, {"ΣΊΣΥΦΟΣ", "σίσυφος", 1},
		{"*é*", "cafe\u0301", 1}, {"*e\u0301*", "café", 1}, {"*e*", "é", 0}, {"*\u0301*", "x\u0301", 1}, {"caf*", "CAFÉ", 1},
		{"*日本*", "これは日本語です", 1}, {"*語*", "日本語", 1}, {"*日語*", "日本語", 0},
		{"*😀*", "a😀b😀", 2}, {"😀", "😀", 1}, {"*👩\u200D🚀", "the 👩\u200D🚀", 1}, {"*👩*", "👩\u200D🚀", 1},
		{"*abcd*", "abc bcd", 0}, {"abab", "ababab", 0}, {"abc*", "ab abc", 0}, // their grams are all in the text
		{"ab*", "x\x02ab", 0}, {"*ab", "ab\x03x", 0}, {"", "\x02\x03\x03", 0}, {"*\x02*", "\x03", 0}, {"*\x02*", "a\x02\x02", 2},
		{"a\x03", "a", 0}, {"*\x00~*", "\x00~", 1}, {"*\xff*", "\uFFFD", 1},
	} {
		p, normalized := text.Parse(test.pattern), text.Normalize(test.text)
		if got := p.Count([]byte(normalized)); got != test.want {
			t.Errorf("%q is %d times in %q, want %d", test.pattern, got, test.text, test.want)
		}
		check(t, test.pattern, p, normalized)
	}
}

func TestPlan(t *testing.T) {
	for _, test := range []struct{ pattern, want string }{
		{"", "<>> exact"}, {"a", "<a> exact"}, {"ab", "(<ab ab>)"}, {"abc", "(<ab abc bc>)"},
		{"*", "all exact"}, {"**", "all exact"},
		{"*a*", "a- exact"}, {"*ab*", "ab- exact"}, {"*abc*", "abc exact"}, {"*abcd*", "(abc bcd)"}, {"*aaaa*", "aaa"},
		{"a*", "<a- exact"}, {"ab*", "<ab exact"}, {"abc*", "(<ab abc)"},
		{"*a", "a>> exact"}, {"*ab", "ab> exact"}, {"*abc", "(abc bc>)"},
		{"*A*", "a- exact"}, {"*ß*", "ss- exact"}, {"*e\u0301x*", "éx- exact"}, {"*日本語*", "日本語 exact"},
		{"*\x02*", "\uFFFD-"}, {"\x03", "<\uFFFD>"}, {"*a\x03\x03*", "a\uFFFD\uFFFD"}, {"*\uFFFD*", "\uFFFD-"},
	} {
		if got := show(text.Parse(test.pattern).Query()); got != test.want {
			t.Errorf("the plan of %q is %s, want %s", test.pattern, got, test.want)
		}
	}
}

func TestPlanRegexp(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{"", "all"}, {".", "all"}, {".*", "all"}, {"a*", "all"}, {"a?", "all"}, {"^$", "all"}, {`\d`, "(0-|1-|2-|3-|4-|5-|6-|7-|8-|9-)"},
		{"a", "a-"}, {"ab", "ab-"}, {"abc", "abc"}, {"abcde", "(abc bcd cde)"}, {"Hello", "(hel ell llo)"}, {"^abc$", "abc"}, {`\babc\b`, "abc"},
		{"abc|def", "(abc|def)"}, {"abc|d", "(abc|d-)"}, {"abc|ab", "ab-"}, {"abc|.", "all"}, {"ab(c|d)ef", "((abc bce cef)|(abd bde def))"},
		{"abc.*def", "(abc def)"}, {"abc.*d", "abc"}, {"a.*b", "(a- b-)"}, {".*ab.*", "ab-"}, {".abc.", "abc"}, {"foo.+bar|x", "((foo bar)|x-)"},
		{"ab+c", "(ab- bc-)"}, {"(abc)+", "abc"}, {"a{3}", "aaa"}, {"a{3,}", "aaa"}, {"(ab){2,3}", "(aba bab)"}, {"(abc)?", "all"}, {"(abc)?d", "d-"},
		{"[ab]cd", "(acd|bcd)"}, {"[a-z]bc", "bc-"}, {"[^a]bcd", "bcd"}, {"(?s)abc.def", "(abc def)"},
		{"stRing[sS]", "(str tri rin ing ngs)"}, {"[kK\u212A]ey", "key"}, {"(?-i)KEY", "key"}, {"(?-i:K)\u017F.", "ks-"},
		{"aßb", "(a- b-)"}, {"İstanbul", "(sta tan anb nbu bul)"}, {"σίσυφος", "(σίσ ίσυ συφ υφο φοσ)"}, {"e\u0301té", "été"}, {"日本語", "日本語"},
		{"a\x02b", "a\uFFFDb"}, {`\x03`, "\uFFFD-"}, {`[^\x00-\x{10FFFF}]`, "none"}, {`abc[^\x00-\x{10FFFF}]|de`, "de-"},
	} {
		p, err := text.Regexp(test.source)
		if err != nil {
			t.Errorf("%q: %v", test.source, err)
			continue
		}
		if got := show(p.Query()); got != test.want {
			t.Errorf("the plan of %q is %s, want %s", test.source, got, test.want)
		}
	}
}

func TestRegexp(t *testing.T) {
	for _, test := range []struct {
		source, text string
		want         int
	}{
		{"an", "banana", 2}, {"ana", "banana", 1}, {"b.n", "BANANA", 1}, {"^an", "banana", 0}, {"na$", "banana", 1},
		{"a*", "baac", 1}, {"a*", "aaba", 2}, {"x*", "banana", 1}, {"", "", 1}, {"^", "abc", 1}, {"(?m)^.", "a\nb", 2},
		{"É", "cafe\u0301", 1}, {"e\u0301", "CAFÉ", 1}, {"k", "\u212A", 1}, {"ß", "ß", 0}, {"ss", "ß", 1}, {"ς", "Σ", 1},
		{"日.語", "日本語", 1}, {"^.$", "😀", 1}, {`a\x02`, "a\x02", 1}, {"a|b", "ab", 2},
	} {
		p, err := text.Regexp(test.source)
		if err != nil {
			t.Errorf("%q: %v", test.source, err)
			continue
		}
		normalized := text.Normalize(test.text)
		if got := p.Count([]byte(normalized)); got != test.want {
			t.Errorf("%q is %d times in %q, want %d", test.source, got, test.text, test.want)
		}
		check(t, test.source, p, normalized)
	}
}

func TestRegexpErrors(t *testing.T) {
	for _, test := range []struct {
		source string
		want   syntax.ErrorCode
	}{
		{"a(b", syntax.ErrMissingParen}, {"a)(b", syntax.ErrUnexpectedParen}, {"[b-a]", syntax.ErrInvalidCharRange},
		{"*", syntax.ErrMissingRepeatArgument}, {"a{1001}", syntax.ErrInvalidRepeatSize}, {"\xff", syntax.ErrInvalidUTF8},
	} {
		_, err := text.Regexp(test.source)
		var at *syntax.Error
		if !errors.As(err, &at) || at.Code != test.want {
			t.Errorf("Regexp(%q): %v, want %v", test.source, err, test.want)
		}
	}
	for _, long := range []string{strings.Repeat("a", 4096), strings.Repeat("ab?", 1365), strings.Repeat("日[k]", 682), strings.Repeat("[a-p]{4}", 512)} {
		p, err := text.Regexp(long)
		if err != nil {
			t.Fatal(err)
		}
		if n := leaves(p.Query()); n == 0 || n > 64 {
			t.Errorf("the plan of %.10q… has %d grams", long, n)
		}
	}
	if _, err := text.Regexp(strings.Repeat("a", 4097)); !errors.Is(err, text.ErrTooLarge) || !errors.Is(err, errkind.ErrTooLarge) {
		t.Errorf("4097 bytes: %v, want %v", err, text.ErrTooLarge)
	}
	if n := leaves(text.Parse(strings.Repeat("0123456789abcdefghij", 3) + "the quick brown fox jumps over the lazy dog").Query()); n > 64 {
		t.Errorf("the plan of a long literal has %d grams", n)
	}
}

// TestPatternsRandom compares the four forms of random patterns with a scan of random texts.
func TestPatternsRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 20_000 {
		size := 3 + r.IntN(len(alphabet)-2)
		normalized := text.Normalize(randomText(r, 10, size))
		literal := randomText(r, 4, size)
		if runes := []rune(normalized); r.IntN(2) == 0 && len(runes) > 0 {
			from := r.IntN(len(runes))
			literal = string(runes[from : from+r.IntN(len(runes)-from)+1])
		}
		want := text.Normalize(strings.Trim(literal, "*"))
		literal = strings.Trim(literal, "*")
		scan := 0
		for at := 0; at+len(want) <= len(normalized) && want != ""; at++ {
			if normalized[at:at+len(want)] == want {
				scan, at = scan+1, at+len(want)-1
			}
		}
		yes := map[bool]int{true: 1}
		for pattern, want := range map[string]int{
			"*" + literal + "*": max(scan, yes[want == ""]),
			literal + "*":       yes[len(normalized) >= len(want) && normalized[:len(want)] == want],
			"*" + literal:       yes[len(normalized) >= len(want) && normalized[len(normalized)-len(want):] == want],
		} {
			p := text.Parse(pattern)
			if got := p.Count([]byte(normalized)); got != want {
				t.Errorf("%+q is %d times in %+q, want %d", pattern, got, normalized, want)
			}
			check(t, fmt.Sprintf("%+q", pattern), p, normalized)
		}
		whole := text.Parse(literal)
		if got := whole.Match([]byte(normalized)); got != (normalized == want) {
			t.Errorf("%+q matches %+q: %v", literal, normalized, got)
		}
		check(t, fmt.Sprintf("%+q", literal), whole, normalized)
	}
}

// randomRegexp returns the source of an expression over the first size characters of alphabet.
func randomRegexp(r *rand.Rand, depth, size int) string {
	letter := func() string { return regexp.QuoteMeta(string(alphabet[r.IntN(size)])) }
	if depth == 0 || r.IntN(4) == 0 {
		switch r.IntN(8) {
		case 0:
			return []string{".", "^", "$", `\b`, `\w`, `[^a]`, `\pL`, `(?s:.)`, "(?-i:A)", ""}[r.IntN(10)]
		case 1:
			return "[" + letter() + letter() + letter() + "]"
		}
		s := letter()
		for range r.IntN(5) {
			s += letter()
		}
		return s
	}
	sub := func() string { return randomRegexp(r, depth-1, size) }
	switch r.IntN(6) {
	case 0:
		return "(?:" + sub() + "|" + sub() + ")"
	case 1:
		return "(" + sub() + ")" + []string{"*", "+", "?", "{2}", "{2,3}", "{0,2}", "{3,}", "{0}", "+?"}[r.IntN(9)]
	case 2:
		return sub() + sub() + sub()
	}
	return sub() + sub()
}

// TestRegexpRandom: a text that a random expression matches satisfies its query, and Count counts.
func TestRegexpRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	matches, selective := 0, 0
	for range 8_000 {
		size := 2 + r.IntN(len(alphabet)-1)
		source := randomRegexp(r, r.IntN(5), size)
		p, err := text.Regexp(source)
		if err != nil {
			continue // a mark may compose with what it follows, and an escape with it
		}
		if n := leaves(p.Query()); n > 64 {
			t.Errorf("the plan of %+q has %d grams", source, n)
		}
		if p.Query().Op != text.All {
			selective++
		}
		for range 10 {
			normalized := text.Normalize(randomText(r, 12, size))
			check(t, fmt.Sprintf("%+q", source), p, normalized)
			if p.Match([]byte(normalized)) {
				matches++
			}
		}
	}
	if matches < 4_000 || selective < 2_000 {
		t.Errorf("%d matches of %d selective expressions are too few to show anything", matches, selective)
	}
}

func FuzzRegexp(f *testing.F) {
	for _, source := range []string{"abc.*d|e", "(ab+c){2,3}", "[k-ſ]ey", `^a\x02?$`, "ßé", `\pL{2}x`, "((a|b)(c|d)){3}"} {
		f.Add(source, "abc KEY straße \x02")
	}
	f.Fuzz(func(t *testing.T, source, s string) {
		if len(source) > 200 {
			return
		}
		p, err := text.Regexp(source)
		if err != nil {
			return
		}
		if n := leaves(p.Query()); n > 64 {
			t.Errorf("the plan of %+q has %d grams", source, n)
		}
		check(t, fmt.Sprintf("%+q", source), p, text.Normalize(s))
	})
}
