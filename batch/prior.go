package batch

// A Prior is what a writer knows about what is stored under a key before the
// batch: a store that charges a quota needs the length of the value that a write
// replaces, and must read it if the writer doesn't know. A wrong Prior makes the
// quota wrong, so only the owner of a key may give one.
//
// A Prior describes the state before the first write of the batch. A store
// accounts for several writes to one key in one batch by itself.
type Prior int64

const (
	// PriorUnknown: the writer doesn't know.
	PriorUnknown Prior = 0
	// Absent: nothing is stored under the key.
	Absent Prior = -1
)

// Stored returns the Prior of a key that holds a value of n bytes. It panics if
// n is negative.
func Stored(n int) Prior { return Freed(int64(n)) }

// Freed returns the Prior of a DeleteRange whose range holds n bytes, counted as
// a quota counts them: Σ(key + 2 + value). It panics if n is negative.
func Freed(n int64) Prior {
	if n < 0 {
		panic("batch: negative size in a Prior")
	}
	// The zero Prior has to mean unknown, so sizes are shifted by one.
	return Prior(n + 1)
}

// Known returns what p says: the length n of the stored value (for a DeleteRange
// the bytes that it frees), −1 when nothing is stored, and ok = false when p is
// PriorUnknown.
func (p Prior) Known() (n int64, ok bool) {
	switch {
	case p == PriorUnknown:
		return 0, false
	case p < 0:
		return -1, true
	}
	return int64(p) - 1, true
}
