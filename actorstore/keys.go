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
//	07 + (3, 1|2|3|4|5)                a field of the workflow        workflow/fields/state|output|error|version|input
//	07 + (4, entry id)                 metadata of an entry           workflow/entries/ID
//	08 + (1, bucket, chunk)            a chunk of spans               traces/BUCKET/CHUNK
//	09 00 + file                       size of an SQLite file         sqlite/metadata/FILE
//	09 01 + file + chunk u32be         4096 bytes of an SQLite file   sqlite/chunks/FILE/CHUNK
//	09 00 + name                       older form of 09 00            sqlite/named/metadata/NAME
//	09 01 + name + 00 + chunk u32be    older form of 09 01            sqlite/named/chunks/NAME/CHUNK
//	68 69 + sender uuid, label u16be   what has come from another     host/in/HEX
//	68 6f + number u64be               a message to another actor     host/out/NUMBER
//	68 73                              the nonce of those             host/nonce
//	anything else                      unknown                        unknown/HEX
//
//	( ) is a packed tuple. A SEGMENT is the index of a name, or the nested tuple
//	(loop, iteration), in words LOOP~ITERATION. A file is 00 main, 01 journal,
//	02 wal, 03 shm. ID, KEY and NAME are quoted if they hold more than letters,
//	digits and plain signs.
//
//	row of a store                     value
//	("greenroom", 1, 0)                v1: created i64 ms; its version is the store's format
//	("greenroom", 1, 1, id)            v1: the actor's head: epoch u64, seq u64, used u64,
//	                                   last commit data[16], created i64 ms; with a
//	                                   seq of 0 there is no actor, and what used
//	                                   counts is of a fork that was cut off
//	("greenroom", 1, 1, id, 1)         the actor's name, UTF-8, if it has one
//	("greenroom", 1, 1, id, 2)         v1: the actor's owner, where several hosts use the
//	                                   store: host data[16], nonce data[8]
//	("greenroom", 1, 1, id, 3)         v1: what of the actor's database is read first,
//	                                   chunk numbers of its main file: pairs of varints,
//	                                   the gap before a run and its length less 1
//	("greenroom", 1, 2, name)          v1: id of the actor that has the name: uuid data[16],
//	                                   label u16, created i64 ms
//	("greenroom", 1, 3, host bytes)    v1: a host that owns actors: expires i64 ms, ttl
//	                                   u64 ms, renewals u64, name string, machine
//	                                   string, pid u64, started u64, list of the
//	                                   actors that others want (uuid data[16], label u16)
//	("greenroom", 1, 4, id, key bytes) a note about the actor, at most 256 bytes; the first
//	                                   byte of its key is that of the namespace whose
//	                                   package wrote it, which says what it means
//	(0, 3, 72, id, (key,), …)          the rows of an actor's keys: envelope.go
//
//	v1 is a u16le version, 1, and BARE. An id is the tuple element 40 01 uuid label.
//	The rows of a store are typed keys: registrykeys.go.

package actorstore

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/greenroomdb/greenroom/tuple"
)

// The namespaces: the first byte of every logical key says whose it is.
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

	NamespaceHost byte = 'h' // what whoever runs the actor keeps: far from the others, whose format is shared
)

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
	fileMetaSize   = 3
	fileChunkSize  = 7
)

// NamespaceRange returns the half-open range of all keys of a namespace.
func NamespaceRange(namespace byte) (start, end []byte) {
	return []byte{namespace}, []byte{namespace + 1}
}

// The Append functions append one logical key to dst and return the extended
// slice. They allocate nothing when dst has room.

// AppendPersist appends the key of the actor's own record.
func AppendPersist(dst []byte) []byte { return append(dst, NamespacePersist) }

// AppendConnection appends the key of a connection; id is UTF-8.
func AppendConnection(dst []byte, id string) []byte {
	return append(append(dst, NamespaceConnections), id...)
}

// AppendInspector appends the key of the inspector's token.
func AppendInspector(dst []byte) []byte { return append(dst, NamespaceInspector) }

// AppendUserKey appends the key under which the user key k lies; k may be empty.
func AppendUserKey(dst, k []byte) []byte { return append(append(dst, NamespaceUser), k...) }

// UserKey returns the key under which the user key k lies, in a slice of its own.
func UserKey(k []byte) []byte { return AppendUserKey(make([]byte, 0, 1+len(k)), k) }

// AppendQueueMessage appends the key of a queue message; ids sort as numbers.
func AppendQueueMessage(dst []byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, NamespaceQueue), id)
}

// AppendQueueMetadata appends the key of the queue's metadata.
func AppendQueueMetadata(dst []byte) []byte { return append(dst, NamespaceQueueMetadata) }

