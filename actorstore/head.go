package actorstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
)

// Versions of the rows of a store, each written before its row.
const (
	formatVersion = 1
	headVersion   = 1
	nameVersion   = 1
	ownerVersion  = 1
	hostVersion   = 1
	layoutVersion = 1
	wakeVersion   = 1
)

// A head is what the store knows of an actor as a whole. Every commit of the
// actor checks the row by value and rewrites it, which makes the row the fence, the
// quota's counter and the commit log in one.
type head struct {
	Epoch   uint64      // counts the owners
	Seq     uint64      // counts the commits
	Used    int64       // Σ(key + 2 + value) over all keys
	Last    kv.CommitID // the last commit
	Created int64       // when the actor was first written to, Unix ms
}

// headSize is the length of a head row in bytes.
const headSize = 2 + 8 + 8 + 8 + 16 + 8

func (h *head) append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, headVersion)
	dst = bare.AppendU64(dst, h.Epoch)
	dst = bare.AppendU64(dst, h.Seq)
	dst = bare.AppendU64(dst, uint64(h.Used))
	dst = bare.AppendFixed(dst, h.Last[:])
	return bare.AppendI64(dst, h.Created)
}

// parseHead decodes a head row.
func parseHead(id ID, row []byte) (h head, err error) {
	r, err := open(row, headVersion, "head of actor "+id.String())
	if err != nil {
		return head{}, err
	}
	h.Epoch, h.Seq = r.U64(), r.U64()
	if h.Used = int64(r.U64()); h.Used < 0 {
		r.Fail("%d bytes used", uint64(h.Used))
	}
	copy(h.Last[:], r.Fixed(len(h.Last)))
	h.Created = r.I64()
	if err := r.Done(); err != nil {
		return head{}, fmt.Errorf("actorstore: head of actor %s: %w: %w", id, err, ErrCorrupt)
	}
	return h, nil
}

// open returns a reader of a row behind its version, which must be known.
func open(row []byte, known uint16, what string) (*bare.Reader, error) {
	v, body, err := bare.Version(row)
	switch {
	case err != nil:
		return nil, fmt.Errorf("actorstore: %s: %w: %w", what, err, ErrCorrupt)
	case v > known:
		return nil, &FormatError{What: what, Found: uint64(v), Known: uint64(known)}
	case v == 0: // versions count from 1: these are zeros where a row should be
		return nil, fmt.Errorf("actorstore: %s: version 0: %w", what, ErrCorrupt)
	}
	return bare.NewReader(body), nil
}

// appendFormat appends the format row.
func appendFormat(dst []byte, created int64) []byte {
	return bare.AppendI64(bare.AppendVersion(dst, formatVersion), created)
}

// checkFormat says whether this package can read a store with this format row.
func checkFormat(row []byte) error {
	r, err := open(row, formatVersion, "store")
	if err != nil {
		return err
	}
	r.I64()
	if err := r.Done(); err != nil {
		return fmt.Errorf("actorstore: format row: %w: %w", err, ErrCorrupt)
	}
	return nil
}

// appendRow appends the row that says that an actor has the layout.
func (l Layout) appendRow(dst []byte) []byte {
	return bare.AppendU8(bare.AppendVersion(dst, layoutVersion), uint8(l))
}

// parseLayout decodes that row.
func parseLayout(id ID, row []byte) (Layout, error) {
	what := "layout of actor " + id.String()
	r, err := open(row, layoutVersion, what)
	if err != nil {
		return 0, err
	}
	l := Layout(r.U8())
	if err := r.Done(); err != nil {
		return 0, fmt.Errorf("actorstore: %s: %w: %w", what, err, ErrCorrupt)
	}
	if l >= layouts {
		return 0, &FormatError{What: what, Found: uint64(l), Known: layouts - 1}
	}
	return l, nil
}

// A named is the value of a name row.
type named struct {
	ID      ID
	Created int64 // when the name was recorded, Unix ms
}

