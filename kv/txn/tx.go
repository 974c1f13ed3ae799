package txn

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/greenroomdb/greenroom/internal/overlay"
	"github.com/greenroomdb/greenroom/kv"
)

// A Tx is one transaction. Its reads are of the state that was the newest one at its
// first read (the first that its own writes don't answer), with its own writes on top;
// its writes are there for others when it has committed. It is for one goroutine at a time; it may be used within a loop over one
// of its own scans, which goes on as it was when it began.
//
// Get and Scan are serializable: the transaction only commits if what they have seen
// is still so, to the letter: the values that were returned, and that there was
// nothing in between. A scan that was stopped early, or by its limit, has seen no
// further than its last entry. What the transaction's own writes alone decide isn't
// seen at all. Snapshot reads without that.
type Tx struct {
	db       *DB
	attempt  Attempt // nil until something is asked of the engine
	readOnly bool
	managed  bool // Update or View will commit
	metered  bool // by Begin: the end is counted here
	state    txState
	begun    time.Time // for the metrics
	since    time.Time // of the first read

	own  overlay.Map[pending]
	room arena
	log  journal
	// unreadable are the spans in which versionstamped keys will be.
	unreadable []Span

	reads, declared, writes []Span
	scans                   []*txScan // that are running
	size                    int
	bytesRead               int64

	stamp   Stamp
	stamped bool
	failed  bool // Commit returned an error
}

// A txState says whether a transaction can be used.
type txState uint8

const (
	txOpen txState = iota
	txCommitted
	txCanceled
)

func newTx(db *DB, readOnly bool) *Tx { return &Tx{db: db, readOnly: readOnly} }

// usable returns the reason why nothing can be asked of the transaction any more.
func (tx *Tx) usable() error {
	switch tx.state {
	case txCommitted:
		return ErrUsedAfterCommit
	case txCanceled:
		return ErrCanceled
	}
	return nil
}

// fresh returns ErrTooOld when the first read is too long ago.
func (tx *Tx) fresh() error {
	if max := tx.db.opts.MaxAge; max > 0 && !tx.since.IsZero() && tx.db.opts.Now().Sub(tx.since) > max {
		return ErrTooOld
	}
	return nil
}

// reading makes sure that there is an attempt to read from.
func (tx *Tx) reading(ctx context.Context) error {
	if err := tx.usable(); err != nil {
		return err
	}
	if !tx.since.IsZero() {
		return tx.fresh()
	}
	if err := tx.start(ctx); err != nil {
		return err
	}
	tx.since = tx.db.opts.Now()
	return nil
}

// start begins the attempt.
func (tx *Tx) start(ctx context.Context) (err error) {
	if tx.attempt == nil {
		tx.attempt, err = tx.db.tr.Attempt(ctx, AttemptOptions{
			ReadOnly: tx.readOnly, MaxAge: tx.db.opts.MaxAge, Now: tx.db.opts.Now,
		})
	}
	return err
}

// Commit applies what the transaction wrote, and returns when it is on stable storage.
// A transaction that wrote nothing has nothing to commit, and conflicts with nothing.
//
// kv.ErrConflict means that another commit changed what this one has read, ErrTooOld
// that it is too long ago, and ErrTxTooLarge that it is over its limit: nothing was
// applied. kv.ErrUnknownOutcome means that it can't be known. In any case the transaction
// is over. Commit of a transaction of Update or View is ErrManaged.
func (tx *Tx) Commit(ctx context.Context) error {
	if err := tx.usable(); err != nil {
		return err
	}
	if tx.managed {
		return ErrManaged
	}
	return tx.commit(ctx, newCommitID())
}

func (tx *Tx) commit(ctx context.Context, id kv.CommitID) (err error) {
	if err := tx.usable(); err != nil {
		return err
	}
	for _, s := range tx.scans {
		s.seen.flush(tx)
	}
	tx.state = txCommitted
	defer func() {
		tx.failed = err != nil
		tx.release()
	}()
	c := Commit{Writes: merged(tx.writes), Ops: tx.operations()}
	if tx.attempt == nil && len(c.Ops) == 0 && len(c.Writes) == 0 {
		return nil
	}
	if err := tx.check(ctx, &c); err != nil {
		return err
	}
	c.ID, c.Declared = id, tx.declared
	c.Reads = merged(append(tx.reads, tx.declared...))
	stamp, err := tx.attempt.Commit(ctx, &c)
	if errors.Is(err, kv.ErrUnknownOutcome) {
		return tx.resolve(ctx, c.ID, err)
	}
	if err != nil {
		return fmt.Errorf("txn: commit: %w", err)
	}
	tx.wrote(&c)
	tx.stamp = stamp
	tx.stamped = stamp != Stamp{}
	return nil
}

// check is what must hold of a transaction that the engine is to commit.
func (tx *Tx) check(ctx context.Context, c *Commit) error {
	if len(c.Ops) > 0 || len(c.Writes) > 0 {
		if tx.size > tx.db.opts.Limits.Bytes {
			return fmt.Errorf("%w: %d bytes, %d are allowed", ErrTxTooLarge, tx.size, tx.db.opts.Limits.Bytes)
		}
		if err := tx.fresh(); err != nil {
			return err
		}
	}
	return tx.start(ctx)
}

// resolve asks the engine what became of a commit.
func (tx *Tx) resolve(ctx context.Context, id kv.CommitID, cause error) error {
	o, err := tx.db.eng.Outcome(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("txn: commit: %w; asking for it: %w", cause, err)
	case o == kv.OutcomeApplied:
		return nil
	case o == kv.OutcomeNotApplied:
		return fmt.Errorf("txn: commit: %w", errLost)
	}
	return fmt.Errorf("txn: commit: %w", cause)
}

