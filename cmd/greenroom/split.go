package main

import (
	"bytes"
	"strings"
)

// A splitter cuts a stream of SQL into statements as it comes in, line by line,
// so that a statement runs as soon as its semicolon is there. It knows just
// enough of SQL for that: strings, quoted names, comments, and that the
// semicolons in the body of a trigger end nothing. SQLite's parser has the last
// word on each piece.
//
// A trigger's body is recognised as SQLite's own sqlite3_complete does it: what
// begins with CREATE [TEMP] TRIGGER goes on until "; END ;".
//
// https://sqlite.org/c3ref/complete.html
type splitter struct {
	buf   []byte
	start int // where in buf the statement begins; what is before has been returned
	pos   int // how much of buf is scanned
	line  int // newlines before buf[pos], since the start of the stream
	head  int // where in buf the statement's first token is, -1 before it
	from  int // the line of that token

	lex  lexState
	last byte   // the byte before, where two make a token
	word []byte // the word that is being read, in lower case
	stmt stmtState
}

// A piece is the text of a statement, with what is in front of it.
type piece struct {
	text string
	line int // of its first token, from 1
	head int // where in text that token is
}

// lexState says what the scanner is in the middle of.
type lexState byte

const (
	lexPlain lexState = 0
	lexLine  lexState = '-' // a comment that ends with the line
	lexBlock lexState = '*' // a comment that ends with */
	// Any other value is the quote, or the bracket, that ends a string or a name.
)

// stmtState says what of a statement has been seen.
type stmtState byte

const (
	stmtStart   stmtState = iota // nothing
	stmtExplain                  // EXPLAIN, and words that may follow it
	stmtCreate                   // CREATE, perhaps with TEMP
	stmtNormal                   // anything that the next semicolon ends
	stmtTrigger                  // the body of a trigger
	stmtSemi                     // a semicolon in it
	stmtEnd                      // END right after such a semicolon
)

// newSplitter returns a splitter at the start of a stream.
func newSplitter() *splitter { return &splitter{head: -1} }

// add takes the next part of the stream, of any length.
func (s *splitter) add(text string) {
	if s.start > 0 {
		s.buf = append(s.buf[:0], s.buf[s.start:]...)
		s.pos -= s.start
		s.head = max(s.head-s.start, -1)
		s.start = 0
	}
	s.buf = append(s.buf, text...)
}

// next returns the next whole statement, with the semicolon that ends it. ok is
// false until the input holds one.
func (s *splitter) next() (p piece, ok bool) {
	for s.pos < len(s.buf) {
		c := s.buf[s.pos]
		s.pos++
		done := s.scan(c)
		if c == '\n' {
			s.line++
		}
		if done {
			return s.cut(), true
		}
	}
	return piece{}, false
}

// rest returns what is left when the stream has ended: a statement without a
// semicolon. ok is false when no token is left.
func (s *splitter) rest() (p piece, ok bool) {
	found := s.head >= 0 || s.lex == lexPlain && s.last != 0
	return s.cut(), found
}

// drop forgets what is left, also what is not scanned yet.
func (s *splitter) drop() {
	s.line += bytes.Count(s.buf[s.pos:], []byte{'\n'})
	s.pos = len(s.buf)
	s.cut()
}

// skip counts a line of the stream that isn't SQL.
func (s *splitter) skip() { s.line++ }

// pending says whether the middle of a statement, or of a comment, is reached.
func (s *splitter) pending() bool {
	return s.head >= 0 || s.lex != lexPlain || s.last != 0
}

// cut takes everything scanned out of the buffer.
func (s *splitter) cut() piece {
	p := piece{text: string(s.buf[s.start:s.pos]), line: s.from + 1, head: max(s.head-s.start, 0)}
	if s.head < 0 {
		p.line = s.line + 1
	}
	*s = splitter{buf: s.buf, start: s.pos, pos: s.pos, line: s.line, head: -1, word: s.word[:0]}
	return p
}

