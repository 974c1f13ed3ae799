package actorstore

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/tuple"
)

// A registry is what a store has recorded about its actors.
type registry struct {
	eng     kv.Engine
	limits  batch.Limits
	closing chan struct{} // closed by Store.Close
}

// check says why no call may go on.
func (r *registry) check() error {
	select {
	case <-r.closing:
		return ErrClosed
	default:
		return nil
	}
}

// pagesOf yields the rows of a type in sub, page by page, each of which is read whole
// before its rows are yielded. The limit of o is a first guess of how many are wanted.
func pagesOf[K keys.Key[V], V any, P keys.Pointer[K]](ctx context.Context, r *registry, sub tuple.Subspace, o *keys.ScanOptions) iter.Seq2[keys.Item[K, V], error] {
	return func(yield func(keys.Item[K, V], error) bool) {
		var page keys.PageOptions
		if o != nil {
			page.ScanOptions = *o
		}
		page.Strict = true
		if page.Limit == 0 || page.Limit > pageRows {
			page.Limit = pageRows
		}
		for {
			var rows []keys.Item[K, V]
			err := r.check()
			if err == nil {
				rows, page.After, err = keys.Page[K, V, P](ctx, r.eng, sub, &page)
			}
			if err != nil {
				yield(keys.Item[K, V]{}, rowError(err))
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if page.After == nil {
				return
			}
			page.Limit = pageRows
		}
	}
}

// Outcome tells what became of a commit of an actor, by the id that a DoubtError
// gave: what the engine remembers, or, after a restart too, that it is the actor's
// last one. Where neither is so, the answer is kv.OutcomeUnknown.
func (r *registry) Outcome(ctx context.Context, id ID, commit kv.CommitID) (kv.Outcome, error) {
	if err := r.check(); err != nil {
		return kv.OutcomeUnknown, err
	}
	outcome, err := r.eng.Outcome(ctx, commit)
	if err == nil && outcome == kv.OutcomeUnknown {
		var rec record
		if rec, err = loadRecord(ctx, r.eng, id); err == nil && rec.row != nil && rec.head.Last == commit {
			outcome = kv.OutcomeApplied
		}
	}
	if err != nil {
		return kv.OutcomeUnknown, fmt.Errorf("actorstore: outcome of commit %x of actor %s: %w", commit, id, err)
	}
	return outcome, nil
}

// Lookup returns the id of the actor that has the name, ErrUnknownActor when none
// has been recorded with it.
func (r *registry) Lookup(ctx context.Context, name string) (ID, error) {
	if err := r.check(); err != nil {
		return ID{}, err
	}
	if err := checkName(name); err != nil {
		return ID{}, err
	}
	n, err := loadNamed(ctx, r.eng, name)
	if err != nil {
		return ID{}, fmt.Errorf("actorstore: look up %q: %w", name, err)
	}
	return ID(n.ID), nil
}

// IDs yields the ids of all actors, in the order in which Actors does, also of those
// whose head is damaged or of a newer format: for a caller that looks into each. It reads
// in pages, too. An error, which is the engine's, is yielded once and ends the
// sequence.
func (r *registry) IDs(ctx context.Context) iter.Seq2[ID, error] {
	return func(yield func(ID, error) bool) {
		for row, err := range pagesOf[layout.RecordRow](ctx, r, layout.Rows(layout.KindHead), nil) {
			if err != nil {
				yield(ID{}, fmt.Errorf("actorstore: list ids: %w", err))
				return
			}
			if row.Key.Part != layout.PartHead {
				continue
			}
			if h, err := layout.ParseHead(row.Key.ID, row.Value); err == nil && h.Seq == 0 {
				continue // claimed, and never written to
			}
			if !yield(ID(row.Key.ID), nil) {
				return
			}
		}
	}
}

// A NameInfo is a name that has been recorded.
type NameInfo struct {
	Name    string
	ID      ID // of the actor that has it
	Created time.Time
}

// Names yields all names, sorted. Else as Actors.
func (r *registry) Names(ctx context.Context) iter.Seq2[NameInfo, error] {
	return func(yield func(NameInfo, error) bool) {
		for row, err := range pagesOf[layout.NameRow](ctx, r, layout.Rows(layout.KindName), nil) {
			if err != nil {
				yield(NameInfo{}, fmt.Errorf("actorstore: list names: %w", err))
				return
			}
			n := row.Value
			if !yield(NameInfo{Name: row.Key.Name, ID: ID(n.ID), Created: time.UnixMilli(n.Created)}, nil) {
				return
			}
		}
	}
}

// pageRows is how many rows one scan of pages reads. A page ends before its rows
// are yielded one by one, so the consumer may take its time, and write.
const pageRows = 512

// pages yields the rows in [start, end), page by page. The slices of an entry are
// valid until the next iteration.
func (r *registry) pages(ctx context.Context, start, end []byte) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		for {
			page, err := r.page(ctx, kv.Range{Start: start, End: end, Limit: pageRows})
			if err != nil {
				yield(kv.Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if len(page) < pageRows {
				return
			}
			start = layout.AppendBelow(page[len(page)-1].Key) // the next key there can be
		}
	}
}

// page reads one range into memory.
func (r *registry) page(ctx context.Context, in kv.Range) ([]kv.Entry, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	var page []kv.Entry
	for e, err := range r.eng.Scan(ctx, in) {
		if err != nil {
			return nil, err
		}
		b := append(append(make([]byte, 0, len(e.Key)+len(e.Value)), e.Key...), e.Value...)
		n := len(e.Key)
		page = append(page, kv.Entry{Key: b[:n:n], Value: b[n:]})
	}
	return page, nil
}
