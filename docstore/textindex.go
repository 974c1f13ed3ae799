package docstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"iter"

	"github.com/greenroomdb/greenroom/docstore/internal/text"
	"github.com/greenroomdb/greenroom/kv"
)

const (
	// maxText bounds the text of a document in an index, in bytes: properties that an expression joins, each once, fit.
	maxText = maxDocument + 4096
	// segmentText bounds a segment, in bytes of text; one document may be longer. Bounds have the number of its documents.
	segmentText = 1 << 20
)

// A textIndex is one generation of a text index. A document that is added is pending: its text is stored as it is,
// and searched without an index. When there are enough of them, merge makes a segment of them: one row for each two
// characters says which of its documents have which grams that begin so. So writers of different documents write
// different rows, the grams take few of them, and no row of grams is changed. A document that leaves a segment leaves a mark;
// a segment that is half empty is dissolved: its documents are pending again.
//
// Deleted rows take time to pass over, and all pending documents but the last ones are deleted rows. So pending
// documents come in rounds: a writer adds its documents to the current one, each merge begins another one, and readers
// begin at the first round that a document may still be in. The row that says so changes with each merge: that is when a
// writer may have to begin again.
type textIndex struct {
	rows
	base string
}

func (ix textIndex) docKey(doc Path) string { return ix.base + ":doc:" + escape(string(doc)) }
func (ix textIndex) newKey(doc Path, round uint32) string {
	return segmentKey(ix.base, ":new", round) + string(doc)
}
func (ix textIndex) gramKey(chars string) string {
	return string(text.AppendKey([]byte(ix.base+":tri:"), chars))
}

// rounds returns the first round in which documents are pending, and the current one.
func (ix textIndex) rounds(ctx context.Context) (first, current uint32) {
	b, ok := ix.get(ctx, ix.base+":round")
	if ok && len(b) == 8 {
		return binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	}
	if ok {
		ix.corrupt(ix.base+":round", "%x is not two rounds", b)
	}
	return 1, 1
}

// locate returns where a document is, and whether it is in the index.
func (ix textIndex) locate(ctx context.Context, doc Path) (at location, ok bool) {
	b, ok := ix.get(ctx, ix.docKey(doc))
	if !ok {
		return at, false
	}
	if at, ok = parseLocation(b); !ok {
		ix.corrupt(ix.docKey(doc), "%x is not a place", b)
	}
	return at, ok
}

// leave removes what the index has of a document but its place, and reports whether it has any.
func (ix textIndex) leave(ctx context.Context, doc Path) bool {
	at, ok := ix.locate(ctx, doc)
	switch key := ix.newKey(doc, at.segment); {
	case !ok:
	case at.number == waiting:
		old, _ := ix.find(ctx, key)
		ix.clear(key, len(old))
	default:
		ix.set(documentKey(ix.base, ":out", at), nil)
	}
	return ok
}

// add puts a document with its text into the index, in place of what the index has of it.
func (ix textIndex) add(ctx context.Context, doc Path, content string) {
	ix.leave(ctx, doc)
	ix.addPending(ctx, doc, text.Normalize(content))
}

func (ix textIndex) addPending(ctx context.Context, doc Path, normalized string) {
	_, round := ix.rounds(ctx)
	ix.set(ix.docKey(doc), location{round, waiting}.append(nil))
	ix.put(ix.newKey(doc, round), []byte(normalized), 0)
}

// remove takes a document out of the index.
func (ix textIndex) remove(ctx context.Context, doc Path) {
	if ix.leave(ctx, doc) {
		ix.unset(ix.docKey(doc))
	}
}

// waitingDocs calls fn for each pending document with its round and its normalised text, until fn returns false. The
// bytes are fn's until it returns.
func (ix textIndex) waitingDocs(ctx context.Context, fn func(round uint32, doc, normalized []byte) bool) {
	first, _ := ix.rounds(ctx)
	prefix := ix.base + ":new\x00"
	var last, long []byte
	flush := func() bool {
		b := long
		long = nil
		return b == nil || fn(binary.BigEndian.Uint32(last), last[4:], b)
	}
	for k, v := range ix.scan(ctx, kv.Range{Start: []byte(segmentKey(ix.base, ":new", first)), End: above(prefix)}) {
		if len(k) < len(prefix)+4 {
			ix.corrupt(k, "it has no round")
			return
		}
		key := []byte(k[len(prefix):])
		doc, _, pieces := bytes.Cut(key[4:], []byte{0})
		key = key[:4+len(doc)]
		if long != nil && !bytes.Equal(key, last) && !flush() { // the pieces before were the last ones
			return
		}
		if pieces {
			last, long = append(last[:0], key...), append(long, v...)
		} else if !fn(binary.BigEndian.Uint32(key), doc, v) {
			return
		}
	}
	flush()
}

