package traces

import (
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// An index is what the notes say, as far as writing needs it. It follows the store: what a
// batch changes is apart, in its Tx, until that has landed.
type index struct {
	buckets map[int64]bucketNotes
	notes   int   // index notes, of all buckets
	bytes   int64 // of all chunks
}

// bucketNotes is a ledger, and the note of the index that has room left.
type bucketNotes struct {
	ledger
	stored   bool // the ledger is there
	tail     []byte
	tailAt   chunkKey
	tailPart uint16
}

// enter has the notes about a chunk land with b; since is that of the ledger.
//
// +checklocks:tx.t.mu
func (tx *Tx) enter(b *batch.Batch, p *pending, since optional[numbered]) error {
	key, a := p.key(), tx.t.actor
	n := tx.notes(key.bucket)
	n.chunks++
	n.next = max(n.next, key.id+1)
	n.bytes += chunkBytes(a.Layout(), key, p.size)
	if !n.stored || p.seq > n.seq {
		n.seq, n.last = p.seq, key.id
	}
	n.stored, n.since = true, since
	notes := n.enter(key, p)
	tx.more += len(notes)
	if len(notes) > 0 && notes[0].tail {
		tx.more--
	}
	for _, note := range notes {
		if err := a.StageNote(b, note.Key, note.Value); err != nil {
			return err
		}
	}
	tx.buckets[key.bucket] = n
	return a.StageNote(b, ledgerKey(key.bucket), n.ledger.append(nil))
}

// notes returns the notes of a bucket as tx leaves them.
//
// +checklocks:tx.t.mu
func (tx *Tx) notes(bucket int64) bucketNotes {
	if n, ok := tx.buckets[bucket]; ok {
		return n
	}
	return tx.t.index.buckets[bucket]
}

// follow takes over the changes of a batch that landed.
func (x *index) follow(tx *Tx) {
	for bucket, n := range tx.buckets {
		x.bytes += n.bytes - x.buckets[bucket].bytes
		if x.buckets[bucket] = n; !n.stored && n.chunks == 0 {
			delete(x.buckets, bucket)
		}
	}
	x.notes += tx.more
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
