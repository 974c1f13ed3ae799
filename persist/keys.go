// Key layout:
//
//	note of an actor                   value
//	01 + SHA-256(event id)[0:16]       v1: what the actor's own record can't say about a
//	                                   scheduled event: cron optional<expression str,
//	                                   zone str>, attempts u32, not before i64 ms, parked
//	                                   bool, last error str

package persist

import (
	"crypto/sha256"

	"github.com/greenroomdb/greenroom/actorstore"
)

// noteHash is how much of the hash of an event's id is in the key of its note: ids of
// other writers may be of any length, keys of notes may not.
const noteHash = 16

// noteKey returns the key of the note about an event.
func noteKey(event string) []byte {
	h := sha256.Sum256([]byte(event))
	return append([]byte{actorstore.NamespacePersist}, h[:noteHash]...)
}

// recordKey returns the key of the record, in a slice of its own.
func recordKey() []byte { return actorstore.AppendPersist(nil) }
