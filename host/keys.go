package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// A host keeps rows of its own beside those of the store, in a subspace that nobody else
// uses. They are an index: each says of an actor when it must be woken, so that a host
// that starts doesn't have to look into every actor. What actors send each other it keeps
// among their own keys.
//
// Key layout:
//
//	("greenroom.host", 1, name)        v1: when the actor of that name (type, slash, key) must
//	                                   be woken: i64 ms, 0 for as soon as a host starts, and
//	                                   a nonce data[16], of the stay in memory that wrote it.
//	                                   v2, of an actor with work that its type could not do:
//	                                   as v1, with 2^63-1 ms for never, and list<u64> of the
//	                                   fingerprints of the versions of the type that have
//	                                   tried, the newest last, 1 to 4
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
//
// A row is a hint, and may be too early or one too many: then an actor is woken, and finds
// nothing to do. It is never too late, and never missing: see wakeTable.
var alarmSpace = tuple.NewSubspace(tuple.Tuple{"greenroom.host", int64(1)})

// alarmKey returns the key of an actor's row.
func alarmKey(name string) []byte { return alarmSpace.Pack(tuple.Tuple{name}) }

// alarmRange returns the range of all rows.
func alarmRange() kv.Range {
	start, end := alarmSpace.Range()
	return kv.Range{Start: start, End: end}
}

// parseAlarmKey returns the name of the actor whose row it is.
func parseAlarmKey(key []byte) (name string, err error) {
	t, err := alarmSpace.Unpack(key)
	if err != nil {
		return "", fmt.Errorf("host: alarm row: %w: %w", kv.ErrCorrupt, err)
	}
	if len(t) == 1 {
		if name, ok := t[0].(string); ok {
			return name, nil
		}
	}
	return "", fmt.Errorf("host: alarm row: %w: key %x", kv.ErrCorrupt, key)
}

// The versions of the rows' values: triedVersion for those with fingerprints.
const (
	alarmVersion = 1
	triedVersion = 2
)

// An alarmRow is the value of a row.
type alarmRow struct {
	at    int64 // Unix milliseconds; 0 for at once, never for what no version of the type could do so far
	nonce [16]byte
	tried []fingerprint // by versions of the type that could not do all that is to be done
}

// never is the time of an actor that only another version of its type has a reason to wake.
const never = math.MaxInt64

func (r alarmRow) append(dst []byte) []byte {
	v := uint16(alarmVersion)
	if len(r.tried) > 0 {
		v = triedVersion
	}
	dst = bare.AppendVersion(dst, v)
	dst = bare.AppendI64(dst, r.at)
	dst = bare.AppendFixed(dst, r.nonce[:])
	if v == alarmVersion {
		return dst
	}
	dst = bare.AppendUint(dst, uint64(len(r.tried)))
	for _, f := range r.tried {
		dst = bare.AppendU64(dst, uint64(f))
	}
	return dst
}

func parseAlarmRow(b []byte) (r alarmRow, err error) {
	v, rest, err := bare.Version(b)
	if err != nil {
		return r, fmt.Errorf("host: alarm row: %w: %w", kv.ErrCorrupt, err)
	}
	if v == 0 || v > triedVersion {
		return r, fmt.Errorf("host: alarm row: %w: version %d", kv.ErrNewerFormat, v)
	}
	rd := bare.NewReader(rest)
	r.at = rd.I64()
	copy(r.nonce[:], rd.Fixed(len(r.nonce)))
	if v == triedVersion {
		n := rd.Uint()
		if n == 0 || n > maxTried {
			return r, fmt.Errorf("host: alarm row: %w: %d fingerprints", kv.ErrCorrupt, n)
		}
		for range n {
			r.tried = append(r.tried, fingerprint(rd.U64()))
		}
	}
	if err := rd.Done(); err != nil {
		return r, fmt.Errorf("host: alarm row: %w: %w", kv.ErrCorrupt, err)
	}
	return r, nil
}

const ownSpace = actorstore.NamespaceHost

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

// The values of that note. Without the note Create has not landed; the actor may be one that
// another program has made, or this program before its type had a Create.
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
