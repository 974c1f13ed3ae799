package actorstore

import (
	"fmt"
	"math"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/tuple"
)

// The rows of a store. Their keys begin with the type code of a text (02) and
// those of actors with that of an integer (14), so they can't meet. The types below are
// their keys; the table at the top of keys.go says what they hold.
const (
	rowsName    = "greenroom"
	rowsVersion = 1
	rowFormat   = 0
	rowHead     = 1
	rowName     = 2
	rowHost     = 3
	rowNote     = 4
	rowWake     = 5

	// Behind the id of a head: what else is known of the actor. One scan reads all.
	headItself = 0 // no number at all
	headName   = 1
	headOwner  = 2
	headHints  = 3
	headLayout = 4
	headWake   = 5
	headParts  = headWake + 1  // their number
	lastPart   = math.MaxInt64 // sorts behind all of them
)

// ofKind is the subspace of the rows of one kind.
type ofKind struct{ Kind uint64 }

func (s *ofKind) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion)
	e.Uint64(&s.Kind)
}

// recordOf is the subspace of what is known of an actor, and the key of its head.
type recordOf struct{ ID ID }

func (s *recordOf) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, rowHead)
	e.ID((*tuple.UUID)(&s.ID.UUID), &s.ID.Label)
}

// A recordRow is the key of one row of it: Part is headItself to headWake.
// What it holds depends on that, see record.add.
type recordRow struct {
	recordOf
	Part int64
}

func (k *recordRow) Elements(e *keys.Elements) {
	k.recordOf.Elements(e)
	if e.More(k.Part != headItself) {
		e.Int64(&k.Part)
		e.Require(k.Part != headItself)
	}
}

func (recordRow) Value() keys.Codec[[]byte] { return keys.Bytes() }

// known says whether this package knows what the row holds.
func (k *recordRow) known() bool { return k.Part >= headItself && k.Part < headParts }

// A nameRow is the key of the row that leads from a name to an actor.
type nameRow struct{ Name string }

func (k *nameRow) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, rowName)
	e.String(&k.Name)
}

func (k nameRow) Value() keys.Codec[layout.Named] { return namedCodec(k) }

// namedCodec is the codec of a name's row; it knows the name for the errors.
type namedCodec nameRow

func (c namedCodec) Append(dst []byte, n layout.Named) ([]byte, error) { return n.Append(dst), nil }
func (c namedCodec) Decode(b []byte) (layout.Named, error)             { return layout.ParseNamed(c.Name, b) }

// A leaseRow is the key of a host's lease.
type leaseRow struct{ Host HostID }

func (k *leaseRow) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, rowHost)
	e.Fixed(k.Host[:])
}

func (leaseRow) Value() keys.Codec[[]byte] { return keys.Bytes() }

// appendRowKey appends a key. It panics if it can't be packed: names are checked.
func appendRowKey[K any, P keys.Pointer[K]](dst []byte, key K) []byte {
	dst, err := keys.Append[K, P](dst, key)
	if err != nil {
		panic(fmt.Sprintf("actorstore: %v", err))
	}
	return dst
}

func appendRow(dst []byte, row uint64) []byte { return appendRowKey(dst, ofKind{row}) }

// formatKey returns the key of the format row.
func formatKey() []byte { return appendRow(nil, rowFormat) }

// headKey returns the key of an actor's head.
func headKey(id ID) []byte { return appendRowKey(nil, recordOf{id}) }

// headNameKey returns the key of the row with an actor's name. It sorts right
// behind the head, so that one scan reads both.
func headNameKey(id ID) []byte { return appendRowKey(nil, recordRow{recordOf{id}, headName}) }

// headOwnerKey returns the key of the row with an actor's owner, behind its name.
func headOwnerKey(id ID) []byte { return appendRowKey(nil, recordRow{recordOf{id}, headOwner}) }

// headHintsKey returns the key of the row with an actor's hints.
func headHintsKey(id ID) []byte { return appendRowKey(nil, recordRow{recordOf{id}, headHints}) }

// headLayoutKey returns the key of the row with the layout of an actor's keys.
func headLayoutKey(id ID) []byte { return appendRowKey(nil, recordRow{recordOf{id}, headLayout}) }

// headWakeKey returns the key of the row that says when an actor must be woken, the last of its record.
func headWakeKey(id ID) []byte { return appendRowKey(nil, recordRow{recordOf{id}, headWake}) }

// hostKey returns the key of a host's lease.
func hostKey(id HostID) []byte { return appendRowKey(nil, leaseRow{id}) }

// nameKey returns the key of the row that leads from a name to an actor.
func nameKey(name string) []byte { return appendRowKey(nil, nameRow{name}) }

// headRange returns the range of the head of one actor and what stands behind it.
func headRange(id ID) (start, end []byte) {
	start = headKey(id)
	return start, layout.AppendAbove(headKey(id))
}

// rowRange returns the range of all rows of a kind.
func rowRange(row uint64) (start, end []byte) { return keys.Sub(ofKind{row}).Range() }

// parseHeadKey decodes the key of a head, or of one of the rows behind it: part says
// which.
func parseHeadKey(key []byte) (id ID, part int64, ok bool) {
	k, err := keys.Parse[recordRow](key)
	return k.ID, k.Part, err == nil && k.known()
}

// parseNameKey decodes the key of a name row.
func parseNameKey(key []byte) (name string, ok bool) {
	k, err := keys.Parse[nameRow](key)
	return k.Name, err == nil
}

// parseHostKey decodes the key of a host's lease.
func parseHostKey(key []byte) (id HostID, ok bool) {
	k, err := keys.Parse[leaseRow](key)
	return k.Host, err == nil
}