// AppendFileMeta appends the key of the metadata of an SQLite file.
func AppendFileMeta(dst []byte, tag FileTag) []byte {
	return append(dst, NamespaceSQLite, sqliteMetadata, byte(tag))
}

// AppendFileChunk appends the key of a chunk of an SQLite file.
func AppendFileChunk(dst []byte, tag FileTag, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, NamespaceSQLite, sqliteChunks, byte(tag)), chunk)
}

// FileChunks returns the half-open range of the chunks of a file from number from
// on, in slices of their own.
func FileChunks(tag FileTag, from uint32) (start, end []byte) {
	b := AppendFileChunk(make([]byte, 0, fileChunkSize+fileMetaSize), tag, from)
	b = append(b, NamespaceSQLite, sqliteChunks, byte(tag)+1)
	return b[:fileChunkSize:fileChunkSize], b[fileChunkSize:]
}

// ParseFileChunk decodes the key of a chunk.
func ParseFileChunk(key []byte) (tag FileTag, chunk uint32, ok bool) {
	if len(key) != fileChunkSize || key[0] != NamespaceSQLite || key[1] != sqliteChunks || key[2] > byte(FileSHM) {
		return 0, 0, false
	}
	return FileTag(key[2]), binary.BigEndian.Uint32(key[3:]), true
}

// The older form of the keys of SQLite files says by name whose they are. A name is not
// empty, holds no NUL, and begins above the tags: with a byte of at most 3 it couldn't
// be told from one. Nothing is written in this form any more.

// AppendNamedFileMeta appends the older key of the metadata of the file name.
func AppendNamedFileMeta(dst []byte, name string) []byte {
	return append(append(dst, NamespaceSQLite, sqliteMetadata), name...)
}

// AppendNamedFileChunk appends the older key of a chunk of the file name.
func AppendNamedFileChunk(dst []byte, name string, chunk uint32) []byte {
	dst = append(append(append(dst, NamespaceSQLite, sqliteChunks), name...), 0)
	return binary.BigEndian.AppendUint32(dst, chunk)
}

// NamedFileChunks returns the half-open range of the older keys of the chunks of the
// file name.
func NamedFileChunks(name string) (start, end []byte) {
	start = append(append([]byte{NamespaceSQLite, sqliteChunks}, name...), 0)
	return start, append(start[:len(start)-1:len(start)-1], 1)
}

// NamedFileMetas returns the half-open range of the older keys of metadata.
func NamedFileMetas() (start, end []byte) {
	return AppendFileMeta(nil, FileSHM+1), []byte{NamespaceSQLite, sqliteChunks}
}

// ParseNamedFileChunk decodes the older key of a chunk.
func ParseNamedFileChunk(key []byte) (name string, chunk uint32, ok bool) {
	rest, ok := bytes.CutPrefix(key, []byte{NamespaceSQLite, sqliteChunks})
	if !ok {
		return "", 0, false
	}
	b, number, ok := bytes.Cut(rest, []byte{0})
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
)

// AppendWorkflowPart appends the prefix of the keys of a part of a workflow.
func AppendWorkflowPart(dst []byte, part WorkflowPart) []byte {
	return tuple.AppendUint(append(dst, NamespaceWorkflow), uint64(part))
}

// AppendWorkflowName appends the key of the name of that index.
func AppendWorkflowName(dst []byte, index uint32) []byte {
	return tuple.AppendUint(AppendWorkflowPart(dst, WorkflowNames), uint64(index))
}

// AppendWorkflowHistory appends the key of the entry at a location, which is what
// AppendWorkflowSegment and AppendWorkflowIteration made. Behind it, with more segments,
// are the keys of the entries inside: they begin with it, and no others do.
func AppendWorkflowHistory[T string | []byte](dst []byte, location T) []byte {
	return append(AppendWorkflowPart(dst, WorkflowHistory), location...)
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
func AppendWorkflowField(dst []byte, field WorkflowField) []byte {
	return tuple.AppendUint(AppendWorkflowPart(dst, WorkflowFields), uint64(field))
}

// AppendWorkflowEntry appends the key of the metadata of the entry id, which is UTF-8.
func AppendWorkflowEntry(dst []byte, id string) []byte {
	return tuple.AppendString(AppendWorkflowPart(dst, WorkflowEntries), id)
}

// ParseWorkflowKey splits the key of a workflow into its part and the packed rest of the
// tuple, a piece of key. Of a name or a field the rest is a number, see
// ParseWorkflowNumber, of an entry its location, of metadata a string.
func ParseWorkflowKey(key []byte) (part WorkflowPart, rest []byte, ok bool) {
	if len(key) == 0 || key[0] != NamespaceWorkflow {
		return 0, nil, false
	}
	n, rest, err := tuple.NextInt(key[1:])
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
