package suite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/kv/txn"
)

// longPrefix is what some of the keys share: an engine may store long keys in another
// way, and know less of their order.
var longPrefix = strings.Repeat("a", 2600)

// Parse reads steps.
func Parse(text string) (steps []*Step, err error) {
	w := &words{left: text}
	for {
		s := &Step{}
		if err := w.step(s); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Verb, err)
		}
		steps = append(steps, s)
		switch rest, more := strings.CutPrefix(strings.TrimLeft(w.left, " "), ";"); {
		case more:
			w.left = rest
		case rest == "":
			return steps, nil
		default:
			return nil, fmt.Errorf("%s: %q is too much", s.Verb, rest)
		}
	}
}

// words are what is left of a line of a script.
type words struct{ left string }

// word takes the next plain word, "" at the end of a step.
func (w *words) word() string {
	w.left = strings.TrimLeft(w.left, " ")
	i := strings.IndexAny(w.left, " ;")
	if i < 0 {
		i = len(w.left)
	}
	next := w.left[:i]
	w.left = w.left[i:]
	return next
}

func (w *words) step(s *Step) (err error) {
	if s.Verb = w.word(); s.Verb == "snapshot" {
		s.Snapshot, s.Verb = true, w.word()
	}
	switch s.Verb {
	case "begin", "open", "cancel", "close", "commit":
	case "get", "clear", "absent", "key":
		s.Key, err = w.bytes()
	case "set", "clearrange", "is":
		s.Key, s.Value, err = w.pair()
	case "scan":
		s.Range.Start, s.Range.End, err = w.pair()
	default:
		if s.Mutation, err = mutation(s.Verb); err == nil {
			s.Verb = "mutation"
			s.Key, s.Value, err = w.pair()
		}
	}
	if err == nil && s.Verb == "key" {
		s.Offset, err = strconv.Atoi(w.word())
	}
	for err == nil {
		done := false
		if done, err = w.option(s); done {
			break
		}
	}
	return err
}

// option takes what may be said behind a step, and reports whether there was none.
func (w *words) option(s *Step) (done bool, err error) {
	before := w.left
	switch next := w.word(); {
	case s.Verb == "scan" && next == "limit":
		s.Range.Limit, err = strconv.Atoi(w.word())
	case s.Verb == "scan" && next == "stop":
		s.Stop, err = strconv.Atoi(w.word())
	case s.Verb == "scan" && next == "reverse":
		s.Range.Reverse = true
	case s.Verb == "key" && next == "orequal":
		s.OrEqual = true
	case s.Verb == "commit" && next == "durable":
		s.Durable = true
	case next == "=":
		s.Saw, w.left, _ = strings.Cut(w.left, ";")
		if s.Saw = strings.TrimSpace(s.Saw); w.left != "" {
			w.left = ";" + w.left
		}
		return true, nil
	default:
		w.left = before
		return true, nil
	}
	return false, err
}

func (w *words) pair() (a, b []byte, err error) {
	if a, err = w.bytes(); err == nil {
		b, err = w.bytes()
	}
	return a, b, err
}

// bytes takes the next word that stands for bytes.
func (w *words) bytes() ([]byte, error) {
	w.left = strings.TrimLeft(w.left, " ")
	if rest, ok := strings.CutPrefix(w.left, `long"`); ok {
		w.left = `"` + rest
		b, err := w.bytes()
		return append([]byte(longPrefix), b...), err
	}
	if strings.HasPrefix(w.left, `"`) {
		q, err := strconv.QuotedPrefix(w.left)
		if err != nil {
			return nil, err
		}
		w.left = w.left[len(q):]
		s, err := strconv.Unquote(q)
		return []byte(s), err
	}
	var n int
	var seed uint64
	next := w.word()
	switch _, err := fmt.Sscanf(next, "pattern(%d,%d)", &n, &seed); {
	case next == "":
		return nil, fmt.Errorf("a key or value is missing")
	case next == "nil":
		return nil, nil
	case err == nil:
		return Pattern(n, seed), nil
	}
	return []byte(next), nil
}

func mutation(name string) (txn.Mutation, error) {
	for m := txn.Mutation(0); m.Valid(); m++ {
		if strings.EqualFold(m.String(), name) {
			return m, nil
		}
	}
	return 0, fmt.Errorf("unknown verb")
}
