package sqlitesuite

import (
	"fmt"
	"strings"
)

// A tclWord is one word of a Tcl command, before substitution.
//
// https://www.tcl-lang.org/man/tcl8.6/TclCmd/Tcl.htm
type tclWord struct {
	text   string // without its braces or quotes
	at     int    // where text begins in the source
	braced bool   // nothing is substituted in it
}

// tclCommands splits a script into commands, and these into words. It stops at
// what it can't read. The script begins at base in the source.
func tclCommands(script string, base int) (commands [][]tclWord, err error) {
	p := &tclParser{s: script, base: base}
	for {
		words, ok, err := p.command()
		if err != nil {
			return commands, err
		}
		if len(words) > 0 {
			commands = append(commands, words)
		}
		if !ok {
			return commands, nil
		}
	}
}

type tclParser struct {
	s    string
	i    int
	base int
}

// command reads one command; ok is false when there is nothing behind it.
func (p *tclParser) command() (words []tclWord, ok bool, err error) {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '\n' || c == ';':
			p.i++
			if len(words) > 0 {
				return words, true, nil
			}
		case c == ' ' || c == '\t' || c == '\r':
			p.i++
		case c == '\\' && strings.HasPrefix(p.s[p.i:], "\\\n"):
			p.i += 2
		case c == '\\' && strings.HasPrefix(p.s[p.i:], "\\\r\n"):
			p.i += 3
		case c == '#' && len(words) == 0:
			p.comment()
		default:
			w, err := p.word()
			if err != nil {
				return words, false, err
			}
			words = append(words, w)
		}
	}
	return words, false, nil
}

// comment skips to the end of the line, which a backslash continues.
func (p *tclParser) comment() {
	for ; p.i < len(p.s) && p.s[p.i] != '\n'; p.i++ {
		if p.s[p.i] == '\\' {
			p.i++
		}
	}
}

func (p *tclParser) word() (tclWord, error) {
	start := p.i
	if strings.HasPrefix(p.s[p.i:], "{*}") && p.i+3 < len(p.s) {
		p.i += 3
		w, err := p.word()
		w.text, w.braced = "[list "+w.text+"]", false // several words: only Tcl can tell
		return w, err
	}
	switch p.s[p.i] {
	case '{':
		if !p.skipBraces() {
			return tclWord{}, fmt.Errorf("open brace at %d", p.base+start)
		}
		return tclWord{p.s[start+1 : p.i-1], p.base + start + 1, true}, nil
	case '"':
		p.i++
		if !p.skipTo(func(c byte) bool { return c == '"' }) {
			return tclWord{}, fmt.Errorf("open quote at %d", p.base+start)
		}
		p.i++
		return tclWord{p.s[start+1 : p.i-1], p.base + start + 1, false}, nil
	}
	p.skipTo(func(c byte) bool { return strings.IndexByte(" \t\r\n;", c) >= 0 })
	return tclWord{p.s[start:p.i], p.base + start, false}, nil
}

// skipTo moves to the first byte that ends a word, past what is nested or
// escaped; false if no byte does.
func (p *tclParser) skipTo(end func(byte) bool) bool {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case end(c):
			return true
		case c == '\\':
			p.i += 2
		case c == '[':
			depth := 0
			for ; p.i < len(p.s); p.i++ {
				switch p.s[p.i] {
				case '\\':
					p.i++
				case '[':
					depth++
				case ']':
					depth--
				}
				if depth == 0 {
					break
				}
			}
			p.i++
		default:
			p.i++
		}
	}
	p.i = min(p.i, len(p.s))
	return false
}

// skipBraces moves behind the brace that closes the one at p.i.
func (p *tclParser) skipBraces() bool {
	depth := 0
	for ; p.i < len(p.s); p.i++ {
		switch p.s[p.i] {
		case '\\':
			p.i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				p.i++
				return true
			}
		}
	}
	return false
}

// tclList splits a list into its elements.
func tclList(s string) ([]string, error) {
	var elements []string
	p := &tclParser{s: s}
	for {
		for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
			p.i++
		}
		if p.i >= len(p.s) {
			return elements, nil
		}
		start := p.i
		switch p.s[p.i] {
		case '{':
			if !p.skipBraces() {
				return nil, fmt.Errorf("open brace in a list")
			}
			elements = append(elements, p.s[start+1:p.i-1])
		case '"':
			end := start + 1
			for end < len(s) && s[end] != '"' {
				if s[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(s) {
				return nil, fmt.Errorf("open quote in a list")
			}
			elements, p.i = append(elements, tclUnescape(s[start+1:end])), end+1
		default:
			for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) < 0 {
				if p.s[p.i] == '\\' {
					p.i++
				}
				p.i++
			}
			p.i = min(p.i, len(p.s))
			elements = append(elements, tclUnescape(s[start:p.i]))
		}
	}
}

// tclUnescape replaces the backslash sequences that stand for one character.
func tclUnescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case '\n':
			b.WriteByte(' ')
			for i+1 < len(s) && (s[i+1] == ' ' || s[i+1] == '\t') {
				i++
			}
		case 'u':
			var r rune
			if n, err := fmt.Sscanf(s[i+1:min(len(s), i+5)], "%x", &r); n == 1 && err == nil {
				b.WriteRune(r)
				for n = 0; n < 4 && i+1 < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[i+1]) >= 0; n++ {
					i++
				}
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
