package host

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// A host keeps rows of its own beside those of the store, in a subspace that nobody else
// uses. They are an index: each says of an actor when it must be woken, so that a host
// that starts doesn't have to look into every actor.
//
// Key layout:
//
//	("greenroom.host", 1, name)        v1: when the actor of that name (type, slash, key) must
//	                                   be woken: i64 ms, 0 for as soon as a host starts, and
//	                                   a nonce data[16], of the stay in memory that wrote it
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

// alarmVersion is that of the rows' values.
const alarmVersion = 1

// An alarmRow is the value of a row.
type alarmRow struct {
	at    int64 // Unix milliseconds; 0 for at once
	nonce [16]byte
}

func (r alarmRow) append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, alarmVersion)
	dst = bare.AppendI64(dst, r.at)
	return bare.AppendFixed(dst, r.nonce[:])
}

func parseAlarmRow(b []byte) (r alarmRow, err error) {
	v, rest, err := bare.Version(b)
	if err != nil {
		return r, fmt.Errorf("host: alarm row: %w: %w", kv.ErrCorrupt, err)
	}
	if v != alarmVersion {
		return r, fmt.Errorf("host: alarm row: %w: version %d", kv.ErrNewerFormat, v)
	}
	rd := bare.NewReader(rest)
	r.at = rd.I64()
	copy(r.nonce[:], rd.Fixed(len(r.nonce)))
	if err := rd.Done(); err != nil {
		return r, fmt.Errorf("host: alarm row: %w: %w", kv.ErrCorrupt, err)
	}
	return r, nil
}
