package greenroom

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/petermattis/goid"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs"
)

// ActorOptions change what Store.Actor does; nil is the zero ActorOptions.
type ActorOptions struct {
	// MustExist refuses an actor that has never been written to: ErrNotFound.
	MustExist bool
	// Wait waits until the actor is free, instead of returning ErrInUse. It ends with the
	// context.
	Wait bool
	// Force takes the actor from a host that is alive, which is fenced.
	Force bool
	// Pragmas are run on every connection to the database, as "foreign_keys=ON". Not those
	// that say how a transaction ends (journal_mode, synchronous, locking_mode): Update is
	// ErrUnsupported with any but their defaults.
	Pragmas []string
}

// An Actor is one actor that this process owns. All methods are safe for concurrent use.
type Actor struct {
	store *Store
	actor *actorstore.Actor
	opts  ActorOptions

	updates chan struct{} // holds a token while an Update runs
	updater atomic.Int64  // the goroutine that runs it, 0 for none

	mu     sync.Mutex
	closed bool    // +checklocks:mu
	db     *vfs.DB // nil until it is first used  +checklocks:mu
}

// Actor takes the actor of that name, and creates it if there is none: it exists from its
// first commit on. The parts of it are opened when they are first used, and closed by
// Actor.Close.
//
// Errors: ErrInUse, ErrNotFound, ErrReadOnly, ErrCorrupt, those of the engine.
func (s *Store) Actor(ctx context.Context, name string, opts *ActorOptions) (*Actor, error) {
	a := &Actor{store: s, updates: make(chan struct{}, 1)}
	if opts != nil {
		a.opts = *opts
	}
	var err error
	a.actor, err = s.lower.Named(ctx, name, &actorstore.ActorOptions{MustExist: a.opts.MustExist, Wait: a.opts.Wait, Force: a.opts.Force})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Name returns the actor's name.
func (a *Actor) Name() string { return a.actor.Name() }

// Lower returns the layer below: keys and commits alone.
func (a *Actor) Lower() *actorstore.Actor { return a.actor }

// Err returns why the handle is of no more use, ErrFenced or ErrPoisoned; nil while it is.
func (a *Actor) Err() error { return a.actor.Err() }

// Done returns a channel that is closed when the handle is of no more use.
func (a *Actor) Done() <-chan struct{} { return a.actor.Done() }

// Sync returns when everything that was applied before the call is on stable storage: at
// once, if it is already.
func (a *Actor) Sync(ctx context.Context) error { return a.actor.Sync(ctx) }

// check says why the handle is of no use any more, nil if it is.
func (a *Actor) check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	return a.actor.Err()
}

// Close gives the actor up. An Update that runs is waited for; its function must not call
// Close. What UpdateApplied has landed stays applied, and is not waited for. Open rows and
// transactions of SQL make it fail with vfs.ErrBusy: close it again. A Close after that
// succeeded does nothing.
func (a *Actor) Close() error {
	if a.inside() {
		return ErrNested
	}
	a.updates <- struct{}{}
	defer func() { <-a.updates }()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	if a.db != nil {
		if err := a.db.Close(); err != nil {
			return err
		}
		a.db = nil
	}
	a.closed = true
	return a.actor.Close()
}

// SQL returns the actor's database as a pool of connections, which Actor.Close closes: the
// caller must not. Transactions begin as writers and wait for each other, and for an
// Update that has begun to use SQL. A COMMIT is on stable storage when it returns.
// The function of an Update uses its Tx instead: a write through the pool is ErrNested
// there.
//
// If the database can't be opened every use of the pool returns why.
func (a *Actor) SQL() *sql.DB {
	db, err := a.database(context.Background())
	if err != nil {
		return sql.OpenDB(refusal{err})
	}
	return db.DB
}

// database opens the database when it is first asked for.
func (a *Actor) database(ctx context.Context) (*vfs.DB, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.db != nil {
		return a.db, nil
	}
	if a.closed {
		return nil, ErrClosed
	}
	db, err := vfs.Open(ctx, a.actor, &vfs.Options{
		Pragmas: a.opts.Pragmas, MayWrite: a.mayWrite, Logger: a.store.opts.Logger, Metrics: a.store.opts.Metrics,
	})
	if err != nil {
		return nil, err
	}
	a.db = db
	return db, nil
}

// mayWrite refuses writes through SQL to the goroutine of an Update, which would keep
// what it waits for.
func (a *Actor) mayWrite() error {
	if a.inside() {
		return ErrNested
	}
	return nil
}

// inside reports whether the calling goroutine runs an Update of the actor.
func (a *Actor) inside() bool { return a.updater.Load() == goid.Get() }

// enter waits until no other Update runs.
func (a *Actor) enter(ctx context.Context) error {
	if a.inside() || ctx.Value(updating{a}) != nil {
		return ErrNested
	}
	select {
	case a.updates <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("greenroom: update of %q: %w", a.Name(), ctx.Err())
	}
	a.updater.Store(goid.Get())
	return nil
}

func (a *Actor) leave() {
	a.updater.Store(0)
	<-a.updates
}

// updating is the key under which the context of a Tx has whose it is.
type updating struct{ *Actor }

// A refusal is the connector of a database that can't be opened.
type refusal struct{ err error }

func (r refusal) Connect(context.Context) (driver.Conn, error) { return nil, r.err }
func (r refusal) Driver() driver.Driver                        { return r }
func (r refusal) Open(string) (driver.Conn, error)             { return nil, r.err }
