// Package visible writes text of others so that all of it shows, and nothing in it commands a terminal or turns the direction of what stands behind it.
package visible

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns text in which characters that don't print, and bytes that aren't UTF-8, are escaped as in a literal of Go: \x1b, \u202e. Characters of kept stay,
// and so does what is escaped already.
func Text(text, kept string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(kept, r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		part := text[:n]
		if r == utf8.RuneError && n == 1 || hidden(r) {
			part = strings.Trim(strconv.QuoteToASCII(part), `"`)
		}
		b.WriteString(part)
		text = text[n:]
	}
	return b.String()
}

// Writer returns a writer that writes to w what is visible of each piece, which holds whole characters. Line feeds stay.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Text(string(p), "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}
