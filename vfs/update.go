package vfs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/batch"
)

// A Tx is a write transaction: SQL, and what is staged to land with it. It belongs to
// one goroutine at a time.
type Tx struct {
	db   *DB
	ctx  context.Context
	conn *sql.Conn
	c    *conn
	staged
	open  context.Context // done when the SQL is over
	close context.CancelFunc
	spent bool // the connection isn't used again
}

// within returns a context that ends with the transaction too, and with it what is
// left open: rows that nobody closes would keep the connection for ever.
func (tx *Tx) within(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(tx.open, cancel)
	return ctx
}

// Batch returns what lands with the SQL. Nothing staged may touch the keys of the
// database itself. Its participants are called inside the commit and must not use the
// database; Late may be called twice (see batch.Batch.Mark).
func (tx *Tx) Batch() *batch.Batch { return tx.batch }

// Discard has the connection closed when the transaction is over, whatever becomes of
// that, instead of going back to the pool: for a function that may have left something
// behind on it, as PRAGMAs, temporary tables and attached databases do.
func (tx *Tx) Discard() { tx.spent = true }

// ExecContext is sql.Conn's, in the transaction.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return tx.conn.ExecContext(ctx, query, args...)
}

// QueryContext is sql.Conn's, in the transaction. Rows that are still open when the
// function returns are closed.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return tx.conn.QueryContext(tx.within(ctx), query, args...)
}

// QueryRowContext is sql.Conn's, in the transaction.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return tx.conn.QueryRowContext(tx.within(ctx), query, args...)
}

// PrepareContext is sql.Conn's, in the transaction. The statement, and rows of it, are
// closed by the caller before the function returns: Update would wait for open rows.
func (tx *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return tx.conn.PrepareContext(ctx, query)
}

// Update runs fn in a write transaction and commits it. What fn staged in tx.Batch()
// lands in the very commit that makes the SQL visible, or not at all. When fn
// returns an error, or the transaction is over before fn returns (a ROLLBACK of its
// own, INSERT OR ROLLBACK, RAISE(ROLLBACK)), or the commit fails, nothing lands and the
// batch is aborted. A COMMIT of fn's own is such a ROLLBACK, and an error (ErrTxOver). If
// the SQL changes nothing the batch is committed by itself. What is staged does not follow
// ROLLBACK TO.
//
// Update waits for other writers as every transaction of the pool does. So fn must not
// wait for one, with an Update or a transaction of its own: that would wait for fn. fn is
// run once. It needs journal_mode DELETE, synchronous at least NORMAL and
// locking_mode NORMAL, and says so otherwise (ErrUnsupported). Foreign keys are enforced, and
// PRAGMA foreign_keys=OFF does nothing within a transaction: an fn that executes it, and no
// PRAGMA defer_foreign_keys=ON, is an error (ErrUnsupported).
//
// A panic of fn, or of what is staged, goes on when the transaction is over.
//
// Errors: fn's; ErrTxOver; those of SQLite, with ours behind them (errors.Is);
// those of the batch.
func (db *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	tx, err := db.BeginUpdate(ctx, new(batch.Batch))
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // fn panics, and whoever recovers finds the connection as it was
			_ = tx.Rollback(nil)
		}
	}()
	err = fn(tx)
	returned = true
	if err != nil {
		return tx.Rollback(err)
	}
	return tx.Commit()
}

// BeginUpdate begins what Update does as a whole, for a caller who has no function to
// give: a write transaction, with which b lands. The caller ends it, with Commit or
// Rollback, each of which settles b; on an error of BeginUpdate b is as it was. ctx is
// that of BEGIN and COMMIT, and must last until the end.
func (db *DB) BeginUpdate(ctx context.Context, b *batch.Batch) (tx *Tx, err error) {
	pooled, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c, err := writerOf(pooled)
	if err != nil {
		return nil, errors.Join(err, pooled.Close())
	}
	tx = &Tx{db: db, ctx: ctx, conn: pooled, c: c, staged: staged{batch: b}}
	tx.open, tx.close = context.WithCancel(context.Background())
	c.file.begun = true
	if _, err = pooled.ExecContext(ctx, beginUpdate); err == nil {
		if err = c.file.stage(&tx.staged); err == nil {
			return tx, nil
		}
		err = errors.Join(err, rollback(ctx, pooled, c))
	}
	return nil, tx.leave(err)
}

