package persist

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// A note is what is known about an event beyond what the record says of it. It lies
// beside the actor's keys (actorstore.Actor.StageNote), so that programs that know the
// record alone still read it: to them a cron event is one that comes once.
type note struct {
	cron      rule
	attempts  uint32
	notBefore int64 // Unix ms: the next attempt, 0 for none
	parked    bool
	problem   string // the last error
}

// empty says whether there is nothing to note.
func (n *note) empty() bool { return *n == note{} }

const noteVersion = 1

// Bounds that let every note fit: what is left is the last error's.
const (
	maxExpression = 100 // bytes of a cron expression
	maxZone       = 48  // bytes of the name of a time zone
)

// appendNote appends n, with as much of the problem as there is room for.
func appendNote(dst []byte, n *note) []byte {
	from := len(dst)
	dst = bare.AppendVersion(dst, noteVersion)
	dst = bare.AppendBool(dst, n.cron.set())
	if n.cron.set() {
		dst = bare.AppendString(dst, n.cron.expr)
		dst = bare.AppendString(dst, n.cron.zone)
	}
	dst = bare.AppendU32(dst, n.attempts)
	dst = bare.AppendI64(dst, n.notBefore)
	dst = bare.AppendBool(dst, n.parked)
	room := actorstore.MaxNoteValue - (len(dst) - from) - 1 // of less than 128 bytes, or cut to that
	return bare.AppendString(dst, shorten(n.problem, min(room, 127)))
}

// shorten returns at most n bytes of s, valid UTF-8.
func shorten(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// parseNote decodes a note.
func parseNote(b []byte) (note, error) {
	v, body, err := bare.Version(b)
	if err != nil {
		return note{}, fmt.Errorf("persist: note: %w: %w", actorstore.ErrCorrupt, err)
	}
	switch {
	case v > noteVersion:
		return note{}, fmt.Errorf("persist: %w", &actorstore.FormatError{What: "note", Found: uint64(v), Known: noteVersion})
	case v < noteVersion:
		return note{}, fmt.Errorf("persist: note of version %d: %w", v, actorstore.ErrCorrupt)
	}
	var n note
	r := bare.NewReader(body)
	if r.Bool() {
		if n.cron = (rule{r.String(), r.String()}); n.cron.expr == "" {
			r.Fail("an empty cron expression")
		}
	}
	n.attempts = r.U32()
	n.notBefore = r.I64()
	n.parked = r.Bool()
	n.problem = r.String()
	if err := r.Done(); err != nil {
		return note{}, fmt.Errorf("persist: note: %w: %w", actorstore.ErrCorrupt, err)
	}
	return n, nil
}
