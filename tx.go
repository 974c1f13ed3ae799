package greenroom

import (
	"context"
	"database/sql"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A Tx is a transaction of one actor: what is written through it lands in one commit when
// the function of Update returns nil, and none of it otherwise. It reads what it has
// written. It is a context, that of Update, and belongs to one goroutine at a time. Its
// methods return ErrClosed when the function has returned.
type Tx struct {
	ctx   context.Context
	actor *Actor
	over  bool
	batch batch.Batch
	sql   *vfs.Tx // nil until it is asked for
	keys  keys
}

var _ context.Context = (*Tx)(nil)

// Update runs fn in a transaction, and commits it when fn returns nil. When Update returns
// nil, everything that fn has written is on stable storage. On an error of fn or of the
// commit, on a panic, and when ctx is done before fn returns, nothing of it has landed, in
// memory either; but for ErrUnknownOutcome and ErrPoisoned, after which all of it has
// landed or nothing, and whoever opens the actor next finds out.
//
// fn runs exactly once. Updates of one actor run one after the other, in no certain order.
// An Update within fn is ErrNested, and so is a write through SQL.
//
// A transaction without SQL opens no database; one that writes nothing commits nothing.
// Up to the engine's limits a transaction is one commit of the engine. A larger one lands
// whole, too: pages of the database go through SQLite's journal, and everything else lands
// in the commit that ends the journal. Without SQL it is ErrTooLarge.
func (a *Actor) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return a.update(ctx, kv.Durable, fn)
}

// UpdateApplied is Update without the wait for stable storage: when it returns, every
// reader sees the transaction, and after a crash it is there only if everything that was
// applied before it is there too. Sync waits for all of it at once.
func (a *Actor) UpdateApplied(ctx context.Context, fn func(tx *Tx) error) error {
	return a.update(ctx, kv.Applied, fn)
}

func (a *Actor) update(ctx context.Context, d kv.Durability, fn func(tx *Tx) error) error {
	if err := a.enter(ctx); err != nil {
		return err
	}
	defer a.leave()
	tx := &Tx{ctx: ctx, actor: a}
	returned := false
	defer func() {
		if !returned { // fn panics, or ends its goroutine
			tx.over = true
			_ = tx.rollback(nil)
		}
	}()
	err := fn(tx)
	returned, tx.over = true, true
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return tx.rollback(err)
	}
	return tx.commit(d)
}

// commit lands the transaction.
func (tx *Tx) commit(d kv.Durability) error {
	switch applied := d == kv.Applied; {
	case tx.sql != nil && applied:
		return tx.sql.Apply()
	case tx.sql != nil:
		return tx.sql.Commit()
	case applied:
		return tx.actor.actor.Apply(tx.ctx, &tx.batch)
	}
	return tx.actor.actor.Commit(tx.ctx, &tx.batch)
}

// rollback gives the transaction up and returns reason, with what went wrong at that.
func (tx *Tx) rollback(reason error) error {
	if tx.sql != nil {
		return tx.sql.Rollback(reason)
	}
	tx.batch.Abort(reason)
	return reason
}

// Deadline is that of Update's context.
func (tx *Tx) Deadline() (time.Time, bool) { return tx.ctx.Deadline() }

// Done is that of Update's context.
func (tx *Tx) Done() <-chan struct{} { return tx.ctx.Done() }

// Err is that of Update's context.
func (tx *Tx) Err() error { return tx.ctx.Err() }

// Value is that of Update's context.
func (tx *Tx) Value(key any) any {
	if key == (updating{tx.actor}) && !tx.over {
		return tx
	}
	return tx.ctx.Value(key)
}

// Batch returns what lands with the transaction, for parts that stage in it what Tx has no
// method for. It must not be committed or given up.
func (tx *Tx) Batch() *batch.Batch { return &tx.batch }

func (tx *Tx) check() error {
	if tx.over {
		return ErrClosed
	}
	return nil
}

// begin returns the SQL transaction, which begins with the first call.
func (tx *Tx) begin() (*vfs.Tx, error) {
	if err := tx.check(); err != nil {
		return nil, err
	}
	if tx.sql == nil {
		db, err := tx.actor.database(tx.ctx)
		if err != nil {
			return nil, err
		}
		if tx.sql, err = db.BeginUpdate(tx.ctx, &tx.batch); err != nil {
			return nil, err
		}
	}
	return tx.sql, nil
}

// Exec executes a query that returns no rows, as sql.Tx.Exec. COMMIT and ROLLBACK are
// Update's: after one of them Update is vfs.ErrTxOver, and nothing has landed.
func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	s, err := tx.begin()
	if err != nil {
		return nil, err
	}
	return s.ExecContext(tx.ctx, query, args...)
}

// Query executes a query that returns rows, as sql.Tx.Query. Rows that are still open when
// the function returns are closed.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	s, err := tx.begin()
	if err != nil {
		return nil, err
	}
	return s.QueryContext(tx.ctx, query, args...)
}

// QueryRow executes a query that returns at most one row, as sql.Tx.QueryRow: an error is
// that of Row.Scan, sql.ErrNoRows if there is no row.
func (tx *Tx) QueryRow(query string, args ...any) *sql.Row {
	s, err := tx.begin()
	if err != nil {
		return failedRow(tx.ctx, err)
	}
	return s.QueryRowContext(tx.ctx, query, args...)
}

// failedRow returns a row whose Scan returns err.
func failedRow(ctx context.Context, err error) *sql.Row {
	db := sql.OpenDB(refusal{err})
	defer func() { _ = db.Close() }() // it has no connection
	return db.QueryRowContext(context.WithoutCancel(ctx), "")
}

// Entry is one key with its value; see actorstore.Entry.
type Entry = actorstore.Entry

// ListOptions select keys; see actorstore.ListOptions.
type ListOptions = actorstore.ListOptions
