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

// ActorsOptions say which actors Store.Actors yields, and in which order. The zero
// value means all, by id.
type ActorsOptions struct {
	// Prefix is what the names of the actors begin with; "" means without bound. With one, or
	// with ByName, actors come in the order of their names, and those without one
	// don't.
	Prefix string
	ByName bool
	// After begins behind an actor, by its ID, or by its Name if that is the order:
	// the last one of an earlier listing. It need not exist any more. The zero
	// ActorInfo begins with the first.
	After ActorInfo
	// Limit is the largest number of actors; 0 means all.
	Limit int
}

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

// Actors yields the actors that opts selects; a nil opts is the zero ActorsOptions. It
// is what is known of them, and reads none of their keys. By id, the order is that of
// the encoded ids.
//
// The store is read in pages, each of one state, so an actor that comes or goes
// meanwhile may be missing or not; nothing is left out for being too much. A page is
// read whole before its actors are yielded, so the consumer may take its time, and
// write. By id a page is one scan, by name one more for all actors of the page, where
// the engine can read several ranges at once, and else one for each.
//
// An error is yielded once, with a zero ActorInfo, and ends the sequence. A record that
// is damaged is one; see IDs and Check.
func (r *registry) Actors(ctx context.Context, opts *ActorsOptions) iter.Seq2[ActorInfo, error] {
	var o ActorsOptions
	if opts != nil {
		o = *opts // the consumer may change it for the next listing
	}
	list := r.actorsByID
	if o.ByName || o.Prefix != "" {
		list = r.actorsByName
	}
	return func(yield func(ActorInfo, error) bool) {
		n := 0
		for info, err := range list(ctx, &o) {
			if err != nil {
				yield(ActorInfo{}, fmt.Errorf("actorstore: list actors: %w", err))
				return
			}
			if n++; !yield(info, nil) || n == o.Limit {
				return
			}
		}
	}
}

// actorsByID reads the records as they lie there.
func (r *registry) actorsByID(ctx context.Context, opts *ActorsOptions) iter.Seq2[ActorInfo, error] {
	o := keys.ScanOptions{}
	if !opts.After.ID.IsZero() {
		// Behind the last row that there can be of it.
		o.After = layout.RecordAfter(layout.ID(opts.After.ID))
	}
	if opts.Limit > 0 {
		// Enough if all have all there is, and the one behind them to tell.
		o.Limit = opts.Limit*layout.Parts + 1
	}
	return func(yield func(ActorInfo, error) bool) {
		var at ID
		var rec record
		for row, err := range pagesOf[layout.RecordRow](ctx, r, layout.Rows(layout.KindHead), &o) {
			if err == nil && ID(row.Key.ID) != at {
				if err = rec.check(at); err == nil && rec.written() && !yield(rec.info(at), nil) {
					return
				}
				at, rec = ID(row.Key.ID), record{}
			}
			if err == nil {
				err = rec.part(row.Key, row.Value)
			}
			if err != nil {
				yield(ActorInfo{}, err)
				return
			}
		}
		if err := rec.check(at); err != nil {
			yield(ActorInfo{}, err)
		} else if rec.written() {
			yield(rec.info(at), nil)
		}
	}
}

// actorsByName reads a page of names, and then the records of their actors.
func (r *registry) actorsByName(ctx context.Context, opts *ActorsOptions) iter.Seq2[ActorInfo, error] {
	return func(yield func(ActorInfo, error) bool) {
		o := keys.PageOptions{ScanOptions: keys.ScanOptions{Strict: true}}
		if o.Limit = pageNames; opts.Limit > 0 {
			o.Limit = min(pageNames, opts.Limit)
		}
		if opts.After.Name != "" {
			o.After = layout.NameKey(opts.After.Name)
		}
		for {
			page, next, err := r.namedPage(ctx, namesWith(opts.Prefix), &o)
			if err != nil {
				yield(ActorInfo{}, err)
				return
			}
			for _, info := range page {
				if !yield(info, nil) {
					return
				}
			}
			if o.After = next; next == nil {
				return
			}
		}
	}
}

// pageNames is how many names one page has at most.
const pageNames = 256

// namesWith returns the subspace of the names that begin with prefix. They are the keys
// that begin as that of prefix does, which ends with a 00 that stands for the end.
func namesWith(prefix string) tuple.Subspace {
	key := tuple.AppendString(layout.AppendRows(nil, layout.KindName), prefix)
	return tuple.FromBytes(key[:len(key)-1])
}

// namedPage reads the next names, and what is known of their actors, from one state.
func (r *registry) namedPage(ctx context.Context, names tuple.Subspace, o *keys.PageOptions) (page []ActorInfo, next keys.Cursor, err error) {
	if err := r.check(); err != nil {
		return nil, nil, err
	}
	snap, err := r.eng.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows, next, err := keys.Page[layout.NameRow](ctx, snap, names, o)
	var records map[ID]*record
	if err == nil {
		records, err = loadRecords(ctx, snap, rows)
	}
	if closeErr := snap.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, nil, rowError(err)
	}
	for _, row := range rows {
		id := ID(row.Value.ID)
		rec := records[id]
		if err := rec.check(id); err != nil {
			return nil, nil, err
		}
		// Both are written by one commit, and removed by one.
		if !rec.written() || rec.name != row.Key.Name {
			return nil, nil, fmt.Errorf("actorstore: name %q leads to actor %s, which doesn't have it: %w", row.Key.Name, id, ErrCorrupt)
		}
		page = append(page, rec.info(id))
	}
	return page, next, nil
}

// loadRecords reads what is known of the actors that names lead to, at once if src can.
func loadRecords(ctx context.Context, src kv.Reader, names []keys.Item[layout.NameRow, layout.Named]) (map[ID]*record, error) {
	records := make(map[ID]*record, len(names))
	ranges := make([]kv.Range, len(names))
	for i, n := range names {
		id := ID(n.Value.ID)
		records[id] = &record{}
		ranges[i].Start, ranges[i].End = layout.RecordRange(layout.ID(id))
	}
	if len(names) == 0 {
		return nil, nil
	}
	rows := kv.ScanRanges(ctx, src, ranges)
	if rows == nil {
		for id := range records {
			rec, err := loadRecord(ctx, src, id)
			if err != nil {
				return nil, err
			}
			*records[id] = rec
		}
		return records, nil
	}
	for e, err := range rows {
		if err != nil {
			return nil, err
		}
		of, _, ok := layout.ParseRecordKey(e.Key)
		id := ID(of)
		if !ok || records[id] == nil {
			return nil, fmt.Errorf("actorstore: row %x is of no known kind: %w", e.Key, ErrCorrupt)
		}
		if err := records[id].add(id, e); err != nil {
			return nil, err
		}
	}
	return records, nil
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
