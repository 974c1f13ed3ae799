package actorstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/tuple"
)

// ActorsOptions say which actors Store.Actors yields: those for which all of it is true. The zero value means all actors, in the order
// of their ids.
type ActorsOptions struct {
	// Prefix is what the names of the actors begin with; "" means without bound.
	Prefix string
	// Labels are labels that the actors have, with their values.
	Labels map[string]string
	// Workflow are states, in one of which the actor's workflow is; nil means any, and none, and an empty slice selects nothing. A state that
	// is there more than once counts where it is first. Stuck means workflows that nothing that comes by itself wakes.
	Workflow []string
	Stuck    bool
	// SchemaBelow means databases whose schema has a version that is lower, but for those without one. 0 means any.
	SchemaBelow uint64
	// WakesBefore means actors that must be woken before a time; zero means any.
	WakesBefore time.Time
	// SleptBefore means actors that last fell asleep before a time, whether they are awake now or not; zero means any.
	SleptBefore time.Time

	// Order is that of the actors.
	Order Order
	// After begins behind an actor: ActorInfo.Position of the last one of an earlier listing with the same options. The actor
	// need not exist any more, nor be one of those that are yielded. "" begins with the first.
	After string
	// Limit is the largest number of actors; 0 means all.
	Limit int
}

// An Order is one of actors that are listed. Actors that are equal in it are in the order of their ids.
type Order uint8

// The orders.
const (
	// OrderAny is what costs least: by name with a Prefix alone, by id without any choice and with Labels, and else one of the orders
	// below that suits one of the choices, for which the Store may look how many actors are in question. It is the same for all pages of a listing.
	OrderAny Order = iota
	// OrderName is by name, and leaves out actors without one.
	OrderName
	// OrderSince is by the states of workflows, as Workflow has them, and in each by when it was entered. With Stuck it is by the latter alone.
	// It leaves out actors without a workflow.
	OrderSince
	// OrderSchema is by the version of the schema, and leaves out actors without one.
	OrderSchema
	// OrderWake is by when the actor must be woken, and leaves out those that nothing wakes.
	OrderWake
	// OrderSlept is by when the actor last fell asleep, and leaves out those of which that isn't known.
	OrderSlept
)

var (
	// ErrNotIndexed says that an older version of this program has made the store, and that the index by which actors would be
	// found isn't whole yet. greenroom.Store.BuildIndex completes it, as greenroom host does.
	ErrNotIndexed = errors.New("actorstore: the index of the store isn't built yet")
	// ErrPosition says that ActorsOptions.After isn't a position of a listing with these options.
	ErrPosition = errors.New("actorstore: bad position")
)

// Actors yields the actors that opts selects; a nil opts is the zero ActorsOptions. It
// is what is known of them, and reads none of their keys. By id, the order is that of
// the encoded ids. An actor is found by an index of the store, so that the cost is that of the actors in question, whatever the number of
// others; of several choices, one that few actors meet is looked up, and the others are held against what is recorded of those.
//
// The store is read in pages, each of one state, so an actor that comes, goes or changes
// meanwhile may be missing or not; nothing is left out for being too much. A page is
// read whole before its actors are yielded, so the consumer may take its time, and
// write. Without any choice a page is one scan, else one more for all actors of the page, where
// the engine can read several ranges at once, and else one for each.
//
// An actor whose record is damaged is yielded as an error that wraps ErrCorrupt or ErrNewerFormat, with its ID and Position, whatever is chosen if its
// place in the index is, and the sequence goes on. Any other error comes with a zero ActorInfo, and ends it: ErrNotIndexed, ErrPosition, those of the engine.
func (d *directory) Actors(ctx context.Context, opts *ActorsOptions) iter.Seq2[ActorInfo, error] {
	s := search{directory: d}
	if opts != nil {
		s.ActorsOptions = *opts // the consumer may change it for the next listing
		s.Workflow = distinct(s.Workflow)
	}
	return func(yield func(ActorInfo, error) bool) {
		if err := s.run(ctx, yield); err != nil {
			yield(ActorInfo{}, fmt.Errorf("actorstore: list actors: %w", err))
		}
	}
}

// distinct returns states without those that are there before; nil for nil.
func distinct(states []string) []string {
	if states == nil {
		return nil
	}
	all := make([]string, 0, len(states))
	for _, state := range states {
		if !slices.Contains(all, state) {
			all = append(all, state)
		}
	}
	return all
}

// A search is one listing of actors.
type search struct {
	*directory
	ActorsOptions
}

