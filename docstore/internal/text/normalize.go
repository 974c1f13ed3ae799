// Package text is the half of a text index that knows nothing of storage. It normalises texts, cuts them into grams of
// three characters, encodes which documents hold a gram, and plans which grams the texts hold that match a pattern.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Normalize returns s in Unicode's normalisation form C with its case folded, so that texts which readers take for the
// same are the same: "STRASSE" and "straße" both give "strasse". Each run of bytes that isn't UTF-8 becomes one U+FFFD.
// Normalize returns its own results unchanged, and ASCII without capitals without an allocation.
func Normalize(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			// Form C comes first, because the folding of an accented letter may differ from that of its parts, and
			// again after, because folding takes letters apart.
			s = norm.NFC.String(strings.ToValidUTF8(s, "\uFFFD"))
			return norm.NFC.String(strings.Map(foldCherokee, cases.Fold().String(s)))
		}
	}
	return strings.ToLower(s)
}

// foldCherokee returns the capital of a letter of Cherokee, which Unicode folds to capitals. Package cases swaps its
// capitals and small letters instead.
func foldCherokee(r rune) rune {
	if unicode.Is(unicode.Cherokee, r) {
		return unicode.ToUpper(r)
	}
	return r
}