// Cancel ends the transaction; nothing of it is applied. After a Commit or another
// Cancel it does nothing.
func (tx *Tx) Cancel() {
	if tx.state == txOpen {
		tx.state = txCanceled
		tx.release()
	}
}

// release gives back what the engine holds for the transaction.
func (tx *Tx) release() {
	if tx.attempt != nil {
		// The outcome of the transaction is decided: an error would help no caller, and the next call of a
		// broken engine reports it again.
		_ = tx.attempt.Close()
	}
	tx.db.meter.Count(tx.db.name.bytesRead, tx.bytesRead)
	if tx.metered {
		tx.db.end(tx.begun)
	}
}

// wrote counts what a commit has written.
func (tx *Tx) wrote(c *Commit) {
	n := 0
	for i := range c.Ops {
		n += len(c.Ops[i].Key) + len(c.Ops[i].Value)
	}
	tx.db.meter.Count(tx.db.name.bytesWritten, int64(n))
}

// Versionstamp returns the stamp of the transaction's commit: the 10 bytes in its versionstamped keys and
// values. Before the commit, and if the transaction wrote nothing, it returns ErrNoVersionstamp.
func (tx *Tx) Versionstamp() (Stamp, error) {
	if !tx.stamped {
		return Stamp{}, ErrNoVersionstamp
	}
	return tx.stamp, nil
}

// Size returns what counts against Limits.Bytes so far.
func (tx *Tx) Size() int { return tx.size }

// EstimatedSize returns about how many bytes are stored under the keys of [start, end)
// in the newest state, without what the transaction wrote; a nil end means up to the last key. It
// never makes the transaction conflict. An engine that can't returns kv.ErrUnsupported.
func (tx *Tx) EstimatedSize(ctx context.Context, start, end []byte) (int64, error) {
	if err := tx.usable(); err != nil {
		return 0, err
	}
	return tx.db.tr.EstimatedSize(ctx, start, end)
}

// newCommitID returns a random id.
func newCommitID() (id kv.CommitID) {
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64()|1) // never zero
	return id
}

// Writes reports whether the transaction has anything to commit.
func (tx *Tx) Writes() bool { return len(tx.log.ops) > 0 || !tx.own.Empty() || len(tx.writes) > 0 }

// CommitWith commits the transaction and c, a commit of the engine below, as one: neither
// is applied without the other. It is for keys that have an owner, whose rules are in c's Checks, and a
// transaction over others in the same moment. It doesn't count c against Limits, nor does it keep c's bytes.
//
// c's Checks must hold in the state that the transaction reads, and still when it commits, or the
// error is kv.ErrConflict. If they do, and another commit changed what the transaction read, or
// it is too old, the error is ErrStale. Nothing is applied then, and both errors wrap kv.ErrNotApplied, as all do
// after which nothing was. c is made durable whatever its Durability, and c.OnApply is called after that.
//
// The transaction is one of Begin, and is over afterwards.
func (tx *Tx) CommitWith(ctx context.Context, c *kv.Commit) error {
	if err := tx.usable(); err != nil {
		return err
	}
	if tx.managed {
		return ErrManaged
	}
	if c.In != 0 && tx.db.eng.Incarnation() != c.In {
		tx.Cancel()
		return kv.NotApplied(kv.ErrIncarnation)
	}
	err := tx.reading(ctx)
	if err == nil {
		var holds bool
		if holds, err = allHold(ctx, tx.attempt, c.Checks); err == nil && !holds {
			err = kv.ErrConflict
		}
	}
	if err == nil {
		for i := range c.Checks {
			key := c.Checks[i].Key
			tx.reads = append(tx.reads, Span{key, append(bytes.Clone(key), 0)})
		}
		for _, op := range c.Ops {
			switch op.Kind {
			case kv.OpSet:
				tx.own.Set(op.Key, op.Value)
			case kv.OpClear:
				tx.own.Clear(op.Key)
			case kv.OpClearRange:
				tx.own.ClearRange(op.Key, op.Value)
			}
			tx.log.add(Op{Kind: op.Kind, Key: op.Key, Value: op.Value})
		}
		err = tx.commit(ctx, c.ID)
	}
	tx.Cancel() // if it hasn't come so far
	switch {
	case err == nil:
		if c.OnApply != nil {
			c.OnApply()
		}
		return nil
	case errors.Is(err, kv.ErrUnknownOutcome), errors.Is(err, kv.ErrPoisoned):
		return err
	case errors.Is(err, kv.ErrConflict), errors.Is(err, ErrTooOld):
		// Which of the two it was about shows in the newest state: a check that fails once fails for good.
		holds, checkErr := allHold(ctx, tx.db.eng, c.Checks)
		switch {
		case checkErr != nil:
			// Without the newest state it isn't known. That nothing was applied is.
			err = fmt.Errorf("%w: %w", ErrStale, checkErr)
		case holds:
			err = fmt.Errorf("%w: %v", ErrStale, err)
		default:
			err = kv.ErrConflict
		}
	}
	return kv.NotApplied(err)
}

// allHold reports whether all of checks hold in the state of r.
func allHold(ctx context.Context, r kv.Reader, checks []kv.Check) (bool, error) {
	for i := range checks {
		v, err := r.Get(ctx, checks[i].Key, nil)
		absent := errors.Is(err, kv.ErrNotFound)
		if err != nil && !absent {
			return false, err
		}
		if absent != checks[i].Absent || !absent && !bytes.Equal(v, checks[i].Value) {
			return false, nil
		}
	}
	return true, nil
}
