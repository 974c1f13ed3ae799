// Package mailrow has the rows that a host keeps in an actor's keys about what actors send each other: letters on their way, what has come,
// and what all letters of one actor have in common.
//
// Key layout:
//
//	key of the actor                   value
//	68 69 + sender's uuid, label u16be v1: the newest message that came from that actor:
//	                                   nonce data[16], number u64, when i64 ms
//	68 6f + number u64be               v2: a message to another actor: sender data[18] as
//	                                   above, nonce data[16], to str, name str, body data
//	                                   (CBOR), key str, sent i64 ms, delay u64 ms,
//	                                   generation u32 of a receiver that it creates, existing
//	                                   bool: it creates none. v1 ended before the generation
//	                                   v3: v2, and a priority i8, debounce key str, and how
//	                                   long it is hidden at most u64 ms; of a message that
//	                                   has a priority or a debounce key
//	68 73                              v2: nonce data[16] of all messages that the actor sends,
//	                                   its generation u32, debt i64 to the rate of messages,
//	                                   in millionths, when i64 ms. v1 was the nonce alone
//
//	v1 to v3 are a u16le version, and BARE. Numbers grow, as long as there is the actor with
//	its nonce.
package mailrow

import (
	"encoding/binary"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
)

const space = actorstore.NamespaceHost

// Versions of the values. Older ones are read, too.
const (
	letterVersion  = 2 // 1 had no generation: it may create its receiver, in the first one
	rankedVersion  = 3 // of a letter: it has a priority or a debounce key
	accountVersion = 2 // 1 was the nonce alone
	seenVersion    = 1
)

// A Letter is a message on its way from one actor into another one's queue, and
// stays as it was sent.
type Letter struct {
	Number uint64 // of its key
	From   Sender
	Nonce  [16]byte // that of the sender's Account
	To     string   // the text of an address
	Name   string
	Body   []byte // CBOR
	Key    string // "" for none
	Sent   int64  // Unix ms
	Delay  uint64 // ms

	Generation uint32 // of its receiver, if that is created for it
	Existing   bool   // it doesn't create its receiver
	Priority   int8   // that it has in the receiver's queue

	Debounce    string // key by which it replaces another one in the receiver's queue, "" for none
	DebounceMax uint64 // ms
}

// Size returns how many bytes the letter takes in memory at most.
func (l *Letter) Size() int {
	return 512 + len(l.To) + len(l.Name) + len(l.Body) + len(l.Key) + len(l.Debounce)
}

// ranked says whether the letter has what version 2 hasn't.
func (l *Letter) ranked() bool { return l.Priority != 0 || l.Debounce != "" }

// Append appends the row's value to dst, and returns the extended slice.
func (l *Letter) Append(dst []byte) []byte {
	version := uint16(letterVersion)
	if l.ranked() {
		version = rankedVersion
	}
	dst = bare.AppendVersion(dst, version)
	dst = bare.AppendFixed(dst, l.From[:])
	dst = bare.AppendFixed(dst, l.Nonce[:])
	dst = bare.AppendString(dst, l.To)
	dst = bare.AppendString(dst, l.Name)
	dst = bare.AppendData(dst, l.Body)
	dst = bare.AppendString(dst, l.Key)
	dst = bare.AppendI64(dst, l.Sent)
	dst = bare.AppendU64(dst, l.Delay)
	dst = bare.AppendU32(dst, l.Generation)
	dst = bare.AppendBool(dst, l.Existing)
	if version == rankedVersion {
		dst = bare.AppendU8(dst, uint8(l.Priority))
		dst = bare.AppendString(dst, l.Debounce)
		dst = bare.AppendU64(dst, l.DebounceMax)
	}
	return dst
}

// ParseLetter decodes the row of a letter, and keeps nothing of key and value. The error is kv.ErrCorrupt or kv.ErrNewerFormat.
func ParseLetter(key, value []byte) (*Letter, error) {
	l := &Letter{}
	var err error
	if l.Number, err = ParseLetterKey(key); err != nil {
		return nil, err
	}
	err = parseOwn(value, "message to another actor", rankedVersion, func(rd *bare.Reader, v uint16) {
		copy(l.From[:], rd.Fixed(len(l.From)))
		copy(l.Nonce[:], rd.Fixed(len(l.Nonce)))
		l.To, l.Name, l.Body = rd.String(), rd.String(), rd.DataCopy()
		l.Key, l.Sent, l.Delay = rd.String(), rd.I64(), rd.U64()
		l.Generation = 1
		if v > 1 {
			l.Generation, l.Existing = rd.U32(), rd.Bool()
		}
		if v == rankedVersion {
			l.Priority, l.Debounce, l.DebounceMax = int8(rd.U8()), rd.String(), rd.U64()
			if !l.ranked() {
				rd.Fail("version %d without a priority or a debounce key", v)
			}
		}
	})
	return l, err
}

