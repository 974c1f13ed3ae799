package actorstore

import (
	"bytes"
	"errors"
	"iter"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/kv"
)

// owned are the ranges in which stores of actors, and the packages above them, have their rows: the actors' own, and tuples whose
// first element is a string that begins with "greenroom".
var owned = [...][2][]byte{subtree(layout.AppendRoot(nil)), subtree([]byte("\x02greenroom"))}

func subtree(prefix []byte) [2][]byte { return [2][]byte{prefix, kv.PrefixEnd(prefix)} }

// Outside reports whether the physical keys [start, end), or start alone if end is nil, are none that a store of actors has, so that other
// models may write them in the same engine.
func Outside(start, end []byte) bool {
	if end == nil {
		end = append(bytes.Clone(start), 0)
	}
	for _, r := range owned {
		if bytes.Compare(start, r[1]) < 0 && bytes.Compare(r[0], end) < 0 {
			return false
		}
	}
	return true
}

// RowActor returns the actor that the row of a physical key is of, be it of its keys, of its record or of its notes, and the length of what
// every key begins with that is of the same actor, and of the same of these three. ok is false for the other rows of a store, and
// for what is outside of it.
func RowActor(physical []byte) (id ID, prefix int, ok bool) {
	found, prefix, ok := layout.RowActor(physical)
	return ID(found), prefix, ok
}

// RowName returns the name whose row a physical key is: the row that leads from the name to its actor.
func RowName(physical []byte) (name string, ok bool) { return layout.ParseNameKey(physical) }

// NameRow returns the physical key of that row. The error is ErrName if it can't be the name of an actor.
func NameRow(name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return layout.NameKey(name), nil
}

// ParseNameRow returns the actor to which the row of a name leads. The error is kv.ErrCorrupt, or ErrNewerFormat.
func ParseNameRow(name string, value []byte) (ID, error) {
	n, err := layout.ParseNamed(name, value)
	return ID(n.ID), err
}

// RowAbout returns the actor that the row of a physical key is of or, if it is one of an index, that it leads to. ok is false for other rows.
func RowAbout(physical []byte) (id ID, ok bool) {
	found, ok := layout.RowAbout(physical)
	return ID(found), ok
}

// RowRanges returns the ranges of physical keys that an actor has: of its keys, its record and its notes. They are the caller's.
func RowRanges(id ID) []kv.Range {
	prefix := layout.NewPrefix(layout.ID(id))
	ranges := []kv.Range{{Start: prefix[:], End: kv.PrefixEnd(prefix[:])}}
	for _, of := range []func(layout.ID) (start, end []byte){layout.RecordRange, layout.NotesRange} {
		start, end := of(layout.ID(id))
		ranges = append(ranges, kv.Range{Start: start, End: end})
	}
	return ranges
}

// Puts yields the entries of an actor with keys in [start, end) that one commit has written, in the order of their keys: set are the rows that
// it has set, in its order, those of others and of other keys among them. It sorts set. What is yielded is valid until the next entry. The error is ErrCorrupt.
func Puts(id ID, set []kv.Entry, start, end []byte) iter.Seq2[Entry, error] {
	slices.SortStableFunc(set, func(a, b kv.Entry) int { return bytes.Compare(a.Key, b.Key) })
	space := rows.Space{Prefix: layout.NewPrefix(layout.ID(id)), Pool: rows.NewPool(Describe)}
	in := space.Bounds(start, end)
	return func(yield func(Entry, error) bool) {
		all := func(next func(kv.Entry, error) bool) {
			for i, e := range set {
				if i+1 < len(set) && bytes.Equal(e.Key, set[i+1].Key) {
					continue // it was set again
				}
				if bytes.Compare(e.Key, in.Start) >= 0 && bytes.Compare(e.Key, in.End) < 0 && !next(e, nil) {
					return
				}
			}
		}
		err := space.Entries(all, 0, false, func(e rows.Entry) error {
			if !yield(Entry(e), nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			yield(Entry{}, err)
		}
	}
}

// errEnough says that the caller of an iterator wants no more.
var errEnough = errors.New("actorstore: no more entries are wanted")

// IndexRows returns the range of physical keys in which are the rows that lead to actors: names and indexes. It is the caller's.
func IndexRows() kv.Range {
	start := layout.AppendOwn(nil)
	return kv.Range{Start: start, End: kv.PrefixEnd(start)}
}
