package signed

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// The secrets of the hosts of a store are one row beside those of its actors.
//
// Key layout:
//
//	("greenroom.host", 3)              v1: the secrets that the hosts of the store sign with what
//	                                   they send each other, the newest first, at most 3: list of
//	                                   id u32, created i64 ms, data[32]
//
// v1 is a u16le version and BARE. Each id is there once, and each secret is newer than the next. Removing the row makes the hosts make
// another one; until they look at it, within a minute, they refuse each other's requests.
var rowKey = tuple.NewSubspace(tuple.Tuple{"greenroom.host"}).Pack(tuple.Tuple{int64(3)})

const (
	rowVersion  = 1
	mostSecrets = 3
	secretSize  = 32
)

// A secret is one of the row.
type secret struct {
	id      uint32
	created int64 // ms, by the clock of the host that made it
	data    [secretSize]byte
}

// readRow returns the row and what it says, both nil if it isn't there.
func readRow(ctx context.Context, r kv.Reader) ([]byte, []secret, error) {
	row, err := r.Get(ctx, rowKey, nil)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil, nil
	}
	var list []secret
	if err == nil {
		list, err = parseRow(row)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("signed: read the secrets: %w", err)
	}
	return row, list, nil
}

func appendRow(dst []byte, list []secret) []byte {
	dst = bare.AppendUint(bare.AppendVersion(dst, rowVersion), uint64(len(list)))
	for i := range list {
		dst = bare.AppendI64(bare.AppendU32(dst, list[i].id), list[i].created)
		dst = bare.AppendFixed(dst, list[i].data[:])
	}
	return dst
}

func parseRow(row []byte) ([]secret, error) {
	v, rest, err := bare.Version(row)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
	}
	if v > rowVersion {
		return nil, &kv.FormatError{What: "row of the hosts' secrets", Found: uint64(v), Known: rowVersion}
	}
	if v < rowVersion {
		return nil, fmt.Errorf("%w: version %d", kv.ErrCorrupt, v)
	}
	r := bare.NewReader(rest)
	list := make([]secret, r.Len(mostSecrets))
	if len(list) == 0 {
		r.Fail("no secret")
	}
	for i := range list {
		s := &list[i]
		s.id, s.created = r.U32(), r.I64()
		copy(s.data[:], r.Fixed(secretSize))
		for _, newer := range list[:i] {
			if newer.id == s.id || newer.created <= s.created {
				r.Fail("secrets that are the same, or out of order")
			}
		}
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
	}
	return list, nil
}
