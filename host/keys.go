package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// What actors send each other a host keeps among their own keys.
//
// Key layout:
//
//	("greenroom.host", 1, name)        a row of a store of before: the actor of that name (type,
//	                                   slash, key) must be woken some time. See oldalarms.go
//
//	key of the actor                   value
//	68 69 + sender's uuid, label u16be v1: the newest message that came from that actor:
//	                                   nonce data[16], number u64, when i64 ms
//	68 6f + number u64be               v2: a message to another actor: sender data[18] as
//	                                   above, nonce data[16], to str, name str, body data
//	                                   (CBOR), key str, sent i64 ms, delay u64 ms,
//	                                   generation u32 of a receiver that it creates, existing
//	                                   bool: it creates none. v1 ended before the generation
//	68 73                              v2: nonce data[16] of all messages that the actor sends,
//	                                   its generation u32, debt i64 to the rate of messages,
//	                                   in millionths, when i64 ms. v1 was the nonce alone
//
//	v1 and v2 are a u16le version, and BARE. Numbers grow, as long as there is the actor with
//	its nonce.
const ownSpace = actorstore.NamespaceHost

// oldAlarms are rows of stores that had no index of when actors must be woken.
var oldAlarms = tuple.NewSubspace(tuple.Tuple{"greenroom.host", int64(1)})

// parseOldAlarm returns the name of the actor whose row it is.
func parseOldAlarm(key []byte) (name string, err error) {
	t, err := oldAlarms.Unpack(key)
	if err == nil && len(t) == 1 {
		if name, ok := t[0].(string); ok {
			return name, nil
		}
	}
	return "", fmt.Errorf("host: row of an actor to be woken: %w: key %x", kv.ErrCorrupt, key)
}

// letterKey returns the key of a message that the actor sends.
func letterKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{ownSpace, 'o'}, number)
}

// letterRange returns the range of all those keys.
func letterRange() (start, end []byte) { return []byte{ownSpace, 'o'}, []byte{ownSpace, 'o' + 1} }

func parseLetterKey(key []byte) (number uint64, err error) {
	if len(key) != len(letterKey(0)) || key[0] != ownSpace || key[1] != 'o' {
		return 0, fmt.Errorf("host: message to another actor: %w: key %x", kv.ErrCorrupt, key)
	}
	return binary.BigEndian.Uint64(key[2:]), nil
}

// seenKey returns the key of what is known of a sender, and seenRange the range of those
// of all senders.
func seenKey(from sender) []byte { return append([]byte{ownSpace, 'i'}, from[:]...) }

func seenRange() (start, end []byte) { return []byte{ownSpace, 'i'}, []byte{ownSpace, 'i' + 1} }

// accountKey returns the key of the actor's account.
func accountKey() []byte { return []byte{ownSpace, 's'} }

// A sender is the id of an actor that has sent something.
type sender [18]byte

func senderOf(id actorstore.ID) (s sender) {
	copy(s[:], id.UUID[:])
	binary.BigEndian.PutUint16(s[16:], id.Label)
	return s
}

// noteCreated is the key of the note that says that Create has landed. Its first byte is
// ownSpace, which makes it the host's.
const noteCreated = "host created"

// The values of that note. Without the note Create has not landed; the actor may be one of
// another program, or this program before its type had a Create.
var (
	noteBegun = []byte{0}
	noteDone  = []byte{1}
)

// creationNote returns the value of the note that snap shows, nil without a note.
func creationNote(ctx context.Context, snap *actorstore.Snapshot) ([]byte, error) {
	for n, err := range snap.Notes(ctx, []byte(noteCreated)) {
		return bytes.Clone(n.Value), err
	}
	return nil, nil
}