// run yields the actors, until the consumer wants no more.
func (s search) run(ctx context.Context, yield func(ActorInfo, error) bool) error {
	after, err := parsePosition(s.After)
	if err != nil {
		return err
	}
	src, rest, err := s.source(ctx, after)
	if err != nil || s.Workflow != nil && len(s.Workflow) == 0 {
		return err
	}
	page := s.byID
	if src.ranges != nil {
		page = func(ctx context.Context, after []byte, size int) ([]hit, []byte, error) {
			return s.byRows(ctx, src, after, size)
		}
	}
	size := pageNames
	if s.Limit > 0 && !rest {
		size = min(size, s.Limit)
	}
	for n := 0; ; size = pageNames {
		hits, next, err := page(ctx, after, size)
		if err != nil {
			return err
		}
		for i := range hits {
			h := &hits[i]
			info := ActorInfo{ID: h.id}
			if h.err != nil {
				h.err = fmt.Errorf("actorstore: list actors: %w", h.err)
			} else if info = h.rec.info(h.id); !s.selects(h.rec) {
				continue
			}
			info.Position = positionOf(h.key)
			if n++; !yield(info, h.err) || n == s.Limit {
				return nil
			}
		}
		if after = next; next == nil {
			return nil
		}
	}
}

// A hit is an actor that was found under a physical key.
type hit struct {
	id  ID
	key []byte
	rec *record
	err error // what is damaged of it; nil if nothing is
}

// damage notes that something of what is recorded about the actor is damaged, and returns any other error.
func (h *hit) damage(err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNewerFormat) {
		h.err = cmp.Or(h.err, err)
		return nil
	}
	return err
}

// pageNames is how many actors one page has at most.
const pageNames = 256

// selects reports whether all choices hold for an actor.
func (s *search) selects(rec *record) bool {
	at := attributesOf(rec.found)
	for key, value := range s.Labels {
		if has, ok := at.Labels[key]; !ok || has != value {
			return false
		}
	}
	wake := rec.wake.wake()
	switch {
	case !strings.HasPrefix(rec.name, s.Prefix),
		s.Workflow != nil && !slices.Contains(s.Workflow, at.Workflow),
		s.Stuck && !at.Stuck,
		s.SchemaBelow != 0 && (at.Schema == 0 || at.Schema >= s.SchemaBelow),
		!s.WakesBefore.IsZero() && (wake.At.IsZero() || !wake.At.Before(s.WakesBefore)),
		!s.SleptBefore.IsZero() && (at.Slept.IsZero() || !at.Slept.Before(s.SleptBefore)):
		return false
	}
	return true
}

// A source is where actors in question stand: ranges of rows of one index, which are read one after the other. Without any, all actors
// are, by their ids.
type source struct{ ranges []kv.Range }

// source chooses where to look for the actors, behind a position if that isn't nil. rest says that some of those that stand there may not be selected.
func (s *search) source(ctx context.Context, after []byte) (src source, rest bool, err error) {
	all, indexed := s.sources()
	if indexed {
		if err := s.indexed(ctx); err != nil {
			return source{}, false, err
		}
	}
	rest = len(all) > 1 || s.Order != OrderAny
	switch {
	case len(all) == 0:
		if _, _, ok := layout.ParseRecordKey(after); after != nil && !ok {
			err = ErrPosition
		}
		return source{}, false, err
	case after != nil: // the source of the listing before
		for _, src := range all {
			if src.from(after) != nil {
				return src, rest, nil
			}
		}
		return source{}, false, ErrPosition
	case len(all) > 1 && s.Order == OrderAny:
		src, err = s.smallest(ctx, all)
		return src, rest, err
	}
	return all[0], rest, nil
}

// sources returns one source for each choice, or that of the order alone. indexed says whether the index of attributes
// is needed.
func (s *search) sources() (all []source, indexed bool) {
	if s.Order == OrderName || s.Order == OrderAny && s.Prefix != "" {
		all = append(all, source{[]kv.Range{prefixRange(namesWith(s.Prefix).Bytes())}})
	}
	if s.Order == OrderWake || s.Order == OrderAny && !s.WakesBefore.IsZero() {
		start, end := layout.RowsRange(layout.KindWake)
		if !s.WakesBefore.IsZero() {
			start, end = layout.WakesUntil(s.WakesBefore.UnixMilli())
		}
		all = append(all, source{[]kv.Range{{Start: start, End: end}}})
	}
	names := len(all)
	if s.Order == OrderAny {
		for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
			all = append(all, indexSource(layout.FieldLabel, key, s.Labels[key]))
		}
	}
	switch {
	case s.Order == OrderSince && !s.Stuck, s.Order == OrderAny && s.Workflow != nil:
		var states source
		for _, state := range s.Workflow {
			states.ranges = append(states.ranges, indexSource(layout.FieldWorkflow, "", state).ranges...)
		}
		if s.Workflow == nil {
			states.ranges = []kv.Range{prefixRange(tuple.AppendUint(layout.AppendRows(nil, layout.KindIndex), layout.FieldWorkflow))}
		}
		all = append(all, states)
	}
	if (s.Order == OrderAny || s.Order == OrderSince) && s.Stuck {
		all = append(all, indexSource(layout.FieldStuck, "", ""))
	}
	if s.Order == OrderSchema || s.Order == OrderAny && s.SchemaBelow != 0 {
		all = append(all, indexSource(layout.FieldSchema, "", "").below(int64(min(s.SchemaBelow, 1<<63-1))))
	}
	if s.Order == OrderSlept || s.Order == OrderAny && !s.SleptBefore.IsZero() {
		end := int64(0)
		if !s.SleptBefore.IsZero() {
			end = s.SleptBefore.Add(time.Millisecond - 1).UnixMilli() // a part of a millisecond is behind what is stored
		}
		all = append(all, indexSource(layout.FieldSlept, "", "").below(end))
	}
	return all, len(all) > names || s.Labels != nil || s.Workflow != nil || s.Stuck || s.SchemaBelow != 0 || !s.SleptBefore.IsZero()
}

