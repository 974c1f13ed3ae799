package itemstore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/tuple"
)

// A Version is a place in the order of the commits that changed a group of items. Of a
// versioned group it is the number of those commits, from 1; of another one it is a
// stamp, which only grows from one commit of the store to the next. Versions of one
// group can be compared. The zero Version is before all others.
type Version [10]byte

// Count returns the number of commits, if the group is versioned.
func (v Version) Count() uint64 { return binary.BigEndian.Uint64(v[:]) }

// String returns the 20 hexadecimal digits of v.
func (v Version) String() string { return hex.EncodeToString(v[:]) }

// Compare returns −1, 0 or +1 as v is before, equal to or after w.
func (v Version) Compare(w Version) int {
	return bytes.Compare(v[:], w[:])
}

func versionOf(count uint64) (v Version) {
	binary.BigEndian.PutUint64(v[:], count)
	return v
}

// pendingVersion stands where the commit puts its stamp.
var pendingVersion = Version(tuple.IncompleteVersionstamp(0).Transaction)

// recordVersion is the version of a row of an item, and of those in the log.
const recordVersion = 1

// stampOffset is where the stamp of the commit stands in a row of an item.
const stampOffset = bare.VersionSize

// The kinds of rows.
const (
	rowPrimary = iota
	rowCopy    // an alias or index with all that the primary row has but the paths
	rowRef     // one that leads there
	rowKinds
)

// A record is the row of an item at one of its paths.
type record struct {
	stamp    Version // of the commit that wrote it
	kind     uint8
	chunked  bool // the payload is in chunks of its own
	typ      uint64
	schema   uint64 // a version that knows all of its fields, 0 for none
	created  int64  // Unix µs
	modified int64
	expires  int64 // Unix s; 0 for never
	pathVersions
	paths   []pathEntry // of a primary row: the others
	primary []byte      // of the others: the packed primary path
	payload []byte      // of a chunked one its length in 8 bytes; none in a ref
	whole   []byte      // all of the payload, of a row that is not stored yet
	size    int         // of the whole payload, once it was read
}

// pathVersions is what differs between the paths of an item.
type pathVersions struct {
	first Version // when the path got the item; zero if this commit did it
	count uint64  // of the group's commits, if it is versioned
}

// A pathEntry is a path of an item but its primary one.
type pathEntry struct {
	number uint64 // of the key path
	key    []byte // packed; of an index without the primary path behind it
	pathVersions
}

// version returns the version of the item at its path.
func (r *record) version(p pathVersions) Version {
	if p.count > 0 {
		return versionOf(p.count)
	}
	return r.stamp
}

func (r *record) expired(now time.Time) bool {
	return r.expires != 0 && r.expires <= now.Unix()
}

// owner returns the packed primary path of the item that has a row at path.
func (r *record) owner(path []byte) []byte {
	if r.kind == rowPrimary {
		return path
	}
	return r.primary
}

// at returns the row of an item at one of its other paths; r is the primary one.
func (r *record) at(since pathVersions, ref bool, primary []byte) *record {
	c := *r
	c.pathVersions, c.paths, c.primary, c.kind = since, nil, primary, rowCopy
	if ref {
		c.kind, c.payload, c.chunked = rowRef, nil, false
	}
	return &c
}

// since returns since when an item has a path, nil being the primary one, if the row had it already.
func (r *record) since(number uint64, key []byte) (v pathVersions) {
	if r == nil {
		return v
	}
	had := r.pathVersions
	if key != nil {
		i := slices.IndexFunc(r.paths, func(p pathEntry) bool { return p.number == number && bytes.Equal(p.key, key) })
		if i < 0 {
			return v
		}
		had = r.paths[i].pathVersions
	}
	if v.first = had.first; v.first == (Version{}) && r.stamp != pendingVersion {
		v.first = r.version(had)
	}
	return v
}

// meta returns the Meta of a row, whose primary path is known. What a commit that hasn't
// landed will know is zero.
func (r *record) meta(primary Path) Meta {
	m := Meta{Primary: primary, Created: time.UnixMicro(r.created).UTC(), Modified: time.UnixMicro(r.modified).UTC(), First: r.first}
	if r.stamp != pendingVersion {
		m.Version = r.version(r.pathVersions)
	}
	if m.First == (Version{}) {
		m.First = m.Version
	}
	if r.expires != 0 {
		m.Ends = time.Unix(r.expires, 0).UTC()
	}
	return m
}

func (p pathVersions) append(dst []byte) []byte {
	dst = bare.AppendBool(dst, p.first != Version{})
	if p.first != (Version{}) {
		dst = bare.AppendFixed(dst, p.first[:])
	}
	return bare.AppendUint(dst, p.count)
}

