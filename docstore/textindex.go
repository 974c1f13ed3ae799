package docstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
	"github.com/greenroomdb/greenroom/docstore/internal/text"
	"github.com/greenroomdb/greenroom/kv"
)

const (
	// maxText bounds the text of a document in an index, in bytes.
	maxText = 1 << 20
	// segmentText bounds a segment, in bytes of text; one document may be longer.
	segmentText = 1 << 20
)

// A textIndex is one generation of a text index. A document that is added is pending: its text is stored as it is,
// and searched without an index. When there are enough of them, merge makes a segment of them: one row for each
// gram says which of its documents have it. So writers of different documents write different rows, a gram takes
// one row for some hundred documents, and no row of a gram is changed. A document that leaves a segment leaves a mark;
// a segment that is half empty is dissolved: its documents are pending again.
type textIndex struct {
	r    *rows
	base string
}

// A location is where a document is: its number in a segment. Segments count from 1.
type location struct {
	segment uint32
	number  uint16
}

func (ix textIndex) docKey(doc Path) string { return ix.base + ":doc:" + escape(string(doc)) }
func (ix textIndex) newKey(doc Path) string { return ix.base + ":new\x00" + string(doc) }
func (ix textIndex) gramKey(g text.Gram) string {
	return string(g.AppendKey([]byte(ix.base + ":tri:")))
}

// locate returns where a document is, segment 0 if it is pending, and whether it is in the index.
func (ix textIndex) locate(ctx context.Context, doc Path) (at location, ok bool, err error) {
	b, ok, err := ix.r.get(ctx, ix.docKey(doc))
	if err != nil || !ok || len(b) == 0 {
		return at, ok, err
	}
	if at, ok = parseLocation(b); !ok {
		err = fmt.Errorf("%w: the place of %s in %s", ErrCorrupt, clip(doc), clip(ix.base))
	}
	return at, ok, err
}

// append appends a location as it is stored, and parseLocation reads it.
func (at location) append(dst []byte) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(dst, at.segment), at.number)
}

func parseLocation(b []byte) (at location, ok bool) {
	if len(b) != 6 {
		return at, false
	}
	return location{binary.BigEndian.Uint32(b), binary.BigEndian.Uint16(b[4:])}, true
}

// leave removes what the index has of a document but its place, and reports whether it has any.
func (ix textIndex) leave(ctx context.Context, doc Path) (bool, error) {
	at, ok, err := ix.locate(ctx, doc)
	if err != nil || !ok {
		return false, err
	}
	if at.segment > 0 {
		return true, ix.r.w.Set([]byte(documentKey(ix.base, ":out", at)), nil)
	}
	old, _, err := ix.r.find(ctx, ix.newKey(doc))
	if err != nil {
		return false, err
	}
	return true, ix.r.clear(ix.newKey(doc), len(old))
}

// add puts a document with its text into the index, in place of what the index has of it.
func (ix textIndex) add(ctx context.Context, doc Path, content string) error {
	if _, err := ix.leave(ctx, doc); err != nil {
		return err
	}
	return ix.addPending(doc, text.Normalize(content))
}

func (ix textIndex) addPending(doc Path, normalized string) error {
	if err := ix.r.w.Set([]byte(ix.docKey(doc)), nil); err != nil {
		return err
	}
	return ix.r.put(ix.newKey(doc), []byte(normalized), 0)
}

// remove takes a document out of the index.
func (ix textIndex) remove(ctx context.Context, doc Path) error {
	had, err := ix.leave(ctx, doc)
	if err != nil || !had {
		return err
	}
	return ix.r.w.Clear([]byte(ix.docKey(doc)))
}

// pending calls fn for each pending document with its normalised text, read from r, until fn returns false.
func (ix textIndex) pending(ctx context.Context, r reader, fn func(doc Path, normalized string) bool) error {
	doc, long := "", []byte(nil)
	for e, err := range r.prefixed(ctx, ix.base+":new\x00", "") {
		if err != nil {
			return err
		}
		d, _, pieces := strings.Cut(string(e.Key), "\x00")
		if long != nil && d != doc { // the pieces before were the last ones
			if !fn(Path(doc), string(long)) {
				return nil
			}
			long = nil
		}
		switch doc = d; {
		case pieces:
			long = append(long, e.Value...)
		case !fn(Path(doc), string(e.Value)):
			return nil
		}
	}
	if long != nil {
		fn(Path(doc), string(long))
	}
	return nil
}

// merge makes a segment of pending documents, if they fill one of at most most documents, and returns how many those are.
func (ix textIndex) merge(ctx context.Context, most int) (int, error) {
	var docs []Path
	size, full := 0, false
	err := ix.pending(ctx, ix.r.snap, func(doc Path, s string) bool {
		if full = len(docs) == most || len(docs) > 0 && size+len(s) > segmentText; full {
			return false
		}
		docs, size = append(docs, doc), size+len(s)
		return true
	})
	if err != nil || !full {
		return 0, err
	}
	segment, err := ix.nextSegment(ctx)
	if err != nil {
		return 0, err
	}
	postings := map[text.Gram][]uint16{}
	var grams []text.Gram
	var names []string
	for _, doc := range docs {
		b, ok, err := ix.r.find(ctx, ix.newKey(doc))
		if err != nil {
			return 0, err
		}
		if !ok { // it isn't pending any more
			continue
		}
		at := location{segment, uint16(len(names))}
		names = append(names, string(doc))
		grams = text.Grams(grams[:0], string(b))
		for _, g := range grams {
			postings[g] = append(postings[g], at.number)
		}
		if err := ix.place(doc, at, b); err != nil {
			return 0, err
		}
	}
	for g, docs := range postings {
		if err := ix.r.w.Set([]byte(ix.postingKey(g, segment)), text.AppendPostings(nil, docs)); err != nil {
			return 0, err
		}
	}
	return len(names), ix.r.put(segmentKey(ix.base, ":seg", segment), appendStrings(nil, names), 0)
}

