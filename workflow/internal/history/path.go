package history

import (
	"strconv"
	"strings"
	"unicode"
)

// appendPath appends a location in words.
func appendPath(dst []byte, l Location, names []string) []byte {
	if l == "" {
		return append(dst, '.')
	}
	first := true
	var before segment // of dst's last segment
	for s := range l.segments() {
		// An iteration follows its loop, of which it is an attribute. Anywhere else, where no
		// program puts one, it is a segment by itself.
		if s.Loop && (first || before != segment{Name: s.Name}) {
			if !first {
				dst = append(dst, '/')
			}
			dst = appendName(append(dst, '~'), s.Name, names)
		} else if !s.Loop {
			if !first {
				dst = append(dst, '/')
			}
			dst = appendName(dst, s.Name, names)
		}
		if s.Loop {
			dst = strconv.AppendUint(append(dst, '['), uint64(s.Iteration), 10)
			dst = append(dst, ']')
		}
		first, before = false, s
	}
	return dst
}

// appendName appends a name, quoted if it could be taken for something else.
func appendName(dst []byte, i NameIndex, names []string) []byte {
	if int64(i) >= int64(len(names)) {
		return strconv.AppendUint(append(dst, '#'), uint64(i), 10)
	}
	name := names[i]
	if name == "" || name == "." || strings.IndexFunc(name, odd) >= 0 {
		return strconv.AppendQuote(dst, name)
	}
	return append(dst, name...)
}

// odd reports whether a name with r in it calls for quotes.
func odd(r rune) bool {
	switch r {
	case '-', '_', '.', ':', '@', '+', '=', '$':
		return false
	}
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) || r == unicode.ReplacementChar
}
