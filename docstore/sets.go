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
func (r *rows) change(ctx context.Context, key, member string, add bool) error {
	if r.meta.Arrays {
		if done, err := r.changeArray(ctx, key, member, add); done || err != nil {
			return err
		}
	}
	row := []byte(key + "\x00" + member)
	if add {
		return r.w.Set(row, nil)
	}
	return r.w.Clear(row)
}

// changeArray is change for a set that is an array, and stays one. It reports false for all others.
func (r *rows) changeArray(ctx context.Context, key, member string, add bool) (done bool, err error) {
	list, size, err := r.array(ctx, key)
	if err != nil {
		return false, err
	}
	if size == 0 {
		if !r.compat || !add {
			return false, nil
		}
		for _, err := range r.prefixed(ctx, key+"\x00", "") {
			return false, err // it has rows
		}
	}
	i := slices.Index(list, member)
	switch {
	case !r.compat || len(list) > compatMembers || add && i < 0 && len(list) >= compatMembers-1:
		return false, r.explode(key, list, size)
	case add == (i >= 0):
		return true, nil
	case add:
		list = append(list, member)
	default:
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		return true, r.clear(key, size)
	}
	return true, r.put(key, appendStrings(nil, list), size)
}

// array returns the array of a set, and how long it is; 0 if it has none.
func (r *rows) array(ctx context.Context, key string) (list []string, size int, err error) {
	b, ok, err := r.find(ctx, key)
	if err != nil || !ok {
		return nil, 0, err
	}
	if list, err = element.Strings(b); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", clip(key), err)
	}
	return list, len(b), nil
}

// explode makes rows of an array that has few members.
func (r *rows) explode(key string, list []string, size int) error {
	if len(list) > r.bounds.explode {
		return &arrayError{key}
	}
	if err := r.addRows(key, list); err != nil {
		return err
	}
	return r.clear(key, size)
}

// addRows adds members to a set that has no array, or whose array has them.
func (r *rows) addRows(key string, members []string) error {
	for _, m := range members {
		if err := r.w.Set([]byte(key+"\x00"+m), nil); err != nil {
			return err
		}
	}
	return nil
}

// clearSet removes a set with all of its members, or a value with all of its pieces.
func (r *rows) clearSet(key string) error {
	if err := r.w.Clear([]byte(key)); err != nil {
		return err
	}
	return r.clearPrefix(key + "\x00")
}

// contains reports whether a set has a member.
func (r *rows) contains(ctx context.Context, key, member string) (bool, error) {
	_, ok, err := r.get(ctx, key+"\x00"+member)
	if ok || err != nil || !r.meta.Arrays {
		return ok, err
	}
	list, _, err := r.array(ctx, key)
	return slices.Contains(list, member), err
}

// members yields the members of a set, in ascending order, from the one behind after on.
func (r *rows) members(ctx context.Context, key, after string) iter.Seq2[string, error] {
	return r.membersOf(ctx, r.reader, key, after)
}

func (r *rows) membersOf(ctx context.Context, from reader, key, after string) iter.Seq2[string, error] {
	stored := func(yield func(string, error) bool) {
		if after == "" {
			after = "\x00\xff" // behind the pieces of an array
		}
		for e, err := range from.prefixed(ctx, key+"\x00", after) {
			if !yield(string(e.Key), err) || err != nil {
				return
			}
		}
	}
	if !r.meta.Arrays {
		return stored
	}
	return func(yield func(string, error) bool) {
		list, size, err := r.array(ctx, key)
		if err != nil {
			yield("", err)
			return
		}
		if size == 0 {
			stored(yield)
			return
		}
		slices.Sort(list)
		list = slices.DeleteFunc(slices.Compact(list), func(m string) bool { return m <= after })
		if err := merge([]iter.Seq2[string, error]{values(list), stored}, func(m string, _ int) bool { return yield(m, nil) }); err != nil {
			yield("", err)
		}
	}
}

// sets yields the keys of the sets that begin with prefix, in ascending order, without prefix. It reads some members of each,
// and passes over the rest.
func (r reader) sets(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		start, last, seen := []byte(prefix), "", 0
		for more := true; more; {
			more = false
			for e, err := range r.Scan(ctx, kv.Range{Start: start, End: above(prefix)}) {
				if err != nil {
					yield("", err)
					return
				}
				key, _, _ := strings.Cut(string(e.Key[len(prefix):]), "\x00")
				if seen == 0 || key != last {
					if last, seen = key, 1; !yield(key, nil) {
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

// values yields the elements of a list.
func values[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
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
