// Key layout:
//
//	logical key of an actor            value                          in words
//	01                                 the actor's own record         persist
//	02 + connection id                 a connection                   connections/ID
//	03                                 the inspector's token          inspector
//	04 + user key                      the user's bytes               user/KEY
//	05 + id u64be                      a queue message                queue/messages/ID
//	06                                 the queue's metadata           queue/metadata
//	07 + (1, index)                    a workflow name                workflow/names/INDEX
//	07 + (2, segment, …)               an entry of the history        workflow/history/SEGMENT/…
//	07 + (3, 1|2|3|4|5|6)              a field of the workflow        workflow/fields/state|output|error|version|input|waits
//	07 + (4, entry id)                 metadata of an entry           workflow/entries/ID
//	08 + (1, bucket, chunk)            a chunk of spans               traces/BUCKET/CHUNK
//	09 00 + file                       size of an SQLite file         sqlite/metadata/FILE
//	09 01 + file + chunk u32be         4096 bytes of an SQLite file   sqlite/chunks/FILE/CHUNK
//	09 00 + name                       older form of 09 00            sqlite/named/metadata/NAME
//	09 01 + name + 00 + chunk u32be    older form of 09 01            sqlite/named/chunks/NAME/CHUNK
//	68 63 + ms u64be, idempotency key  a call that has landed         host/calls/MS/ID
//	68 72 + ms u64be, idempotency key  what it has returned           host/results/MS/ID
//	68 69 + sender uuid, label u16be   what has come from another     host/in/HEX
//	68 6f + number u64be               a message to another actor     host/out/NUMBER
//	68 73                              the nonce of those             host/nonce
//	68 65                              what RivetKit's engine knows   rivetkit/engine
//	68 68                              the head of RivetKit's pages   rivetkit/head
//	68 6d                              the mark of an import          host/import
//	68 67 + socket of 8 bytes, u64be   a message that waits there     host/sockets/SOCKET/NUMBER
//	anything else                      unknown                        unknown/HEX
//
//	( ) is a packed tuple. A SEGMENT is the index of a name, or the nested tuple
//	(loop, iteration), in words LOOP~ITERATION. A file is 00 main, 01 journal,
//	02 wal, 03 shm. ID, KEY and NAME are quoted if they hold more than letters,
//	digits and plain signs.
//
//	That is the layout of an actor, unless its record says that it has RivetKit's, which
//	has other prefixes for five of them. What follows a prefix is the same, and so are
//	the values.
//
//	LayoutGreenroom                    LayoutRivetKit
//	05                                 05 01 02
//	06                                 05 01 01
//	07                                 06 01
//	08                                 07 01
//	09                                 08 01
//
//	The rows of a store, in which these keys and their values lie: internal/layout.

package actorstore

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// The namespaces. In LayoutGreenroom a namespace is the first byte of its keys; in any layout it is the
// first byte of the keys of the notes that its package writes.
const (
	NamespacePersist       byte = 1 // the actor's own record
	NamespaceConnections   byte = 2 // hibernating connections
	NamespaceInspector     byte = 3 // the inspector's token
	NamespaceUser          byte = 4 // keys of the actor's user
	NamespaceQueue         byte = 5 // queue messages
	NamespaceQueueMetadata byte = 6 // the queue's metadata
	NamespaceWorkflow      byte = 7 // workflow state, tuples
	NamespaceTraces        byte = 8 // spans, tuples
	NamespaceSQLite        byte = 9 // SQLite files

	NamespaceHost byte = 'h' // what the program that runs the actor keeps: far from the others, whose format is shared
)

// PagesHeadKey returns the key under which an actor of RivetKit 2.3 has the number of commits of its database's pages: its program keeps all in that database.
func PagesHeadKey() []byte { return []byte{NamespaceHost, 'h'} }

// A Layout says under which keys the parts of an actor lie. An actor has one for ever: see
// ActorOptions.Layout. No key belongs to two layouts, but those of the namespaces that lie under
// the same keys in all of them: persist, connections, inspector, user and host.
type Layout uint8

// The layouts.
const (
	LayoutGreenroom Layout = 0 // what RivetKit's main branch had in February 2026
	LayoutRivetKit  Layout = 1 // what RivetKit has released, from 2.1.0-rc.1 to 2.2.1

	layouts = layout.Layouts // their number
)

