// Package rivetstore is what a store has of the actors of RivetKit programs beside the keys that those programs
// write: their names, the engine's record of each, the messages that wait for them, and when they must be woken. It
// builds keys and encodes values, and reads and writes nothing.
package rivetstore

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// The engine keeps rows of its own beside those of the store, and keys of its own among those of an actor, in the
// namespace of its caller.
//
// Key layout:
//
//	("greenroom.engine", 1, 1, id text)  v1: when the actor must be woken, in a store of before: i64
//	                                     ms. The engine writes it beside the actor, and removes it
//	("greenroom.engine", 1, 2, name)     v1: a namespace: created i64 ms
//	("greenroom.engine", 1, 3, runner)   v1: a runner id that was given up: when, i64 ms
//
//	key of the actor                     value
//	68 65                                v2: the engine's record: created i64 ms, runner str,
//	                                     generation u32, input optional<data>, started i64 ms,
//	                                     slept i64 ms; 0 for never; runner id str, runner key
//	                                     str, doomed bool. v1 ends before the runner id
//	68 68                                v1: the head of the database of a program of RivetKit 2.3: how
//	                                     many commits of pages there were, u64. It lands with each
//	68 71                                v1: the last generation in which the engine ran SQL of such a
//	                                     program, u64
//	68 6d                                v1: the actor is being imported (nothing follows)
//	68 67 + gateway, request, n u64be    v1: a message of the client that the actor hasn't
//	                                     acknowledged: binary bool, data. n is 0 for the opening
//	                                     of the socket: binary says whether the socket can
//	                                     hibernate, and data is empty
//
//	v1 is a u16le version, and BARE. gateway and request are 4 bytes each. The numbers n of a socket's messages
//	grow by one; the index of a message is its number modulo 65536.
var rows = tuple.NewSubspace(tuple.Tuple{"greenroom.engine", int64(1)})

const (
	wakeRows      = 1
	namespaceRows = 2
	givenUpRows   = 3
	version       = 1
	recordVersion = 2

	recordByte = 'e'
	importByte = 'm'
	socketByte = 'g'
	sqlByte    = 'q'
)

// DefaultNamespace is the namespace that is there without being made. The names of its actors in the store are type, slash, key, as
// those of Go actors.
const DefaultNamespace = "default"

// ActorName returns the name that the store has for the actor of a namespace, a type and a key as
// Key.String returns it: type, slash, key, behind "@", namespace and a slash unless it is
// DefaultNamespace. In namespaces and types a slash, a percent sign and what isn't a plain character are percent-encoded, and so is an "@".
func ActorName(namespace, typ, key string) string {
	name := url.QueryEscape(typ) + "/" + key
	if namespace == DefaultNamespace {
		return name
	}
	return "@" + url.QueryEscape(namespace) + "/" + name
}

// ParseActorName is the inverse of ActorName. ok is false for a name that ActorName doesn't return.
func ParseActorName(name string) (namespace, typ, key string, ok bool) {
	namespace, rest := DefaultNamespace, name
	if strings.HasPrefix(name, "@") {
		var ns string
		if ns, rest, ok = strings.Cut(name[1:], "/"); !ok {
			return "", "", "", false
		}
		namespace, _ = url.QueryUnescape(ns)
	}
	t, key, ok := strings.Cut(rest, "/")
	if !ok {
		return "", "", "", false
	}
	typ, _ = url.QueryUnescape(t)
	return namespace, typ, key, ActorName(namespace, typ, key) == name
}

// OldWakes returns the range of the rows of stores of before that say when an actor must be woken.
func OldWakes() kv.Range { return rowRange(wakeRows) }

// ParseOldWake returns the actor of a row in OldWakes, and when it must be woken, in Unix milliseconds. Its error wraps
// kv.ErrCorrupt or kv.ErrNewerFormat.
func ParseOldWake(key, value []byte) (id actorstore.ID, ms int64, err error) {
	t, err := rows.Unpack(key)
	if err == nil && len(t) == 2 {
		if text, ok := t[1].(string); ok {
			if id, err := actorstore.ParseID(text); err == nil {
				err = parse("time", value, func(r *bare.Reader) { ms = r.I64() })
				return id, ms, err
			}
		}
	}
	return actorstore.ID{}, 0, fmt.Errorf("rivetstore: time to wake an actor: %w: key %x", kv.ErrCorrupt, key)
}