// Apply is Commit without the wait for stable storage, as with Actor.Apply. A transaction
// that is too large for one engine commit waits for its journal all the same.
func (tx *Tx) Apply() error {
	tx.applied = true
	return tx.Commit()
}

// Commit ends the transaction. On an error nothing of it has landed, SQL or staged, but
// for the errors of Actor.Commit that say otherwise.
func (tx *Tx) Commit() (err error) {
	tx.close()
	h, b := tx.c.file, tx.batch
	defer func() {
		h.unstage()
		b.Abort(err) // settled already if it has landed
		err = tx.leave(err)
	}()
	if tx.over {
		return errors.Join(ErrTxOver, rollback(tx.ctx, tx.conn, tx.c))
	}
	tx.called, tx.armed, tx.reading = true, true, false
	_, err = tx.conn.ExecContext(tx.ctx, commitUpdate)
	turnedBack := !tx.armed
	tx.armed = false
	switch landed := b.Settled(); {
	case err != nil && !(landed && isLost(err)):
		err = errors.Join(err, rollback(tx.ctx, tx.conn, tx.c))
	case landed:
		err = nil
	case turnedBack:
		err = errBypassed
	default:
		err = h.land(tx.ctx, b) // nothing of the database changed
	}
	if tx.panicked != nil {
		panic(tx.panicked) // of a participant
	}
	return err
}

// Rollback ends the transaction and undoes it. It returns reason, which is what the
// participants of the batch are told, with what went wrong on the way.
func (tx *Tx) Rollback(reason error) error {
	tx.close()
	err := errors.Join(reason, rollback(tx.ctx, tx.conn, tx.c))
	tx.c.file.unstage()
	tx.batch.Abort(err)
	return tx.leave(err)
}

// leave gives the connection back, and returns err with what goes wrong at that.
func (tx *Tx) leave(err error) error {
	tx.close()
	tx.c.file.begun = false
	if tx.spent {
		tx.c.spent.Store(true)
	}
	if tx.c.left.Load() { // Close may wait for ever
		tx.db.SetMaxOpenConns(tx.db.vfs.opts.MaxConns + int(tx.db.stuck.Add(1)))
		return err
	}
	return errors.Join(err, tx.conn.Close())
}

// land commits b by itself, as durably as the connection's transactions are.
func (h *handle) land(ctx context.Context, b *batch.Batch) error {
	if !awaited(h) {
		return h.db.actor.Apply(ctx, b)
	}
	return h.db.actor.Commit(ctx, b)
}

// awaited says whether the commit that h makes is waited for.
func awaited(h *handle) bool {
	return h.synchronous() >= syncFull && (h.staged == nil || !h.staged.applied)
}

