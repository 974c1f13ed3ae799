package txn

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

// What transactions return beside the errors of an engine.
var (
	// ErrTooOld: a transaction read or committed later after its first read than it
	// may. Nothing was applied; trying again may be faster.
	ErrTooOld = errkind.New("txn: transaction is too old", errkind.ErrSnapshotTooOld)
	// ErrCanceled: the transaction was canceled; nothing was applied.
	ErrCanceled = errors.New("txn: transaction is canceled")
	// ErrUsedAfterCommit: something was asked of a transaction after its Commit,
	// whatever that returned.
	ErrUsedAfterCommit = errkind.New("txn: transaction is used after its commit", errkind.ErrClosed)
	// ErrManaged: Commit of a transaction that Update or View will commit itself.
	ErrManaged = errors.New("txn: transaction is committed by Update or View")
	// ErrReadOnly: a change in a transaction of View.
	ErrReadOnly = errkind.New("txn: transaction is read-only", errkind.ErrReadOnly)
	// ErrStale: another commit changed what a transaction of CommitWith read. It is of the kind ErrConflict, and
	// not kv.ErrConflict, which is about the checks of the engine's commit there.
	ErrStale = errkind.New("txn: another commit changed what the transaction read", errkind.ErrConflict)
	// ErrUnreadable: what was read depends on the versionstamp of the transaction
	// itself, which is made when it commits.
	ErrUnreadable = errors.New("txn: unreadable before the commit")
	// ErrNoVersionstamp: the transaction has no versionstamp: it hasn't committed,
	// or it changed nothing.
	ErrNoVersionstamp = errors.New("txn: transaction has no versionstamp")
	// ErrKeyTooLarge: a key is over the limit of a transaction. It is kv.ErrTooLarge.
	ErrKeyTooLarge = fmt.Errorf("%w: key", kv.ErrTooLarge)
	// ErrValueTooLarge: a value is over the limit of a transaction. It is kv.ErrTooLarge.
	ErrValueTooLarge = fmt.Errorf("%w: value", kv.ErrTooLarge)
	// ErrTxTooLarge: a transaction is over its limit. It is kv.ErrTooLarge.
	ErrTxTooLarge = fmt.Errorf("%w: transaction", kv.ErrTooLarge)
)

// errLost: the outcome of a commit was unknown, and was found out.
var errLost = errors.New("txn: connection lost before the transaction was applied")

// Retryable reports whether err says that a transaction was not applied, and might be
// when it is run again from its beginning: kv.ErrConflict, ErrTooOld, and an outcome that
// was unknown until the engine found out that nothing was applied. An outcome that
// stays unknown isn't: it may have been applied.
func Retryable(err error) bool {
	return !errors.Is(err, kv.ErrUnknownOutcome) &&
		(errors.Is(err, kv.ErrConflict) || errors.Is(err, ErrTooOld) || errors.Is(err, errLost))
}
