package docstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/metrics"
)

// upkeepBytes bounds a transaction of upkeep, in bytes; one segment takes a few mebibytes.
const upkeepBytes = 512 << 20

// BuildOptions are the options of Build and Rebuild. The zero value is what a nil *BuildOptions means.
type BuildOptions struct {
	// Progress is called after each transaction with how far the build has come.
	Progress func(Progress)
}

// Build builds the category, catalogue or index at a path until it is readable, in many small transactions, beside
// writers. One that is cut off goes on where it ended when it is called again, in this process or another one. If
// nothing is to be built it does nothing.
func (s *Store) Build(ctx context.Context, path Path, opts *BuildOptions) error {
	return wrap("build", path, s.build(ctx, path, opts))
}

// Rebuild builds the category, catalogue or index at a path anew, as Build does. Until that is done it is read as it is,
// and then what was built takes its place at once. What is disabled is StateBuilding instead.
func (s *Store) Rebuild(ctx context.Context, path Path, opts *BuildOptions) error {
	if err := s.Update(ctx, func(tx *Tx) error { return tx.rebuild(ctx, path) }); err != nil {
		return wrap("rebuild", path, err)
	}
	return wrap("rebuild", path, s.build(ctx, path, opts))
}

func (s *Store) build(ctx context.Context, path Path, opts *BuildOptions) error {
	var p Progress
	var kind Kind
	for done := false; !done; {
		attempts, before := 0, p.Docs
		err := s.Update(ctx, func(tx *Tx) error {
			d, label, err := tx.derivedStored(ctx, path)
			if err != nil {
				return err
			}
			// The more transactions change the same documents, the less is done at once.
			done = tx.buildSome(ctx, d, label, buildLimit{docs: max(1, s.bounds.build>>attempts)})
			attempts++
			kind = d.Kind
			tx.findJSON(ctx, buildKey(path), &p)
			return nil
		})
		if err != nil {
			return err
		}
		s.meter.Count(built, int64(max(p.Docs-before, 0)))
		if opts != nil && opts.Progress != nil && !done {
			opts.Progress(p)
		}
		if kind == KindIndex {
			if err := s.tend(ctx, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delete deletes the entity at a path and, if it is a container and recursive is set, first everything in it, in
// transactions of at most 100 entities. One that is cut off leaves what is not deleted yet, and can be called again. See
// Tx.Delete.
func (s *Store) Delete(ctx context.Context, path Path, recursive bool) error {
	for done := false; !done; {
		err := s.Update(ctx, func(tx *Tx) (err error) {
			done, err = tx.deleteSome(ctx, path, recursive, s.bounds.delete)
			return err
		})
		if err != nil {
			return wrap("delete", path, err)
		}
	}
	return nil
}

// tend makes segments of pending documents of the index at a path, if they fill one, and dissolves segments that are half
// empty.
func (s *Store) tend(ctx context.Context, path Path) error {
	for more := true; more; {
		err := s.upkeep.Update(ctx, func(t *txn.Tx) error {
			return s.run(ctx, t, func(tx *Tx) error {
				more = false
				d, _, err := tx.derivedStored(ctx, path)
				if errors.Is(err, ErrNotFound) || err == nil && d.Kind != KindIndex {
					return nil
				}
				if err != nil {
					return err
				}
				for _, b := range d.bases() {
					ix := textIndex{tx.rows, b}
					if more = ix.merge(ctx) > 0 || ix.dissolve(ctx); more {
						return nil
					}
				}
				return nil
			})
		})
		if err != nil {
			return fmt.Errorf("text index %s: %w", clip(path), err)
		}
	}
	return nil
}

// explode takes an array apart, in transactions of some members each. Rows are added while the array is there, which has
// the same members; only the last transaction removes it. Other processes may do the same at the same time.
func (s *Store) explode(ctx context.Context, key string) error {
	for done, more := 0, true; more; done += s.bounds.explode {
		err := s.db.Update(ctx, func(t *txn.Tx) error {
			return s.run(ctx, t, func(tx *Tx) error {
				list, size := tx.array(ctx, key)
				end := min(done+s.bounds.explode, len(list))
				if more = end < len(list); done > end || size == 0 { // nothing is left, or it is another one
					return nil
				}
				if tx.addRows(key, list[done:end]); !more {
					tx.clear(key, size)
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// built counts documents.
var built = &metrics.Metric{Kind: metrics.Counter, Name: "docstore_built", Help: "Documents that a build has looked at"}

// Metrics returns what is counted, for a Sink that wants to know beforehand.
func Metrics() []*metrics.Metric { return []*metrics.Metric{mismatches, built} }

// Import stores a dump of documented keys, whole, in a store that is empty, in bounded transactions. dump is iterated twice.
// Properties, labels, expressions and sets are kept byte for byte, sets until they change; but a group that has members of several
// types, 1 and "1", is sorted. Text indexes are built from the documents. An expression that is refused, or gives other members
// than were imported, disables its category, catalogue or index, see StateDisabled. If an index can't be built, the rest is
// imported, and the error says which it is.
//
// An import that is cut off, or meets damage (ErrCorrupt, with the key), leaves a store of which everything but
// another Import is ErrImporting. ErrExists if the store is not empty.
func (s *Store) Import(ctx context.Context, dump iter.Seq2[Pair, error]) error {
	if err := (&importer{s}).run(ctx, dump); err != nil {
		return fmt.Errorf("docstore: import: %w", err)
	}
	return nil
}

// Dump calls fn for each documented key of the store with a function that writes its value: all of one state, in no
// order of the keys. Sets are sorted, unless they were imported and nothing has changed them. The categories,
// catalogues and indexes that are still being built have their configuration only. value is of use until fn returns.
func (s *Store) Dump(ctx context.Context, fn func(key string, value func(w io.Writer) error) error) error {
	return s.view(ctx, s.upkeep, func(tx *Tx) error {
		return (&exporter{lookup: &tx.lookup, emit: fn}).all(ctx)
	})
}

// Export writes the value of one documented key, exactly as it is documented, or as it was imported if nothing has
// changed it. A key that has none is ErrNotFound. What a text index has takes time: it is made for the call.
func (s *Store) Export(ctx context.Context, key string, w io.Writer) error {
	found := false
	err := s.view(ctx, s.upkeep, func(tx *Tx) error {
		x := &exporter{lookup: &tx.lookup, emit: func(k string, value func(w io.Writer) error) error {
			if k != key || found {
				return nil
			}
			found = true
			return value(w)
		}}
		return x.of(ctx, key)
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: the key has no value", ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("docstore: export %q: %w", clip(key), err)
	}
	return nil
}

// Check reads all of the store, of one state, and returns what is wrong with it: rows that belong to nothing, what is
// missing, and what doesn't follow from the documents. Of an engine whose state can't be read it returns the error.
func (s *Store) Check(ctx context.Context) (problems []string, err error) {
	err = s.view(ctx, s.upkeep, func(tx *Tx) error {
		problems = newChecker(&tx.lookup).run(ctx)
		return nil
	})
	return problems, err
}
