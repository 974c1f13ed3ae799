package greenroom

import (
	"errors"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// The kinds of errors that a caller branches on, with errors.Is. An error of any package of
// the module says more, in words of its own, and is of one of these kinds if there is
// something to be done about it.
var (
	// ErrNotFound: the key, actor or store doesn't exist. Make it, or go by a default.
	ErrNotFound = errkind.ErrNotFound
	// ErrInUse: another handle, process or host has the actor, or the store. Wait for it
	// (ActorOptions.Wait), take the actor (Force), or ask its owner.
	ErrInUse = errkind.ErrInUse
	// ErrConflict: something else changed it first, and nothing was written. Try again.
	ErrConflict = errkind.ErrConflict
	// ErrQuota: the actor would store more than Options.Limits.Storage. Delete something: a
	// transaction that makes the actor smaller still lands.
	ErrQuota = errkind.ErrQuota
	// ErrNoSpace: the disk, or a quota of the system, is full, and nothing was written. Reads go on, and so does the handle: make room, and
	// try again.
	ErrNoSpace = errkind.ErrNoSpace
	// ErrTooLarge: one thing, or what must land together, is larger than a limit. Cut it up.
	ErrTooLarge = errkind.ErrTooLarge
	// ErrUnknownOutcome: the connection to the engine broke during a commit, which has
	// landed or not. Close the actor, open it again, and look.
	ErrUnknownOutcome = errkind.ErrUnknownOutcome
	// ErrFenced: another host has taken the actor over. Close it. What was durable is there.
	ErrFenced = errkind.ErrFenced
	// ErrPoisoned: after an earlier failure it is not certain what is stored. Close the
	// actor, or the store, and open it again.
	ErrPoisoned = errkind.ErrPoisoned
	// ErrClosed: the store, actor or transaction is over. Open it again.
	ErrClosed = errkind.ErrClosed
	// ErrReadOnly: it is for reading alone.
	ErrReadOnly = errkind.ErrReadOnly
	// ErrUnsupported: the engine, or the database in its journal mode, can't do that.
	ErrUnsupported = errkind.ErrUnsupported
	// ErrNewerFormat: a newer version of the module wrote it. Upgrade.
	ErrNewerFormat = errkind.ErrNewerFormat
	// ErrSnapshotTooOld: the state that is read is not kept any more. Begin the read anew.
	ErrSnapshotTooOld = errkind.ErrSnapshotTooOld
	// ErrCorrupt: what is stored is damaged. Restore it; greenroom check says where.
	ErrCorrupt = errkind.ErrCorrupt
)

// ErrNested: the function of an Update called Update, Close, or a write through SQL of the
// same actor, which would wait for the function. It uses its Tx instead.
var ErrNested = errors.New("greenroom: an update of the actor within its own update; use the Tx")
