package txn

import (
	"context"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// A Transactor is an optional capability of an Engine: serializable transactions. It
// is the seam below DB and Tx, which hold what is the same for every engine: the
// view of a transaction's own writes, limits, retrying, watches. An engine adds what
// only it can do: reads of one pinned state, and a commit that lands only if the
// transaction could have run at that moment, alone.
//
// A decorator of an engine passes the capability on: it implements Transactor, and
// TxCaps is 0 if the engine below has none.
type Transactor interface {
	// TxCaps says what the engine offers. Without Serializable it offers nothing.
	TxCaps() Caps

	// Attempt begins one attempt at a transaction. It may pin its state at once or
	// at its first read; it must not be later. DB calls it before the first read of
	// a transaction, or, if there was none, just before the commit.
	Attempt(ctx context.Context, opts AttemptOptions) (Attempt, error)

	// Watch returns a channel that receives after every commit, of whatever kind,
	// that may have changed key since the call; what isn't received is merged into
	// one. It may receive although nothing changed, but never misses a change. stop
	// ends it; nothing is received any more then, and the channel isn't closed. An
	// engine without Watching returns kv.ErrUnsupported.
	Watch(key []byte) (changed <-chan struct{}, stop func(), err error)

	// EstimatedSize returns about how many bytes are stored under the keys of
	// [start, end); a nil end means up to the last key. An engine without Sizes returns
	// kv.ErrUnsupported.
	EstimatedSize(ctx context.Context, start, end []byte) (int64, error)

	// Checkpoint writes a copy of the newest applied state into the new directory
	// dir, which can then be opened as a store of its own. An engine without
	// Checkpoints returns kv.ErrUnsupported.
	Checkpoint(ctx context.Context, dir string) error
}

// TxCaps is a set of capabilities of a Transactor.
type Caps uint32

const (
	// Serializable: Attempt works. All others say more about it, or are of use
	// only beside it.
	Serializable Caps = 1 << iota
	// Exact: conflicts are those that Commit describes and no others. Without it
	// an engine may find conflicts of its own as well: between blind writes of the
	// same key or atomic operations on it, or for what was read through Tx.Snapshot.
	Exact
	// ConflictRanges: spans that a transaction declares count: Commit.Reads
	// (those that it didn't read) and Commit.Writes.
	ConflictRanges
	// Versionstamps: OpStampKey and OpStampValue work, and Commit returns a stamp.
	Versionstamps
	// Watching: Watch works.
	Watching
	// Sizes: EstimatedSize works.
	Sizes
	// Checkpoints: Checkpoint works.
	Checkpoints
)

// Has reports whether all of caps are in c.
func (c Caps) Has(caps Caps) bool { return c&caps == caps }

// TransactorOf returns the transactions of an engine that offers them, and nil for
// every other one.
func TransactorOf(e kv.Engine) Transactor {
	if t, ok := e.(Transactor); ok && t.TxCaps().Has(Serializable) {
		return t
	}
	return nil
}

// AttemptOptions say what an Attempt is for.
type AttemptOptions struct {
	// ReadOnly: Commit will come without operations and spans, or not at all. All
	// that is read must be of one committed state.
	ReadOnly bool
	// MaxAge is how long after its pinning the attempt may still read and commit;
	// an engine that keeps something for open attempts (old versions, conflicts)
	// may let go of it then, and returns ErrTooOld from every later call. 0 means
	// for ever.
	MaxAge time.Duration
	// Now is the clock for MaxAge; never nil.
	Now func() time.Time
}

// An Attempt is one attempt at a transaction. It is used by one goroutine at a time,
// but a Get or another Scan may come while a Scan is being iterated.
//
// Its reads are of one pinned state, which includes every commit acknowledged before
// the call of Attempt. They don't see what the transaction itself writes: that reaches
// the engine only with Commit. An engine that tracks reads by itself may count all of
// them. An error that wraps kv.ErrConflict, of a read too, means that the transaction
// must be tried again from its beginning.
type Attempt interface {
	kv.Reader

	// Commit ends the attempt. When it returns nil, c is applied and durable, as one
	// commit at one moment, and its stamp is returned (zero when the engine has no
	// Versionstamps or c has no operations and no Writes).
	//
	// Errors are those of Engine.Commit: kv.ErrConflict when another commit got between
	// (nothing was applied), ErrTooOld, kv.ErrUnknownOutcome when it can't be known, for
	// which Engine.Outcome with c.ID may have the answer later, and so on. Commit
	// keeps neither c nor its bytes.
	//
	// c may be empty. An engine that finds conflicts by c.Reads has nothing to do
	// then: all reads are of one state. Others may still have to end a transaction.
	Commit(ctx context.Context, c *Commit) (Stamp, error)

	// Close gives the attempt up if Commit hasn't been called, and releases what it
	// holds. A second Close returns nil. It must be called, also after Commit.
	Close() error
}

// A Commit is what a transaction commits.
//
// The rule of conflicts: the commit fails iff a commit that isn't part of the pinned
// state has written into one of Reads. What a commit writes are the keys and ranges
// of its operations, and its Writes. Commits of Engine.Commit count as well.
type Commit struct {
	// ID identifies the commit to Engine.Outcome; never zero.
	ID kv.CommitID
	// Reads are what the transaction read, exactly as far as the outcome depended on
	// it, and what it declared as read. They are sorted and disjoint. An engine that
	// tracks reads by itself needs only the declared ones, see Declared.
	Reads []Span
	// Declared are those of Reads that the transaction declared by AddReadConflictKey
	// and AddReadConflictRange, in the order of the calls.
	Declared []Span
	// Writes are spans that count as written though no operation does it. They are
	// sorted and disjoint.
	Writes []Span
	// Ops are applied in order. As long as none is a OpStampKey they come in this
	// form: first ranges, disjoint and ascending; then keys, ascending, each with
	// one OpSet, OpClear or OpStampValue, or with one or more OpAtomic, which may also
	// follow its OpStampValue.
	Ops []Op
}

// A Span is a half-open range of keys, [Start, End); a nil End means no upper bound, a
// nil Start the first key.
type Span struct {
	Start, End []byte
}

// Kinds of Op, beside OpSet, OpClear, and OpClearRange, whose Value is not empty.
const (
	// OpAtomic replaces the value of Key by what Mutation makes of it and of Value,
	// evaluated against the state that the commit is applied to.
	OpAtomic kv.OpKind = kv.OpClearRange + 1 + iota
	// OpStampKey stores Value under Key, of which the 10 bytes at Offset are replaced
	// by the stamp of the commit.
	OpStampKey
	// OpStampValue stores Value under Key, after the 10 bytes at Offset of Value are
	// replaced by the stamp of the commit.
	OpStampValue
)

// A Op is one change of a Commit.
type Op struct {
	Kind     kv.OpKind
	Mutation Mutation // of a OpAtomic
	Key      []byte
	Value    []byte
	Offset   int // of the stamp, in Key or Value
}

// A Stamp is the place of a commit among all others of its store: 8 bytes of a
// version that grows with every commit of transactions and never falls, not even
// over restarts, and 2 bytes of an order within it, both big-endian. A later commit
// has a larger stamp. It is what a versionstamp of the tuple layer begins with.
type Stamp [10]byte
