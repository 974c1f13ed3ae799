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
// +checklocks:tx.st.mu
func (tx *Tx) enter(b *batch.Batch, p *pending, since optional[numbered]) error {
	key, a := p.key(), tx.st.actor
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
// +checklocks:tx.st.mu
func (tx *Tx) notes(bucket int64) bucketNotes {
	if n, ok := tx.buckets[bucket]; ok {
		return n
	}
	return tx.st.index.buckets[bucket]
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

// newerThan reports whether there is a newer bucket: the newest one stays.
func (x *index) newerThan(start int64) bool {
	for k, n := range x.buckets {
		if k > start && n.chunks > 0 {
			return true
		}
	}
	return false
}

// several reports whether there is more than one bucket.
func (x *index) several() bool {
	full := 0
	for _, n := range x.buckets {
		if n.chunks > 0 {
			full++
		}
	}
	return full > 1
}

// empty has the notes land with b of a bucket that has no chunks any more.
//
// +checklocks:tx.st.mu
func (tx *Tx) empty(b *batch.Batch) error {
	if !tx.emptied.set {
		return nil
	}
	start := tx.emptied.value
	n := tx.notes(start)
	n.chunks, n.bytes, n.tail = 0, 0, nil
	tx.buckets[start] = n
	if !n.stored {
		return nil
	}
	return tx.st.actor.StageNote(b, ledgerKey(start), n.ledger.append(nil))
}

// forget has b remove notes, as removeNotes says.
//
// +checklocks:tx.st.mu
func (tx *Tx) forget(b *batch.Batch) error {
	for _, key := range tx.stale {
		k, kind, _ := parseNoteKey(key)
		n := tx.notes(k.bucket)
		if k.bucket < tx.before && n.chunks > 0 {
			continue
		}
		if n.tailAt == k {
			n.tail = nil // the next chunk begins a note of its own
		}
		if kind == noteIndex {
			tx.more--
		} else {
			n.stored, n.ledger = false, ledger{next: n.next}
		}
		tx.buckets[k.bucket] = n
		if err := tx.st.actor.StageNote(b, key, nil); err != nil {
			return err
		}
	}
	return nil
}