func prefixRange(p []byte) kv.Range { return kv.Range{Start: p, End: kv.PrefixEnd(p)} }

// indexSource is that of one value of an attribute.
func indexSource(field uint64, name, text string) source {
	return source{[]kv.Range{prefixRange(layout.AppendIndex(nil, field, name, text))}}
}

// below bounds the order of the rows of a source, which is one value of an attribute; 0 sets none.
func (src source) below(order int64) source {
	if order != 0 {
		src.ranges[0].End = tuple.AppendInt(bytes.Clone(src.ranges[0].Start), order)
	}
	return src
}

// from returns what of the source lies behind a key, nil if the key isn't one of the source.
func (src source) from(after []byte) []kv.Range {
	for i, r := range src.ranges {
		if bytes.Compare(after, r.Start) >= 0 && bytes.Compare(after, r.End) < 0 {
			left := slices.Clone(src.ranges[i:])
			left[0].Start = layout.AppendBelow(bytes.Clone(after))
			return left
		}
	}
	return nil
}

// smallest returns the source that has the fewest rows, as far as one page of each tells.
func (s *search) smallest(ctx context.Context, all []source) (best source, err error) {
	fewest := pageNames + 1
	for _, src := range all {
		rows, err := s.rows(ctx, s.eng, src.ranges, pageNames+1)
		if err != nil {
			return source{}, err
		}
		if best.ranges == nil || len(rows) < fewest {
			best, fewest = src, len(rows)
		}
	}
	return best, nil
}

// rows reads at most that many rows of ranges.
func (s *search) rows(ctx context.Context, src kv.Reader, ranges []kv.Range, limit int) (rows []kv.Entry, err error) {
	for _, r := range ranges {
		if r.Limit = limit - len(rows); r.Limit <= 0 {
			break
		}
		for e, err := range src.Scan(ctx, r) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, kv.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value)})
		}
	}
	return rows, nil
}

// byRows reads the next rows of a source, and what is recorded about their actors, from one state. next is the key behind
// which the next page begins, nil after the last one.
func (s *search) byRows(ctx context.Context, src source, after []byte, size int) (hits []hit, next []byte, err error) {
	if err := s.check(); err != nil {
		return nil, nil, err
	}
	left := src.ranges
	if after != nil {
		left = src.from(after)
	}
	snap, err := s.eng.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	rows, err := s.rows(ctx, snap, left, size)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range rows {
		id, err := leadsTo(e)
		if err != nil {
			return nil, nil, err
		}
		hits = append(hits, hit{id: id, key: e.Key})
	}
	if err := loadRecords(ctx, snap, hits); err != nil {
		return nil, nil, err
	}
	for i := range hits {
		h := &hits[i]
		if err := h.damage(cmp.Or(h.err, h.rec.check(h.id), h.agrees())); err != nil {
			return nil, nil, err
		}
	}
	if len(rows) == size {
		next = rows[size-1].Key
	}
	return hits, next, nil
}

// leadsTo returns the actor to which a row of an index leads.
func leadsTo(e kv.Entry) (ID, error) {
	if name, ok := layout.ParseNameKey(e.Key); ok {
		n, err := layout.ParseNamed(name, e.Value)
		return ID(n.ID), err
	}
	if _, id, err := layout.ParseWakeKey(e.Key); err == nil {
		return ID(id), nil
	}
	row, err := layout.ParseIndexKey(e.Key)
	return ID(row.ID), rowError(err)
}

