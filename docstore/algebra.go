package docstore

import "iter"

// Paths are paths in ascending order, each once: the children of a container, the members of a category, of a
// group or of a search. An error is yielded once, with an empty path, and ends the sequence. The functions
// here read their operands side by side and keep none of them in memory. An operand that is read twice is iterated
// twice.
type Paths = iter.Seq2[Path, error]

// Union yields the paths that any operand has.
func Union(operands ...Paths) Paths {
	return combine(operands, func(in int) bool { return in != 0 })
}

// Intersection yields the paths that all operands have: without operands none.
func Intersection(operands ...Paths) Paths {
	return combine(operands, func(in int) bool { return in == 1<<len(operands)-1 })
}

// Difference yields the paths of a that b lacks.
func Difference(a, b Paths) Paths {
	return combine([]Paths{a, b}, func(in int) bool { return in == 1 })
}

// SymmetricDifference yields the paths that one of the two has, and the other lacks.
func SymmetricDifference(a, b Paths) Paths {
	return combine([]Paths{a, b}, func(in int) bool { return in != 3 })
}

// Subset reports whether b has all paths of a. With the operands exchanged it is the superset.
func Subset(a, b Paths) (bool, error) {
	return hasNone(Difference(a, b))
}

// Equal reports whether a and b have the same paths.
func Equal(a, b Paths) (bool, error) {
	return hasNone(SymmetricDifference(a, b))
}

// hasNone reports whether p is empty.
func hasNone(p Paths) (bool, error) {
	for _, err := range p {
		return false, err
	}
	return true, nil
}

// combine yields the paths for which keep, given the operands that have it as bits, says so.
func combine(operands []Paths, keep func(in int) bool) Paths {
	return func(yield func(Path, error) bool) {
		err := merge(operands, func(p Path, in int) bool { return !keep(in) || yield(p, nil) })
		if err != nil {
			yield("", err)
		}
	}
}

// merge calls yield for each value of ascending sequences, once, in order, with the sequences that have it as bits,
// until it returns false. There are few sequences.
func merge[S ~string](seqs []iter.Seq2[S, error], yield func(s S, in int) bool) error {
	type cursor struct {
		value S
		ok    bool
		next  func() (S, error, bool)
	}
	cursors := make([]cursor, len(seqs))
	advance := func(c *cursor) (err error) {
		c.value, err, c.ok = c.next()
		return err
	}
	for i, seq := range seqs {
		next, stop := iter.Pull2(seq)
		defer stop()
		cursors[i].next = next
		if err := advance(&cursors[i]); err != nil {
			return err
		}
	}
	for {
		least, any := S(""), false
		for _, c := range cursors {
			if c.ok && (!any || c.value < least) {
				least, any = c.value, true
			}
		}
		if !any {
			return nil
		}
		in := 0
		for i := range cursors {
			if c := &cursors[i]; c.ok && c.value == least {
				in |= 1 << i
				if err := advance(c); err != nil {
					return err
				}
			}
		}
		if !yield(least, in) {
			return nil
		}
	}
}