func (n *named) append(dst []byte) []byte {
	dst = bare.AppendFixed(bare.AppendVersion(dst, nameVersion), n.ID.UUID[:])
	return bare.AppendI64(bare.AppendU16(dst, n.ID.Label), n.Created)
}

func parseNamed(name string, row []byte) (n named, err error) {
	r, err := open(row, nameVersion, fmt.Sprintf("name %q", name))
	if err != nil {
		return named{}, err
	}
	copy(n.ID.UUID[:], r.Fixed(len(n.ID.UUID)))
	n.ID.Label, n.Created = r.U16(), r.I64()
	if err := r.Done(); err != nil {
		return named{}, fmt.Errorf("actorstore: name %q: %w: %w", name, err, ErrCorrupt)
	}
	return n, nil
}

// A record is what a store has recorded about an actor.
type record struct {
	head  head
	row   []byte // the head row, nil when there is none
	name  string
	owner []byte // the row of the owner, nil when there is none
	hints []byte // what is read first, nil when nobody has said

	layout Layout
	wake   *wakeRow // nil when nothing wakes it
}

// written says whether the actor exists. A head of no commit is a claim: somebody
// has opened the actor, and nobody has written to it.
func (rec *record) written() bool { return rec.row != nil && rec.head.Seq > 0 }

// loadRecord reads everything that is known of an actor with one scan.
func loadRecord(ctx context.Context, src kv.Reader, id ID) (rec record, err error) {
	// Rows of no known kind are read as well: they are damage, and add says so.
	start, end := headRange(id)
	for e, err := range src.Scan(ctx, kv.Range{Start: start, End: end}) {
		if err == nil {
			err = rec.add(id, e)
		}
		if err != nil {
			return record{}, err
		}
	}
	return rec, rec.check(id)
}

// check says what can't be about a record that was read to its end.
func (rec *record) check(id ID) error {
	if rec.row == nil && rec.name != "" {
		return fmt.Errorf("actorstore: actor %s has a name and no head: %w", id, ErrCorrupt)
	}
	return nil
}

// add takes one row of an actor's record. It copies what it keeps.
func (rec *record) add(id ID, e kv.Entry) (err error) {
	k, err := keys.Parse[recordRow](e.Key)
	if err != nil || k.ID != id {
		return fmt.Errorf("actorstore: row %x is no head of actor %s: %w", e.Key, id, ErrCorrupt)
	}
	return rec.part(k, append([]byte{}, e.Value...))
}

// part takes one row of an actor's record, and keeps it.
func (rec *record) part(k recordRow, row []byte) (err error) {
	switch k.Part {
	case headItself:
		rec.row = row
		rec.head, err = parseHead(k.ID, row)
	case headName:
		if rec.name = string(row); checkName(rec.name) != nil {
			return fmt.Errorf("actorstore: name of actor %s: %w", k.ID, ErrCorrupt)
		}
	case headOwner:
		// Read by who needs it: without one, or with one of nobody's, an actor is as
		// good as any.
		rec.owner = row
	case headHints:
		rec.hints = row
	case headLayout:
		rec.layout, err = parseLayout(k.ID, row)
	case headWake:
		rec.wake, err = parseWake(k.ID, row)
	default:
		return fmt.Errorf("actorstore: row %d of actor %s is of no known kind: %w", k.Part, k.ID, ErrCorrupt)
	}
	return err
}

// loadNamed reads the row of a name; ErrUnknownActor when there is none.
func loadNamed(ctx context.Context, src kv.Reader, name string) (named, error) {
	n, ok, err := keys.Find(ctx, src, nameRow{name})
	if err == nil && !ok {
		err = ErrUnknownActor
	}
	return n, rowError(err)
}

// rowError is an error of typed keys in the words of this package: what a row holds
// says by itself whose it is, and a row that is none is damage.
func rowError(err error) error {
	var of *keys.Error
	switch {
	case errors.As(err, &of):
		return of.Err
	case errors.Is(err, keys.ErrOtherKey):
		return fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	return err
}
