package greenroom

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/rivettables"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/workflow"
)

// A View is everything that one actor stores, as of one moment, for reading. It belongs to
// one goroutine at a time. Its methods return ErrClosed when the function has returned.
type View struct {
	ctx  context.Context
	at   *actorstore.View
	opts *vfs.Options
	now  func() time.Time
	db   *vfs.DB // nil until it is asked for
	// moved are the tables of the database in which the actor's parts are, nil if they aren't, or before that is looked at.
	moved  *rivettables.Tables
	looked bool
	over   bool
}

// View runs fn with one state of the actor: the newest one that is applied, whether it
// is open or not. It disturbs no writer, and owns nothing.
//
// Errors: fn's; ErrNotFound; those of the engine.
func (s *Store) View(ctx context.Context, name string, fn func(v *View) error) error {
	at, err := s.view(ctx, name)
	if err != nil {
		return err
	}
	return s.look(ctx, at, fn)
}

// ViewID is View of the actor with that id, whether it has a name or not.
func (s *Store) ViewID(ctx context.Context, id actorstore.ID, fn func(v *View) error) error {
	at, err := s.lower.View(ctx, id)
	if err != nil {
		return err
	}
	return s.look(ctx, at, fn)
}

// Views runs fn with the states of several actors, in the order of names, all as of one moment: of a transaction of
// several of them (see Update) it shows all or nothing.
//
// Errors: those of View.
func (s *Store) Views(ctx context.Context, names []string, fn func(vs []*View) error) error {
	ids := make([]actorstore.ID, len(names))
	for i, name := range names {
		var err error
		if ids[i], err = s.ID(ctx, name); err != nil {
			return err
		}
	}
	at, err := s.lower.Views(ctx, ids)
	if err != nil {
		return fmt.Errorf("greenroom: views: %w", err)
	}
	vs := make([]*View, 0, len(at))
	var next func() error
	next = func() error {
		if len(vs) == len(at) {
			return fn(vs)
		}
		return s.look(ctx, at[len(vs)], func(v *View) error {
			vs = append(vs, v)
			return next()
		})
	}
	return next()
}

func (s *Store) look(ctx context.Context, at *actorstore.View, fn func(v *View) error) error {
	return look(ctx, at, &vfs.Options{Env: part.Env{Logger: s.opts.Logger, Metrics: s.opts.Metrics}}, time.Now, fn)
}

// look runs fn with the state at, and closes that. The options are of the database.
func look(ctx context.Context, at *actorstore.View, db *vfs.Options, now func() time.Time, fn func(v *View) error) (err error) {
	v := &View{ctx: ctx, at: at, opts: db, now: now}
	defer func() {
		v.over = true
		var closed error
		if v.db != nil {
			closed = v.db.Close()
		}
		if closed = errors.Join(closed, at.Close()); closed != nil {
			err = errors.Join(err, closed)
		}
	}()
	return fn(v)
}

// Lower returns the layer below: keys alone, of all parts. It is closed with the View.
func (v *View) Lower() *actorstore.View { return v.at }

// Info returns what the store has recorded about the actor.
func (v *View) Info() ActorInfo { return v.at.Info() }

func (v *View) check() error {
	if v.over {
		return ErrClosed
	}
	return nil
}

// tables returns those in which the actor's program keeps its parts, nil if they lie under keys.
func (v *View) tables() (*rivettables.Tables, error) {
	if err := v.check(); err != nil || v.looked {
		return v.moved, err
	}
	moved, err := rivettables.Of(v.ctx, v.at, v.SQL)
	if err != nil {
		return nil, fmt.Errorf("greenroom: look for the tables of the actor's program: %w", err)
	}
	v.moved, v.looked = moved, true
	return moved, nil
}

// Get returns the value of a user key, which the caller may change; a key that is not
// there is ErrNotFound.
func (v *View) Get(key []byte) ([]byte, error) {
	if t, err := v.tables(); t != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return t.Get(key)
	}
	return v.at.User().Get(v.ctx, key, []byte{})
}

