package text

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// Regular expressions are planned as https://swtch.com/~rsc/regexp/regexp4.html does, with characters for bytes.
const (
	maxSet    = 16         // strings in a set of facts
	maxClass  = 4 * maxSet // characters of a class that the plan looks at
	maxCopies = 4          // copies of a repeated part in the plan
)

// facts are what is known of the strings that a regular expression matches, in the characters of grams. Every such
// string begins with one of prefix and ends in one of suffix, and a text that holds it satisfies match.
type facts struct {
	// exact means that every string is one of prefix. Then suffix is the same.
	exact          bool
	prefix, suffix []string
	match          *Query
}

func exactly(set ...string) facts { return facts{true, set, set, &Query{Op: All}} }

// anything are the facts of every string.
func anything() facts { return exactly("").loosen() }

// factsOf returns the facts of the strings that re matches in normalised texts.
func factsOf(re *syntax.Regexp) facts {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return exactly("")
	case syntax.OpLiteral:
		return fold(re.Rune, exactly(""), concat, func(r rune) facts { return factsOfClass([]rune{r, r}) })
	case syntax.OpCharClass:
		return factsOfClass(re.Rune)
	case syntax.OpCapture, syntax.OpConcat:
		return fold(re.Sub, exactly(""), concat, factsOf)
	case syntax.OpNoMatch, syntax.OpAlternate:
		return fold(re.Sub, exactly(), alternate, factsOf)
	case syntax.OpQuest:
		return alternate(factsOf(re.Sub[0]), exactly(""))
	case syntax.OpPlus:
		return repeat(factsOf(re.Sub[0]), 1, -1)
	case syntax.OpRepeat:
		return repeat(factsOf(re.Sub[0]), re.Min, re.Max)
	}
	return anything()
}

// fold returns f joined with the facts of each part in turn.
func fold[T any](parts []T, f facts, join func(x, y facts) facts, of func(T) facts) facts {
	for _, part := range parts {
		f = join(f, of(part))
	}
	return f
}

// factsOfClass returns the facts of one character of a class, which is pairs of the first and the last of a range.
//
// A normalised text has no characters that Normalize changes into one other character, and the characters that regular
// expressions take for the same without regard to case are the same to Normalize. So what Normalize makes of a
// character is the one that a text can have.
func factsOfClass(class []rune) facts {
	var set []string
	for i := 0; i < len(class); i += 2 {
		for r := class[i]; r <= class[i+1]; r++ {
			s := strings.Map(unpad, Normalize(string(r)))
			if set = append(set, s); len(set) > maxClass || utf8.RuneCountInString(s) != 1 {
				return anything()
			}
		}
	}
	if set = distinct(set); len(set) > maxSet {
		return anything()
	}
	return exactly(set...)
}

func concat(x, y facts) facts {
	f := facts{x.exact && y.exact, x.prefix, y.suffix, and(x.match, y.match)}
	if x.exact {
		f.prefix = cross(x.prefix, y.prefix)
	}
	if y.exact {
		f.suffix = cross(x.suffix, y.suffix)
	}
	if !x.exact && !y.exact {
		f.match = and(f.match, planAny(cross(x.suffix, y.prefix)...))
	}
	return f.bound()
}

func alternate(x, y facts) facts {
	if x.exact != y.exact {
		x, y = x.loosen(), y.loosen()
	}
	prefix, suffix := slices.Concat(x.prefix, y.prefix), slices.Concat(x.suffix, y.suffix)
	return facts{x.exact && y.exact, prefix, suffix, or(x.match, y.match)}.bound()
}

// repeat returns the facts of least to most strings of f, or of any number from least on if most is -1.
func repeat(f facts, least, most int) facts {
	if least == 0 {
		return anything()
	}
	copies := f
	for range min(least, maxCopies) - 1 {
		copies = concat(copies, f)
	}
	if least == most && least <= maxCopies {
		return copies
	}
	return copies.loosen() // More copies begin and end as these do.
}

// loosen returns facts that aren't exact. What the sets say match says, too.
func (f facts) loosen() facts {
	return facts{false, f.prefix, f.suffix, and(f.match, planAny(f.prefix...), planAny(f.suffix...))}
}

// bound keeps the sets small. What they no longer have, match has.
func (f facts) bound() facts {
	f.prefix, f.suffix = distinct(f.prefix), distinct(f.suffix)
	long := func(s string) bool { return utf8.RuneCountInString(s) > 3 }
	if f.exact && len(f.prefix) <= maxSet && !slices.ContainsFunc(f.prefix, long) {
		return f
	}
	f = f.loosen()
	f.prefix = trim(f.prefix, func(s []rune, n int) []rune { return s[:n] })
	f.suffix = trim(f.suffix, func(s []rune, n int) []rune { return s[len(s)-n:] })
	return f
}

// trim cuts the strings of set to two characters, or to fewer until there are at most maxSet of them.
func trim(set []string, cut func(s []rune, n int) []rune) (short []string) {
	for n := 2; n == 2 || len(short) > maxSet; n-- {
		short = nil
		for _, s := range set {
			runes := []rune(s)
			short = append(short, string(cut(runes, min(n, len(runes)))))
		}
		short = distinct(short)
	}
	return short
}

// cross returns each string of set with each of ends behind it.
func cross(set, ends []string) (all []string) {
	for _, s := range set {
		for _, end := range ends {
			all = append(all, s+end)
		}
	}
	return all
}

func distinct(set []string) []string { return slices.Compact(slices.Sorted(slices.Values(set))) }
