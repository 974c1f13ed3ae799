package docstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
	"github.com/greenroomdb/greenroom/kv"
)

// A set is a row for each member: <key>\0<member>. The documented form is one array below key, which takes
// a rewrite of all of it for each change, and lets each two writers conflict. An array that was imported is read
// together with the rows, and taken apart by the first change: nothing but that happens to a set while it
// has an array, so that an array which is being taken apart, in whatever number of transactions, says the same as
// before. With Options.Compat small sets are arrays, in the order in which their members came.

const (
	// compatMembers is below how many members a set is an array with Options.Compat.
	compatMembers = 64
	// passMembers is how many members of a set are read before the next set is looked up.
	passMembers = 64
)

// An arrayError says that an array must be taken apart, in transactions of its own, before the set can be changed.
type arrayError struct{ key string }

func (e *arrayError) Error() string {
	return fmt.Sprintf("docstore: the array %s is too large to be changed in this transaction; change it by Store.Update once", clip(e.key))
}

// change adds member to a set, or removes it.
func (r rows) change(ctx context.Context, key, member string, add bool) {
	if r.meta.Arrays && r.changeArray(ctx, key, member, add) {
		return
	}
	if add {
		r.set(key+"\x00"+member, nil)
	} else {
		r.unset(key + "\x00" + member)
	}
}

// changeArray is change for a set that is an array, and stays one. It reports false for all others.
func (r rows) changeArray(ctx context.Context, key, member string, add bool) bool {
	list, size := r.array(ctx, key)
	if size == 0 {
		if !r.compat || !add {
			return false
		}
		for range r.prefixed(ctx, key+"\x00", "") {
			return false // it has rows
		}
	}
	i := slices.Index(list, member)
	switch {
	case !r.compat || len(list) > compatMembers || add && i < 0 && len(list) >= compatMembers-1:
		if size > 0 {
			r.explode(key, list, size)
		}
		return false
	case add == (i >= 0):
		return true
	case add:
		list = append(list, member)
	default:
		list = slices.DeleteFunc(list, func(m string) bool { return m == member }) // what was imported may have it twice
	}
	if len(list) == 0 {
		r.clear(key, size)
	} else {
		r.put(key, appendStrings(nil, list), size)
	}
	return true
}

// array returns the array of a set, and how long it is; 0 if it has none.
func (r rows) array(ctx context.Context, key string) (list []string, size int) {
	b, ok := r.find(ctx, key)
	if !ok {
		return nil, 0
	}
	list, err := element.Strings(b)
	if err != nil {
		r.corrupt(key, "%w", err)
		return nil, 0
	}
	return list, len(b)
}

// explode makes rows of an array that has few members.
func (s *state) explode(key string, list []string, size int) {
	if len(list) > s.bounds.explode {
		s.fail(&arrayError{key})
	}
	s.clear(key, size)
	s.addRows(key, list)
}

// addRows adds members to a set that has no array, or whose array has them.
func (s *state) addRows(key string, members []string) {
	for _, m := range members {
		s.set(key+"\x00"+m, nil)
	}
}

// contains reports whether a set has a member.
func (r rows) contains(ctx context.Context, key, member string) bool {
	_, ok := r.get(ctx, key+"\x00"+member)
	if !ok && r.meta.Arrays {
		list, _ := r.array(ctx, key)
		ok = slices.Contains(list, member)
	}
	return ok
}

// members yields the members of a set, in ascending order, from the one behind after on.
func (r rows) members(ctx context.Context, key, after string) iter.Seq[string] {
	if after == "" {
		after = "\x00\xff" // behind the pieces of an array
	}
	return func(yield func(string) bool) {
		var list []string
		if r.meta.Arrays {
			list, _ = r.array(ctx, key)
			slices.Sort(list)
		}
		last := after
		next := func(m string) bool {
			if m <= last {
				return true
			}
			last = m
			return yield(m)
		}
		for m := range r.prefixed(ctx, key+"\x00", after) {
			for len(list) > 0 && list[0] <= m {
				if !next(list[0]) {
					return
				}
				list = list[1:]
			}
			if !next(m) {
				return
			}
		}
		for _, m := range list {
			if r.err != nil || !next(m) {
				return
			}
		}
	}
}

// sets yields the keys of the sets that begin with prefix, in ascending order, without prefix. It reads some members of each,
// and passes over the rest.
func (r rows) sets(ctx context.Context, prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, last, seen := []byte(prefix), "", 0
		for more := true; more; {
			more = false
			for k := range r.scan(ctx, kv.Range{Start: start, End: above(prefix)}) {
				key, _, _ := strings.Cut(k[len(prefix):], "\x00")
				if seen == 0 || key != last {
					if last, seen = key, 1; !yield(key) {
						return
					}
				} else if seen++; seen > passMembers {
					start, seen, more = []byte(prefix+key+"\x01"), 0, true
					break
				}
			}
		}
	}
}

// appendStrings appends an array of texts.
func appendStrings(dst []byte, list []string) []byte {
	dst = element.AppendArrayHeader(dst, len(list))
	for _, s := range list {
		dst = element.AppendString(dst, s)
	}
	return dst
}
