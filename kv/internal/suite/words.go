package suite

import (
	"fmt"
	"strconv"
	"strings"
)

// LongPrefix is what some of the keys share: an engine may store long keys in another
// way, and know less of their order.
var LongPrefix = strings.Repeat("a", 2600)

// Words are what is left of a line of a script.
type Words struct{ Left string }

// Word takes the next plain word.
func (w *Words) Word() string {
	next, rest, _ := strings.Cut(strings.TrimLeft(w.Left, " "), " ")
	w.Left = rest
	return next
}

// Bytes takes the next word that stands for bytes.
func (w *Words) Bytes() ([]byte, error) {
	w.Left = strings.TrimLeft(w.Left, " ")
	if rest, ok := strings.CutPrefix(w.Left, `long"`); ok {
		w.Left = `"` + rest
		b, err := w.Bytes()
		return append([]byte(LongPrefix), b...), err
	}
	if strings.HasPrefix(w.Left, `"`) {
		q, err := strconv.QuotedPrefix(w.Left)
		if err != nil {
			return nil, err
		}
		w.Left = w.Left[len(q):]
		s, err := strconv.Unquote(q)
		return []byte(s), err
	}
	next := w.Word()
	if next == "nil" {
		return nil, nil
	}
	var n int
	var seed uint64
	if _, err := fmt.Sscanf(next, "pattern(%d,%d)", &n, &seed); err != nil {
		return nil, fmt.Errorf("%q is no bytes", next)
	}
	return Pattern(n, seed), nil
}
