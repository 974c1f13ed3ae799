package traces

import (
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// An index is what the notes say, as far as writing needs it. It follows the store: what a
// batch adds is apart until that is settled. Batches are settled one after the other,
// under the actor's commit lock, so that there is one at a time.
type index struct {
	buckets map[int64]bucketNotes
	notes   int   // index notes, of all buckets
	bytes   int64 // of all chunks

	work map[int64]bucketNotes // what the batch has changed
	of   *batch.Batch          // the batch, nil when none is under way
	more int                   // index notes of it
}

// bucketNotes is a ledger, and the note of the index that has room left.
type bucketNotes struct {
	ledger
	stored   bool // the ledger is there
	tail     []byte
	tailAt   chunkKey
	tailPart uint16
}

// stage has the notes about a chunk land with b; since is that of the ledger. It is called
// by a Late function of b, with Traces.mu held.
func (x *index) stage(a *actorstore.Actor, b *batch.Batch, p *pending, since optional[numbered]) error {
	key := p.key()
	n := x.working(b, key.bucket)
	n.chunks++
	n.next = max(n.next, key.id+1)
	n.bytes += chunkBytes(key, p.size)
	if !n.stored || p.seq > n.seq {
		n.seq, n.last = p.seq, key.id
	}
	n.stored, n.since = true, since
	notes := n.enter(key, p)
	x.more += len(notes)
	if len(notes) > 0 && notes[0].tail {
		x.more--
	}
	for _, note := range notes {
		if err := a.StageNote(b, note.Key, note.Value); err != nil {
			return err
		}
	}
	x.work[key.bucket] = n
	return a.StageNote(b, ledgerKey(key.bucket), n.ledger.append(nil))
}

// working returns the notes of a bucket as b has left them.
func (x *index) working(b *batch.Batch, bucket int64) bucketNotes {
	if x.of != b {
		x.of, x.work, x.more = b, map[int64]bucketNotes{}, 0
	}
	if n, ok := x.work[bucket]; ok {
		return n
	}
	return x.buckets[bucket]
}

// settle takes over what the batch has changed, if it has landed.
func (x *index) settle(b *batch.Batch, landed bool) {
	if x.of != b {
		return
	}
	if landed {
		for bucket, n := range x.work {
			x.bytes += n.bytes - x.buckets[bucket].bytes
			if x.buckets[bucket] = n; !n.stored && n.chunks == 0 {
				delete(x.buckets, bucket)
			}
		}
		x.notes += x.more
	}
	x.of, x.work, x.more = nil, nil, 0
}

// An indexNote is a note to be stored; tail says that it replaces one that is there.
type indexNote struct {
	actorstore.Note
	tail bool
}

// enter puts a chunk into the index of its bucket: behind the last note if that has room,
// else in as many as it takes.
func (n *bucketNotes) enter(k chunkKey, p *pending) (notes []indexNote) {
	// The hashes of a chunk may be wanted again, if this batch doesn't land.
	hashes := dedupe(append([]uint64(nil), p.traces...))
	e := entry{id: k.id, min: int64(p.min / 1e6), max: int64(p.max / 1e6), all: len(hashes)}
	if n.tail != nil && k.id > n.tailAt.id &&
		len(n.tail)+maxEntryHead+setBytesPer*len(hashes) <= actorstore.MaxNoteValue {
		e.n, e.set = len(hashes), appendSet(nil, hashes)
		n.tail = e.append(append([]byte(nil), n.tail...), k.bucket, n.tailAt.id)
		return []indexNote{{actorstore.Note{Key: indexKey(n.tailAt, n.tailPart), Value: n.tail}, true}}
	}
	for part := uint16(0); part == 0 || len(hashes) > 0; part++ {
		some := hashes[:min(len(hashes), maxSet)]
		hashes = hashes[len(some):]
		e.n, e.set = len(some), appendSet(nil, some)
		n.tail = e.append(bare.AppendVersion(nil, indexVersion), k.bucket, k.id)
		n.tailAt, n.tailPart = k, part
		notes = append(notes, indexNote{actorstore.Note{Key: indexKey(k, part), Value: n.tail}, false})
	}
	return notes
}