// String returns "greenroom" or "rivetkit".
func (l Layout) String() string {
	if l < layouts {
		return layoutNames[l]
	}
	return "unknown"
}

var layoutNames = [layouts]string{"greenroom", "rivetkit"}

// prefixes are what the keys of the namespaces begin with that differ between layouts. The second byte of
// LayoutRivetKit is its version of each.
var prefixes = [layouts][NamespaceSQLite + 1]string{
	LayoutGreenroom: {
		NamespaceQueue: "\x05", NamespaceQueueMetadata: "\x06", NamespaceWorkflow: "\x07",
		NamespaceTraces: "\x08", NamespaceSQLite: "\x09",
	},
	LayoutRivetKit: {
		NamespaceQueue: "\x05\x01\x02", NamespaceQueueMetadata: "\x05\x01\x01", NamespaceWorkflow: "\x06\x01",
		NamespaceTraces: "\x07\x01", NamespaceSQLite: "\x08\x01",
	},
}

// Prefix returns what the keys of a namespace begin with.
func (l Layout) Prefix(namespace byte) string {
	if namespace >= NamespaceQueue && namespace <= NamespaceSQLite {
		return prefixes[l][namespace]
	}
	return string([]byte{namespace})
}

// Range returns the half-open range of all keys of a namespace, in slices of their own.
func (l Layout) Range(namespace byte) (start, end []byte) {
	start = []byte(l.Prefix(namespace))
	return start, kv.PrefixEnd(start)
}

// cut returns what follows the prefix of a namespace in key.
func (l Layout) cut(key []byte, namespace byte) (rest []byte, ok bool) {
	p := l.Prefix(namespace)
	if len(key) < len(p) || string(key[:len(p)]) != p {
		return nil, false
	}
	return key[len(p):], true
}

// A FileTag says which of the files of an SQLite database a key belongs to.
type FileTag byte

// The files of a database.
const (
	FileMain    FileTag = 0
	FileJournal FileTag = 1
	FileWAL     FileTag = 2
	FileSHM     FileTag = 3
)

// String returns "main", "journal", "wal" or "shm".
func (t FileTag) String() string {
	if int(t) < len(fileNames) {
		return fileNames[t]
	}
	return "unknown"
}

var fileNames = [...]string{"main", "journal", "wal", "shm"}

const (
	sqliteMetadata = 0
	sqliteChunks   = 1
	fileChunkRest  = 1 + 1 + 4 // of the key of a chunk, behind its prefix: kind, tag and number
)

// The Append functions append one logical key to dst and return the extended
// slice. They allocate nothing when dst has room. Those of a Layout are of one
// of the layouts there are: others panic.

// AppendPersist appends the key of the actor's own record.
func AppendPersist(dst []byte) []byte { return append(dst, NamespacePersist) }

// AppendConnection appends the key of a connection; id is UTF-8.
func AppendConnection(dst []byte, id string) []byte {
	return append(append(dst, NamespaceConnections), id...)
}

// AppendUserKey appends the key under which the user key k lies; k may be empty.
func AppendUserKey(dst, k []byte) []byte { return append(append(dst, NamespaceUser), k...) }

// UserKey returns the key under which the user key k lies, in a slice of its own.
func UserKey(k []byte) []byte { return AppendUserKey(make([]byte, 0, 1+len(k)), k) }

// AppendQueueMessage appends the key of a queue message; ids sort as numbers.
func (l Layout) AppendQueueMessage(dst []byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, l.Prefix(NamespaceQueue)...), id)
}

// ParseQueueMessage decodes the key of a queue message.
func (l Layout) ParseQueueMessage(key []byte) (id uint64, ok bool) {
	rest, ok := l.cut(key, NamespaceQueue)
	if !ok || len(rest) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(rest), true
}

// AppendQueueMetadata appends the key of the queue's metadata.
func (l Layout) AppendQueueMetadata(dst []byte) []byte {
	return append(dst, l.Prefix(NamespaceQueueMetadata)...)
}

// AppendFileMeta appends the key of the metadata of an SQLite file.
func (l Layout) AppendFileMeta(dst []byte, tag FileTag) []byte {
	return append(append(dst, l.Prefix(NamespaceSQLite)...), sqliteMetadata, byte(tag))
}

