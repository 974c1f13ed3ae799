package itemstore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
)

// A Token is a place in a list, and what a client has seen of it: NextPage goes on there, and
// Sync tells what has changed since. It holds all that is needed, and can be kept for
// as long as one likes. Its bytes mean something to the store that made it, and to the
// version of its schema, and are ErrToken to others.
type Token []byte

// tokenVersion is the version of a token, its first byte. Behind it stand a token as JSON, and the
// CRC-32C of all before, big-endian.
const tokenVersion = 1

// token is what a Token holds.
type token struct {
	Nonce  []byte // of the store
	Schema int
	Prefix Path `json:",omitempty"`
	ListOptions
	// First and Last are the rows of the newest page at its ends, by their keys behind the part; none if it is empty.
	First, Last []byte `json:",omitempty"`
	// Edge is the row that the list has come to in its direction; Done says that it has come
	// to its end.
	Edge []byte `json:",omitempty"`
	Done bool   `json:",omitempty"`
	// Seen is the place in the group's log up to which the client knows of changes.
	Seen []byte `json:",omitempty"`
	// Filling says that the list starts over, and goes on behind Last up to where it had come.
	Filling bool `json:",omitempty"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (t *token) pack() (Token, error) {
	b, err := json.Marshal(t)
	b = append([]byte{tokenVersion}, b...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), err
}

func parseToken(b Token) (t *token, err error) {
	n := len(b) - 4
	if n < 1 || crc32.Checksum(b[:n], castagnoli) != binary.BigEndian.Uint32(b[n:]) {
		return nil, fmt.Errorf("%w: it is damaged", ErrToken)
	}
	if b[0] != tokenVersion {
		return nil, fmt.Errorf("%w: version %d", ErrToken, b[0])
	}
	t = &token{}
	if err := json.Unmarshal(b[1:n], t); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return t, nil
}
