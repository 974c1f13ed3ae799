package pgkv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// Transactions read from a snapshot. To commit, one takes the gate, a lock that the commits
// of the store share, or one of them holds alone; checks that the ranges that it read
// hold the same rows as in its snapshot; and makes its changes. No other commit can
// have changed them since, or can until it is done: so it could as well have run at
// that moment, alone. Except for the reads all this is one round trip.
//
// PostgreSQL's own level SERIALIZABLE would not do. It finds dangerous patterns among
// transactions of that level only, and commits of actors can't be: they would fail for
// their neighbours' sake, on pages of indexes (8 hosts with disjoint actors: 2 to 20 %
// of the commits). So transactions look for themselves, which finds exactly those
// conflicts that changed a row, and count nothing that was only read by Tx.Snapshot.
//
// The gate is never held during a wait: not for stable storage, its own standbys' neither
// (the transaction is committed without, and waits afterwards), and not for this host.
// Atomic operations are evaluated and versionstamps put in place by the server, so that
// everything from the gate to COMMIT is sent in one go. What it costs is that while one
// transaction commits, for as long as its statements take on the server, no other commit
// does.
//
// That others can read what isn't on stable storage yet means that a crash or a failover
// may take back what they have read, unless they wrote something themselves. No version
// comes twice by that; see version.go.

// maxAge is how old a transaction can be that must not miss a declared write: less than keepTouched.
const maxAge = time.Hour

// TxCaps returns everything but txn.Exact, because a change that changes nothing is
// not seen, and txn.Checkpoints. See txn.Transactor.
func (db *DB) TxCaps() txn.Caps {
	return txn.Serializable | txn.ConflictRanges | txn.Versionstamps | txn.Watching | txn.Sizes
}

// An attempt is a txn.Attempt. Its state is pinned by its first read.
type attempt struct {
	db     *DB
	opts   txn.AttemptOptions
	snap   *snapshot // nil until the first read
	since  time.Time // by the attempt's clock
	pinned time.Time // by the machine's
	closed bool
}

var _ txn.Attempt = (*attempt)(nil)

// Attempt begins an attempt at a transaction, which takes one of Options.Pins from its
// first read to its end. See txn.Transactor.
func (db *DB) Attempt(ctx context.Context, opts txn.AttemptOptions) (txn.Attempt, error) {
	if err := db.begin(ctx); err != nil {
		return nil, err
	}
	db.life.leave()
	return &attempt{db: db, opts: opts}, nil
}

// pin makes the first read's state the attempt's.
func (a *attempt) pin(ctx context.Context) error {
	switch {
	case a.closed:
		return kv.ErrClosed
	case a.snap != nil && a.tooOld():
		return txn.ErrTooOld
	case a.snap != nil:
		return nil
	}
	s, err := a.db.Snapshot(ctx)
	if err != nil {
		return err
	}
	a.snap, a.since, a.pinned = s.(*snapshot), a.opts.Now(), time.Now()
	return nil
}

func (a *attempt) tooOld() bool {
	return a.opts.MaxAge > 0 && a.opts.Now().Sub(a.since) > a.opts.MaxAge
}

// retryable makes a lost snapshot a conflict, so that the caller runs the transaction again.
func retryable(err error) error {
	if errors.Is(err, errSnapshotLost) {
		return fmt.Errorf("%w: %w", kv.ErrConflict, err)
	}
	return err
}

// Get is kv.Reader's.
func (a *attempt) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := a.pin(ctx); err != nil {
		return dst, err
	}
	out, err := a.snap.Get(ctx, key, dst)
	return out, retryable(err)
}

// Scan is kv.Reader's.
func (a *attempt) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := a.pin(ctx); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		for e, err := range a.snap.Scan(ctx, r) {
			if !yield(e, retryable(err)) {
				return
			}
		}
	}
}

// Close is txn.Attempt's.
func (a *attempt) Close() error {
	if a.closed {
		return nil
	}
	a.closed = true
	if a.snap == nil {
		return nil
	}
	return a.snap.Close()
}

// Commit is txn.Attempt's.
func (a *attempt) Commit(ctx context.Context, c *txn.Commit) (txn.Stamp, error) {
	switch {
	case a.closed:
		return txn.Stamp{}, kv.ErrClosed
	case len(c.Ops) == 0 && len(c.Writes) == 0:
		return txn.Stamp{}, nil
	case a.opts.ReadOnly:
		return txn.Stamp{}, txn.ErrReadOnly
	}
	if err := a.db.begin(ctx); err != nil {
		return txn.Stamp{}, err
	}
	defer a.db.life.leave()
	tc := &txCommit{a: a, c: c}
	err := tc.run(ctx)
	a.db.note(c.ID, err)
	if err != nil {
		return txn.Stamp{}, wrap("commit", err)
	}
	a.db.watches.commit(tc.changed())
	return tc.stamp, nil
}

// A txCommit is the commit of an attempt.
type txCommit struct {
	a     *attempt
	c     *txn.Commit
	ops   []txn.Op // in the order in which they are sent
	stamp txn.Stamp
}

func (t *txCommit) run(ctx context.Context) error {
	db := t.a.db
	if db.opts.ReadOnly {
		return errReadOnly
	}
	if err := t.prepare(); err != nil {
		return err
	}
	p := plans.Get().(*plan)
	defer plans.Put(p)
	if t.a.snap == nil || len(t.c.Reads) == 0 {
		return db.land(ctx, []kv.CommitID{t.c.ID}, func(ctx context.Context, c *conn, at place) error {
			return t.transact(ctx, c, p, at)
		})
	}
	if t.a.tooOld() || time.Since(t.a.pinned) > maxAge {
		return txn.ErrTooOld
	}
	return t.pinned(ctx, p)
}

