package text

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A Gram is three characters that follow each other in a text, each a rune of 21 bits, the first in the highest of 63.
// Grams are in the order of their characters' UTF-8.
//
// Before a text is cut into grams, one U+0002 is put at its start and two U+0003 are put at its end. So every character
// of the text begins a gram, every two characters begin one, and a gram knows the start and the end of the text. Where
// the text itself has one of these two characters, its grams have U+FFFD instead.
type Gram uint64

const padStart, padEnd, runeBits = '\x02', '\x03', 21

// push returns the gram of the last two characters of g and of r.
func (g Gram) push(r rune) Gram { return (g<<runeBits | Gram(r)) & (1<<(3*runeBits) - 1) }

// unpad returns the character that stands for r of a text in its grams.
func unpad(r rune) rune {
	if r == padStart || r == padEnd {
		return utf8.RuneError
	}
	return r
}

// Grams appends to dst the grams of a text that Normalize has returned, each once, in order. An empty text has one gram.
// If dst has room for one gram more than the text has bytes, Grams allocates nothing.
func Grams(dst []Gram, normalized string) []Gram {
	start := len(dst)
	dst = slices.Grow(dst, len(normalized)+1)
	g := Gram(padStart)
	for _, r := range normalized {
		g = g.push(unpad(r))
		dst = append(dst, g)
	}
	g = g.push(padEnd)
	dst = append(dst, g)
	// The first one has only two characters. The last one takes its place.
	dst[start] = g.push(padEnd)
	slices.Sort(dst[start:])
	return dst[:start+len(slices.Compact(dst[start:]))]
}

// String returns the three characters.
func (g Gram) String() string {
	const mask = 1<<runeBits - 1
	return string([]rune{rune(g >> (2 * runeBits)), rune(g >> runeBits & mask), rune(g & mask)})
}

// Pair returns the first two characters, and Third the last one.
func (g Gram) Pair() string { return pairOf(g >> runeBits) }

// Third returns the last character.
func (g Gram) Third() rune { return rune(g & (1<<runeBits - 1)) }

// pairOf returns the two characters of a gram without a third one.
func pairOf(g Gram) string { return string([]rune{rune(g >> runeBits), rune(g & (1<<runeBits - 1))}) }

// Padded reports whether characters of grams have the start or the end of a text.
func Padded(chars string) bool { return strings.ContainsAny(chars, "\x02\x03") }

// AppendKey appends to dst how the first characters of grams stand in keys: in UTF-8, with NUL escaped as ~00 and ~ as ~7e.
// The keys that begin so are those of grams that begin with these characters, and no others. Existing keys will not change.
func AppendKey(dst []byte, chars string) []byte {
	for _, r := range chars {
		switch r {
		case 0:
			dst = append(dst, "~00"...)
		case '~':
			dst = append(dst, "~7e"...)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

var unescape = strings.NewReplacer("~00", "\x00", "~7e", "~")

// ParseKey returns the characters of a key, or false for what AppendKey doesn't return.
func ParseKey(key string) (chars string, ok bool) {
	chars = unescape.Replace(key)
	return chars, string(AppendKey(nil, chars)) == key
}