// merge makes a segment of pending documents if they fill one, and returns how many those are.
func (ix textIndex) merge(ctx context.Context) int {
	_, current := ix.rounds(ctx)
	first, size, full := current, 0, false
	var keys []string
	textIndex{ix.uncounted(), ix.base}.waitingDocs(ctx, func(round uint32, doc, s []byte) bool {
		if full = len(keys) == ix.bounds.segment || len(keys) > 0 && size+len(s) > segmentText; full {
			first = round
			return false
		}
		keys, size = append(keys, ix.newKey(Path(doc), round)), size+len(s)
		return true
	})
	if !full {
		return 0
	}
	// A writer that commits later adds to a later round, or begins again.
	ix.set(ix.base+":round", binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, first), current+1))
	segment := ix.nextSegment(ctx)
	var grams text.Segment
	var names []string
	start := len(segmentKey(ix.base, ":new", first))
	for _, key := range keys {
		b, ok := ix.find(ctx, key)
		if !ok { // it isn't pending any more
			continue
		}
		doc, at := key[start:], location{segment, uint16(len(names))}
		names = append(names, doc)
		grams.Add(int(at.number), string(b))
		ix.clear(key, len(b))
		ix.set(ix.docKey(Path(doc)), at.append(nil))
		row := append(binary.AppendUvarint(nil, uint64(len(doc))), doc...)
		ix.put(documentKey(ix.base, ":txt", at), append(row, b...), 0)
	}
	for key, row := range ix.rowsOf(&grams, segment) {
		ix.set(key, row)
	}
	ix.put(segmentKey(ix.base, ":seg", segment), appendStrings(nil, names), 0)
	return len(names)
}

// postingKey returns the key of the row that says which documents of a segment have the grams that begin with two
// characters.
func (ix textIndex) postingKey(pair string, segment uint32) string {
	return string(binary.BigEndian.AppendUint32([]byte(ix.gramKey(pair)+"\x00"), segment))
}

// rowsOf yields the rows of the grams of a segment, with their keys. The grams that begin with two characters may take
// several: the key of each but the first is that of a piece.
func (ix textIndex) rowsOf(grams *text.Segment, segment uint32) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		last, n := "", uint32(0)
		for pair, row := range grams.Rows() {
			key := ix.postingKey(pair, segment)
			if n++; pair != last {
				last, n = pair, 0
			} else {
				key = string(piece(key, n))
			}
			if !yield(key, row) {
				return
			}
		}
	}
}

// nextSegment returns the number of a new segment.
func (ix textIndex) nextSegment(ctx context.Context) uint32 {
	prefix := ix.base + ":seg\x00"
	for k := range ix.scan(ctx, kv.Range{Start: []byte(prefix), End: above(prefix), Limit: 1, Reverse: true}) {
		return ix.segmentAt(k, len(prefix)) + 1
	}
	return 1
}

// segmentAt returns the number of a segment that stands at a place in a key.
func (ix textIndex) segmentAt(key string, i int) uint32 {
	if i < 0 || len(key) < i+4 {
		ix.corrupt(key, "it has no segment")
		return 0
	}
	return binary.BigEndian.Uint32([]byte(key[i : i+4]))
}

// document returns path and normalised text of the document at a location.
func (ix textIndex) document(ctx context.Context, at location) (doc, normalized []byte) {
	b, _ := ix.find(ctx, documentKey(ix.base, ":txt", at))
	return ix.split(b, at)
}

// split returns the parts of a row with the text of a document.
func (ix textIndex) split(row []byte, at location) (doc, normalized []byte) {
	n, used := binary.Uvarint(row)
	if used <= 0 || n > uint64(len(row)-used) {
		ix.corrupt(documentKey(ix.base, ":txt", at), "it is not a document")
		return nil, nil
	}
	row = row[used:]
	return row[:n], row[n:]
}

// names returns the documents of a segment by their numbers, including those that left it.
func (ix textIndex) names(ctx context.Context, segment uint32) []string {
	names, size := ix.array(ctx, segmentKey(ix.base, ":seg", segment))
	if size == 0 {
		ix.corrupt(segmentKey(ix.base, ":seg", segment), "the segment is missing")
	}
	return names
}

// left returns the documents that have left segments.
func (ix textIndex) left(ctx context.Context) map[uint32]*text.Set {
	out := map[uint32]*text.Set{}
	for k := range ix.prefixed(ctx, ix.base+":out\x00", "") {
		at, ok := parseLocation([]byte(k))
		if !ok || int(at.number) >= text.MaxDocs {
			ix.corrupt(ix.base+":out", "%x is not a place", k)
			break
		}
		if out[at.segment] == nil {
			out[at.segment] = new(text.Set)
		}
		out[at.segment].Add(int(at.number))
	}
	return out
}

// dissolve makes the documents of a segment pending again if at least half of them have left it, and reports whether it
// found such a segment.
func (ix textIndex) dissolve(ctx context.Context) bool {
	for segment, gone := range (textIndex{ix.uncounted(), ix.base}).left(ctx) {
		names := ix.names(ctx, segment)
		if gone.Len()*2 < len(names) {
			continue
		}
		var grams text.Segment
		for i := range names {
			at := location{segment, uint16(i)}
			doc, normalized := ix.document(ctx, at)
			grams.Add(i, string(normalized))
			if now, ok := ix.locate(ctx, Path(doc)); ok && now == at {
				ix.addPending(ctx, Path(doc), string(normalized))
			}
		}
		for key := range ix.rowsOf(&grams, segment) {
			ix.unset(key)
		}
		for _, part := range []string{":seg", ":txt", ":out"} {
			ix.clearRange(segmentKey(ix.base, part, segment), []byte(segmentKey(ix.base, part, segment+1)))
		}
		return true
	}
	return false
}
