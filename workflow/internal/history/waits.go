package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A WaitKind says what a Wait waits for.
type WaitKind uint8

// The kinds of waits.
const (
	WaitRun     WaitKind = iota // the next run, which has something to do at once
	WaitMessage                 // a message of the actor's queue
	WaitTimer                   // the end of a sleep
	WaitAttempt                 // the next attempt at a step
	WaitResume                  // Resume, at a step that is paused
)

// String returns "run", "message", "timer", "attempt" or "resume".
func (k WaitKind) String() string { return word(k, waitKinds[:]) }

var waitKinds = [...]string{"run", "message", "timer", "attempt", "resume"}

// A Wait is one thing that a workflow waits for.
type Wait struct {
	For   WaitKind
	Path  string   // of the place in the code; "" for WaitRun
	Since Millis   // when it began; 0 if that isn't known
	Until Millis   // when it ends at the latest; 0 for never, and if that isn't known
	Names []string // of the message; nil: any
	Error string   // of the last attempt at the step
}

// same says whether a and b are one wait, whenever it began.
func (w Wait) same(v Wait) bool {
	return w.For == v.For && w.Path == v.Path && w.Until == v.Until && w.Error == v.Error && slices.Equal(w.Names, v.Names)
}

// sortWaits sorts waits: what is due first comes first, and what has no time last.
func sortWaits(waits []Wait) {
	slices.SortFunc(waits, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(a.Until-1, b.Until-1), cmp.Compare(a.For, b.For), cmp.Compare(a.Path, b.Path))
	})
}

// oneOfEach returns one wait for all of a kind: until the first is over, and for messages with all names.
func oneOfEach(waits []Wait) (few []Wait) {
	for _, w := range waits {
		i := slices.IndexFunc(few, func(f Wait) bool { return f.For == w.For })
		if i < 0 {
			w.Names = slices.Clone(w.Names)
			few = append(few, w)
			continue
		}
		f := &few[i]
		if f.Until-1 > w.Until-1 {
			f.Until = w.Until
		}
		f.Since = min(f.Since, w.Since)
		if f.Names == nil || w.Names == nil {
			f.Names = nil
			continue
		}
		f.Names = append(f.Names, w.Names...)
		slices.Sort(f.Names)
		f.Names = slices.Compact(f.Names)
	}
	return few
}

// appendWaits appends the stored form of waits.
func appendWaits(dst []byte, waits []Wait) []byte {
	dst = bare.AppendUint(bare.AppendVersion(dst, formatVersion), uint64(len(waits)))
	for _, w := range waits {
		dst = bare.AppendString(bare.AppendU8(dst, uint8(w.For)), w.Path)
		dst = bare.AppendU64(bare.AppendU64(dst, uint64(w.Since)), uint64(w.Until))
		dst = bare.AppendUint(dst, uint64(len(w.Names)))
		for _, n := range w.Names {
			dst = bare.AppendString(dst, n)
		}
		dst = bare.AppendString(dst, w.Error)
	}
	return dst
}

// maxWaitError bounds the error of a wait, in bytes: the step has the whole.
const maxWaitError = 256

// cleanWaits makes waits what can be stored. It changes no list of names.
func cleanWaits(waits []Wait) {
	valid := func(s string) string { return strings.ToValidUTF8(s, "?") }
	for i := range waits {
		w := &waits[i]
		w.Path, w.Error = valid(w.Path), valid(w.Error[:min(len(w.Error), maxWaitError)])
		if slices.ContainsFunc(w.Names, func(n string) bool { return !utf8.ValidString(n) }) {
			w.Names = slices.Clone(w.Names)
			for j, n := range w.Names {
				w.Names[j] = valid(n)
			}
		}
	}
}

// parseWaits decodes the stored form of waits, into a list that isn't nil.
func parseWaits(b []byte) ([]Wait, error) {
	r, err := reader(b)
	if err != nil {
		return nil, err
	}
	n := r.Len(len(b))
	waits := make([]Wait, 0, n)
	for range n {
		w := Wait{For: WaitKind(r.Tag(len(waitKinds))), Path: r.String(), Since: Millis(r.U64()), Until: Millis(r.U64())}
		for range r.Len(len(b)) {
			w.Names = append(w.Names, r.String())
		}
		w.Error = r.String()
		waits = append(waits, w)
	}
	return waits, done(r)
}

// rested returns the waits that a value in memory records, nil for no record.
func rested(v []byte) []Wait {
	if v == nil {
		return nil
	}
	waits, err := parseWaits(v)
	if err != nil {
		panic(fmt.Sprintf("history: waits in memory: %v", err)) // they were read, or made here
	}
	return waits
}
