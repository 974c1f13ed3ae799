package actorstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

// Sentinels of this package; errors.Is tells them apart. The limits of a batch
// are package batch's errors, and come through unchanged.
var (
	// ErrNotFound: nothing is stored under the key. It is kv.ErrNotFound.
	ErrNotFound = kv.ErrNotFound
	// ErrCorrupt: the store holds bytes that its format does not allow; the error
	// says under which key. It is kv.ErrCorrupt.
	ErrCorrupt = kv.ErrCorrupt
	// ErrUnknownActor: the actor, or the name, was never written to.
	ErrUnknownActor = errkind.New("actorstore: unknown actor", errkind.ErrNotFound)
	// ErrLayout: the actor exists with another layout of its keys than the caller asked for, or
	// with one that doesn't exist.
	ErrLayout = errkind.New("actorstore: wrong layout of keys", errkind.ErrUnsupported)
	// ErrInUse: this Store has a handle to the actor already, or a host that is alive
	// has, which comes as an *InUseError.
	ErrInUse = errkind.New("actorstore: actor is in use", errkind.ErrInUse)
	// ErrFenced: another owner has taken the actor over. The handle stays
	// refused, for reading too: what it read might be old.
	ErrFenced = errkind.New("actorstore: fenced", errkind.ErrFenced)
	// ErrLeaseLost: the lease of this host is over and could not be renewed, or the
	// engine's server crashed or was replaced, and the engine couldn't be asked
	// either whose the actor is. Nothing is wrong with the
	// handle: it answers again when the engine does, unless it is ErrFenced then.
	ErrLeaseLost = errors.New("actorstore: lease is over")
	// ErrQuota: the write needs more than the actor's storage; it comes as a
	// *QuotaError. Nothing was written.
	ErrQuota = errkind.New("actorstore: quota exceeded", errkind.ErrQuota)
	// ErrPoisoned: an earlier commit or sync failed in a way that leaves it open
	// what is stored. The handle refuses everything; open the actor again.
	ErrPoisoned = errkind.New("actorstore: poisoned by an earlier failure", errkind.ErrPoisoned)
	// errPagesOnly: a snapshot made by PageSnapshot was asked for a list.
	errPagesOnly = errkind.New("actorstore: a page snapshot has no lists", errkind.ErrUnsupported)
	// ErrClosed: the handle, the snapshot, the view or the Store is closed.
	ErrClosed = reads.ErrClosed
	// ErrNewerFormat: the store was written by a newer version of this package;
	// it comes as a *FormatError. It is kv.ErrNewerFormat.
	ErrNewerFormat = kv.ErrNewerFormat
	// ErrExists: the actor that a fork was to make is there already.
	ErrExists = errors.New("actorstore: actor exists")
	// ErrReadOnly: the Store, or what was asked to write, only reads.
	ErrReadOnly = errkind.New("actorstore: read-only", errkind.ErrReadOnly)
	// ErrKept: a namespace of the handle has a keeper already, see Actor.Keep.
	ErrKept = errkind.New("actorstore: namespace has a keeper", errkind.ErrInUse)
	// ErrNewerSchema: the actor's database is of a version that the caller doesn't know: another version of the program made it. It comes as a *SchemaError.
	ErrNewerSchema = errkind.New("actorstore: the schema of the actor is newer", errkind.ErrNewerFormat)
	// ErrID: a text is not the text of an ID, or an ID is the zero ID.
	ErrID = errors.New("actorstore: bad actor id")
	// ErrName: a name is empty, too long or not UTF-8.
	ErrName = errors.New("actorstore: bad actor name")
	// ErrNameTaken: the name belongs to another actor, or the actor has another name.
	ErrNameTaken = errors.New("actorstore: name is taken")
)

// An openError says which actor couldn't be opened, by its name if the caller gave that.
type openError struct {
	actor string
	err   error
}

// Error has the prefix of this package once, wherever the reason is from.
func (e *openError) Error() string {
	return fmt.Sprintf("actorstore: open actor %s: %s", e.actor, strings.TrimPrefix(e.err.Error(), "actorstore: "))
}

func (e *openError) Unwrap() error { return e.err }

// A TakenError says which actor has a name. It wraps ErrNameTaken.
type TakenError struct {
	Name string
	ID   ID
}

// Error names both.
func (e *TakenError) Error() string {
	return fmt.Sprintf("%v: %q is the name of actor %s", ErrNameTaken, e.Name, e.ID)
}

// Unwrap returns ErrNameTaken.
func (e *TakenError) Unwrap() error { return ErrNameTaken }

// A SchemaError says which version of its schema an actor has, and which is the last one known. It wraps ErrNewerSchema.
type SchemaError struct{ Found, Known uint64 }

// Error names both.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("%v: it has version %d, and %d is known", ErrNewerSchema, e.Found, e.Known)
}

// Unwrap returns ErrNewerSchema.
func (e *SchemaError) Unwrap() error { return ErrNewerSchema }

// A QuotaError says how far a write was over the quota. It wraps ErrQuota.
type QuotaError struct {
	Used   int64 // bytes stored now
	Wanted int64 // bytes that would be stored after the write
	Limit  int64 // bytes allowed
}

// Error names all three numbers.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("%v: %d bytes used, %d wanted, limit %d", ErrQuota, e.Used, e.Wanted, e.Limit)
}

// Unwrap returns ErrQuota.
func (e *QuotaError) Unwrap() error { return ErrQuota }

// A FormatError says which version of a row was found: "store", "head of actor …",
// "name …", "owner of actor …" or "host …". It wraps ErrNewerFormat.
type FormatError = kv.FormatError