// scan moves on by one byte and says whether it ended a statement.
func (s *splitter) scan(c byte) bool {
	switch s.lex {
	case lexPlain:
		return s.plain(c)
	case lexLine:
		if c == '\n' {
			s.lex = lexPlain
		}
	case lexBlock:
		if s.last == '*' && c == '/' {
			s.lex, s.last = lexPlain, 0
		} else {
			s.last = c
		}
	default:
		// A doubled quote ends one string and starts another: the same to us.
		if c == byte(s.lex) {
			s.lex = lexPlain
		}
	}
	return false
}

// plain is scan outside strings and comments.
func (s *splitter) plain(c byte) bool {
	if isWord(c) {
		s.operator()
		s.token(1)
		s.word = append(s.word, c|0x20) // what isn't a letter matches no keyword either
		return false
	}
	s.endWord()
	if c == '-' && s.last == '-' || c == '*' && s.last == '/' {
		s.lex, s.last = lexState(c), 0
		return false
	}
	s.operator()
	switch c {
	case ' ', '\t', '\n', '\f', '\r', '\v':
	case ';':
		return s.semicolon()
	case '-', '/':
		s.last = c // a token, unless it begins a comment
	default:
		s.other()
		if i := strings.IndexByte("'\"`[", c); i >= 0 {
			s.lex = lexState("'\"`]"[i])
		}
	}
	return false
}

// isWord says whether c can be part of a keyword or a name.
//
// https://sqlite.org/draft/tokenreq.html
func isWord(c byte) bool {
	return c >= 0x80 || c == '_' || c == '$' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// operator counts a held back - or / that began no comment as a token.
func (s *splitter) operator() {
	if s.last != 0 {
		s.last = 0
		s.token(2)
		s.step("")
	}
}

// other counts the current byte as a token that isn't a word.
func (s *splitter) other() {
	s.token(1)
	s.step("")
}

// token notes where the first token of a statement is: back bytes ago.
func (s *splitter) token(back int) {
	if s.head < 0 {
		s.head, s.from = s.pos-back, s.line
	}
}

func (s *splitter) endWord() {
	if len(s.word) > 0 {
		s.step(string(s.word))
		s.word = s.word[:0]
	}
}

// semicolon says whether a semicolon ends the statement. Those with no token
// before them are passed by: they end nothing.
func (s *splitter) semicolon() bool {
	if s.stmt == stmtTrigger || s.stmt == stmtSemi {
		s.stmt = stmtSemi
		return false
	}
	return s.head >= 0
}

// steps says which words lead from one state to which other.
var steps = map[stmtState]map[string]stmtState{
	stmtStart:   {"create": stmtCreate, "explain": stmtExplain},
	stmtExplain: {"create": stmtCreate, "query": stmtExplain, "plan": stmtExplain},
	stmtCreate:  {"temp": stmtCreate, "temporary": stmtCreate, "trigger": stmtTrigger},
	stmtSemi:    {"end": stmtEnd},
}

// step takes a token that is not a semicolon: a word in lower case, or "" for anything else.
// What is not in steps is part of a trigger's body, or of a statement of any other kind.
func (s *splitter) step(word string) {
	next, ok := steps[s.stmt][word]
	switch {
	case ok:
		s.stmt = next
	case s.stmt >= stmtTrigger:
		s.stmt = stmtTrigger
	default:
		s.stmt = stmtNormal
	}
}

// lineAt returns the line of p that the byte at offset is in.
func (p piece) lineAt(offset int) int {
	if offset < p.head {
		return p.line
	}
	return p.line + strings.Count(p.text[p.head:min(offset, len(p.text))], "\n")
}

// failed returns err as that of the statement at offset.
func (p piece) failed(offset int, err error) error {
	return &statementError{line: p.lineAt(max(offset, p.head)), err: err}
}