// AppendFileChunk appends the key of a chunk of an SQLite file.
func (l Layout) AppendFileChunk(dst []byte, tag FileTag, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(append(append(dst, l.Prefix(NamespaceSQLite)...), sqliteChunks, byte(tag)), chunk)
}

// FileChunks returns the half-open range of the chunks of a file from number from
// on, in slices of their own.
func (l Layout) FileChunks(tag FileTag, from uint32) (start, end []byte) {
	p := l.Prefix(NamespaceSQLite)
	b := l.AppendFileChunk(make([]byte, 0, 2*len(p)+fileChunkRest+2), tag, from)
	n := len(b)
	b = append(append(b, p...), sqliteChunks, byte(tag)+1)
	return b[:n:n], b[n:]
}

// ParseFileChunk decodes the key of a chunk.
func (l Layout) ParseFileChunk(key []byte) (tag FileTag, chunk uint32, ok bool) {
	rest, ok := l.cut(key, NamespaceSQLite)
	if !ok || len(rest) != fileChunkRest || rest[0] != sqliteChunks || rest[1] > byte(FileSHM) {
		return 0, 0, false
	}
	return FileTag(rest[1]), binary.BigEndian.Uint32(rest[2:]), true
}

// The older form of the keys of SQLite files says by name whose they are. A name is not
// empty, holds no NUL, and begins above the tags: with a byte of at most 3 it couldn't
// be told from one. Nothing is written in this form any more.

// AppendNamedFileMeta appends the older key of the metadata of the file name.
func (l Layout) AppendNamedFileMeta(dst []byte, name string) []byte {
	return append(append(append(dst, l.Prefix(NamespaceSQLite)...), sqliteMetadata), name...)
}

// AppendNamedFileChunk appends the older key of a chunk of the file name.
func (l Layout) AppendNamedFileChunk(dst []byte, name string, chunk uint32) []byte {
	dst = append(append(append(append(dst, l.Prefix(NamespaceSQLite)...), sqliteChunks), name...), 0)
	return binary.BigEndian.AppendUint32(dst, chunk)
}

// NamedFileChunks returns the half-open range of the older keys of the chunks of the
// file name.
func (l Layout) NamedFileChunks(name string) (start, end []byte) {
	start = append(append(append([]byte(l.Prefix(NamespaceSQLite)), sqliteChunks), name...), 0)
	return start, kv.PrefixEnd(start)
}

// NamedFileMetas returns the half-open range of the older keys of metadata.
func (l Layout) NamedFileMetas() (start, end []byte) {
	return l.AppendFileMeta(nil, FileSHM+1), append([]byte(l.Prefix(NamespaceSQLite)), sqliteChunks)
}

// ParseNamedFileChunk decodes the older key of a chunk.
func (l Layout) ParseNamedFileChunk(key []byte) (name string, chunk uint32, ok bool) {
	rest, ok := l.cut(key, NamespaceSQLite)
	if !ok || len(rest) == 0 || rest[0] != sqliteChunks {
		return "", 0, false
	}
	b, number, ok := bytes.Cut(rest[1:], []byte{0})
	if !ok || len(number) != 4 || len(b) == 0 || b[0] <= byte(FileSHM) {
		return "", 0, false
	}
	return string(b), binary.BigEndian.Uint32(number), true
}

// A WorkflowPart is what of a workflow a key is about: the first element of its tuple.
type WorkflowPart byte

// The parts of a workflow.
const (
	WorkflowNames   WorkflowPart = 1
	WorkflowHistory WorkflowPart = 2
	WorkflowFields  WorkflowPart = 3
	WorkflowEntries WorkflowPart = 4 // metadata of entries
)

// A WorkflowField is one of the single values of a workflow.
type WorkflowField byte

// The fields of a workflow.
const (
	WorkflowState   WorkflowField = 1
	WorkflowOutput  WorkflowField = 2
	WorkflowError   WorkflowField = 3
	WorkflowVersion WorkflowField = 4 // which nothing writes
	WorkflowInput   WorkflowField = 5
	WorkflowWaits   WorkflowField = 6
)

// AppendWorkflowPart appends the prefix of the keys of a part of a workflow.
func (l Layout) AppendWorkflowPart(dst []byte, part WorkflowPart) []byte {
	return tuple.AppendUint(append(dst, l.Prefix(NamespaceWorkflow)...), uint64(part))
}

