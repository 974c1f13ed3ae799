package greenroom

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/opentx"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
)

// A Tx is a transaction of one actor: what is written through it lands in one commit when
// the function of Update returns nil, and none of it otherwise. It reads what it has
// written. It is a context, that of Update, and belongs to one goroutine at a time. Its
// methods return ErrClosed when the function has returned.
type Tx struct {
	txContext
	labels
	backlog
	actor *Actor
	open  *openTx
	over  atomic.Bool
	wrote bool // something may have been staged
	batch batch.Batch
	sql   *vfs.Tx // nil until it is asked for
	keys  keys
}

var _ context.Context = (*Tx)(nil)

// A txContext is the context of a transaction: that of Update, by which an Update within
// the function knows where it is.
type txContext struct {
	ctx context.Context
	tx  *Tx
}

// Deadline is that of Update's context.
func (c txContext) Deadline() (time.Time, bool) { return c.ctx.Deadline() }

// Done is that of Update's context.
func (c txContext) Done() <-chan struct{} { return c.ctx.Done() }

// Err is that of Update's context.
func (c txContext) Err() error { return c.ctx.Err() }

// Value is that of Update's context.
func (c txContext) Value(key any) any {
	if key == (updating{c.tx.actor}) && !c.tx.over.Load() {
		return c.tx
	}
	return c.ctx.Value(key)
}

// Batch returns what lands with the transaction, for parts that stage in it what Tx has no
// method for. It must not be committed or given up.
func (tx *Tx) Batch() *batch.Batch {
	tx.wrote = true
	return &tx.batch
}

// errTxOver says that a transaction was used after its end.
var errTxOver = errkind.New("greenroom: the transaction is over", ErrClosed)

func (tx *Tx) check() error {
	if tx.over.Load() {
		return errTxOver
	}
	return nil
}

// SQL returns the transaction of the database, which begins with the first call, for
// libraries that take one: it has ExecContext, QueryContext, QueryRowContext and
// PrepareContext. It must not be committed or rolled back, and the rows of statements that it
// prepares must be closed: Update waits for them.
func (tx *Tx) SQL() (*vfs.Tx, error) {
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
		if tx.open.Whole {
			tx.sql.Whole()
		}
	}
	return tx.sql, nil
}

// Exec executes a query that returns no rows, as sql.Tx.Exec. COMMIT and ROLLBACK are
// Update's. After a ROLLBACK, by INSERT OR ROLLBACK too, every write is vfs.ErrTxOver, and so
// is Update: nothing lands. A COMMIT is such a ROLLBACK, and an error if the transaction has
// changed the database.
func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	s, err := tx.SQL()
	if err != nil {
		return nil, err
	}
	return s.ExecContext(tx.ctx, query, args...)
}

// Query executes a query that returns rows, as sql.Tx.Query. Rows that are still open when
// the function returns are closed.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	s, err := tx.SQL()
	if err != nil {
		return nil, err
	}
	return s.QueryContext(tx.ctx, query, args...)
}

// QueryRow executes a query that returns at most one row, as sql.Tx.QueryRow: an error is that of Row.Scan,
// sql.ErrNoRows if the query returns none.
func (tx *Tx) QueryRow(query string, args ...any) *sql.Row {
	s, err := tx.SQL()
	if err != nil {
		return failedRow(tx.ctx, err)
	}
	return s.QueryRowContext(tx.ctx, query, args...)
}

// failedRow returns a row whose Scan returns err.
func failedRow(ctx context.Context, err error) *sql.Row {
	db := sql.OpenDB(refusal{func(context.Context) error { return err }})
	defer func() { _ = db.Close() }() // it has no connection
	return db.QueryRowContext(context.WithoutCancel(ctx), "")
}

// A labels is what a transaction does to the labels of its actor.
type labels struct{ tx *Tx }

// Label sets a label of the actor, by which Store.Actors finds it, when the transaction lands; "" removes it. An actor
// has at most actorstore.MaxLabels labels. A label is for what actors are looked for by: what code decides by belongs in the actor's state.
//
// Errors: actorstore.ErrLabel, which Update may return too, for too many.
func (l labels) Label(key, value string) error {
	tx := l.tx
	if err := tx.check(); err != nil {
		return err
	}
	if err := actorstore.CheckLabel(key, value); err != nil {
		return err
	}
	tx.actor.actor.StageAttributes(tx.Batch(), func(at *actorstore.Attributes) error {
		if value == "" {
			delete(at.Labels, key)
			return nil
		}
		if at.Labels == nil {
			at.Labels = map[string]string{}
		}
		at.Labels[key] = value
		return nil
	})
	return nil
}

// A backlog is what a transaction reads of the queue as a whole.
type backlog struct{ tx *Tx }

// Messages returns how many messages the queue has, visible or not, without what the
// transaction does to it.
func (b backlog) Messages() (int, error) {
	q, err := b.queue()
	if err != nil {
		return 0, err
	}
	return q.Len(), nil
}

// QueueStats returns what the queue holds as the transaction leaves it: by name, how many messages are ready, delayed, leased and dead letters.
// It looks at every message in memory.
func (b backlog) QueueStats() (queue.Stats, error) {
	q, err := b.queue()
	if err != nil {
		return queue.Stats{}, err
	}
	return q.In(&b.tx.batch).Stats(), nil
}

func (b backlog) queue() (*queue.Queue, error) {
	if err := b.tx.check(); err != nil {
		return nil, err
	}
	return b.tx.actor.Queue(b.tx.ctx)
}

// Entry is one key with its value; see actorstore.Entry.
type Entry = actorstore.Entry

// ListOptions select keys; see actorstore.ListOptions.
type ListOptions = actorstore.ListOptions

// An openTx is a transaction that its caller ends, by one of commit, Apply and Rollback: an opentx.Transaction.
type openTx struct {
	Tx   Tx
	Span *traces.Span // gets what the transaction does as events, if it isn't nil
	opentx.Options
}