// A Seen is what a receiver knows of a sender: everything up to the number has come.
type Seen struct {
	Nonce  [16]byte
	Number uint64
	At     int64 // Unix ms, of the newest
}

// Has reports whether a letter of that sender has come before.
func (s Seen) Has(l *Letter) bool { return s.Nonce == l.Nonce && l.Number <= s.Number }

// Append appends the row's value to dst, and returns the extended slice.
func (s Seen) Append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, seenVersion)
	dst = bare.AppendFixed(dst, s.Nonce[:])
	dst = bare.AppendU64(dst, s.Number)
	return bare.AppendI64(dst, s.At)
}

// ParseSeen decodes what Append appends. The error is kv.ErrCorrupt or kv.ErrNewerFormat.
func ParseSeen(value []byte) (s Seen, err error) {
	err = parseOwn(value, "newest message of an actor", seenVersion, func(rd *bare.Reader, _ uint16) {
		copy(s.Nonce[:], rd.Fixed(len(s.Nonce)))
		s.Number, s.At = rd.U64(), rd.I64()
	})
	return s, err
}

// An Account is what an actor's letters have in common.
type Account struct {
	// Nonce tells the actor from one that was destroyed and had the same name, and has
	// numbered its letters likewise.
	Nonce      [16]byte
	Generation uint32 // how many actors, each created by a letter of the one before, lead to it
	Debt       int64  // letters beyond the rate of letters, in millionths
	At         int64  // when that was, Unix ms
}

// Append appends the row's value to dst, and returns the extended slice.
func (a Account) Append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, accountVersion)
	dst = bare.AppendFixed(dst, a.Nonce[:])
	dst = bare.AppendU32(dst, a.Generation)
	dst = bare.AppendI64(dst, a.Debt)
	return bare.AppendI64(dst, a.At)
}

// ParseAccount decodes what Append appends, and what versions before have. The error is kv.ErrCorrupt or kv.ErrNewerFormat.
func ParseAccount(value []byte) (a Account, err error) {
	err = parseOwn(value, "account of messages", accountVersion, func(rd *bare.Reader, v uint16) {
		copy(a.Nonce[:], rd.Fixed(len(a.Nonce)))
		if v > 1 {
			a.Generation, a.Debt, a.At = rd.U32(), rd.I64(), rd.I64()
		}
	})
	return a, err
}

// parseOwn reads a value of a version up to newest. Errors call it what.
func parseOwn(value []byte, what string, newest uint16, read func(rd *bare.Reader, v uint16)) error {
	v, rest, err := bare.Version(value)
	if err != nil {
		return fmt.Errorf("host: %s: %w: %w", what, kv.ErrCorrupt, err)
	}
	if v == 0 || v > newest {
		return fmt.Errorf("host: %s: %w: version %d", what, kv.ErrNewerFormat, v)
	}
	rd := bare.NewReader(rest)
	read(rd, v)
	if err := rd.Done(); err != nil {
		return fmt.Errorf("host: %s: %w: %w", what, kv.ErrCorrupt, err)
	}
	return nil
}

// LetterKey returns the key of a message that the actor sends.
func LetterKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{space, 'o'}, number)
}

// LetterRange returns the half-open range of all those keys.
func LetterRange() (start, end []byte) { return []byte{space, 'o'}, []byte{space, 'o' + 1} }

// ParseLetterKey decodes the key of a message. The error is kv.ErrCorrupt.
func ParseLetterKey(key []byte) (number uint64, err error) {
	if len(key) != len(LetterKey(0)) || key[0] != space || key[1] != 'o' {
		return 0, fmt.Errorf("host: message to another actor: %w: key %x", kv.ErrCorrupt, key)
	}
	return binary.BigEndian.Uint64(key[2:]), nil
}

// SeenKey returns the key of what is known of a sender.
func SeenKey(from Sender) []byte { return append([]byte{space, 'i'}, from[:]...) }

// SeenRange returns the half-open range of the keys of what is known of all senders.
func SeenRange() (start, end []byte) { return []byte{space, 'i'}, []byte{space, 'i' + 1} }

// AccountKey returns the key of the actor's account.
func AccountKey() []byte { return []byte{space, 's'} }

// A Sender is the id of an actor that has sent something: its UUID, and its label, big-endian.
type Sender [18]byte

// SenderOf returns the Sender of that id.
func SenderOf(id actorstore.ID) (s Sender) {
	copy(s[:], id.UUID[:])
	binary.BigEndian.PutUint16(s[16:], id.Label)
	return s
}
