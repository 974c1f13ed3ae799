package itemstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/greenroomdb/greenroom/internal/filter"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// A query is ListOptions with a prefix, found in order.
type query struct {
	prefix  Path
	opts    ListOptions
	at      resolved
	start   []byte // the range of the rows' keys, half-open
	end     []byte
	all     bool // of the store: only primary rows
	filters map[string]*filter.Program
}

// query checks what is asked for.
func (t *types) query(e *env, prefix Path, opts *ListOptions) (*query, error) {
	q := &query{prefix: prefix, all: prefix == ""}
	if opts != nil {
		q.opts = *opts
	}
	part := int64(partItem)
	if !q.all {
		var err error
		if q.at, err = t.shapes.resolve(prefix, false); err != nil {
			return nil, err
		}
		if q.at.index {
			part = partIndex
		}
	}
	q.start = e.keys.key(part, q.at.key)
	q.end = after(q.start)
	if q.all && q.opts.Segment != nil {
		q.start, q.end = e.keys.key(part, q.opts.Segment.Start), e.keys.key(part, q.opts.Segment.End)
	} else if q.opts.Segment != nil {
		return nil, fmt.Errorf("%w: a segment is one of all items, and the prefix is %s", ErrPath, clip(string(prefix)))
	}
	if err := q.bound(t, e, part); err != nil {
		return nil, err
	}
	for _, name := range slices.AppendSeq(slices.Clone(q.opts.Types), maps.Keys(q.opts.Filters)) {
		if t.byName(name) == nil {
			return nil, fmt.Errorf("%w: %s", ErrUnknownType, clip(name))
		}
	}
	for name, text := range q.opts.Filters {
		p, err := compile(text)
		if err != nil {
			return nil, fmt.Errorf("itemstore: filter for %s: %w", name, err)
		}
		if q.filters == nil {
			q.filters = map[string]*filter.Program{}
		}
		q.filters[name] = p
	}
	return q, nil
}

// bound narrows the range by the bounds of the paths.
func (q *query) bound(t *types, e *env, part int64) error {
	o := &q.opts
	if o.AtLeast != "" && o.GreaterThan != "" || o.AtMost != "" && o.LessThan != "" {
		return fmt.Errorf("%w: two lower or two upper bounds", ErrPath)
	}
	for _, b := range []struct {
		path         Path
		upper, equal bool
	}{{o.AtLeast, false, true}, {o.GreaterThan, false, false}, {o.AtMost, true, true}, {o.LessThan, true, false}} {
		if b.path == "" {
			continue
		}
		at, err := t.shapes.resolve(b.path, true)
		if err != nil {
			return err
		}
		// A text, or bytes, that goes on behind a zero goes on with FF: that is another ID.
		if !bytes.HasPrefix(at.key, q.at.key) || bytes.HasPrefix(at.key[len(q.at.key):], []byte{0xff}) {
			return fmt.Errorf("%w: the bound %s doesn't begin with the prefix %s", ErrPath, clip(string(b.path)), clip(string(q.prefix)))
		}
		key := e.keys.key(part, at.key)
		if b.upper == b.equal { // behind the rows of the path itself, before those below it
			key = append(key, 0x02)
		}
		if b.upper {
			q.end = key
		} else {
			q.start = key
		}
	}
	return nil
}

// wants reports whether a filter of the list's lets an item of a type that is wanted pass.
func (q *query) wants(ctx context.Context, e *env, item *Item) (bool, error) {
	p := q.filters[item.Type]
	if p == nil {
		return true, nil
	}
	ok, err := p.Match(ctx, filter.Map{"this": expressionValue(item.Value)})
	if errors.Is(err, filter.ErrMismatch) {
		e.meter.Count(filterMismatches, 1)
		return false, nil
	}
	return ok, err
}

// place returns the packed path of a row, and the path itself.
func (q *query) place(e *env, row rowAt) (key []byte, path Path, err error) {
	key = e.keys.rest(row.key)
	if q.at.index {
		// The primary path stands behind it, as one element of bytes.
		key = key[:len(key)-len(tuple.AppendBytes(nil, row.rec.primary))]
	}
	path, err = unpackPath(key)
	return key, path, err
}

// key returns the key of the row at a place of the list's.
func (q *query) key(e *env, place []byte) []byte {
	if q.at.index {
		return e.keys.key(partIndex, place)
	}
	return e.keys.key(partItem, place)
}

// syncable reports whether a list has a token that Sync takes: one below a group.
func (q *query) syncable() bool { return !q.all && !q.at.index }

// beyond returns the range behind the page of a token, or before it.
func (q *query) beyond(e *env, t *token, backward bool) (start, end []byte) {
	start, end = q.start, q.end
	if len(t.Last) == 0 {
		if backward || t.Done && !t.Filling {
			return end, end
		}
		return start, end
	}
	edge := t.Last
	if backward {
		edge = t.First
	}
	if q.opts.Reverse != backward {
		return start, q.key(e, edge)
	}
	return append(q.key(e, edge), 0), end
}

// listed returns the item of a row, and whether it is one of the list's.
func (q *query) listed(ctx context.Context, v *view, row rowAt, err error) (Item, bool, error) {
	if err != nil || row.rec.expired(v.now) || q.all && row.rec.kind != rowPrimary {
		return Item{}, false, err
	}
	b, err := q.typeOf(v, row.rec)
	if err != nil || b == nil {
		return Item{}, false, err
	}
	key, path, err := q.place(v.env, row)
	if err != nil {
		return Item{}, false, err
	}
	return q.itemAt(ctx, v, b, row.rec, key, path)
}

