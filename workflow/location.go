package workflow

import (
	"time"

	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// A Location says where in a workflow's code an entry was made, as names from the outermost
// scope to the innermost, with the number of the iteration behind the name of a loop. Locations
// are comparable. They sort as entries are stored: a scope before everything in it, and
// iterations by number. Snapshot.Path has a Location in words.
//
// The zero value is the root, which has no entry. All others come from a Snapshot, a Change or
// the methods Name and Iteration; the methods of a Location that was converted from another
// string may panic.
type Location string

// A NameIndex is the place of a name in Snapshot.Names, counting from 0. It never changes
// while the workflow isn't started anew: names are appended, and stay.
type NameIndex uint32

// A Segment is the last element of a Location: a name, or an iteration of the loop of that
// name.
type Segment struct {
	Name      NameIndex
	Loop      bool   // whether it is an iteration of the loop Name
	Iteration uint32 // its number, from 0; 0 unless Loop
}

// Name returns the place of the name i in the scope l: of an entry, or of a branch.
func (l Location) Name(i NameIndex) Location {
	return Location(history.Location(l).Name(history.NameIndex(i)))
}

// Iteration returns the scope of the iteration n of a loop, where l is the loop's own location
// and loop its name: the last Segment of l.
func (l Location) Iteration(loop NameIndex, n uint32) Location {
	return Location(history.Location(l).Iteration(history.NameIndex(loop), n))
}

// Within reports whether l is scope, or lies in it. Everything lies in the root.
func (l Location) Within(scope Location) bool {
	return history.Location(l).Within(history.Location(scope))
}

// Parent returns the scope in which l lies, and the last segment of l; ok is false for the root.
func (l Location) Parent() (parent Location, last Segment, ok bool) {
	p, s, ok := history.Location(l).Parent()
	return Location(p), Segment{NameIndex(s.Name), s.Loop, s.Iteration}, ok
}

// A Millis is a time in milliseconds since 1970, UTC.
type Millis uint64

// Time returns m as a time in UTC. One later than a time can be is the latest.
func (m Millis) Time() time.Time { return history.Millis(m).Time() }

// millisOf returns the time that m points to, which may be nil, in memory of its own.
func millisOf(m *history.Millis) *Millis {
	if m == nil {
		return nil
	}
	return new(Millis(*m))
}

// stored is the reverse of millisOf.
func (m *Millis) stored() *history.Millis {
	if m == nil {
		return nil
	}
	return new(history.Millis(*m))
}
