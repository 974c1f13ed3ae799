package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// Key layout:
//
//	("greenroom.host", 1, name)        a row of a store of before: the actor of that name (type,
//	                                   slash, key) must be woken some time. See alarms.go
//	("greenroom.host", 4, type)        v1: a host ran the type with migrations. Empty
//
// What actors send each other a host keeps among their own keys: package mailrow. So it does what calls with an idempotency key
// have returned: package callrow.

// oldAlarms are rows of stores that had no index of when actors must be woken.
var oldAlarms = tuple.NewSubspace(tuple.Tuple{"greenroom.host", int64(1)})

// versionedTypes are rows that say which types a host ran with migrations. A host whose type has none is of before the first one then,
// and takes no actor whose database has a version. A host writes the row before it brings up an actor of the type, and the row stays.
var versionedTypes = tuple.NewSubspace(tuple.Tuple{"greenroom.host", int64(4)})

const versionedVersion = 1

func versionedKey(typ string) []byte { return versionedTypes.Pack(tuple.Tuple{typ}) }

// versionedType says whether the row of a type is there.
func versionedType(ctx context.Context, r kv.Reader, typ string) (bool, error) {
	row, err := r.Get(ctx, versionedKey(typ), nil)
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		v, rest, verr := bare.Version(row)
		switch {
		case verr == nil && v > versionedVersion:
			err = &kv.FormatError{What: "row of a type with migrations", Found: uint64(v), Known: versionedVersion}
		case verr != nil || v < versionedVersion || len(rest) > 0:
			err = fmt.Errorf("%w: the row is %x", kv.ErrCorrupt, row)
		}
	}
	if err != nil {
		return false, fmt.Errorf("host: read whether type %q has migrations: %w", typ, err)
	}
	return true, nil
}

// parseOldAlarm returns the name of the actor whose row it is.
func parseOldAlarm(key []byte) (name string, err error) {
	t, err := oldAlarms.Unpack(key)
	if err == nil && len(t) == 1 {
		if name, ok := t[0].(string); ok {
			return name, nil
		}
	}
	return "", fmt.Errorf("host: row of an actor to be woken: %w: key %x", kv.ErrCorrupt, key)
}

// noteCreated is the key of the note that says that Create has landed. Its first byte is
// actorstore.NamespaceHost, which makes it the host's.
const noteCreated = "host created"

// The values of that note. Without the note, Create hasn't landed: the actor may belong to
// another program, or to this one before its type had a Create.
var (
	noteBegun = []byte{0}
	noteDone  = []byte{1}
)

// creationNote returns the value of the note that snap shows, nil without a note.
func creationNote(ctx context.Context, snap *actorstore.Snapshot) ([]byte, error) {
	for n, err := range snap.Notes(ctx, []byte(noteCreated)) {
		return bytes.Clone(n.Value), err
	}
	return nil, nil
}