// NamespaceKey returns the key of the row of a namespace.
func NamespaceKey(name string) []byte {
	return rows.Pack(tuple.Tuple{int64(namespaceRows), name})
}

// NamespaceRange returns the range of those rows.
func NamespaceRange() kv.Range { return rowRange(namespaceRows) }

// ParseNamespaceKey returns the name of a namespace whose row is in NamespaceRange. Its error wraps kv.ErrCorrupt.
func ParseNamespaceKey(key []byte) (string, error) {
	t, err := rows.Unpack(key)
	if err == nil && len(t) == 2 {
		if name, ok := t[1].(string); ok {
			return name, nil
		}
	}
	return "", fmt.Errorf("rivetstore: namespace: %w: key %x", kv.ErrCorrupt, key)
}

// GivenUpKey returns the key of the row that says that the engine has given up the runner with an id: its actors were
// started anew, or are to be.
func GivenUpKey(runner string) []byte {
	return rows.Pack(tuple.Tuple{int64(givenUpRows), runner})
}

// GivenUpRange returns the range of those rows.
func GivenUpRange() kv.Range { return rowRange(givenUpRows) }

func rowRange(kind int64) kv.Range {
	start, end := tuple.NewSubspace(tuple.Tuple{"greenroom.engine", int64(1), kind}).Range()
	return kv.Range{Start: start, End: end}
}

// AppendTime appends the value of a row, which is a time in Unix milliseconds, to dst.
func AppendTime(dst []byte, ms int64) []byte {
	return bare.AppendI64(bare.AppendVersion(dst, version), ms)
}

// ParseTime returns the time of a row's value. Its errors wrap kv.ErrCorrupt or kv.ErrNewerFormat.
func ParseTime(b []byte) (ms int64, err error) {
	err = parse("time", b, func(r *bare.Reader) { ms = r.I64() })
	return ms, err
}

// Own reports whether a key of an actor is the engine's, or another host's, which the actor's program must neither see nor write.
func Own(key []byte) bool { return len(key) > 0 && key[0] == OwnPrefix }

// OwnPrefix is the byte with which those begin.
const OwnPrefix = actorstore.NamespaceHost

// RecordKey returns the key of the engine's record of an actor.
func RecordKey() []byte { return []byte{actorstore.NamespaceHost, recordByte} }

// ImportKey returns the key of the mark of an actor whose import isn't complete. The commit that writes its record
// removes it.
func ImportKey() []byte { return []byte{actorstore.NamespaceHost, importByte} }

// AppendImport appends the value of an ImportKey to dst.
func AppendImport(dst []byte) []byte { return bare.AppendVersion(dst, version) }

// HeadKey returns the key of the head of an actor's database: how many commits of its pages there were. Without a value it is 0.
func HeadKey() []byte { return actorstore.PagesHeadKey() }

// SQLKey returns the key of the last generation of an actor in which the engine ran SQL of its program.
func SQLKey() []byte { return []byte{OwnPrefix, sqlByte} }

// AppendHead appends the value of a HeadKey, or of an SQLKey, to dst.
func AppendHead(dst []byte, head uint64) []byte {
	return bare.AppendU64(bare.AppendVersion(dst, version), head)
}

// ParseHead parses the value of a HeadKey, or of an SQLKey. Its errors wrap kv.ErrCorrupt or kv.ErrNewerFormat.
func ParseHead(b []byte) (head uint64, err error) {
	err = parse("head of a database", b, func(r *bare.Reader) { head = r.U64() })
	return head, err
}

// SocketRange returns the range, within the keys of an actor, of what the engine keeps of WebSockets. [start, end).
func SocketRange() (start, end []byte) {
	return []byte{actorstore.NamespaceHost, socketByte}, []byte{actorstore.NamespaceHost, socketByte + 1}
}

// A Socket names a WebSocket of a client: the gateway that took it, and its number there.
type Socket struct{ Gateway, Request [4]byte }

// MessageKey returns the key of a message of the socket, by its number.
func MessageKey(s Socket, n uint64) []byte {
	k := append([]byte{actorstore.NamespaceHost, socketByte}, s.Gateway[:]...)
	return binary.BigEndian.AppendUint64(append(k, s.Request[:]...), n)
}

