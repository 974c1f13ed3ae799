// Key layout:
//
//	row of a store                     value
//	("greenroom", 1, 0)                v1: created i64 ms; its version is the store's format
//	("greenroom", 1, 1, id)            v1: the actor's head: epoch u64, seq u64, used u64,
//	                                   last commit data[16], created i64 ms; with a
//	                                   seq of 0 the actor doesn't exist, and what used
//	                                   counts is of a fork that was cut off
//	("greenroom", 1, 1, id, 1)         the actor's name, UTF-8, if it has one
//	("greenroom", 1, 1, id, 2)         v1: the actor's owner, where several hosts use the
//	                                   store: host data[16], nonce data[8]
//	("greenroom", 1, 1, id, 3)         v1: what of the actor's database is read first,
//	                                   chunk numbers of its main file: pairs of varints,
//	                                   the gap before a run and its length less 1
//	("greenroom", 1, 1, id, 4)         v1: the layout of the actor's keys, if it isn't
//	                                   LayoutGreenroom: u8, 1 for LayoutRivetKit
//	("greenroom", 1, 1, id, 5)         v1: when the actor must be woken, if anything wakes it:
//	                                   where it stands in the index i64 ms, the time i64 ms,
//	                                   2^63-1 for never, and list<u64> of the versions of its
//	                                   code that tried in vain, the newest last, at most 4
//	("greenroom", 1, 1, id, 6)         v1: what the actor is found by, if anything is set: state of
//	                                   its workflow string, since i64 ms, stuck bool, version
//	                                   of its schema u64, when it fell asleep i64 ms, and
//	                                   map<str, str> of its labels, by key
//	("greenroom", 1, 1, id, 7)         v1: what the actor has used, if its host counted anything:
//	                                   turns uint, awake uint ms, bytes written uint, rows
//	                                   read uint, and list of failures, each of another code
//	                                   and place: code str, place str, count uint, when it
//	                                   last failed so i64 ms
//	("greenroom", 1, 2, name)          v1: id of the actor that has the name: uuid data[16],
//	                                   label u16, created i64 ms
//	("greenroom", 1, 3, host bytes)    v1: a host that owns actors: expires i64 ms, ttl
//	                                   u64 ms, renewals u64, name string, machine
//	                                   string, pid u64, started u64, list of the
//	                                   actors that others want (uuid data[16], label u16);
//	                                   v2, if it has an address for its API: that string
//	                                   behind it; v3, if it does something for the
//	                                   others: that string, "" for none, the address for
//	                                   their calls string, whether it is leaving bool,
//	                                   list of its types (name string, schema uint)
//	("greenroom", 1, 4, id, key bytes) a note about the actor, at most 256 bytes; the first
//	                                   byte of its key is that of the namespace whose
//	                                   package wrote it, which says what it means
//	("greenroom", 1, 5, ms, id)        v1: the index of those times: the time i64 ms, name
//	                                   string, layout u8, host data[16] that had the actor open when it
//	                                   was written, or zeros, and list<u64> as above
//	("greenroom", 1, 6, field, name, text, order, id)
//	                                   nothing: the index of what actors are found by. (1, key, value,
//	                                   0) is a label, (2, "", state, since) the state of a workflow,
//	                                   (3, "", "", since) a workflow that is stuck, (4, "", "", version)
//	                                   a schema, (5, "", "", ms) when an actor fell asleep
//	("greenroom", 1, 7)                v1: how far that index is built, in a store of before: done
//	                                   bool, and the id behind which it goes on, uuid data[16], label
//	                                   u16. A store that was made with it has done
//	(0, 3, 72, id, (key,), …)          the rows of an actor's keys: envelope.go
//
//	v1 is a u16le version, 1, and BARE. An id is the tuple element 40 01 uuid label.

package layout

import (
	"bytes"
	"fmt"
	"math"

	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/tuple"
)

// The kinds of rows of a store: the third element of their keys. These begin with the
// type code of a text (02) and those of actors with that of an integer (14), so they
// can't meet.
const (
	kindFormat = 0
	KindHead   = 1
	KindName   = 2
	KindHost   = 3
	KindNote   = 4
	KindWake   = 5
	KindIndex  = 6
	kindBuilt  = 7

	rowsName    = "greenroom"
	rowsVersion = 1
)

