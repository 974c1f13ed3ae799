package corpus

import (
	"math/rand/v2"
	"regexp"
	"strings"
)

// Patterns returns n patterns, the same each time for the same texts: of ten, seven are *middle* and one each is start*,
// *end and a whole text. All but the whole text are of 3 to 20 characters, cut out of a text at a random place, every
// fourth at the start of a word, and every eighth with one character changed, so that most of those match nothing. None
// has a star, a quotation mark, a backslash, % or _ beside the stars of its form.
func Patterns(texts []string, n int) []string {
	r := rand.New(rand.NewPCG(3, 4))
	patterns := make([]string, 0, n)
	for len(patterns) < n {
		t, size := []rune(texts[r.IntN(len(texts))]), 3+r.IntN(18)
		if len(t) < size {
			continue
		}
		at := r.IntN(len(t) - size + 1)
		for word := r.IntN(4) == 0; word && at > 0 && t[at-1] != ' '; {
			at--
		}
		before, cut, after := "*", t[at:at+size], "*"
		switch len(patterns) % 10 {
		case 7:
			before, cut = "", t[:size]
		case 8:
			cut, after = t[len(t)-size:], ""
		case 9:
			before, cut, after = "", t, ""
		default:
			if r.IntN(8) == 0 {
				cut[r.IntN(size)] = rune('a' + r.IntN(26))
			}
		}
		if !strings.ContainsAny(string(cut), `*"\%_`) {
			patterns = append(patterns, before+string(cut)+after)
		}
	}
	return patterns
}

// Short returns n patterns *middle* of one or two characters that Patterns would cut out.
func Short(texts []string, n int) []string {
	r := rand.New(rand.NewPCG(5, 6))
	var patterns []string
	for len(patterns) < n {
		t := []rune(texts[r.IntN(len(texts))])
		size := 1 + r.IntN(2)
		at := r.IntN(max(1, len(t)-size))
		if p := string(t[at:min(len(t), at+size)]); !strings.ContainsAny(p, `*"\%_`) {
			patterns = append(patterns, "*"+p+"*")
		}
	}
	return patterns
}

// Expressions returns n regular expressions, the same each time for the same texts: what Patterns cuts out, with a dot, a
// choice, a repetition or a class in the middle.
func Expressions(texts []string, n int) []string {
	r := rand.New(rand.NewPCG(7, 8))
	var all []string
	for _, p := range Patterns(texts, 4*n) {
		if !strings.HasPrefix(p, "*") || !strings.HasSuffix(p, "*") || len(all) == n {
			continue
		}
		cut := []rune(strings.Trim(p, "*"))
		at := 1 + r.IntN(len(cut)-1)
		before, after := regexp.QuoteMeta(string(cut[:at])), regexp.QuoteMeta(string(cut[at:]))
		all = append(all, before+[]string{".", ".*", "+", "(?:ing|er|s)?", `[a-z]?`, `\w*`}[r.IntN(6)]+after)
	}
	return all
}