// agrees returns an error if what is recorded about the actor isn't what the index has: one commit writes both.
func (h *hit) agrees() error {
	if name, ok := layout.ParseNameKey(h.key); ok {
		if !h.rec.written() || h.rec.name != name {
			return fmt.Errorf("actorstore: name %q leads to actor %s, which doesn't have it: %w", name, h.id, ErrCorrupt)
		}
		return nil
	}
	row, err := layout.ParseIndexKey(h.key)
	if err != nil {
		if h.rec.wake == nil || !bytes.Equal(h.rec.wake.indexKey(h.id), h.key) {
			return fmt.Errorf("actorstore: the index has a time to wake actor %s that the actor doesn't: %w", h.id, ErrCorrupt)
		}
		return nil
	}
	if h.rec.found == nil || !slices.Contains(h.rec.found.Rows(row.ID), row) {
		return fmt.Errorf("actorstore: the index has %s of actor %s, which the actor doesn't: %w", row, h.id, ErrCorrupt)
	}
	return nil
}

// byID is byRows of the records as they lie there.
func (s *search) byID(ctx context.Context, after []byte, size int) (hits []hit, next []byte, err error) {
	if err := s.check(); err != nil {
		return nil, nil, err
	}
	o := keys.PageOptions{ScanOptions: keys.ScanOptions{Strict: true}}
	if after != nil {
		id, _, _ := layout.ParseRecordKey(after)
		o.After = layout.RecordAfter(id) // behind the last row that there can be of it
	}
	// Enough if all have all there is, and the one behind them to tell; a page of rows is enough to go on with.
	o.Limit = min(size*layout.Parts+1, pageRows)
	rows, more, err := keys.Page[layout.RecordRow](ctx, s.eng, layout.Rows(layout.KindHead), &o)
	if err != nil {
		return nil, nil, rowError(err)
	}
	for _, row := range rows {
		id := ID(row.Key.ID)
		if len(hits) == 0 || hits[len(hits)-1].id != id {
			hits = append(hits, hit{id: id, key: layout.RecordKey(row.Key.ID, layout.PartHead), rec: &record{}})
		}
		h := &hits[len(hits)-1]
		if err := h.damage(h.rec.part(row.Key, row.Value)); err != nil {
			return nil, nil, err
		}
	}
	if more != nil { // the last one may have more rows, which the next page reads with the first
		hits = hits[:len(hits)-1]
		next = hits[len(hits)-1].key
	}
	for i := range hits {
		if err := hits[i].damage(hits[i].rec.check(hits[i].id)); err != nil {
			return nil, nil, err
		}
	}
	return slices.DeleteFunc(hits, func(h hit) bool { return h.err == nil && !h.rec.written() }), next, nil
}

// namesWith returns the subspace of the names that begin with prefix. They are the keys
// that begin as that of prefix does, which ends with a 00 that stands for the end.
func namesWith(prefix string) tuple.Subspace {
	key := tuple.AppendString(layout.AppendRows(nil, layout.KindName), prefix)
	return tuple.FromBytes(key[:len(key)-1])
}

// loadRecords reads what is known of the actors that were found, at once if src can.
func loadRecords(ctx context.Context, src kv.Reader, hits []hit) error {
	if len(hits) == 0 {
		return nil
	}
	of := make(map[ID]*hit, len(hits))
	ranges := make([]kv.Range, len(hits))
	for i := range hits {
		h := &hits[i]
		h.rec, of[h.id] = &record{}, h
		ranges[i].Start, ranges[i].End = layout.RecordRange(layout.ID(h.id))
	}
	rows := kv.ScanRanges(ctx, src, ranges)
	if rows == nil {
		for _, h := range of {
			rec, err := loadRecord(ctx, src, h.id)
			if err = h.damage(err); err != nil {
				return err
			}
			h.rec = &rec
		}
		return nil
	}
	for e, err := range rows {
		if err != nil {
			return err
		}
		id, _, ok := layout.ParseRecordKey(e.Key)
		h := of[ID(id)]
		if !ok || h == nil {
			return fmt.Errorf("actorstore: row %x is of no known kind: %w", e.Key, ErrCorrupt)
		}
		if err := h.damage(h.rec.add(h.id, e)); err != nil {
			return err
		}
	}
	return nil
}

// A position is the version of its form, and the physical key under which an actor was found without what all of them begin with.
const positionVersion = 1

func positionOf(key []byte) string {
	b := append([]byte{positionVersion}, bytes.TrimPrefix(key, layout.AppendOwn(nil))...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// parsePosition returns the key of a position, nil for "".
func parsePosition(p string) ([]byte, error) {
	if p == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(p)
	if err != nil || len(b) < 2 || b[0] != positionVersion {
		return nil, ErrPosition
	}
	return append(layout.AppendOwn(nil), b[1:]...), nil
}