// The parts of an actor's record: what lies behind the id of its head. One scan reads all.
const (
	PartHead   = 0 // no number at all
	PartName   = 1
	PartOwner  = 2
	PartHints  = 3
	PartLayout = 4
	PartWake   = 5
	PartIndex  = 6
	PartUsage  = 7
	Parts      = PartUsage + 1 // their number
	lastPart   = math.MaxInt64 // sorts behind all of them
)

// A kindRows is the subspace of the rows of one kind.
type kindRows struct{ Kind uint64 }

func (s *kindRows) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion)
	e.Uint64(&s.Kind)
}

// Rows returns the subspace of the rows of a kind.
func Rows(kind uint64) tuple.Subspace { return keys.Sub(kindRows{kind}) }

// RowsRange returns the half-open range of the rows of a kind, in slices of their own.
func RowsRange(kind uint64) (start, end []byte) { return Rows(kind).Range() }

// AppendRows appends what the keys of the rows of a kind begin with.
func AppendRows(dst []byte, kind uint64) []byte { return appendKey(dst, kindRows{kind}) }

// AppendOwn appends what the keys of all rows of a store begin with, but for those of
// the keys of actors.
func AppendOwn(dst []byte) []byte {
	return tuple.AppendUint(tuple.AppendString(dst, rowsName), rowsVersion)
}

// appendKey appends a key. It panics if it can't be packed: names are checked.
func appendKey[K any, P keys.Pointer[K]](dst []byte, key K) []byte {
	dst, err := keys.Append[K, P](dst, key)
	if err != nil {
		panic(fmt.Sprintf("layout: %v", err))
	}
	return dst
}

// FormatKey returns the key of the format row.
func FormatKey() []byte { return AppendRows(nil, kindFormat) }

// A RecordRow is the key of one row of what is known of an actor. Its Part is one of
// PartHead to PartUsage; a newer version of this package may have more. The part says what
// the value is.
type RecordRow struct {
	ID   ID
	Part int64
}

// Elements says how the key is packed.
func (k *RecordRow) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, KindHead)
	e.ID((*tuple.UUID)(&k.ID.UUID), &k.ID.Label)
	if e.More(k.Part != PartHead) {
		e.Int64(&k.Part)
		e.Require(k.Part != PartHead)
	}
}

// Value returns the codec of the row: it is taken as it is.
func (RecordRow) Value() keys.Codec[[]byte] { return keys.Bytes() }

// RecordKey returns the key of a part of an actor's record. That of PartHead sorts first.
func RecordKey(id ID, part int64) []byte { return appendKey(nil, RecordRow{id, part}) }

// RecordAfter returns a key behind all that an actor's record can have, and before those
// of the next actor.
func RecordAfter(id ID) []byte { return RecordKey(id, lastPart) }

// RecordRange returns the half-open range of an actor's record, in slices of their own.
func RecordRange(id ID) (start, end []byte) {
	return RecordKey(id, PartHead), AppendAbove(RecordKey(id, PartHead))
}

// ParseRecordKey decodes the key of a part of an actor's record. ok is false if it isn't
// such a key, or of a part that this package doesn't know.
func ParseRecordKey(key []byte) (id ID, part int64, ok bool) {
	k, err := keys.Parse[RecordRow](key)
	return k.ID, k.Part, err == nil && k.Part >= PartHead && k.Part < Parts
}

// recordStart and noteStart are what the keys of actors' records and notes begin with.
var (
	recordStart = AppendRows(nil, KindHead)
	noteStart   = AppendRows(nil, KindNote)
)

// RowActor returns the actor that a row is of, be it one of its keys, of its record or of its notes, and the length of what every key
// begins with that is of the same actor, and of the same of these three. ok is false for other rows.
func RowActor(row []byte) (id ID, prefix int, ok bool) {
	if id, ok := ActorOf(row); ok {
		return id, prefixSize, true
	}
	for _, start := range [][]byte{recordStart, noteStart} {
		if rest, ok := bytes.CutPrefix(row, start); ok && len(rest) >= idElement {
			id, ok := nextID(rest)
			return id, len(start) + idElement, ok
		}
	}
	return ID{}, 0, false
}

// wakeStart and indexStart are what the keys of the rows of the two indexes begin with.
var (
	wakeStart  = AppendRows(nil, KindWake)
	indexStart = AppendRows(nil, KindIndex)
)