// pinned commits on the connection of the snapshot. It can't be tried again: the
// snapshot goes with the first try.
func (t *txCommit) pinned(ctx context.Context, p *plan) error {
	db := t.a.db
	c := t.a.snap.release()
	if c == nil {
		return kv.ErrClosed
	}
	if c.bad {
		db.pins.give(c)
		return retryable(errSnapshotLost)
	}
	at := db.slots.take([]kv.CommitID{t.c.ID})
	db.trips.Add(1)
	err := t.transact(ctx, c, p, at)
	db.pins.give(c)
	if errors.Is(err, errDoubt) {
		if err = db.settle(ctx, db.retry(), at, err); errors.Is(err, kv.ErrUnknownOutcome) {
			db.slots.doubt(at)
			return err
		}
	}
	db.slots.give(at)
	if err != nil && worth(ctx, err) {
		return retryable(fmt.Errorf("%w: %w", errSnapshotLost, clean(err)))
	}
	return err
}

// transact sends the transaction, and again if it first has to reserve a version.
func (t *txCommit) transact(ctx context.Context, c *conn, p *plan, at place) error {
	db := t.a.db
	f := db.start(ctx, c, t.size())
	reads := c.pg.TxStatus() == 'T' // the snapshot's
	if reads {
		spans(p, t.c.Reads)
		f.send(c.sql.seen, p.keys.bytes(), p.vals.bytes())
		f.send(c.sql.commit)
	}
	err := t.try(ctx, f, p, at, reads)
	if !errors.Is(err, errNoVersion) {
		return err
	}
	if err := db.reserve(ctx, c); err != nil {
		return err
	}
	// The session still knows what was seen.
	db.trips.Add(1)
	err = t.try(ctx, db.start(ctx, c, t.size()), p, at, reads)
	if errors.Is(err, errNoVersion) { // another crash
		c.bad = true
		return &lostError{err}
	}
	return err
}

// try sends the transaction behind what is in the flow. reads says that the session
// knows what was seen.
func (t *txCommit) try(ctx context.Context, f *flow, p *plan, at place, reads bool) error {
	sql := f.c.sql
	f.send(sql.begin)
	if t.size() > t.a.db.aloneAt || t.bits() > foreseeAt {
		f.stage()
	}
	f.send(sql.applied)
	f.send(sql.gateExclusive)
	// Before what was seen is compared: that has the counter's number in it.
	f.ask(sql.next, func(col [][]byte) {
		if len(col) == 1 && len(col[0]) == 8 {
			copy(t.stamp[:], col[0])
		}
	})
	if reads {
		spans(p, t.c.Reads)
		f.send(sql.same, p.keys.bytes(), p.vals.bytes())
	}
	if len(t.c.Writes) > 0 {
		spans(p, t.c.Writes)
		f.send(sql.touch, p.keys.bytes(), p.vals.bytes())
	}
	f.tell(at)
	t.change(f, p)
	err := meaning(f.end(ctx, true))
	if err == nil && binary.BigEndian.Uint64(t.stamp[:]) == 0 {
		return fmt.Errorf("%w: the store has no version", kv.ErrCorrupt)
	}
	return err
}

// spans writes the bounds of ranges of keys into two arrays of the plan, as ranges of
// surrogates. Those of long keys have more in them than they should, a whole group,
// unless they are of one key. So two of them may share rows; they are merged, because
// a row that is counted twice cancels itself out of a hash.
func spans(p *plan, ranges []txn.Span) {
	p.keys.reset()
	p.vals.reset()
	bounds := make([]kv.Range, 0, len(ranges))
	for _, s := range ranges {
		if n := len(s.Start); len(s.End) == n+1 && s.End[n] == 0 && bytes.Equal(s.End[:n], s.Start) {
			key := appendSurrogate([]byte{}, s.Start)
			bounds = append(bounds, kv.Range{Start: key, End: append(bytes.Clone(key), 0)})
			continue
		}
		bounds = append(bounds, kv.Range{Start: notNil(appendLow(nil, s.Start)), End: notNil(appendHigh(nil, s.End))})
	}
	for _, r := range merge(bounds) {
		p.keys.add(notNil(r.Start))
		p.vals.add(r.End)
	}
}

// stamped returns b with the stamp at its place.
func stamped(b []byte, offset int, stamp txn.Stamp) []byte {
	b = bytes.Clone(b)
	copy(b[offset:], stamp[:])
	return b
}

// EstimatedSize returns how many bytes the keys of [start, end) and their values
// have, exactly: the server looks at each of their rows, but at no value. See
// txn.Transactor.
func (db *DB) EstimatedSize(ctx context.Context, start, end []byte) (int64, error) {
	if err := db.begin(ctx); err != nil {
		return 0, err
	}
	defer db.life.leave()
	size := int64(0)
	err := db.call(ctx, db.reads, func(ctx context.Context, c *conn) error {
		return c.query(ctx, db.sql.size, [][]byte{notNil(appendLow(nil, start)), notNil(appendHigh(nil, end))}, func(col [][]byte) {
			if len(col) == 1 && len(col[0]) == 8 {
				size = int64(binary.BigEndian.Uint64(col[0]))
			}
		})
	})
	return size, wrap("estimated size", err)
}

// Checkpoint returns kv.ErrUnsupported: pg_basebackup and pg_dump make copies. See
// txn.Transactor.
func (db *DB) Checkpoint(context.Context, string) error {
	return fmt.Errorf("pgkv: checkpoint: %w", kv.ErrUnsupported)
}
