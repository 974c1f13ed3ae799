package host

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
)

// Versions of the values of the host's keys among the actor's. What is older is read, too.
const (
	letterVersion  = 2 // 1 had no generation: it may create its receiver, in the first one
	accountVersion = 2 // 1 was the nonce alone
	seenVersion    = 1
)

// A letter is a message on its way from one actor into another one's queue. It doesn't
// change.
type letter struct {
	number uint64 // its key
	from   sender
	nonce  [16]byte
	to     string // the text of an address
	name   string
	body   Raw
	key    string // "" for none
	sent   int64  // Unix ms
	delay  uint64 // ms

	generation uint32 // of its receiver, if that is created for it
	existing   bool   // it doesn't create its receiver
}

// size is what it takes in memory, in bytes, or more.
func (l *letter) size() int { return 512 + len(l.to) + len(l.name) + len(l.body) + len(l.key) }

func (l *letter) append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, letterVersion)
	dst = bare.AppendFixed(dst, l.from[:])
	dst = bare.AppendFixed(dst, l.nonce[:])
	dst = bare.AppendString(dst, l.to)
	dst = bare.AppendString(dst, l.name)
	dst = bare.AppendData(dst, l.body)
	dst = bare.AppendString(dst, l.key)
	dst = bare.AppendI64(dst, l.sent)
	dst = bare.AppendU64(dst, l.delay)
	dst = bare.AppendU32(dst, l.generation)
	return bare.AppendBool(dst, l.existing)
}

// parseLetter keeps nothing of key and value.
func parseLetter(key, value []byte) (*letter, error) {
	l := &letter{}
	var err error
	if l.number, err = parseLetterKey(key); err != nil {
		return nil, err
	}
	err = parseOwn(value, "message to another actor", letterVersion, func(rd *bare.Reader, v uint16) {
		copy(l.from[:], rd.Fixed(len(l.from)))
		copy(l.nonce[:], rd.Fixed(len(l.nonce)))
		l.to, l.name, l.body = rd.String(), rd.String(), rd.DataCopy()
		l.key, l.sent, l.delay = rd.String(), rd.I64(), rd.U64()
		l.generation = 1
		if v > 1 {
			l.generation, l.existing = rd.U32(), rd.Bool()
		}
	})
	return l, err
}

// A seen is what a receiver knows of a sender: everything up to the number has come.
type seen struct {
	nonce  [16]byte
	number uint64
	at     int64 // Unix ms, of the newest
}

// has says that a letter has come before.
func (s seen) has(l *letter) bool { return s.nonce == l.nonce && l.number <= s.number }

func (s seen) append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, seenVersion)
	dst = bare.AppendFixed(dst, s.nonce[:])
	dst = bare.AppendU64(dst, s.number)
	return bare.AppendI64(dst, s.at)
}

func parseSeen(value []byte) (s seen, err error) {
	err = parseOwn(value, "newest message of an actor", seenVersion, func(rd *bare.Reader, _ uint16) {
		copy(s.nonce[:], rd.Fixed(len(s.nonce)))
		s.number, s.at = rd.U64(), rd.I64()
	})
	return s, err
}

// An account is what an actor's letters have in common.
type account struct {
	// nonce tells the actor from one that was destroyed and had the same name, and has
	// numbered its letters likewise.
	nonce      [16]byte
	generation uint32 // how many actors, each created by a letter of the one before, lead to it
	debt       int64  // letters that Letters.Rate has not made up for yet, in millionths
	at         int64  // when that was, Unix ms
}

func (a account) append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, accountVersion)
	dst = bare.AppendFixed(dst, a.nonce[:])
	dst = bare.AppendU32(dst, a.generation)
	dst = bare.AppendI64(dst, a.debt)
	return bare.AppendI64(dst, a.at)
}

func parseAccount(value []byte) (a account, err error) {
	err = parseOwn(value, "account of messages", accountVersion, func(rd *bare.Reader, v uint16) {
		copy(a.nonce[:], rd.Fixed(len(a.nonce)))
		if v > 1 {
			a.generation, a.debt, a.at = rd.U32(), rd.I64(), rd.I64()
		}
	})
	return a, err
}

// parseOwn reads a value of a version up to newest; what is what it is, for an error.
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
