package importer

import (
	"fmt"
	"math"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// ErrVersion: a file has another version than the one that RivetKit 2.1 and 2.2 write, 3.
var ErrVersion = errkind.New("importer: unknown version of a file", errkind.ErrUnsupported)

// fileVersion is the version of the files of states and alarms.
const fileVersion = 3

// Bounds of what a file may claim to have, so that a damaged one takes little memory.
const (
	maxParts   = 1 << 10 // of a key; the name of an actor is shorter
	maxEntries = 1 << 20
)

// A State is what the driver's file of an actor has. All times are in Unix milliseconds, 0 for never.
type State struct {
	ID        string // the driver's, which is the name of the file
	Name      string // of the type
	Key       []string
	Entries   []Entry // its keys, where an older version of RivetKit has written the file
	Created   int64
	Started   int64
	Slept     int64
	Destroyed bool // it was being destroyed
}

// An Entry is one key of an actor.
type Entry struct {
	Key, Value []byte
	Size       int // of the value in bytes, also where that was left out
}

// ActorName returns the name that the actor gets in the store.
func (s *State) ActorName() string {
	return rivetstore.ActorName(rivetstore.DefaultNamespace, s.Name, rivetstore.Key(s.Key).String())
}

// parseState parses a file of a state. The entries are parts of b. Its errors wrap ErrVersion or say what is wrong
// with the bytes.
//
//	u16le 3, actorId str, name str, key list<str>, list<key data, value data>, created u64,
//	started, connectable, slept, destroyed: optional<u64>
func parseState(b []byte) (State, error) {
	r, err := open(b)
	if err != nil {
		return State{}, err
	}
	s := State{ID: r.String(), Name: r.String()}
	for range r.Len(maxParts) {
		s.Key = append(s.Key, r.String())
	}
	for range r.Len(maxEntries) {
		e := Entry{Key: r.Data(), Value: r.Data()}
		e.Size = len(e.Value)
		s.Entries = append(s.Entries, e)
	}
	s.Created = milliseconds(r, r.U64())
	s.Started, _ = optionalTime(r)
	optionalTime(r) // since when clients can connect is when it was started
	s.Slept, _ = optionalTime(r)
	_, s.Destroyed = optionalTime(r)
	if err := r.Done(); err != nil {
		return State{}, err
	}
	return s, nil
}

// parseAlarm parses the file of an alarm: whose it is, and when it rings, in Unix milliseconds. Its errors are those
// of parseState.
//
//	u16le 3, actorId str, at uint
func parseAlarm(b []byte) (id string, at int64, err error) {
	r, err := open(b)
	if err != nil {
		return "", 0, err
	}
	id = r.String()
	at = milliseconds(r, r.Uint())
	if err := r.Done(); err != nil {
		return "", 0, err
	}
	return id, at, nil
}

// open returns a reader of what is behind the version of a file.
func open(b []byte) (*bare.Reader, error) {
	v, rest, err := bare.Version(b)
	if err != nil {
		return nil, err
	}
	if v != fileVersion {
		return nil, fmt.Errorf("%w: %d, known is %d", ErrVersion, v, fileVersion)
	}
	return bare.NewReader(rest), nil
}

// optionalTime reads an optional<u64>.
func optionalTime(r *bare.Reader) (ms int64, present bool) {
	if !r.Bool() {
		return 0, false
	}
	return milliseconds(r, r.U64()), true
}

// milliseconds refuses a time that a signed number can't hold.
func milliseconds(r *bare.Reader, ms uint64) int64 {
	if ms > math.MaxInt64 {
		r.Fail("the time %d is too large", ms)
		return 0
	}
	return int64(ms)
}
