// Key layout:
//
//	key of the actor                   value
//	05 + id u64be                      v4: a message: name str, body data (CBOR), created i64
//	                                   ms, deliveries optional<u32>, available optional<i64>
//	                                   ms, in flight optional<bool>, in flight since
//	                                   optional<i64> ms
//	                                   v5: v4, and of the attempts that failed: code str and
//	                                   text str of the last error, the beginnings of the
//	                                   newest list<i64> ms, sender str
//	                                   v6: priority i8, optional of what v5 adds, optional
//	                                   SHA-256 data[32] of key and name, by which a newer
//	                                   message replaces it, what v4 has
//	06                                 v4: next id u64, messages u32
//
//	note of the actor                  value
//	05 + SHA-256 of key and name       v1: the message that a sender's key stands for: id
//	                                   u64, until i64 ms
//
//	v6, v5, v4 and v1 are a u16le version and BARE. A message is v6 if it has a priority, -100
//	to 100 and not 0, or a key, until it is handed out. Without these it is v4 until an attempt at it has failed. In a plain queue
//	and in LayoutRivetKit it always is v4, for other readers. Code
//	and text have at most 256 bytes together, the list 1 to 8 times, the sender at most 255
//	bytes. Ids count from 1. The four optional fields of a message that was never received
//	nor delayed are absent. In flight, available is the end of the lease. What is hashed is
//	the length of the key u64be, the key, the name.

package queue

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/greenroomdb/greenroom/actorstore"
)

// maxMessageKey is the longest key of a message, in bytes.
const maxMessageKey = 11

// messageKeySize returns the length of the key of a message in bytes.
func messageKeySize(l actorstore.Layout) int { return len(l.Prefix(actorstore.NamespaceQueue)) + 8 }

// appendMessageKey appends the key of a message.
func appendMessageKey(l actorstore.Layout, dst []byte, id ID) []byte {
	return l.AppendQueueMessage(dst, uint64(id))
}

// parseMessageKey decodes the key of a message.
func parseMessageKey(l actorstore.Layout, key []byte) (ID, bool) {
	id, ok := l.ParseQueueMessage(key)
	return ID(id), ok
}

// metadataKey returns the key of the metadata.
func metadataKey(l actorstore.Layout) []byte { return l.AppendQueueMetadata(nil) }

// A noteKey is the key of the note about a sender's key. Notes have room for no key of
// any length, hence the hash.
type noteKey [1 + sha256.Size]byte

func noteKeyOf(name, key string) (n noteKey) {
	h := sha256.New()
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(key)))
	h.Write(length[:]) // a hash never fails
	h.Write([]byte(key))
	h.Write([]byte(name))
	n[0] = actorstore.NamespaceQueue
	h.Sum(n[:1])
	return n
}
