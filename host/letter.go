package host

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
)

// letterVersion is that of all values of the host's keys among the actor's.
const letterVersion = 1

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
}

// route is the way that it goes, on which none overtakes another.
func (l *letter) route(from string) route { return route{from, l.to} }

func (l *letter) append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, letterVersion)
	dst = bare.AppendFixed(dst, l.from[:])
	dst = bare.AppendFixed(dst, l.nonce[:])
	dst = bare.AppendString(dst, l.to)
	dst = bare.AppendString(dst, l.name)
	dst = bare.AppendData(dst, l.body)
	dst = bare.AppendString(dst, l.key)
	dst = bare.AppendI64(dst, l.sent)
	return bare.AppendU64(dst, l.delay)
}

// parseLetter keeps nothing of key and value.
func parseLetter(key, value []byte) (*letter, error) {
	l := &letter{}
	var err error
	if l.number, err = parseLetterKey(key); err != nil {
		return nil, err
	}
	err = parseOwn(value, "message to another actor", func(rd *bare.Reader) {
		copy(l.from[:], rd.Fixed(len(l.from)))
		copy(l.nonce[:], rd.Fixed(len(l.nonce)))
		l.to, l.name, l.body = rd.String(), rd.String(), rd.DataCopy()
		l.key, l.sent, l.delay = rd.String(), rd.I64(), rd.U64()
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
	dst = bare.AppendVersion(dst, letterVersion)
	dst = bare.AppendFixed(dst, s.nonce[:])
	dst = bare.AppendU64(dst, s.number)
	return bare.AppendI64(dst, s.at)
}

func parseSeen(value []byte) (s seen, err error) {
	err = parseOwn(value, "newest message of an actor", func(rd *bare.Reader) {
		copy(s.nonce[:], rd.Fixed(len(s.nonce)))
		s.number, s.at = rd.U64(), rd.I64()
	})
	return s, err
}

func appendNonce(dst []byte, nonce [16]byte) []byte {
	return bare.AppendFixed(bare.AppendVersion(dst, letterVersion), nonce[:])
}

func parseNonce(value []byte) (nonce [16]byte, err error) {
	err = parseOwn(value, "nonce of messages", func(rd *bare.Reader) { copy(nonce[:], rd.Fixed(len(nonce))) })
	return nonce, err
}

// parseOwn reads a value; what is what it is, for an error.
func parseOwn(value []byte, what string, read func(rd *bare.Reader)) error {
	v, rest, err := bare.Version(value)
	if err != nil {
		return fmt.Errorf("host: %s: %w: %w", what, kv.ErrCorrupt, err)
	}
	if v != letterVersion {
		return fmt.Errorf("host: %s: %w: version %d", what, kv.ErrNewerFormat, v)
	}
	rd := bare.NewReader(rest)
	read(rd)
	if err := rd.Done(); err != nil {
		return fmt.Errorf("host: %s: %w: %w", what, kv.ErrCorrupt, err)
	}
	return nil
}
