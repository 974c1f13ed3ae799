package main

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/visible"
)

// What a store, a file or a server says may hold characters that command a terminal: to
// change its title, to write over what stands there, to turn the direction of a line. So
// the program writes text in one of these ways:
//
//   - everything on stderr goes through a visible.Writer (see run), and so does what the
//     shell says;
//   - tables, and lists that are taken apart line by line, escape their cells, and so does
//     every list on a terminal;
//   - JSON is written by newJSON and appendJSON, and escaped in its own way.
//
// What is left as it is are values that are asked for as they are, on their way to a file
// or another program.

// visibleText escapes what would command a terminal instead of showing on it, and what isn't
// UTF-8. Line feeds stay. What is escaped already stays as it is.
func visibleText(s string) string { return visible.Text(s, "\n") }

// newJSON returns an encoder whose texts show nothing but what prints.
func newJSON(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(jsonWriter{w})
	enc.SetEscapeHTML(false)
	return enc
}

// A jsonWriter gets whole values from an encoder.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(p []byte) (int, error) {
	if _, err := j.w.Write(appendVisibleJSON(nil, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// appendVisibleJSON appends JSON with everything escaped that doesn't print, or isn't UTF-8.
// Beyond ASCII that is in its strings. encoding/json escapes what is below a blank, and no
// more: not the controls from 7F to 9F, nor those that turn the direction.
func appendVisibleJSON(dst, text []byte) []byte {
	for n := 0; len(text) > 0; text = text[n:] {
		var r rune
		r, n = utf8.DecodeRune(text)
		if r < 0x7f || unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			dst = append(dst, text[:n]...)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			dst = fmt.Appendf(dst, `\u%04x`, unit)
		}
	}
	return dst
}
