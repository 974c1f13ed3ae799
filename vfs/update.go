package vfs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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
	open  context.Context // ctx, until the SQL is over; nil before the first query
	close context.CancelFunc
	spent bool // the connection isn't used again
}

// within returns a context that ends with the transaction too, and with it what is
// left open: rows that aren't closed would keep the connection for ever.
func (tx *Tx) within(ctx context.Context) context.Context {
	if tx.open == nil {
		tx.open, tx.close = context.WithCancel(tx.ctx)
	}
	if ctx == tx.ctx {
		return tx.open
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(tx.open, cancel)
	return ctx
}

// end ends what within has begun.
func (tx *Tx) end() {
	if tx.close != nil {
		tx.close()
	}
}

// Batch returns what lands with the SQL. Nothing staged may touch the keys of the
// database itself. Its participants are called inside the commit and must not use the
// database; Late may be called twice (see batch.Batch.Mark).
func (tx *Tx) Batch() *batch.Batch { return tx.batch }

// Discard closes the connection at the end of the transaction, however it ends, instead of
// returning it to the pool. It is for a function that may leave something behind on the connection,
// such as PRAGMAs, temporary tables and attached databases.
func (tx *Tx) Discard() { tx.spent = true }

// Whole has the transaction land by one engine commit or not at all: one that would go through SQLite's journal is refused
// before anything of it is stored (batch.ErrTooLarge). It is called before the first SQL.
func (tx *Tx) Whole() { tx.whole = true }

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

// PrepareAnew is PrepareContext for a caller that looks at what SQLite makes of a text before it is run: the statement is compiled now, as the
// schema is now, and the connection keeps it for no other caller.
func (tx *Tx) PrepareAnew(ctx context.Context, query string) (*sql.Stmt, error) {
	tx.c.anew = true
	defer func() { tx.c.anew = false }()
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
		if !returned { // fn panics, and a caller that recovers finds the connection as it was
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

// BeginUpdate begins what Update does as a whole, for a caller that has no function to
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
	c.file.begun = true
	if _, err = pooled.ExecContext(ctx, beginUpdate); err == nil {
		if err = (rollbackMode{c.file}).stage(&tx.staged); err == nil {
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
	tx.end()
	h, b := tx.c.file, tx.batch
	defer func() {
		h.staged = nil
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
		err = land(tx.ctx, tx.c, b) // nothing of the database changed
	}
	if tx.panicked != nil {
		panic(tx.panicked) // of a participant
	}
	return err
}

// Rollback ends the transaction and undoes it. It returns reason, which is what the
// participants of the batch are told, with what went wrong on the way.
func (tx *Tx) Rollback(reason error) error {
	tx.end()
	err := errors.Join(reason, rollback(tx.ctx, tx.conn, tx.c))
	tx.c.file.staged = nil
	tx.batch.Abort(err)
	return tx.leave(err)
}

// leave gives the connection back, and returns err with what goes wrong at that.
func (tx *Tx) leave(err error) error {
	tx.end()
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
func land(ctx context.Context, c *conn, b *batch.Batch) error {
	if !c.file.awaited() {
		return c.db.actor.Apply(ctx, b)
	}
	return c.db.actor.Commit(ctx, b)
}

// rollback ends the transaction if it isn't over, as that of a connection that was lost is.
func rollback(ctx context.Context, pooled *sql.Conn, c *conn) error {
	over := false
	err := pooled.Raw(func(any) error {
		over = c.lost != nil || c.raw().GetAutocommit()
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