// AppendWorkflowName appends the key of the name of that index.
func (l Layout) AppendWorkflowName(dst []byte, index uint32) []byte {
	return tuple.AppendUint(l.AppendWorkflowPart(dst, WorkflowNames), uint64(index))
}

// AppendWorkflowHistory appends the key of the entry at a location, which is what
// AppendWorkflowSegment and AppendWorkflowIteration made. Behind it, with more segments,
// are the keys of the entries inside: they begin with it, and no others do.
func (l Layout) AppendWorkflowHistory(dst []byte, location string) []byte {
	return append(l.AppendWorkflowPart(dst, WorkflowHistory), location...)
}

// AppendWorkflowSegment appends a name to a location.
func AppendWorkflowSegment(dst []byte, name uint32) []byte {
	return tuple.AppendUint(dst, uint64(name))
}

// AppendWorkflowIteration appends an iteration of a loop to a location.
func AppendWorkflowIteration(dst []byte, loop, iteration uint32) []byte {
	dst = tuple.AppendUint(tuple.AppendNestedStart(dst), uint64(loop))
	return tuple.AppendNestedEnd(tuple.AppendUint(dst, uint64(iteration)))
}

// AppendWorkflowField appends the key of a field of a workflow.
func (l Layout) AppendWorkflowField(dst []byte, field WorkflowField) []byte {
	return tuple.AppendUint(l.AppendWorkflowPart(dst, WorkflowFields), uint64(field))
}

// AppendWorkflowEntry appends the key of the metadata of the entry id, which is UTF-8.
func (l Layout) AppendWorkflowEntry(dst []byte, id string) []byte {
	return tuple.AppendString(l.AppendWorkflowPart(dst, WorkflowEntries), id)
}

// ParseWorkflowKey splits the key of a workflow into its part and the packed rest of the
// tuple, a piece of key. Of a name or a field the rest is a number, see
// ParseWorkflowNumber, of an entry its location, of metadata a string.
func (l Layout) ParseWorkflowKey(key []byte) (part WorkflowPart, rest []byte, ok bool) {
	rest, ok = l.cut(key, NamespaceWorkflow)
	if !ok {
		return 0, nil, false
	}
	n, rest, err := tuple.NextInt(rest)
	if err != nil || n < int64(WorkflowNames) || n > int64(WorkflowEntries) {
		return 0, nil, false
	}
	return WorkflowPart(n), rest, true
}

// ParseWorkflowNumber decodes the first element of a packed tuple, an index of a name, an
// iteration, or a field, and returns what follows it.
func ParseWorkflowNumber(b []byte) (n uint32, rest []byte, ok bool) {
	v, rest, err := tuple.NextInt(b)
	if err != nil || v < 0 || v > math.MaxUint32 {
		return 0, nil, false
	}
	return uint32(v), rest, true
}

// The keys of an actor are its content, but for connections, the inspector's token and most of what hosts keep, which are about the
// actor itself.

// What a host keeps: the second byte of its keys.
const (
	hostIn      = 'i' // what has come from another actor
	hostOut     = 'o' // a letter to another actor
	hostAccount = 's' // how letters are numbered
	hostSocket  = 'g' // a message that waits at a connection
	hostCall    = 'c' // a call with an idempotency key, which is of the state that it has left
	hostResult  = 'r' // what such a call has returned
)

// ownBusiness says whether a key stays behind when the actor is copied to a new one.
func ownBusiness(key []byte) bool {
	switch {
	case len(key) == 0:
		return false
	case key[0] == NamespaceHost && len(key) > 1:
		return key[1] == hostIn || key[1] == hostOut || key[1] == hostAccount || key[1] == hostSocket
	}
	return key[0] == NamespaceConnections || key[0] == NamespaceInspector
}

// stays says whether a key that the actor has stays as it is when an earlier state of it is restored.
func stays(key []byte) bool {
	if len(key) > 1 && key[0] == NamespaceHost {
		return key[1] != hostSocket && key[1] != hostCall && key[1] != hostResult
	}
	return len(key) > 0 && (key[0] == NamespaceInspector || key[0] == NamespaceHost)
}

// restored says whether a key of that state is restored; missing: the actor doesn't have it. What has come from whom isn't, of an actor that was
// dropped: the store may be older than the state, and a sender's numbers with it.
func restored(key []byte, missing bool) bool { return !ownBusiness(key) && (missing || !stays(key)) }
