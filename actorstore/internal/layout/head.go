package layout

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
)

// Versions of the rows of a store, each written before its row.
const (
	formatVersion      = 1
	headVersion        = 1
	nameVersion        = 1
	ownerVersion       = 1
	hostVersion        = 3 // see Host.Append
	hostVersionPlain   = 1
	hostVersionAddress = 2
	layoutVersion      = 1
	wakeVersion        = 1
	attributesVersion  = 1
	usageVersion       = 1
	builtVersion       = 1
)

// Layouts is how many layouts an actor's keys may have: they are numbered from 0.
const Layouts = 2

// The functions that take a row apart keep nothing of it. Their errors begin with
// "actorstore: " and name the row. They wrap kv.ErrCorrupt, or are a *kv.FormatError if
// the row is of a newer version than this package knows.

// A Head is what the store knows of an actor as a whole. Every commit of the
// actor checks the row by value and rewrites it, which makes the row the fence, the
// quota's counter and the commit log in one.
type Head struct {
	Epoch   uint64      // counts the owners
	Seq     uint64      // counts the commits
	Used    int64       // Σ(key + 2 + value) over all keys, in bytes, at least 0
	Last    kv.CommitID // the last commit
	Created int64       // when the actor was first written to, in ms
}

// HeadSize is the length of a head row in bytes.
const HeadSize = 2 + 8 + 8 + 8 + 16 + 8

// Append appends the row.
func (h *Head) Append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, headVersion)
	dst = bare.AppendU64(dst, h.Epoch)
	dst = bare.AppendU64(dst, h.Seq)
	dst = bare.AppendU64(dst, uint64(h.Used))
	dst = bare.AppendFixed(dst, h.Last[:])
	return bare.AppendI64(dst, h.Created)
}

// ParseHead decodes a head row; id is the actor's, for the errors.
func ParseHead(id ID, row []byte) (h Head, err error) {
	r, err := open(row, headVersion, "head of actor "+id.String())
	if err != nil {
		return Head{}, err
	}
	h.Epoch, h.Seq = r.U64(), r.U64()
	if h.Used = int64(r.U64()); h.Used < 0 {
		r.Fail("%d bytes used", uint64(h.Used))
	}
	copy(h.Last[:], r.Fixed(len(h.Last)))
	h.Created = r.I64()
	if err := r.Done(); err != nil {
		return Head{}, fmt.Errorf("actorstore: head of actor %s: %w: %w", id, err, kv.ErrCorrupt)
	}
	return h, nil
}

// open returns a reader of a row behind its version, which must be known.
func open(row []byte, known uint16, what string) (*bare.Reader, error) {
	v, body, err := bare.Version(row)
	switch {
	case err != nil:
		return nil, fmt.Errorf("actorstore: %s: %w: %w", what, err, kv.ErrCorrupt)
	case v > known:
		return nil, &kv.FormatError{What: what, Found: uint64(v), Known: uint64(known)}
	case v == 0: // versions count from 1: these are zeros where a row should be
		return nil, fmt.Errorf("actorstore: %s: version 0: %w", what, kv.ErrCorrupt)
	}
	return bare.NewReader(body), nil
}

// AppendFormat appends the format row of a store that was created at a time, in ms.
func AppendFormat(dst []byte, created int64) []byte {
	return bare.AppendI64(bare.AppendVersion(dst, formatVersion), created)
}

// CheckFormat returns nil if this package can read a store with this format row.
func CheckFormat(row []byte) error {
	r, err := open(row, formatVersion, "store")
	if err != nil {
		return err
	}
	r.I64()
	if err := r.Done(); err != nil {
		return fmt.Errorf("actorstore: format row: %w: %w", err, kv.ErrCorrupt)
	}
	return nil
}

// AppendLayout appends the row that says which layout the keys of an actor have.
func AppendLayout(dst []byte, layout uint8) []byte {
	return bare.AppendU8(bare.AppendVersion(dst, layoutVersion), layout)
}

// ParseLayout decodes that row: the layout is below Layouts. A larger number is one of a
// newer version. id is the actor's, for the errors.
func ParseLayout(id ID, row []byte) (layout uint8, err error) {
	what := "layout of actor " + id.String()
	r, err := open(row, layoutVersion, what)
	if err != nil {
		return 0, err
	}
	layout = r.U8()
	if err := r.Done(); err != nil {
		return 0, fmt.Errorf("actorstore: %s: %w: %w", what, err, kv.ErrCorrupt)
	}
	if layout >= Layouts {
		return 0, &kv.FormatError{What: what, Found: uint64(layout), Known: Layouts - 1}
	}
	return layout, nil
}

// A Named is the value of the row that leads from a name to an actor.
type Named struct {
	ID      ID
	Created int64 // when the name was recorded, in ms
}

// Append appends the row.
func (n *Named) Append(dst []byte) []byte {
	dst = bare.AppendFixed(bare.AppendVersion(dst, nameVersion), n.ID.UUID[:])
	return bare.AppendI64(bare.AppendU16(dst, n.ID.Label), n.Created)
}

// ParseNamed decodes the row of a name, which the errors quote.
func ParseNamed(name string, row []byte) (n Named, err error) {
	r, err := open(row, nameVersion, fmt.Sprintf("name %q", name))
	if err != nil {
		return Named{}, err
	}
	copy(n.ID.UUID[:], r.Fixed(len(n.ID.UUID)))
	n.ID.Label, n.Created = r.U16(), r.I64()
	if err := r.Done(); err != nil {
		return Named{}, fmt.Errorf("actorstore: name %q: %w: %w", name, err, kv.ErrCorrupt)
	}
	return n, nil
}
