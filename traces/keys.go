// Key layout:
//
//	key of the actor                   value
//	08 + (1, bucket, chunk)            v1: a chunk of records of the bucket, which begins at
//	                                   that Unix second: chunk.go. Chunks count from 0
//
//	note of the actor                  value
//	08 + bucket u64be + 00             v2: what is known of all chunks of a bucket: next u32,
//	                                   chunks u32, bytes u64, number u64 of its newest chunk
//	                                   in the order of all buckets, id u32 of that chunk;
//	                                   bool, and if it is set the bucket u64, id u32 and
//	                                   number u64 of a chunk: ledger.since in indexcodec.go.
//	                                   v1 ends before it
//	08 + bucket u64be + 01 + chunk     v1: an index of chunks from that one on, what times
//	  u32be + part u16be               and traces they hold: indexcodec.go
//
//	( ) is a packed tuple; v1 is a u16le version, 1, and BARE, and so is v2.

package traces

import (
	"encoding/binary"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/tuple"
)

// keyPrefix is the first element of the tuple of a chunk.
const keyPrefix = 1

// A chunkKey says where a chunk is: the Unix second at which its bucket begins, and its
// number there.
type chunkKey struct {
	bucket int64
	id     uint32
}

// compare orders as the keys are.
func (k chunkKey) compare(o chunkKey) int {
	switch {
	case k.bucket != o.bucket && k.bucket < o.bucket || k.bucket == o.bucket && k.id < o.id:
		return -1
	case k == o:
		return 0
	}
	return 1
}

// min returns the smaller one.
func (k chunkKey) min(o chunkKey) chunkKey {
	if o.compare(k) < 0 {
		return o
	}
	return k
}

// appendChunkKey appends the key of a chunk.
func appendChunkKey(l actorstore.Layout, dst []byte, k chunkKey) []byte {
	return tuple.AppendInt(appendBucket(l, dst, k.bucket), int64(k.id))
}

// appendBucket appends what all keys of a bucket begin with.
func appendBucket(l actorstore.Layout, dst []byte, bucket int64) []byte {
	return tuple.AppendInt(tuple.AppendInt(append(dst, l.Prefix(actorstore.NamespaceTraces)...), keyPrefix), bucket)
}

// bucketStart returns the smallest key of a bucket, which is the upper bound of all those
// before: no bucket's key begins with another's.
func bucketStart(l actorstore.Layout, bucket int64) []byte { return appendBucket(l, nil, bucket) }

// afterChunk returns the smallest key behind that of a chunk.
func afterChunk(l actorstore.Layout, k chunkKey) []byte { return append(appendChunkKey(l, nil, k), 0) }

// chunksRange returns the half-open range of all chunks, whatever is beside them.
func chunksRange(l actorstore.Layout) (start, end []byte) {
	p := l.Prefix(actorstore.NamespaceTraces)
	return tuple.AppendInt([]byte(p), keyPrefix), tuple.AppendInt([]byte(p), keyPrefix+1)
}

// parseChunkKey decodes the key of a chunk.
func parseChunkKey(l actorstore.Layout, key []byte) (k chunkKey, ok bool) {
	p := l.Prefix(actorstore.NamespaceTraces)
	if len(key) < len(p) || string(key[:len(p)]) != p {
		return chunkKey{}, false
	}
	var n [3]int64
	rest, err := key[len(p):], error(nil)
	for i := range n {
		if n[i], rest, err = tuple.NextInt(rest); err != nil {
			return chunkKey{}, false
		}
	}
	k = chunkKey{n[1], uint32(n[2])}
	// What isn't in its shortest form is another key, which nothing here writes.
	return k, len(rest) == 0 && n[0] == keyPrefix && n[1] >= 0 && int64(k.id) == n[2] &&
		string(appendChunkKey(l, nil, k)) == string(key)
}

// The kinds of notes.
const (
	noteLedger = 0
	noteIndex  = 1

	ledgerKeySize = 1 + 8 + 1
	indexKeySize  = ledgerKeySize + 4 + 2
)

// notePrefix returns what the keys of all notes of this package begin with.
func notePrefix() []byte { return []byte{actorstore.NamespaceTraces} }

// ledgerKey returns the key of the note about a bucket.
func ledgerKey(bucket int64) []byte {
	b := binary.BigEndian.AppendUint64([]byte{actorstore.NamespaceTraces}, uint64(bucket))
	return append(b, noteLedger)
}

// indexKey returns the key of an index note that begins with a chunk. A chunk whose
// index needs several has parts.
func indexKey(k chunkKey, part uint16) []byte {
	b := binary.BigEndian.AppendUint64([]byte{actorstore.NamespaceTraces}, uint64(k.bucket))
	b = binary.BigEndian.AppendUint32(append(b, noteIndex), k.id)
	return binary.BigEndian.AppendUint16(b, part)
}

// parseNoteKey decodes the key of a note: of a ledger, id is 0.
func parseNoteKey(key []byte) (k chunkKey, kind byte, ok bool) {
	if len(key) < ledgerKeySize || key[0] != actorstore.NamespaceTraces {
		return chunkKey{}, 0, false
	}
	k.bucket, kind = int64(binary.BigEndian.Uint64(key[1:])), key[ledgerKeySize-1]
	switch {
	case kind == noteLedger:
		return k, kind, len(key) == ledgerKeySize && k.bucket >= 0
	case kind == noteIndex && len(key) == indexKeySize:
		k.id = binary.BigEndian.Uint32(key[ledgerKeySize:])
		return k, kind, k.bucket >= 0
	}
	return chunkKey{}, 0, false
}