// rollback ends the transaction if it isn't over, as that of a connection that was lost is.
func rollback(ctx context.Context, pooled *sql.Conn, c *conn) error {
	over := false
	err := pooled.Raw(func(any) error {
		over = c.lost != nil || c.Raw().GetAutocommit()
		return nil
	})
	if !over && err == nil {
		_, err = pooled.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return err
}

// errBypassed must not happen: SQLite committed on a way that is not known here.
var errBypassed = errors.New("vfs: the SQL of an Update was committed, and what was staged with it was not")

// writerOf returns what is below a connection of a pool that may write.
func writerOf(pooled *sql.Conn) (c *conn, err error) {
	err = pooled.Raw(func(dc any) error {
		var ok bool
		switch c, ok = dc.(*conn); {
		case !ok:
			return fmt.Errorf("%w: Update on a connection of another driver", ErrUnsupported)
		case c.file == nil:
			return fmt.Errorf("%w: Update through a VFS that hides the file", ErrUnsupported)
		case c.file.readOnly:
			return fmt.Errorf("%w: Update on a database that is open for reading", ErrUnsupported)
		}
		return nil
	})
	return c, err
}

// staged is what lands with the transaction of a handle.
//
// SQLite ends a rollback as it ends a commit: the journal goes. So what is staged
// lands only between the call of COMMIT and its return (armed), and not when SQLite
// turned back on the way: because of an error that it was told, or for a reason of
// its own, and then it reads the journal. A commit never does, but for what lies behind
// its end. An encrypting VFS on top does, before it writes a part of one of its blocks:
// so a read that a write of the same place follows is none of SQLite's.
//
// Before the call a COMMIT is one of the function's SQL, which is refused: where an atomic
// write ends, and where SQLite syncs the main file. A rollback syncs it, too, but has read
// the journal. So has a ROLLBACK TO; but SQLite syncs the journal before it writes to the
// main file what a transaction has changed, and never after it has begun to roll back.
type staged struct {
	batch  *batch.Batch
	armed  bool
	over   bool // the transaction ended before COMMIT was called
	called bool // Update has called COMMIT; before that a COMMIT is one of the function's SQL

	applied bool // the commit is not waited for, whatever synchronous is

	panicked any // what a hook or a Late function did in the commit; nil if none did

	reading bool  // the journal was read, and neither synced nor, in COMMIT, written since
	at      int64 // where
}

// lookedBack is told that something of the journal was read at off.
func (db *database) lookedBack(off int64) {
	h := db.owner.Load()
	if h == nil || h.staged == nil {
		return
	}
	s := h.staged
	if s.reading || s.batch.Settled() {
		db.disarm(errTurnedBack)
	}
	s.reading, s.at = true, off
}

// synced is told that the journal is synced: SQLite goes on, whatever it has read there.
func (db *database) synced() {
	if h := db.owner.Load(); h != nil && h.staged != nil {
		h.staged.reading = false
	}
}

// ownCommit returns an error if what SQLite is about to do is a COMMIT in the SQL of an
// Update: what is staged would not land with it.
func (h *handle) ownCommit() error {
	if s := h.staged; s == nil || s.called || s.reading {
		return nil
	}
	return errOwnCommit
}

var errOwnCommit = fmt.Errorf("%w: COMMIT is Update's, and its SQL is rolled back", ErrTxOver)

// wentOn is told that the journal is written at off.
func (db *database) wentOn(off int64) {
	s := db.landing()
	if s == nil || !s.reading {
		return
	}
	if s.reading = false; s.at != off {
		db.disarm(errTurnedBack)
	}
}

// stage lets s land with the transaction that h has begun.
func (h *handle) stage(s *staged) error {
	switch {
	case h.logged:
		return fmt.Errorf("%w: Update in journal_mode=WAL, it needs DELETE", ErrUnsupported)
	case h.mode != "delete":
		return fmt.Errorf("%w: Update in journal_mode=%s, it needs DELETE", ErrUnsupported, h.mode)
	case h.exclusive:
		return fmt.Errorf("%w: Update in locking_mode=EXCLUSIVE, it needs NORMAL", ErrUnsupported)
	case h.sync == syncOff:
		return fmt.Errorf("%w: Update with synchronous=OFF, it needs at least NORMAL", ErrUnsupported)
	case !h.owns() || h.level < sqlitevfs.LOCK_RESERVED:
		return errNotOwner
	}
	h.staged, h.keys = s, keysWish{}
	return nil
}

func (h *handle) unstage() { h.staged = nil }

// landing returns what must land with the commit that the writer is about to make,
// nil if nothing.
func (db *database) landing() *staged {
	h := db.owner.Load()
	if h == nil || h.staged == nil || !h.staged.armed {
		return nil
	}
	return h.staged
}

// disarm keeps what is staged from landing with the transaction of the writer, who
// turns back. If it has landed already there is no way back: SQLite would undo its
// own part alone, so the database refuses that, and everything else.
func (db *database) disarm(reason error) {
	s := db.landing()
	if s == nil {
		return
	}
	if s.armed = false; s.batch.Settled() {
		db.fail(reason)
	}
}

// errTurnedBack: SQLite began to roll back a transaction after it had landed.
var errTurnedBack = errors.New("vfs: rollback of a transaction that is committed")