func readPathVersions(r *bare.Reader) (p pathVersions) {
	if r.Bool() {
		if copy(p.first[:], r.Fixed(len(p.first))); p.first == (Version{}) {
			r.Fail("no version since which the item has its path")
		}
	}
	p.count = r.Uint()
	return p
}

// recordSize and pathSize are estimates, in bytes: of a row without payload and paths, and of what comes with each path.
const (
	recordSize = 72
	pathSize   = 24
)

// beside returns about how long a row is without its payload and the primary path, in bytes; not less.
func (r *record) beside() int {
	size := recordSize
	for _, p := range r.paths {
		size += len(p.key) + pathSize
	}
	return size
}

// append appends the row. Where stamp stands the commit puts its own.
func (r *record) append(dst []byte) []byte {
	dst = slices.Grow(dst, r.beside()+len(r.primary)+len(r.payload))
	dst = bare.AppendFixed(bare.AppendVersion(dst, recordVersion), r.stamp[:])
	dst = bare.AppendBool(bare.AppendU8(dst, r.kind), r.chunked)
	dst = bare.AppendUint(bare.AppendUint(dst, r.typ), r.schema)
	dst = bare.AppendI64(bare.AppendI64(dst, r.created), r.modified)
	dst = bare.AppendI64(dst, r.expires)
	dst = r.pathVersions.append(dst)
	if r.kind != rowPrimary {
		dst = bare.AppendData(dst, r.primary)
	} else {
		dst = bare.AppendUint(dst, uint64(len(r.paths)))
		for _, p := range r.paths {
			dst = p.pathVersions.append(bare.AppendData(bare.AppendUint(dst, p.number), p.key))
		}
	}
	return append(dst, r.payload...)
}

// maxPaths bounds the paths of an item.
const maxPaths = 1000

// parseRecord decodes a row. The record shares memory with b.
func parseRecord(b []byte) (*record, error) {
	r := &record{}
	if err := r.parse(b); err != nil {
		return nil, err
	}
	return r, nil
}

// parse makes r the record that parseRecord returns.
func (r *record) parse(b []byte) error {
	v, body, err := bare.Version(b)
	switch {
	case err != nil:
		return fmt.Errorf("itemstore: row of an item: %w: %w", err, ErrCorrupt)
	case v > recordVersion:
		return fmt.Errorf("itemstore: row of an item: version %d: %w", v, ErrNewerFormat)
	case v != recordVersion:
		return fmt.Errorf("itemstore: row of an item: version %d: %w", v, ErrCorrupt)
	}
	in := bare.NewReader(body)
	*r = record{paths: r.paths[:0]}
	copy(r.stamp[:], in.Fixed(len(r.stamp)))
	r.kind, r.chunked = in.Tag(rowKinds), in.Bool()
	r.typ, r.schema = in.Uint(), in.Uint()
	r.created, r.modified, r.expires = in.I64(), in.I64(), in.I64()
	r.pathVersions = readPathVersions(in)
	if r.kind != rowPrimary {
		r.primary = in.Data()
	} else {
		for range in.Len(maxPaths) {
			p := pathEntry{number: in.Uint(), key: in.Data()}
			p.pathVersions = readPathVersions(in)
			r.paths = append(r.paths, p)
		}
	}
	r.payload = in.Rest()
	if r.chunked && len(r.payload) != 8 || r.kind == rowRef && len(r.payload) != 0 {
		in.Fail("payload of %d bytes", len(r.payload))
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("itemstore: row of an item: %w: %w", err, ErrCorrupt)
	}
	return nil
}

// A Building is a key path that isn't there for all items of its type yet. Programs of all versions
// write it from the moment that its version is published, so what is left is what was put before.
type Building struct {
	Type, Template string // the template with the fields' names in the first version
	Items          int    // that were looked at
	// Taken are those of them whose path another item has: they go without it, until
	// they are put again.
	Taken int
	Next  []byte // the packed path to go on with
}

// A Meta is what the store knows of an item beside its fields. A field of this type in an
// item's struct is set by reads and by Put; Put then notices that an item was
// read at another primary path (ErrMoved).
type Meta struct {
	Primary           Path      // the item's primary path
	Created, Modified time.Time // when it was first, and last, put; in whole microseconds
	// First and Version are the versions of the group, at the path that the item was read by, of
	// the commit that first gave the path to the item and of the last one that changed it.
	First, Version Version
	Ends           time.Time // when the item is gone; zero for never
}
