package history

import (
	"fmt"
	"iter"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/tuple"
)

// A NameIndex is the place of a name in the registry of its workflow, counting from 0.
// It never changes: names are appended, and stay.
type NameIndex uint32

// A segment is one element of a Location: a name, or an iteration of the loop of that
// name.
type segment struct {
	Name      NameIndex
	Loop      bool   // whether it is an iteration of the loop Name
	Iteration uint32 // which one; 0 unless Loop
}

// A Location says where in a workflow's code an entry was made. It is the packed tuple of
// its segments, the very bytes that stand in the entry's key: so no name can be taken for
// a part of another, it is comparable, and Locations sort as their entries are stored. A
// scope sorts before everything in it, and iterations sort by number.
//
//	a step s                          [s]
//	a loop l, and s in iteration 3    [l]    [l, {l, 3}, s]
//	a join j, and s in its branch b   [j]    [j, b, s]
//
// The zero value is the root, which has no entry. Only the methods below and
// parseLocation make others; one that was converted from another string makes methods
// panic.
type Location string

// Name returns the place of the name i in the scope l: of an entry, or of a branch.
func (l Location) Name(i NameIndex) Location {
	b := make([]byte, 0, len(l)+maxSegment)
	return Location(actorstore.AppendWorkflowSegment(append(b, l...), uint32(i)))
}

// Iteration returns the scope of an iteration of a loop, where l is the loop's own
// location and loop its name: the last segment of l.
func (l Location) Iteration(loop NameIndex, n uint32) Location {
	b := make([]byte, 0, len(l)+maxSegment)
	return Location(actorstore.AppendWorkflowIteration(append(b, l...), uint32(loop), n))
}

// maxSegment is the length of the longest segment in bytes: two integers of five bytes
// each, nested.
const maxSegment = 12

// Within reports whether l is scope, or lies in it. Everything lies in the root.
func (l Location) Within(scope Location) bool {
	// Segments end where they say, so a prefix of bytes is a prefix of segments.
	return strings.HasPrefix(string(l), string(scope))
}

// segments yields the segments of l, the outermost first.
func (l Location) segments() iter.Seq[segment] {
	return func(yield func(segment) bool) {
		for rest := []byte(l); len(rest) > 0; {
			s, r, ok := nextSegment(rest)
			if !ok {
				panic(fmt.Sprintf("history: %x is not a location", string(l)))
			}
			if rest = r; !yield(s) {
				return
			}
		}
	}
}

// Parent returns the scope in which l lies, and its last segment; ok is false for the root.
func (l Location) Parent() (parent Location, last segment, ok bool) {
	for rest := []byte(l); len(rest) > 0; {
		parent, ok = l[:len(l)-len(rest)], true
		last, rest, _ = nextSegment(rest)
	}
	return parent, last, ok
}

// nameIn returns the last segment of l if it is a name in scope, around l.
func (l Location) nameIn(scope Location) (i NameIndex, ok bool) {
	if len(l) == len(scope) {
		return 0, false
	}
	s, rest, ok := nextSegment([]byte(l[len(scope):]))
	return s.Name, ok && !s.Loop && len(rest) == 0
}

// parseLocation returns the Location whose packed tuple b is: the rest of an entry's key.
// Anything else is errCorrupt. b is not kept.
func parseLocation(b []byte) (Location, error) {
	for rest := b; len(rest) > 0; {
		_, r, ok := nextSegment(rest)
		if !ok {
			return "", fmt.Errorf("%w: %x is not a location", errCorrupt, b)
		}
		rest = r
	}
	return Location(b), nil
}

// nextSegment decodes the first segment of b.
func nextSegment(b []byte) (s segment, rest []byte, ok bool) {
	if b[0] != nestedStart {
		n, rest, ok := actorstore.ParseWorkflowNumber(b)
		return segment{Name: NameIndex(n)}, rest, ok
	}
	loop, rest, ok1 := actorstore.ParseWorkflowNumber(b[1:])
	iteration, rest, ok2 := actorstore.ParseWorkflowNumber(rest)
	if !ok1 || !ok2 || len(rest) == 0 || rest[0] != 0 {
		return segment{}, nil, false
	}
	return segment{Name: NameIndex(loop), Loop: true, Iteration: iteration}, rest[1:], true
}

// nestedStart is the byte with which a nested tuple begins.
var nestedStart = tuple.AppendNestedStart(nil)[0]
