package itemstore

// Key layout:
//
//	key                          value
//	(S, 0)                       v1: nonce of the store data[16], newest version of the schema u32
//	(S, 0, version, chunk)       that version: catalog as JSON, in chunks
//	(S, 1, path)                 v1: an item at one of its paths: stamp data[10] of the commit,
//	                             kind u8 (0 primary, 1 copy, 2 ref), chunked bool, type uint, schema
//	                             version uint that knows all fields, 0 for none, created and modified
//	                             i64 Unix µs, ends i64 Unix s, 0 for never, VERSIONS, then of a primary
//	                             row list<number of the key path uint, path data, VERSIONS>, of the
//	                             others the primary path data, then the payload: CBOR or what the type's
//	                             codec makes, of a chunked one its length u64, of a ref nothing
//	(S, 2, group)                how often the group was changed u64be, if it is versioned
//	(S, 3, group, stamp, rest)   the last change of the item at the path of group and rest: nothing,
//	                             or 01 if it was deleted
//	(S, 4, s, 0, path)           nothing; the item of that primary path ends at Unix second s
//	(S, 4, s, 1, stamp, path)    nothing; at s the log may forget that the path was deleted there
//	(S, 5, type, path)           last number of a sequence u64be: of a type, below a path
//	(S, 6, path, primary path)   an item in an index, as in 1; the primary path is one element
//	(S, 7, primary path, chunk)  a payload that is too large for one row; the path is one element
//	(S, 8, group)                stamp data[10]: the log may lack deletions up to there
//	(S, 9, type, number)         how far a new key path is built: Building as JSON; no row once it is
//
// S is ("items", 1, name of the store), and ( ) are packed tuples, one behind the other: a path is two elements
// a segment, namespace and ID, null for a missing ID, and a group is the first segment. v1 is a u16le version, and
// BARE. VERSIONS is optional<data[10]>, when the path got the item, none for by this commit, and the count uint of the
// group's commits, 0 if they aren't counted. A stamp is a versionstamp: of a versioned group the count u64be, and two zeros.

