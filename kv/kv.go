// Package kv is the contract of an ordered key-value store with atomic commits: what an
// engine must do (Engine), and what everything above it may rely on.
//
// The contract is small on purpose. An engine stores bytes under bytes in
// bytes.Compare order, reads them one by one or as ranges, newest or from a
// pinned snapshot, and applies a group of changes whole or not at all. Leaving
// interactive transactions out of the required part lets an embedded
// log-structured store and a remote SQL server both be honest engines. What an
// engine can do beyond is a capability of its own: transactions are those of package txn.
//
// kv is not a cache and not a schema: it gives keys no meaning. Package tuple
// makes keys, package actorstore decides what lives where.
package kv

import (
	"context"
	"iter"
)

// An Engine is one open store. All methods are safe for concurrent use, except
// that no call may start after Close.
//
// An engine may keep rows of its own among those of its users: no read shows them, no
// range clears them, and an operation on such a key is ErrInvalid.
//
// Errors that every engine reports with these sentinels (errors.Is):
// ErrNotFound, ErrConflict, ErrIncarnation, ErrTooLarge, ErrInvalid, ErrNotApplied, ErrUnknownOutcome, ErrPoisoned,
// ErrClosed, ErrCorrupt, and on opening ErrStoreInUse, ErrNotAStore and
// ErrNewerFormat.
type Engine interface {
	// Get and Scan of an Engine read the newest applied state.
	Reader

	// Snapshot pins the newest applied state. It is cheap (microseconds, no
	// I/O on a near engine), but an open snapshot keeps old versions alive:
	// close it soon.
	Snapshot(ctx context.Context) (Snapshot, error)

	// Commit applies c whole or not at all and returns when c.Durability holds.
	// It doesn't retain c or any byte slice of it after returning.
	//
	// When a check does not hold the error wraps ErrConflict and nothing is
	// applied. When c is larger than Limits allow it wraps ErrTooLarge and
	// nothing is applied. When it can't be known whether c applied, it wraps
	// ErrUnknownOutcome; Outcome may tell later. A commit that was applied and then
	// couldn't be made durable returns ErrPoisoned, as does every later call. Any
	// other error is ErrNotApplied too (NotApplied makes it so): the engine, and what
	// it has, are as before.
	//
	// What is stored is what the commits leave, those of transactions among them,
	// done one after the other in some order. For that, one thing is asked of
	// callers: a commit with checks is ordered by the keys that it checks. A commit
	// that writes what such a commit clears, a range or a key that may be missing,
	// checks one of the same keys, as an actor's commits check its head. A commit
	// that checks nothing may write and clear what it likes.
	Commit(ctx context.Context, c *Commit) error

	// Outcome tells what became of the commit with this id. An engine remembers
	// at least the last 1,024 commits with an id made through this Engine value;
	// for older ones, and for those of another process, the answer is
	// OutcomeUnknown, and a caller that needs it stores the id in a row of the commit.
	Outcome(ctx context.Context, id CommitID) (Outcome, error)

	// Incarnation says in which incarnation the engine is. It reads nothing. A caller that
	// will rely on a Sync asks before the first commit that it is to cover.
	Incarnation() Incarnation

	// Sync returns when everything that was applied before the call is on stable
	// storage. in is the Incarnation as it was before those commits: if the engine
	// is in another one now, some of them may be gone, and the error wraps
	// ErrUnknownOutcome. What is stored then is a prefix of what was applied, for
	// the caller to look at.
	Sync(ctx context.Context, in Incarnation) error

	// Limits says what one Commit may hold, and how reads behave.
	Limits() Limits

	// Close releases the store. It doesn't imply Sync. Open snapshots must be
	// closed before; a second Close returns nil.
	Close() error
}

// A Reader reads one state of a store.
type Reader interface {
	// Get appends the value of key to dst and returns the extended slice; when
	// dst has room for the value nothing is allocated. A missing key is
	// ErrNotFound, and then dst is returned unchanged. Neither slice is retained.
	Get(ctx context.Context, key, dst []byte) ([]byte, error)

	// Scan yields the entries of r in key order (or its reverse), lazily. The
	// slices of an Entry are the engine's and valid until the next iteration:
	// copy what is kept. An error is yielded once, with a zero Entry, and ends
	// the sequence. The state that is read is fixed when iteration starts.
	Scan(ctx context.Context, r Range) iter.Seq2[Entry, error]
}

// A Snapshot is a Reader of one pinned state, safe for concurrent use.
type Snapshot interface {
	Reader
	// Close releases the pinned state. No read may be running or start after.
	// A second Close returns nil.
	Close() error
}

// An Entry is one key with its value.
type Entry struct {
	Key, Value []byte
}