// ParseMessageKey returns the socket and the number of the message whose key, in SocketRange, it is. Its error wraps kv.ErrCorrupt.
func ParseMessageKey(key []byte) (s Socket, n uint64, err error) {
	if len(key) != len(MessageKey(s, 0)) || key[0] != actorstore.NamespaceHost || key[1] != socketByte {
		return s, 0, fmt.Errorf("rivetstore: message of a socket: %w: key %x", kv.ErrCorrupt, key)
	}
	copy(s.Gateway[:], key[2:])
	copy(s.Request[:], key[6:])
	return s, binary.BigEndian.Uint64(key[10:]), nil
}

// A Message is what a client has sent.
type Message struct {
	Binary bool // else Data is text, in UTF-8
	Data   []byte
}

// Append appends m, the value of a MessageKey, to dst.
func (m Message) Append(dst []byte) []byte {
	return bare.AppendData(bare.AppendBool(bare.AppendVersion(dst, version), m.Binary), m.Data)
}

// ParseMessage parses the value of a MessageKey. Data is a part of b. Its errors wrap kv.ErrCorrupt or kv.ErrNewerFormat.
func ParseMessage(b []byte) (m Message, err error) {
	err = parse("message of a socket", b, func(r *bare.Reader) { m = Message{r.Bool(), r.Data()} })
	return m, err
}

// A Record is what the engine knows of an actor. All times are in Unix milliseconds, 0 for never.
type Record struct {
	Created    int64
	Runner     string // the name of the runners that run it
	Generation uint32 // how often it was started
	Input      []byte // what it was created with; nil for nothing
	Started    int64  // when it was started last
	Slept      int64  // when it last went to sleep
	// RunnerID is the id of the runner that was told to start it, "" when it sleeps. RunnerKey is the runner's key, which stays
	// until the runner has said that the actor has stopped.
	RunnerID, RunnerKey string
	Doomed              bool // it is to be destroyed
}

// Append appends r, the value of RecordKey, to dst.
func (r Record) Append(dst []byte) []byte {
	dst = bare.AppendI64(bare.AppendVersion(dst, recordVersion), r.Created)
	dst = bare.AppendU32(bare.AppendString(dst, r.Runner), r.Generation)
	if dst = bare.AppendBool(dst, r.Input != nil); r.Input != nil {
		dst = bare.AppendData(dst, r.Input)
	}
	dst = bare.AppendI64(bare.AppendI64(dst, r.Started), r.Slept)
	return bare.AppendBool(bare.AppendString(bare.AppendString(dst, r.RunnerID), r.RunnerKey), r.Doomed)
}

// ParseRecord parses the value of RecordKey. Its Input is a part of b. Its errors wrap kv.ErrCorrupt or kv.ErrNewerFormat.
func ParseRecord(b []byte) (rec Record, err error) {
	err = parseUpTo(recordVersion, "record of an actor", b, func(r *bare.Reader, v uint16) {
		rec.Created, rec.Runner, rec.Generation = r.I64(), r.String(), r.U32()
		if r.Bool() {
			rec.Input = r.Data()
		}
		rec.Started, rec.Slept = r.I64(), r.I64()
		if v > 1 {
			rec.RunnerID, rec.RunnerKey, rec.Doomed = r.String(), r.String(), r.Bool()
		}
	})
	return rec, err
}

// parse calls read with what is behind the version of b, which must be 1.
func parse(what string, b []byte, read func(*bare.Reader)) error {
	return parseUpTo(version, what, b, func(r *bare.Reader, _ uint16) { read(r) })
}

// parseUpTo calls read with what is behind the version of b, and that version, which newest bounds.
func parseUpTo(newest uint16, what string, b []byte, read func(r *bare.Reader, v uint16)) error {
	v, rest, err := bare.Version(b)
	if err != nil {
		return fmt.Errorf("rivetstore: %s: %w: %w", what, kv.ErrCorrupt, err)
	}
	if v == 0 || v > newest {
		return fmt.Errorf("rivetstore: %s: %w: version %d", what, kv.ErrNewerFormat, v)
	}
	r := bare.NewReader(rest)
	read(r, v)
	if err := r.Done(); err != nil {
		return fmt.Errorf("rivetstore: %s: %w: %w", what, kv.ErrCorrupt, err)
	}
	return nil
}