import (
	"bytes"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

const (
	rowsName    = "items"
	rowsVersion = 1

	partSchema   = 0
	partItem     = 1
	partCount    = 2
	partLog      = 3
	partDue      = 4
	partSequence = 5
	partIndex    = 6
	partChunk    = 7
	partForgot   = 8
	partBuild    = 9

	dueItem = 0
	dueLog  = 1
)

// space is the keys of one store.
type space struct{ sub tuple.Subspace }

func newSpace(name string) space {
	return space{tuple.NewSubspace(tuple.Tuple{rowsName, rowsVersion, name})}
}

// key returns the key of a part with packed elements behind it.
func (s space) key(part int64, packed ...[]byte) []byte {
	n := len(s.sub.Bytes()) + 2
	for _, p := range packed {
		n += len(p)
	}
	k := tuple.AppendInt(append(make([]byte, 0, n), s.sub.Bytes()...), part)
	for _, p := range packed {
		k = append(k, p...)
	}
	return k
}

// rest returns what stands behind the part in a key of the store, of any part but partSchema: their numbers take two bytes.
func (s space) rest(key []byte) []byte { return key[len(s.sub.Bytes())+2:] }

// after returns the end of the range of all keys that begin with key: no element begins with FF.
func after(key []byte) []byte { return append(bytes.Clone(key), 0xff) }

// appendElement appends an ID, or null for none.
func appendElement(dst []byte, el tuple.Element) []byte {
	switch el := el.(type) { // those that most paths have
	case string:
		return tuple.AppendString(dst, el)
	case int64:
		return tuple.AppendInt(dst, el)
	}
	dst, err := tuple.Append(dst, tuple.Tuple{el})
	if err != nil {
		panic(fmt.Sprintf("itemstore: %v", err)) // IDs are checked before
	}
	return dst
}

// group returns the first segment of a packed path.
func group(path []byte) []byte {
	rest := path
	for range 2 {
		r, err := tuple.Skip(rest)
		if err != nil {
			return path
		}
		rest = r
	}
	return path[:len(path)-len(rest)]
}

// maxKey is the length of the longest key if Options don't say less, in bytes.
const maxKey = 10_000

// stampSize is the length of the element that a version is in a key, in bytes.
const stampSize = 13

func appendStamp(dst []byte, v Version) []byte {
	return tuple.AppendVersionstamp(dst, tuple.Versionstamp{Transaction: v})
}

// rowKey returns the key of an item's row at one of its paths.
func (s space) rowKey(p *keyPath, path, primary []byte) []byte {
	if p.index() {
		return s.key(partIndex, path, tuple.AppendBytes(nil, primary))
	}
	return s.key(partItem, path)
}

// logKey is the key in the log of the change of a path at a version.
func (s space) logKey(path []byte, v Version) []byte {
	g := group(path)
	return s.key(partLog, g, appendStamp(nil, v), path[len(g):])
}

// parseLog takes what stands behind the part of a key of the log to pieces.
func parseLog(rest []byte) (path []byte, v Version, err error) {
	g := group(rest)
	el, tail, err := tuple.Next(rest[len(g):])
	if stamp, ok := el.(tuple.Versionstamp); ok && err == nil {
		return append(bytes.Clone(g), tail...), stamp.Transaction, nil
	}
	return nil, v, fmt.Errorf("itemstore: key of the log: %w", ErrCorrupt)
}

// dueItem is the key that says when the item of a primary path ends.
func (s space) dueItem(unix int64, primary []byte) []byte {
	return s.key(partDue, tuple.AppendInt(tuple.AppendInt(nil, unix), dueItem), primary)
}

// dueLog is the key that says when the log may forget a deletion.
func (s space) dueLog(unix int64, v Version, path []byte) []byte {
	return s.key(partDue, tuple.AppendInt(tuple.AppendInt(nil, unix), dueLog), appendStamp(nil, v), path)
}

// A due is a row that says when something is to be swept.
type due struct {
	unix int64
	log  bool    // a deletion in the log, else an item
	at   Version // of the deletion
	path []byte
}

// parseDue takes what stands behind the part of a key of that kind to pieces.
func parseDue(rest []byte) (d due, err error) {
	var kind int64
	if d.unix, rest, err = tuple.NextInt(rest); err == nil {
		kind, rest, err = tuple.NextInt(rest)
	}
	if d.log = kind == dueLog; err == nil && d.log {
		var el tuple.Element
		el, rest, err = tuple.Next(rest)
		stamp, _ := el.(tuple.Versionstamp)
		d.at = stamp.Transaction
	}
	if err != nil || kind != dueItem && kind != dueLog {
		return d, fmt.Errorf("itemstore: key of what is due: %w", ErrCorrupt)
	}
	d.path = bytes.Clone(rest)
	return d, nil
}

// catalogKey is the key of a version of the schema within the store's space.
type catalogKey struct{ Version int }

func (k *catalogKey) Elements(e *keys.Elements) {
	e.Const(partSchema)
	e.Int(&k.Version)
}

func (catalogKey) Value() keys.Codec[*catalog] { return keys.Chunked(keys.JSON[*catalog]()) }

// buildKey is the key of how far a key path is built.
type buildKey struct{ Type, Path uint64 }

func (k *buildKey) Elements(e *keys.Elements) {
	e.Const(partBuild)
	e.Uint64(&k.Type)
	e.Uint64(&k.Path)
}

func (buildKey) Value() keys.Codec[Building] { return keys.JSON[Building]() }

// chunkKey is the key of a payload in chunks.
type chunkKey struct{ Primary []byte }

func (k *chunkKey) Elements(e *keys.Elements) {
	e.Const(partChunk)
	e.Bytes(&k.Primary)
}

func (chunkKey) Value() keys.Codec[[]byte] { return keys.Chunked(keys.Bytes()) }

// in returns the typed keys of the store in a transaction.
func (s space) in(tx *txn.Tx) *keys.Scope { return keys.In(tx, s.sub) }

// A head is the row of a store.
type head struct {
	nonce   [16]byte
	version int
}

func (h *head) append(dst []byte) []byte {
	return bare.AppendU32(bare.AppendFixed(bare.AppendVersion(dst, recordVersion), h.nonce[:]), uint32(h.version))
}

func parseHead(b []byte) (h head, err error) {
	v, body, err := bare.Version(b)
	if err == nil && v > recordVersion {
		return h, fmt.Errorf("itemstore: row of the store: version %d: %w", v, ErrNewerFormat)
	}
	in := bare.NewReader(body)
	copy(h.nonce[:], in.Fixed(len(h.nonce)))
	h.version = int(in.U32())
	if err == nil {
		err = in.Done()
	}
	if err != nil {
		return h, fmt.Errorf("itemstore: row of the store: %w: %w", err, ErrCorrupt)
	}
	return h, nil
}