// typeOf returns the type of a row's item, nil if it isn't one of the list's.
func (q *query) typeOf(v *view, r *record) (*bound, error) {
	b, err := v.types.bound(r.typ)
	if err != nil || b.itemType == nil || len(q.opts.Types) > 0 && !slices.Contains(q.opts.Types, b.Name) {
		return nil, err
	}
	return b, nil
}

// itemAt returns the item of a row, of a type of the list's, at a path that is packed in key, and whether the list has it.
func (q *query) itemAt(ctx context.Context, v *view, b *bound, r *record, key []byte, path Path) (Item, bool, error) {
	item, err := v.item(ctx, b, r, key, path)
	if err != nil {
		return Item{}, false, err
	}
	ok, err := q.wants(ctx, v.env, &item)
	return item, ok, err
}

// read reads the items of a range, as many as a page has.
func (q *query) read(ctx context.Context, v *view, start, end []byte, reverse bool) (*Page, error) {
	page := &Page{}
	size, looked := 0, 0
	for row, err := range v.scan(ctx, start, end, reverse) {
		item, ok, err := q.listed(ctx, v, row, err)
		if err != nil {
			return nil, err
		}
		if looked++; !ok && looked > pageRows {
			page.More, page.last = true, bytes.Clone(v.keys.rest(row.key))
			if page.first == nil {
				page.first = page.last
			}
			break
		}
		if !ok {
			continue
		}
		if q.opts.Limit > 0 && len(page.Items) == q.opts.Limit || size >= pageBytes {
			page.More = true
			break
		}
		size += row.rec.size
		page.last = append(page.last[:0], v.keys.rest(row.key)...)
		if page.first == nil {
			page.first = bytes.Clone(page.last)
		}
		page.Items = append(page.Items, item)
	}
	return page, nil
}

// page reads a page of a range, and moves the token.
func (q *query) page(ctx context.Context, v *view, t *token, start, end []byte, reverse bool) (*Page, error) {
	page, err := q.read(ctx, v, start, end, reverse)
	if err != nil {
		return nil, err
	}
	forward := reverse == q.opts.Reverse
	if page.first != nil {
		if t.First, t.Last = page.first, page.last; !forward {
			t.First, t.Last = page.last, page.first
		}
	}
	if forward {
		// It may have come further before it went backward.
		if t.Done = t.Done || !page.More; page.last != nil && (t.Edge == nil || bytes.Compare(page.last, t.Edge) > 0 != q.opts.Reverse) {
			t.Edge = page.last
		}
	}
	page.Token, err = t.pack()
	return page, err
}

// token parses a token of this store.
func (v *view) token(at Token) (*token, error) {
	t, err := parseToken(at)
	if err == nil && !bytes.Equal(t.Nonce, v.types.head.nonce[:]) {
		err = fmt.Errorf("%w: it is of another store", ErrToken)
	}
	return t, err
}

// ends returns the first and the last packed path of the store's, or nil.
func (v *view) ends(ctx context.Context) (first, last []byte, err error) {
	start := v.keys.key(partItem)
	for _, reverse := range []bool{false, true} {
		for e, err := range v.tx.Snapshot().Scan(ctx, kv.Range{Start: start, End: after(start), Limit: 1, Reverse: reverse}) {
			if err != nil {
				return nil, nil, err
			}
			if last = bytes.Clone(v.keys.rest(e.Key)); !reverse {
				first = last
			}
		}
	}
	return first, last, nil
}

// A Token is a place in a list, and what a client has seen of it: NextPage goes on there, and
// Sync tells what has changed since. It holds all that is needed, and can be kept for
// as long as one likes. Its bytes mean something to the store that made it, and to the
// version of its schema, and are ErrToken to others.
type Token []byte

// tokenVersion is the version of a token, its first byte. Behind it stand a token as JSON, and the
// CRC-32C of all before, big-endian.
const tokenVersion = 1

// token is what a Token holds.
type token struct {
	Nonce  []byte // of the store
	Schema int
	Prefix Path `json:",omitempty"`
	ListOptions
	// First and Last are the rows of the newest page at its ends, by their keys behind the part; none if it is empty.
	First, Last []byte `json:",omitempty"`
	// Edge is the row that the list has come to in its direction; Done says that it has come
	// to its end.
	Edge []byte `json:",omitempty"`
	Done bool   `json:",omitempty"`
	// Seen is the place in the group's log up to which the client knows of changes.
	Seen []byte `json:",omitempty"`
	// Filling says that the list starts over, and goes on behind Last up to where it had come.
	Filling bool `json:",omitempty"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (t *token) pack() (Token, error) {
	b, err := json.Marshal(t)
	b = append([]byte{tokenVersion}, b...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), err
}

func parseToken(b Token) (t *token, err error) {
	n := len(b) - 4
	if n < 1 || crc32.Checksum(b[:n], castagnoli) != binary.BigEndian.Uint32(b[n:]) {
		return nil, fmt.Errorf("%w: it is damaged", ErrToken)
	}
	if b[0] != tokenVersion {
		return nil, fmt.Errorf("%w: version %d", ErrToken, b[0])
	}
	t = &token{}
	if err := json.Unmarshal(b[1:n], t); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return t, nil
}