// place moves a pending document to its location.
func (ix textIndex) place(doc Path, at location, normalized []byte) error {
	if err := ix.r.clear(ix.newKey(doc), len(normalized)); err != nil {
		return err
	}
	if err := ix.r.w.Set([]byte(ix.docKey(doc)), at.append(nil)); err != nil {
		return err
	}
	row := binary.AppendUvarint(nil, uint64(len(doc)))
	row = append(append(row, doc...), normalized...)
	return ix.r.put(documentKey(ix.base, ":txt", at), row, 0)
}

// postingKey returns the key of the row that says which documents of a segment have a gram.
func (ix textIndex) postingKey(g text.Gram, segment uint32) string {
	return string(binary.BigEndian.AppendUint32([]byte(ix.gramKey(g)+"\x00"), segment))
}

// nextSegment returns the number of a new segment.
func (ix textIndex) nextSegment(ctx context.Context) (uint32, error) {
	prefix := ix.base + ":seg\x00"
	for e, err := range ix.r.Scan(ctx, kv.Range{Start: []byte(prefix), End: above(prefix), Limit: 1, Reverse: true}) {
		if err != nil {
			return 0, err
		}
		if len(e.Key) < len(prefix)+4 {
			return 0, fmt.Errorf("%w: a segment of %s", ErrCorrupt, clip(ix.base))
		}
		return binary.BigEndian.Uint32(e.Key[len(prefix):]) + 1, nil
	}
	return 1, nil
}

// document returns path and normalised text of the document at a location.
func (ix textIndex) document(ctx context.Context, at location) (Path, []byte, error) {
	b, ok, err := ix.r.find(ctx, documentKey(ix.base, ":txt", at))
	if err != nil {
		return "", nil, err
	}
	n, used := binary.Uvarint(b)
	if !ok || used <= 0 || n > uint64(len(b)-used) {
		return "", nil, fmt.Errorf("%w: document %d of segment %d of %s", ErrCorrupt, at.number, at.segment, clip(ix.base))
	}
	b = b[used:]
	return Path(b[:n]), b[n:], nil
}

// names returns the documents of a segment by their numbers, including those that left it.
func (ix textIndex) names(ctx context.Context, segment uint32) ([]string, error) {
	b, ok, err := ix.r.find(ctx, segmentKey(ix.base, ":seg", segment))
	if err == nil && !ok {
		err = fmt.Errorf("%w: segment %d of %s is missing", ErrCorrupt, segment, clip(ix.base))
	}
	if err != nil {
		return nil, err
	}
	return element.Strings(b)
}

// left returns the documents that have left segments.
func (ix textIndex) left(ctx context.Context, r reader) (map[uint32]*text.Set, error) {
	out := map[uint32]*text.Set{}
	for e, err := range r.prefixed(ctx, ix.base+":out\x00", "") {
		if err != nil {
			return nil, err
		}
		at, ok := parseLocation(e.Key)
		if !ok || int(at.number) >= text.MaxDocs {
			return nil, fmt.Errorf("%w: a mark of %s", ErrCorrupt, clip(ix.base))
		}
		if out[at.segment] == nil {
			out[at.segment] = new(text.Set)
		}
		out[at.segment].Add(int(at.number))
	}
	return out, nil
}

// dissolve makes the documents of a segment pending again if at least half of them have left it, and reports whether it
// found such a segment.
func (ix textIndex) dissolve(ctx context.Context) (bool, error) {
	out, err := ix.left(ctx, ix.r.snap)
	if err != nil {
		return false, err
	}
	for segment, gone := range out {
		names, err := ix.names(ctx, segment)
		if err != nil {
			return false, err
		}
		if gone.Len()*2 < len(names) {
			continue
		}
		return true, ix.dissolveSegment(ctx, segment, names)
	}
	return false, nil
}

func (ix textIndex) dissolveSegment(ctx context.Context, segment uint32, names []string) error {
	var grams []text.Gram
	for i, name := range names {
		at := location{segment, uint16(i)}
		doc, normalized, err := ix.document(ctx, at)
		if err != nil {
			return err
		}
		grams = text.Grams(grams, string(normalized))
		now, ok, err := ix.locate(ctx, doc)
		if err == nil && ok && now == at {
			err = ix.addPending(Path(name), string(normalized))
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(grams)
	for _, g := range slices.Compact(grams) {
		if err := ix.r.w.Clear([]byte(ix.postingKey(g, segment))); err != nil {
			return err
		}
	}
	for _, part := range []string{":seg", ":txt", ":out"} {
		key := segmentKey(ix.base, part, segment)
		if err := ix.r.w.ClearRange([]byte(key), []byte(segmentKey(ix.base, part, segment+1))); err != nil {
			return err
		}
	}
	return nil
}
