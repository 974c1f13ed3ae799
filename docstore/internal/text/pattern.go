package text

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// ErrTooLarge is returned by Regexp for a source of more than 4096 bytes. It is of the kind errkind.ErrTooLarge.
var ErrTooLarge = errkind.New("text: the regular expression is too large", errkind.ErrTooLarge)

const maxRegexp = 4096

// A Pattern matches texts. It may be used concurrently.
type Pattern struct {
	// literal is normalised. Anything may stand before it, or after it.
	literal       []byte
	before, after bool
	re            *regexp.Regexp // If it isn't nil, the others don't count.
	query         *Query
}

// Parse returns the pattern *mid*, which matches the texts that contain mid, start*, *end, or one without a star at
// either end, which matches the text that is the same. A star elsewhere is one. The patterns * and ** match every text.
// The texts that are compared are those that Normalize returns.
func Parse(pattern string) *Pattern {
	literal, before := strings.CutPrefix(pattern, "*")
	literal, after := strings.CutSuffix(literal, "*")
	literal = Normalize(literal)
	p := &Pattern{literal: []byte(literal), before: before, after: after}
	if literal == "" && (before || after) {
		p.before, p.after = true, true
	}
	held := strings.Map(unpad, literal)
	padded := held
	if !p.before {
		padded = string(padStart) + padded
	}
	if !p.after {
		padded += string(padEnd)
		if utf8.RuneCountInString(padded) < 3 {
			padded += string(padEnd)
		}
	}
	p.query = planAny(padded)
	// More than one gram may stand elsewhere in a text, and U+FFFD for other characters.
	p.query.Exact = utf8.RuneCountInString(padded) <= 3 && !strings.ContainsRune(held, utf8.RuneError)
	return p
}

// Regexp returns the pattern of a regular expression in Go's syntax, with the flag i set: it matches without regard to
// case. It matches the texts in which a match is found once Normalize has returned them, so a character that case
// folding takes apart, as ß, matches nothing: write ss. The source is brought into Unicode's normalisation form C first.
//
// The error is ErrTooLarge or wraps a *syntax.Error.
func Regexp(source string) (*Pattern, error) {
	if len(source) > maxRegexp {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(source), maxRegexp)
	}
	source = norm.NFC.String(source)
	re, err := regexp.Compile("(?i)" + source)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	tree, _ := syntax.Parse(re.String(), syntax.Perl) // Compile parsed it, too.
	return &Pattern{re: re, query: factsOf(tree).loosen().match}, nil
}

// Query returns the plan: every text that the pattern matches satisfies it, by the grams that Grams returns.
func (p *Pattern) Query() *Query { return p.query }

// Match reports whether the pattern matches a text that Normalize has returned. It doesn't retain it.
func (p *Pattern) Match(normalized []byte) bool {
	switch {
	case p.re != nil:
		return p.re.Match(normalized)
	case p.before && p.after:
		return bytes.Contains(normalized, p.literal)
	case p.after:
		return bytes.HasPrefix(normalized, p.literal)
	case p.before:
		return bytes.HasSuffix(normalized, p.literal)
	}
	return bytes.Equal(normalized, p.literal)
}

// Count returns how often the pattern matches in a text that Normalize has returned, and 0 if it doesn't match. For
// *mid* and a regular expression it is the number of matches that don't overlap and aren't empty, or 1 if all are
// empty. For the other forms it is 1.
func (p *Pattern) Count(normalized []byte) (n int) {
	switch {
	case p.re != nil:
		for _, at := range p.re.FindAllIndex(normalized, -1) {
			n += min(at[1]-at[0], 1)
		}
	case p.before && p.after && len(p.literal) > 0:
		return bytes.Count(normalized, p.literal)
	}
	if n == 0 && p.Match(normalized) {
		n = 1
	}
	return n
}
