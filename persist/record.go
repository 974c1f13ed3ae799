package persist

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// The versions of a record: written is one, read are all from the first on.
//
//	v1  input optional<data>, hasInitialized bool, state data,
//	    connections list<{id str, token str, parameters data, state data,
//	        subscriptions list<{eventName str}>, lastSeen u64}>,
//	    scheduledEvents list<{eventId str, timestamp u64,
//	        kind union {action str, args optional<data>}}>
//	v2  as v1, with lastSeen i64, hibernatableRequestId optional<data> behind it,
//	    timestamp i64, and at the end
//	    hibernatableWebSockets list<{requestId data, lastSeenTimestamp i64, msgIndex i64}>
//	v3  input optional<data>, hasInitialized bool, state data,
//	    scheduledEvents list<{eventId str, timestamp i64 ms, action str, args optional<data>}>
//	v4  the same bytes
//
// Before each stands its number, a u16le. Connections have lived under keys of their
// own since v3: those of an older record are of clients that are long gone.
const (
	firstVersion = 1
	version      = 4
)

// undefined is the state of an actor that has none yet, JavaScript's undefined in CBOR.
var undefined = []byte{0xf7}

// maxListed bounds the lists of a record that is read; a record of the usual limit on
// values holds far less.
const maxListed = 1 << 22

// A record is what is stored. Its slices are never changed.
type record struct {
	version uint16 // as read
	input   []byte // nil: none
	init    bool
	state   []byte
	events  []stored
}

// A stored is an event as the record has it.
type stored struct {
	id     string
	at     int64 // Unix ms
	action string
	args   []byte // a CBOR array; nil: none
}

// size returns the bytes that s takes in a record.
func (s *stored) size() int {
	n := sizeOfData(len(s.id)) + 8 + sizeOfData(len(s.action)) + 1
	if s.args != nil {
		n += sizeOfData(len(s.args))
	}
	return n
}

func sizeOfData(n int) int { return (bits.Len64(uint64(n)|1)+6)/7 + n }

// recordSize returns the bytes of a record with count events that take eventBytes.
func recordSize(input, state []byte, count, eventBytes int) int {
	n := bare.VersionSize + 1 + 1 + sizeOfData(len(state)) + sizeOfData(count) - count + eventBytes
	if input != nil {
		n += sizeOfData(len(input))
	}
	return n
}

// appendRecord appends the record in the newest version.
func appendRecord(dst []byte, rec *record) []byte {
	dst = bare.AppendVersion(dst, version)
	dst = appendOptional(dst, rec.input)
	dst = bare.AppendBool(dst, rec.init)
	dst = bare.AppendData(dst, rec.state)
	dst = bare.AppendUint(dst, uint64(len(rec.events)))
	for i := range rec.events {
		e := &rec.events[i]
		dst = bare.AppendString(dst, e.id)
		dst = bare.AppendI64(dst, e.at)
		dst = bare.AppendString(dst, e.action)
		dst = appendOptional(dst, e.args)
	}
	return dst
}

func appendOptional(dst, b []byte) []byte {
	if dst = bare.AppendBool(dst, b != nil); b != nil {
		dst = bare.AppendData(dst, b)
	}
	return dst
}

// parseRecord decodes a record of any version. Its slices are parts of b.
func parseRecord(b []byte) (record, error) {
	v, body, err := bare.Version(b)
	switch {
	case err != nil:
		return record{}, fmt.Errorf("persist: record: %w: %w", actorstore.ErrCorrupt, err)
	case v > version:
		return record{}, fmt.Errorf("persist: %w", &actorstore.FormatError{What: "record", Found: uint64(v), Known: version})
	case v < firstVersion:
		return record{}, fmt.Errorf("persist: record of version %d: %w", v, actorstore.ErrCorrupt)
	}
	rec := record{version: v}
	r := bare.NewReader(body)
	rec.input = readOptional(r)
	rec.init = r.Bool()
	rec.state = r.Data()
	if v < 3 {
		skipConnections(r, v)
	}
	rec.events = readEvents(r, v)
	if v == 2 {
		skipSockets(r)
	}
	if err := r.Done(); err != nil {
		return record{}, fmt.Errorf("persist: record of version %d: %w: %w", v, actorstore.ErrCorrupt, err)
	}
	return rec, nil
}

func readEvents(r *bare.Reader, v uint16) []stored {
	n := r.Len(maxListed)
	events := make([]stored, 0, min(n, 1024)) // what a length claims is worth little
	for range n {
		if r.Err() != nil {
			return nil
		}
		events = append(events, readEvent(r, v))
	}
	return events
}

func readEvent(r *bare.Reader, v uint16) stored {
	e := stored{id: r.String()}
	if v == 1 {
		at := r.U64()
		if at > math.MaxInt64 {
			r.Fail("an event at %d ms, beyond all later versions", at)
		}
		e.at = int64(at)
	} else {
		e.at = r.I64()
	}
	if v < 3 {
		r.Tag(1) // an event of a kind that isn't known can't be run, nor kept
	}
	e.action = r.String()
	e.args = readOptional(r)
	return e
}

// readOptional returns nil for a value that is absent, and never for one that is there.
func readOptional(r *bare.Reader) []byte {
	if !r.Bool() {
		return nil
	}
	if b := r.Data(); b != nil {
		return b
	}
	return []byte{}
}

func skipConnections(r *bare.Reader, v uint16) {
	for range r.Len(maxListed) {
		if r.Err() != nil {
			return
		}
		_, _ = r.String(), r.String() // id, token
		_, _ = r.Data(), r.Data()     // parameters, state
		for range r.Len(maxListed) {
			if r.Err() != nil {
				return
			}
			_ = r.String() // event of a subscription
		}
		_ = r.U64() // last seen
		if v == 2 {
			readOptional(r) // request id
		}
	}
}

func skipSockets(r *bare.Reader) {
	for range r.Len(maxListed) {
		if r.Err() != nil {
			return
		}
		_ = r.Data()
		_, _ = r.I64(), r.I64()
	}
}