// List yields the entries that opts select, in the order of their keys. Keys and values
// must not be changed, and are valid until the next iteration. An error is yielded once,
// with a zero Entry.
func (v *View) List(opts ListOptions) iter.Seq2[Entry, error] {
	t, err := v.tables()
	switch {
	case err != nil:
		return func(yield func(Entry, error) bool) { yield(Entry{}, err) }
	case t != nil:
		return t.List(opts)
	}
	return v.at.User().List(v.ctx, opts)
}

// SQL returns the database as a pool of connections for reading, which the end of the View
// closes: rows and transactions must be closed before the function returns.
func (v *View) SQL() (*sql.DB, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	if v.db == nil {
		db, err := vfs.OpenView(v.ctx, v.at, v.opts)
		if err != nil {
			return nil, err
		}
		v.db = db
	}
	return v.db.DB, nil
}

// Query executes a query that returns rows, as sql.DB.Query. They must be closed before the
// function returns: View is vfs.ErrBusy otherwise.
func (v *View) Query(query string, args ...any) (*sql.Rows, error) {
	db, err := v.SQL()
	if err != nil {
		return nil, err
	}
	return db.QueryContext(v.ctx, query, args...)
}

// QueryRow executes a query that returns at most one row, as sql.DB.QueryRow: an error is
// that of Row.Scan, sql.ErrNoRows if the query returns none.
func (v *View) QueryRow(query string, args ...any) *sql.Row {
	db, err := v.SQL()
	if err != nil {
		return failedRow(v.ctx, err)
	}
	return db.QueryRowContext(v.ctx, query, args...)
}

// RawState returns the actor's state in CBOR, the undefined of JavaScript if the actor has
// none. It must not be changed. See State.
func (v *View) RawState() ([]byte, error) {
	c, err := v.Record()
	if errors.Is(err, persist.ErrNoRecord) {
		return []byte{0xf7}, nil // undefined
	}
	if err != nil {
		return nil, err
	}
	return c.State, nil
}

// Events returns the schedule, the next event first.
func (v *View) Events() ([]persist.Event, error) {
	c, err := v.Record()
	if errors.Is(err, persist.ErrNoRecord) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.Events, nil
}

// Record returns what has the state, the input and the schedule. It must not be changed. An actor that has none of it is persist.ErrNoRecord.
func (v *View) Record() (*persist.Contents, error) {
	if t, err := v.tables(); t != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return t.Record()
	}
	return persist.Look(v.ctx, v.at.Snapshot)
}

// Messages yields the messages of the queue that opts select, in the order of their ids; nil
// is all of them. An error that is about one message comes in its Stored; any other is
// yielded once, and ends it.
func (v *View) Messages(opts *queue.ListOptions) iter.Seq2[queue.Stored, error] {
	t, err := v.tables()
	switch {
	case err != nil:
		return func(yield func(queue.Stored, error) bool) { yield(queue.Stored{}, err) }
	case t != nil:
		return t.Messages(opts)
	}
	return queue.List(v.ctx, v.at.Snapshot, v.now(), opts)
}

// Connections yields the connections that are stored.
func (v *View) Connections() iter.Seq2[conn.Stored, error] {
	t, err := v.tables()
	switch {
	case err != nil:
		return func(yield func(conn.Stored, error) bool) { yield(conn.Stored{}, err) }
	case t != nil:
		return t.Connections()
	}
	return conn.List(v.ctx, v.at)
}

// Spans returns the spans that q selects of those that are stored.
func (v *View) Spans(q traces.Query) (*traces.Result, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	return traces.Read(v.ctx, v.at.Snapshot, q, 0)
}

// Workflow returns the history of the actor's workflow, with what of it can't be read.
func (v *View) Workflow() (*workflow.Snapshot, []workflow.Damage, error) {
	if t, err := v.tables(); t != nil || err != nil {
		if err != nil {
			return nil, nil, err
		}
		return t.Workflow()
	}
	return workflow.Read(v.ctx, v.at.Snapshot)
}
