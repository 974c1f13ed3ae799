package sqlconfine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// SQLite looks whether a statement is to end between the steps of its machine, not within
// a function. Most functions take as long as their values are, which are bounded; the
// built-in ones below take as long as one value times another, which is minutes. So they
// are replaced by functions that mean the same, byte for byte, and are over with the turn.
//
// https://sqlite.org/lang_corefunc.html

// replaced are those functions, by name, with the numbers of their arguments.
var replaced = []struct {
	name string
	args []int
	fn   func(p *pace, arg []sqlite3.Value) (text []byte, n int, err error)
}{
	{"like", []int{2, 3}, like},
	{"glob", []int{2}, glob},
	{"instr", []int{2}, instr},
	{"replace", []int{3}, replace},
	{"trim", []int{1, 2}, trim(true, true)},
	{"ltrim", []int{1, 2}, trim(true, false)},
	{"rtrim", []int{1, 2}, trim(false, true)},
	{"unhex", []int{2}, unhex},
}

// What a function returns in place of a number.
const (
	isNull = -1 - iota
	isText
	isBlob
)

// replaceFunctions puts the functions in the place of SQLite's.
func replaceFunctions(c *sqlite3.Conn) error {
	for _, f := range replaced {
		for _, n := range f.args {
			err := c.CreateFunction(f.name, n, sqlite3.DETERMINISTIC|sqlite3.INNOCUOUS, func(ctx sqlite3.Context, arg ...sqlite3.Value) {
				p := &pace{conn: ctx.Conn()}
				text, n, err := f.fn(p, arg)
				p.look()
				switch {
				case p.over:
					ctx.ResultError(sqlite3.INTERRUPT)
				case err != nil:
					ctx.ResultError(err)
				case n == isText:
					ctx.ResultRawText(text)
				case n == isBlob:
					ctx.ResultBlob(text)
				case n == isNull:
					ctx.ResultNull()
				default:
					ctx.ResultInt(n)
				}
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// A pace is how far a function has got.
type pace struct {
	conn  *sqlite3.Conn
	steps int
	over  bool // the time is, and what the function finds doesn't matter
}

// stepsPerLook is how many steps of some nanoseconds are between two looks at the time.
const stepsPerLook = 1 << 16

// step counts n steps, and says whether the time is over.
func (p *pace) step(n int) bool {
	if p.steps += n; p.steps >= stepsPerLook {
		p.look()
	}
	return p.over
}

func (p *pace) look() {
	p.steps, p.over = 0, p.conn.GetInterrupt().Err() != nil
}

// anyNull says whether one of the values is NULL.
func anyNull(arg []sqlite3.Value) bool {
	return slices.ContainsFunc(arg, func(v sqlite3.Value) bool { return v.Type() == sqlite3.NULL })
}

// instr is where the second value is in the first one: the number of a byte if both are
// blobs, and of a character else.
func instr(p *pace, arg []sqlite3.Value) ([]byte, int, error) {
	if anyNull(arg) {
		return nil, isNull, nil
	}
	blobs := arg[0].Type() == sqlite3.BLOB && arg[1].Type() == sqlite3.BLOB
	get := sqlite3.Value.RawText
	if blobs {
		get = sqlite3.Value.RawBlob
	}
	s := newSearch(get(arg[0]), get(arg[1]))
	if len(s.what) == 0 {
		return nil, 1, nil
	}
	for at, found := s.next(p); found; at, found = s.next(p) {
		switch {
		case blobs:
			return nil, at + 1, nil
		case at > 0 && continues(s.in[at]): // within a character
			s.has = s.again[len(s.what)] // the next place may overlap this one
		default:
			return nil, characters(s.in[:at]) + 1, nil
		}
	}
	return nil, 0, nil
}

// continues says whether a byte isn't the first one of a character.
func continues(b byte) bool { return b&0xc0 == 0x80 }

// characters counts them; what comes before the first is one.
func characters(b []byte) (n int) {
	for i, c := range b {
		if i == 0 || !continues(c) {
			n++
		}
	}
	return n
}

// replace puts the third value where the second one is in the first.
func replace(p *pace, arg []sqlite3.Value) ([]byte, int, error) {
	if anyNull(arg[:2]) {
		return nil, isNull, nil
	}
	in, what := arg[0].RawText(), arg[1].RawText()
	if len(what) == 0 || what[0] == 0 {
		return in, isText, nil
	}
	if anyNull(arg[2:]) {
		return nil, isNull, nil
	}
	with, limit := arg[2].RawText(), p.conn.Limit(sqlite3.LIMIT_LENGTH, -1)
	var out []byte
	s, from := newSearch(in, what), 0
	for at, found := s.next(p); found; at, found = s.next(p) {
		out = append(append(out, in[from:at]...), with...)
		if from = at + len(what); len(out) > limit {
			return nil, 0, sqlite3.TOOBIG
		}
	}
	if out = append(out, in[from:]...); len(out) > limit {
		return nil, 0, sqlite3.TOOBIG
	}
	return out, isText, nil
}

// A search finds what in in, one place behind the other, in steps of the length of both
// together: the algorithm of Knuth, Morris and Pratt.
type search struct {
	in, what []byte
	at       int   // in in, the next byte
	has      int   // bytes of what that are before it
	again    []int // by how many bytes of what fit: how many fit if the next one doesn't
}

func newSearch(in, what []byte) *search {
	s := &search{in: in, what: what}
	if len(what) > len(in) {
		s.in = nil // nothing is there
		return s
	}
	s.again = make([]int, len(what)+1)
	for i, has := 1, 0; i < len(what); i++ {
		for has > 0 && what[i] != what[has] {
			has = s.again[has]
		}
		if what[i] == what[has] {
			has++
		}
		s.again[i+1] = has
	}
	return s
}

// next returns the next place, which doesn't overlap the one before.
func (s *search) next(p *pace) (int, bool) {
	for s.at < len(s.in) {
		if p.step(1) {
			return 0, false
		}
		for s.has > 0 && s.in[s.at] != s.what[s.has] {
			s.has = s.again[s.has]
		}
		if s.in[s.at] == s.what[s.has] {
			s.has++
		}
		s.at++
		if s.has == len(s.what) {
			s.has = 0
			return s.at - len(s.what), true
		}
	}
	return 0, false
}

// trim takes the characters of the second value, or spaces without one, from the ends
// of the first.
func trim(left, right bool) func(*pace, []sqlite3.Value) ([]byte, int, error) {
	return func(p *pace, arg []sqlite3.Value) ([]byte, int, error) {
		if anyNull(arg) {
			return nil, isNull, nil
		}
		text, set := arg[0].RawText(), [][]byte{{' '}}
		if len(arg) == 2 {
			set = set[:0]
			for rest := terminated(arg[1].RawText()); len(rest) > 0; {
				_, n := character(rest)
				set, rest = append(set, rest[:n]), rest[n:]
			}
		}
		if left {
			text = trimmed(p, text, set, bytes.HasPrefix, func(b []byte, n int) []byte { return b[n:] })
		}
		if right {
			text = trimmed(p, text, set, bytes.HasSuffix, func(b []byte, n int) []byte { return b[:len(b)-n] })
		}
		return text, isText, nil
	}
}

// trimmed cuts text as long as it has one of set.
func trimmed(p *pace, text []byte, set [][]byte, has func(s, part []byte) bool, cut func(b []byte, n int) []byte) []byte {
	for again := true; again && len(text) > 0; {
		again = false
		for _, c := range set {
			if p.step(1 + len(c)) {
				return text
			}
			if has(text, c) {
				text, again = cut(text, len(c)), true
				break
			}
		}
	}
	return text
}

// unhex is the bytes that hexadecimal digits stand for, and NULL if there is anything else
// between the bytes than characters of the second value.
func unhex(p *pace, arg []sqlite3.Value) ([]byte, int, error) {
	if anyNull(arg) {
		return nil, isNull, nil
	}
	var between []uint32
	for rest := arg[1].RawText(); len(rest) > 0 && !p.step(1); {
		c, n := character(rest)
		between, rest = append(between, c), rest[n:]
	}
	slices.Sort(between)
	var blob []byte
	for text := terminated(arg[0].RawText()); len(text) > 0 && !p.step(1); {
		if b, err := hex.AppendDecode(blob, text[:min(len(text), 2)]); err == nil {
			blob, text = b, text[2:]
			continue
		}
		c, n := character(text)
		if _, found := slices.BinarySearch(between, c); !found || isHex(text[0]) {
			return nil, isNull, nil
		}
		text = text[n:]
	}
	return blob, isBlob, nil
}

// isHex says whether a byte is a hexadecimal digit.
func isHex(b byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", b) >= 0 }

// terminated returns a text up to its first NUL, where SQLite sees its end.
func terminated(text []byte) []byte {
	if end := bytes.IndexByte(text, 0); end >= 0 {
		return text[:end]
	}
	return text
}

// character decodes the first character of a text that isn't empty, as SQLite does: what
// is not UTF-8 is some character, too.
//
// https://sqlite.org/invalidutf.html
func character(text []byte) (c uint32, size int) {
	c, size = uint32(text[0]), 1
	if c < 0xc0 {
		return c, size
	}
	c &= 0x7f >> bits.LeadingZeros8(^text[0]) // what is behind the ones at its beginning
	for size < len(text) && continues(text[size]) {
		c = c<<6 | uint32(text[size]&0x3f)
		size++
	}
	if c < 0x80 || c&^0x7ff == 0xd800 || c&^1 == 0xfffe {
		c = 0xfffd
	}
	return c, size
}

// A matcher compares a text with a pattern.
type matcher struct {
	*pace
	all, one uint32 // what stands for any characters, and for one
	escape   uint32 // what takes the meaning from the next one
	set      uint32 // what a set of characters begins with
	fold     bool   // a to z are A to Z
}

// never stands for a character that is in no pattern.
const never = math.MaxUint32

var errEscape = errors.New("ESCAPE expression must be a single character")

// like is the operator LIKE: the pattern, the text, and the character of ESCAPE.
func like(p *pace, arg []sqlite3.Value) ([]byte, int, error) {
	m := &matcher{pace: p, all: '%', one: '_', escape: never, set: never, fold: true}
	if len(arg) == 3 && arg[2].Type() != sqlite3.NULL && !anyBlob(arg[:2]) {
		escape := terminated(arg[2].RawText())
		if len(escape) == 0 {
			return nil, 0, errEscape
		}
		c, n := character(escape)
		if n != len(escape) {
			return nil, 0, errEscape
		}
		switch m.escape = c; c {
		case m.all:
			m.all = never
		case m.one:
			m.one = never
		}
	}
	return m.matchArgs(arg)
}

// glob is the operator GLOB.
func glob(p *pace, arg []sqlite3.Value) ([]byte, int, error) {
	m := &matcher{pace: p, all: '*', one: '?', escape: never, set: '['}
	return m.matchArgs(arg)
}

// anyBlob says whether one of the values is a blob.
func anyBlob(arg []sqlite3.Value) bool {
	return slices.ContainsFunc(arg, func(v sqlite3.Value) bool { return v.Type() == sqlite3.BLOB })
}

// matchArgs compares the second value with the first.
func (m *matcher) matchArgs(arg []sqlite3.Value) ([]byte, int, error) {
	if anyBlob(arg[:2]) { // https://sqlite.org/compile.html#like_doesnt_match_blobs
		return nil, 0, nil
	}
	if anyNull(arg) {
		return nil, isNull, nil
	}
	if m.match(terminated(arg[0].RawText()), terminated(arg[1].RawText())) {
		return nil, 1, nil
	}
	return nil, 0, nil
}

// match goes back to the last of the characters that stand for any number, and no further:
// if the text before it fits, it fits however it is taken.
func (m *matcher) match(pattern, text []byte) bool {
	var again, from []byte // what is behind that character, and where it was last tried
	back := false
	for {
		if len(pattern) == 0 && len(text) == 0 {
			return true
		}
		if len(pattern) > 0 {
			c, n := character(pattern)
			if c == m.all {
				pattern, back = pattern[n:], true
				again, from = pattern, text
				if len(pattern) == 0 {
					return true
				}
				continue
			}
			if len(text) == 0 {
				return false // one that begins later is shorter
			}
			t, size := character(text)
			if rest, fits := m.fits(pattern, t); fits {
				pattern, text = rest, text[size:]
				continue
			}
		}
		if !back || len(from) == 0 || m.over {
			return false
		}
		_, n := character(from)
		from = from[n:]
		pattern, text = again, from
	}
}

// fits says whether a character is what the pattern begins with, and returns the rest of
// the pattern.
func (m *matcher) fits(pattern []byte, t uint32) ([]byte, bool) {
	m.step(1)
	c, n := character(pattern)
	pattern = pattern[n:]
	switch {
	case c == m.escape:
		if len(pattern) == 0 {
			return nil, false
		}
		c, n = character(pattern)
		pattern = pattern[n:]
	case c == m.set:
		return m.inSet(pattern, t)
	case c == m.one:
		return pattern, true
	}
	return pattern, c == t || m.fold && c < 0x80 && t < 0x80 && lower(c) == lower(t)
}

func lower(c uint32) uint32 {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// inSet is fits for a set of characters: [abc], [a-z], [^a-z], and ] is in a set that it is
// the first of.
func (m *matcher) inSet(pattern []byte, t uint32) ([]byte, bool) {
	next := func() (c uint32) {
		if len(pattern) > 0 {
			var n int
			c, n = character(pattern)
			pattern = pattern[n:]
		}
		return c
	}
	m.step(len(pattern))
	in, not, before := false, false, uint32(0)
	c := next()
	if c == '^' {
		not, c = true, next()
	}
	if c == ']' {
		in, c = t == c, next()
	}
	for ; c != 0 && c != ']'; c = next() {
		if c == '-' && before > 0 && len(pattern) > 0 && pattern[0] != ']' {
			c = next()
			in = in || t >= before && t <= c
			before = 0
			continue
		}
		in = in || t == c
		before = c
	}
	return pattern, c != 0 && in != not
}