// A Range selects the keys in [Start, End). A nil Start begins with the first
// key, a nil End has no upper bound; an empty non-nil End, or an End ≤ Start,
// selects nothing.
type Range struct {
	Start, End []byte
	// Limit is the largest number of entries yielded; 0 means all.
	Limit int
	// Reverse yields the entries in descending key order: with a Limit, the
	// highest ones.
	Reverse bool
}

// A Commit is a group of changes that is applied whole or not at all.
type Commit struct {
	// ID identifies the commit to Outcome. The zero ID means: not remembered.
	ID CommitID

	// Checks must all hold against the newest applied state, evaluated
	// atomically with the application, or nothing is applied (ErrConflict).
	Checks []Check

	// Ops are applied in order: a later one wins over an earlier one.
	Ops []Op

	// In is the Incarnation in which alone c may be applied, 0 for any: in another one
	// nothing is, and the error wraps ErrIncarnation. It is for a commit that follows
	// from what was read or made durable in that incarnation: so it is never stored
	// without that.
	In Incarnation

	// Durability says what Commit waits for; the zero value is Durable.
	Durability Durability

	// OnApply, when not nil, is called once as soon as the changes are visible
	// to readers, before the wait for durability: on the caller's goroutine,
	// with no lock of the engine held. It isn't called for a commit that did
	// not apply or whose outcome is unknown. Commits started after it returned
	// are ordered after this one, also on stable storage.
	OnApply func()
}

// An Incarnation is a time in which an engine keeps all that it has applied. Another one
// begins when commits that were Applied may be gone while the engine is still open:
// its server has crashed, or was replaced by one that may know less. An engine in the
// process of its users has one only, which is 0: what ends it ends them, or poisons it.
//
// Incarnations of an engine only grow, and mean nothing to another one, not even to
// one that is open on the same store.
type Incarnation uint64

// Durability is what a Commit waits for.
type Durability uint8

const (
	// Durable: the commit, and with it every commit applied before it in the same
	// Incarnation, is on stable storage when Commit returns. Concurrent commits
	// share the fsync.
	Durable Durability = iota
	// Applied: the commit is visible to every reader of the engine. After a
	// crash it is there only if everything applied before it is there too
	// (durability has no holes). An engine that can't promise that order
	// treats Applied as Durable.
	Applied
)

// A Check is a precondition of a Commit on one key.
type Check struct {
	Key []byte
	// Value is what the key must hold, compared byte for byte.
	Value []byte
	// Absent means that the key must not exist; Value is ignored then.
	Absent bool
}

// OpKind says what an Op does.
type OpKind uint8

const (
	// OpSet stores Value under Key.
	OpSet OpKind = iota
	// OpClear removes Key; a missing key is fine.
	OpClear
	// OpClearRange removes every key in [Key, Value): Value is the end of the
	// range, exclusive. It must not be empty; one ≤ Key removes nothing.
	OpClearRange
)

// An Op is one change of a Commit. One that breaks a rule stated here makes the
// whole commit ErrInvalid.
type Op struct {
	Kind OpKind
	// Key has at least one byte, because not every engine can store the empty
	// key; reading the empty key finds nothing. Only for an OpClearRange, whose
	// start it is, it may be empty.
	Key []byte
	// Value is the value of an OpSet, the exclusive end of an OpClearRange.
	Value []byte
}

// Set returns the Op that stores value under key. It doesn't copy.
func Set(key, value []byte) Op { return Op{OpSet, key, value} }

// Clear returns the Op that removes key. It doesn't copy.
func Clear(key []byte) Op { return Op{OpClear, key, nil} }

// ClearRange returns the Op that removes every key in [start, end). It doesn't copy.
func ClearRange(start, end []byte) Op { return Op{OpClearRange, start, end} }

// A CommitID identifies a commit; ids are random, so that they are unique
// without coordination. The zero CommitID identifies nothing.
type CommitID [16]byte

// An Outcome is what is known about a commit.
type Outcome uint8

const (
	// OutcomeUnknown: the engine can't say (any more).
	OutcomeUnknown Outcome = iota
	// OutcomeApplied: the commit applied. If it was not Durable a later Incarnation may
	// have lost it all the same.
	OutcomeApplied
	// OutcomeNotApplied: the commit did not apply, and never will.
	OutcomeNotApplied
)

// String returns "unknown", "applied" or "not applied".
func (o Outcome) String() string {
	switch o {
	case OutcomeApplied:
		return "applied"
	case OutcomeNotApplied:
		return "not applied"
	}
	return "unknown"
}

// Limits are the bounds of an engine; 0 means no bound worth naming.
type Limits struct {
	// Key and Value bound one entry, in bytes.
	Key, Value int
	// Ops and Bytes bound one Commit: the number of its Ops, and the sum of
	// their keys and values in bytes. Bytes bounds the sum of its Checks as well,
	// apart from them; an engine may take more of those.
	Ops, Bytes int
	// Far says that a read crosses a network, so that reading ahead and
	// caching above the engine pay.
	Far bool
}
