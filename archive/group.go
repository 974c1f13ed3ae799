package archive

import (
	"bytes"
	"encoding/binary"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A group is the rows that are read together when one actor is: those of the actor, or of a name. Its first byte says which kind it is,
// and groups are in the order of their bytes.
type group string

const (
	// wide is for commits with an operation on the rows of more than one group: all of such a commit is in it.
	wide group = "\x00"
	// rest is for what is neither of an actor nor of a name.
	rest group = "\x01"

	nameGroup  = 2 // and the name
	actorGroup = 3 // and its id: the UUID, and the label as 2 bytes, big-endian
)

// ofActor is the group of an actor.
func ofActor(id actorstore.ID) group { return group(appendActor(nil, id)) }

// appendActor appends it.
func appendActor(dst []byte, id actorstore.ID) []byte {
	return binary.BigEndian.AppendUint16(append(append(dst, actorGroup), id.UUID[:]...), id.Label)
}

// ofName is the group of a name.
func ofName(name string) group { return group(append([]byte{nameGroup}, name...)) }

// appendGroup appends the group of an operation, and returns what rows begin with that are in it as well, nil if it can't tell.
func appendGroup(dst []byte, op *pebblekv.RecordOp) (g, prefix []byte) {
	id, n, ok := actorstore.RowActor(op.Key)
	switch {
	case ok && op.End == nil:
		return appendActor(dst, id), op.Key[:n]
	case ok && bytes.Compare(op.End, kv.PrefixEnd(op.Key[:n])) <= 0:
		return appendActor(dst, id), nil
	case ok:
		return append(dst, wide...), nil
	case op.End == nil:
		if name, ok := actorstore.RowName(op.Key); ok {
			return append(append(dst, nameGroup), name...), nil
		}
		return append(dst, rest...), nil
	case actorstore.Outside(op.Key, op.End):
		return append(dst, rest...), nil
	}
	return append(dst, wide...), nil
}