// RowAbout returns the actor that a row is of or, if it is one of an index, that it leads to. ok is false for other rows.
func RowAbout(row []byte) (id ID, ok bool) {
	if id, _, ok := RowActor(row); ok {
		return id, true
	}
	if len(row) > idElement && (bytes.HasPrefix(row, wakeStart) || bytes.HasPrefix(row, indexStart)) {
		return nextID(row[len(row)-idElement:])
	}
	return ID{}, false
}

// A NameRow is the key of the row that leads from a name to an actor.
type NameRow struct{ Name string }

// Elements says how the key is packed.
func (k *NameRow) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, KindName)
	e.String(&k.Name)
}

// Value returns the codec of the row. Its errors are those of ParseNamed.
func (k NameRow) Value() keys.Codec[Named] { return namedCodec(k) }

// namedCodec is the codec of a name's row; it knows the name for the errors.
type namedCodec NameRow

func (c namedCodec) Append(dst []byte, n Named) ([]byte, error) { return n.Append(dst), nil }
func (c namedCodec) Decode(b []byte) (Named, error)             { return ParseNamed(c.Name, b) }

// NameKey returns the key of the row that leads from a name to an actor. It panics if
// name isn't UTF-8.
func NameKey(name string) []byte { return appendKey(nil, NameRow{name}) }

// ParseNameKey decodes the key of a name's row; ok is false for every other key.
func ParseNameKey(key []byte) (name string, ok bool) {
	k, err := keys.Parse[NameRow](key)
	return k.Name, err == nil
}

// A hostRow is the key of a host's lease.
type hostRow struct{ Host [16]byte }

func (k *hostRow) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, KindHost)
	e.Fixed(k.Host[:])
}

// HostKey returns the key of a host's lease.
func HostKey(host [16]byte) []byte { return appendKey(nil, hostRow{host}) }

// ParseHostKey decodes the key of a host's lease; ok is false for every other key.
func ParseHostKey(key []byte) (host [16]byte, ok bool) {
	k, err := keys.Parse[hostRow](key)
	return k.Host, err == nil
}

// notesOf is the subspace of the notes of an actor, a noteRow the key of one.
type notesOf struct{ ID ID }

func (s *notesOf) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, KindNote)
	e.ID((*tuple.UUID)(&s.ID.UUID), &s.ID.Label)
}

type noteRow struct {
	notesOf
	Key []byte
}

func (k *noteRow) Elements(e *keys.Elements) {
	k.notesOf.Elements(e)
	e.Bytes(&k.Key)
}

// AppendNoteKey appends the key of the row of an actor's note.
func AppendNoteKey(dst []byte, id ID, key []byte) []byte {
	return appendKey(dst, noteRow{notesOf{id}, key})
}

// NotesRange returns the half-open range of the notes of an actor, in slices of their own.
func NotesRange(id ID) (start, end []byte) { return keys.Sub(notesOf{id}).Range() }

// ParseNoteKey decodes the key of the row of a note: key is the note's own, which shares
// no memory with row. ok is false for every other key.
func ParseNoteKey(row []byte) (id ID, key []byte, ok bool) {
	k, err := keys.Parse[noteRow](row)
	return k.ID, k.Key, err == nil
}

// A lookRow is the subspace of the index's rows of one time, a wakeRow the key of one.
type lookRow struct{ Look int64 }

func (s *lookRow) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, KindWake)
	e.Int64(&s.Look)
}

type wakeRow struct {
	lookRow
	ID ID
}

func (k *wakeRow) Elements(e *keys.Elements) {
	k.lookRow.Elements(e)
	e.ID((*tuple.UUID)(&k.ID.UUID), &k.ID.Label)
}

// WakeKey returns the key of the row of the index for an actor that stands at a time, in ms.
func WakeKey(look int64, id ID) []byte { return appendKey(nil, wakeRow{lookRow{look}, id}) }

// WakesUntil returns the half-open range of the rows of the index up to a time in ms,
// which it includes, in slices of their own.
func WakesUntil(look int64) (start, end []byte) {
	start, _ = RowsRange(KindWake)
	return start, AppendAbove(appendKey(nil, lookRow{look}))
}

// ParseWakeKey decodes the key of a row of the index. The error is one of package keys.
func ParseWakeKey(key []byte) (look int64, id ID, err error) {
	k, err := keys.Parse[wakeRow](key)
	return k.Look, k.ID, err
}
