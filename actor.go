package greenroom

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/workflow"
)

// ActorOptions change what Store.Actor does; nil is the zero ActorOptions.
type ActorOptions struct {
	// MustExist refuses an actor that was never written to: ErrNotFound.
	MustExist bool
	// Wait waits until the actor is free, instead of returning ErrInUse. It ends with the
	// context.
	Wait bool
	// Force takes the actor from a host that is alive, which is fenced.
	Force bool
	// If Create is set, Actor stores a new actor's record at once, by a commit of its own,
	// and not with the first change of it.
	Create bool
	// Input is what a new actor is created with, one value in CBOR, for Tx.Input. It is stored
	// by the first Update that writes anything, or see Create. An actor that has been created
	// already keeps the input that it has.
	Input []byte
	// DB and Queue change the actor's database and its queue; nil is the zero value.
	DB    *DBOptions
	Queue *QueueOptions
	// MaxSchema refuses an actor whose database is of a version above it: *SchemaError. Such an actor isn't taken. 0 means any, and actorstore.NoSchema none.
	MaxSchema uint64
	// Traces says how spans are recorded, one for every Update; nil records none.
	Traces *TracesOptions
}

// An Actor is one actor that this process owns. All methods are safe for concurrent use.
type Actor struct {
	backed
	store      *Store
	actor      *actorstore.Actor
	opts       ActorOptions
	log        *slog.Logger
	clock      *alarm.Clock
	deliveries deliveries

	updates chan struct{} // holds a token while an Update runs
	updater atomic.Int64  // the goroutine that runs it, 0 for none
	flushed time.Time     // when spans last landed with one; of the Update that runs
	leaving chan struct{} // closed, once, when no Update begins any more
	left    sync.Once

	workflow atomic.Pointer[workflow.Workflow] // that is open, nil for none

	kept atomic.Bool // the input is stored, or another one

	mu      sync.Mutex
	ending  bool                 // no workflow is opened any more  +checklocks:mu
	closed  bool                 // no part is used any more  +checklocks:mu
	refused *sql.DB              // what SQL returns if the database can't be opened  +checklocks:mu
	db      lazy[vfs.DB]         // +checklocks:mu
	queue   lazy[queue.Queue]    // +checklocks:mu
	record  lazy[persist.Record] // +checklocks:mu
	conns   lazy[conn.Set]       // +checklocks:mu
	traces  lazy[traces.Traces]  // +checklocks:mu

	workflows []*opening // of workflows; it grows before ending  +checklocks:mu
}

// Actor takes the actor of that name, and creates it if it doesn't exist: it exists from its first
// commit on. The parts of it are opened when they are first used, and closed by Actor.Close.
//
// Errors: ErrInUse, ErrNotFound, ErrReadOnly, ErrCorrupt, those of the engine.
func (s *Store) Actor(ctx context.Context, name string, opts *ActorOptions) (*Actor, error) {
	o := orZero(opts)
	if len(o.Input) > 0 {
		if err := cbor.Valid(o.Input); err != nil {
			return nil, fmt.Errorf("greenroom: the input of actor %q: %w", name, err)
		}
	}
	lo := actorstore.ActorOptions{MustExist: o.MustExist, Wait: o.Wait, Force: o.Force, MaxSchema: o.MaxSchema}
	if s.isID(name) || name == "" {
		id, err := s.ID(ctx, name) // ErrName without a name
		if err != nil {
			return nil, err
		}
		return s.open(ctx, id, name, lo, o)
	}
	lo.Name = name // if it is new
	id := actorstore.IDFromName(name)
	a, err := s.open(ctx, id, name, lo, o)
	if of, ok := s.lower.Holder(ctx, id, name, err); ok {
		return s.open(ctx, of, name, lo, o)
	}
	return a, err
}

// open opens the actor with that id, whose name, or id, the caller has called.
func (s *Store) open(ctx context.Context, id actorstore.ID, called string, lo actorstore.ActorOptions, o ActorOptions) (*Actor, error) {
	end := s.roster.begin(id)
	var a *Actor
	var opened any // nil, or a
	lower, err := s.take(ctx, id, lo)
	if err == nil {
		a = s.newActor(lower, called, o)
		opened = a
	}
	end(opened)
	return a, err
}

// Visit runs fn with an actor that exists, for tools that act from outside of the code that owns it: with the handle that
// this Store has open, beside what else is done with that, or with one that is open for the call alone. Actor waits
// meanwhile for the end of the call. The context of fn ends with ctx, and when the program closes the handle, which waits for fn. fn must not
// close the actor. An error of fn's is returned after what it had landed is on stable storage.
//
// Errors: fn's; ErrNotFound, of an actor that does not exist; ErrInUse, if a handle is open that isn't one of this Store, here
// or elsewhere; those of the engine.
func (s *Store) Visit(ctx context.Context, id actorstore.ID, fn func(ctx context.Context, a *Actor) error) error {
	for {
		c, err := s.roster.claim(ctx, id)
		if err != nil {
			return err
		}
		if c.a != nil {
			defer c.end()
			return fn(c.ctx, c.a.(*Actor))
		}
		lower, err := s.lower.Actor(ctx, id, &actorstore.ActorOptions{MustExist: true})
		if err == nil {
			defer c.end()
			a := s.newActor(lower, lower.Name(), ActorOptions{})
			err := fn(ctx, a)
			if a.Err() == nil {
				err = errors.Join(err, a.Sync(context.WithoutCancel(ctx)))
			}
			return errors.Join(err, a.Close())
		}
		if !errors.Is(err, ErrInUse) {
			c.end()
		} else if had, werr := s.roster.yield(ctx, id, c.held); had && werr == nil { // by a handle that Actor was about to return
			continue
		} else {
			err = errors.Join(err, werr)
		}
		return fmt.Errorf("greenroom: visit actor %v: %w", id, err)
	}
}

// BuildIndex completes the index by which Actors finds actors, of a store from an older version of this module: until then a search by
// anything but names is actorstore.ErrNotIndexed. In any other store it returns at once. It may be interrupted, and goes on where it ended. Actors may be
// in use meanwhile.
//
// Errors: ErrInUse, if another process has an actor open that isn't indexed yet; those of the engine.
func (s *Store) BuildIndex(ctx context.Context) error {
	return s.lower.BuildIndex(ctx, false, func(ctx context.Context, id actorstore.ID) error {
		_, err := indexer{s}.repair(ctx, id)
		return err
	})
}

// RepairIndex gives every actor the attributes that follow from what it stores, and makes the index what those say. It returns how many actors, and how many rows of
// the index, were another way. What damage keeps from being read stays as it is; see actorstore.Store.Check. Errors are those of BuildIndex.
func (s *Store) RepairIndex(ctx context.Context) (actors, rows int, err error) {
	removed, written, err := s.lower.RepairIndex(ctx)
	if err != nil {
		return 0, removed + written, err
	}
	err = s.lower.BuildIndex(ctx, true, func(ctx context.Context, id actorstore.ID) error {
		repaired, err := indexer{s}.repair(ctx, id)
		if repaired {
			actors++
		}
		return err
	})
	return actors, removed + written, err
}

// An indexer makes the actors of a store be found by what they store.
type indexer struct{ *Store }

// repair gives an actor the attributes that follow from what it stores, and says whether it had others. An actor that is gone, or that can't be
// read, is left as it is.
func (s indexer) repair(ctx context.Context, id actorstore.ID) (repaired bool, err error) {
	wrong := false
	v, err := s.lower.View(ctx, id)
	if err == nil {
		_, wrong, err = attributes.Wrong(ctx, v)
		err = errors.Join(err, v.Close())
	}
	if wrong && err == nil {
		err = s.Visit(ctx, id, func(ctx context.Context, a *Actor) error { return attributes.Repair(ctx, a.actor) })
		repaired = err == nil
	}
	for _, left := range []error{ErrNotFound, ErrCorrupt, ErrNewerFormat} {
		if errors.Is(err, left) {
			return false, nil
		}
	}
	return repaired, err
}

// newActor returns the actor whose handle is lower. The options become its own.
func (s *Store) newActor(lower *actorstore.Actor, name string, opts ActorOptions) *Actor {
	a := &Actor{
		store: s, actor: lower, opts: opts, log: s.opts.Logger.With(slog.String("name", name)),
		clock: alarm.New(nil), updates: make(chan struct{}, 1), leaving: make(chan struct{}),
	}
	a.backed = backed{lower, s.engine, a.check, a.end}
	a.opts.Input = bytes.Clone(opts.Input)
	a.deliveries.actor, a.deliveries.handlers = a, map[string]handler{}
	return a
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

// Close gives the actor up. Run and a workflow that runs are ended, and an Update that runs is waited
// for: neither its function nor a step of the workflow may call Close. What UpdateApplied landed
// stays applied, and Close doesn't wait for stable storage. Open rows and transactions of SQL make it
// fail with vfs.ErrBusy: end them and close it again; nothing else can be done with it meanwhile. A
// Close after one that succeeded does nothing.
func (a *Actor) Close() error { return a.end(func() error { return nil }) }

// Drop removes everything that the actor stores, and its name, and closes the actor, which
// it does as Close.
func (a *Actor) Drop(ctx context.Context) error {
	return a.end(func() error { return a.actor.Drop(ctx) })
}

// end closes the actor, and calls last before the handle is given up.
func (a *Actor) end(last func() error) error {
	if err := a.outside(context.Background()); err != nil {
		return err
	}
	a.store.roster.leave(a.actor.ID(), a)
	defer a.store.roster.gone(a)
	a.mu.Lock()
	a.ending = true
	workflows := slices.Clone(a.workflows)
	a.mu.Unlock()
	for _, o := range workflows {
		o.cancel()
		<-o.done
	}
	if w := a.workflow.Load(); w != nil {
		if err := w.Close(); err != nil {
			return err
		}
	}
	a.deliveries.close() // what it has begun may still change the actor
	a.left.Do(func() { close(a.leaving) })
	a.updates <- struct{}{}
	defer func() { <-a.updates }()
	return a.shut(last)
}

// Handle has Run call fn for messages and events of that name. fn runs in a transaction,
// with which the message is completed, unless fn settles it, or the event is done: what fn
// does is done exactly once. After an error, or a panic, it is called again later, with
// nothing of it done; a message whose error queue.Permanent has marked becomes a dead letter instead. Its context doesn't end with Run's: Run and Close wait for fn, which
// must not wait for ever. A second Handle of a name replaces the first one. A nil fn panics.
func (a *Actor) Handle(name string, fn func(tx *Tx, d *Delivery) error) {
	if fn == nil {
		panic("greenroom: a handler that is nil")
	}
	a.deliveries.handle(name, fn)
}

// Run calls the handlers (see Handle) for the messages of the queue and for the events of
// the schedule that are due, one of each kind at a time, until ctx is done, which is nil, or
// the actor is closed or lost, whose error it returns. What has no handler stays where it
// is, and is logged once. A message that a handler fails for waits for longer after each
// failure, unless the queue can't be written: Run returns why. It may be called again after
// that; beside another Run it is persist.ErrStarted.
func (a *Actor) Run(ctx context.Context) error { return a.deliveries.run(ctx) }

// View is Store.View of the actor. It may run beside an Update, and within one: it doesn't see the
// Update's writes before they land. An actor that was never written to is ErrNotFound.
func (a *Actor) View(ctx context.Context, fn func(v *View) error) error {
	if err := a.check(); err != nil {
		return err
	}
	at, err := a.store.lower.View(ctx, a.actor.ID())
	if err != nil {
		return err
	}
	// A server that took over, or was restored, may know less than this handle has committed.
	if err := a.actor.Owned(ctx); err != nil {
		return errors.Join(err, at.Close())
	}
	db := dbOptions(a.opts.DB, a)
	db.MayWrite = nil // nothing is written
	return look(ctx, at, db, a.clock.Now, fn)
}

// Clock returns the alarm clock that the parts of the actor share. Its Next is when the
// actor must be open for what is due, as far as the parts that are open know.
func (a *Actor) Clock() *alarm.Clock { return a.clock }

// SQL returns the actor's database as a pool of connections, which Actor.Close closes: the
// caller must not. Transactions begin as writers and wait for each other, and for an
// Update that has begun to use SQL. A COMMIT is on stable storage when it returns.
// The function of an Update uses its Tx instead: a write through the pool is ErrNested
// there, and on another goroutine if its context is the Tx.
//
// Between two uses a connection keeps what DBOptions.MaxIdleTime says, as a new one would have it.
//
// If the database can't be opened every use of the pool returns why.
func (a *Actor) SQL() *sql.DB {
	db, err := a.database(context.Background())
	if err == nil {
		return db.DB
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return closedPool() // one for each actor would be left open
	}
	if a.refused == nil {
		a.refused = sql.OpenDB(refusal{func(ctx context.Context) error {
			_, err := a.database(ctx)
			return cmp.Or(err, error(driver.ErrBadConn)) // SQL has another pool by now
		}})
	}
	return a.refused
}

// outside refuses what would wait for an Update of the actor to the goroutine that runs
// one, and to others with its transaction as their context: it may wait for them.
func (a *Actor) outside(ctx context.Context) error {
	if g := goroutine(); g != 0 && a.updater.Load() == g || ctx.Value(updating{a}) != nil {
		return ErrNested
	}
	return nil
}

// enter waits until no other Update runs.
func (a *Actor) enter(ctx context.Context) error {
	if err := a.outside(ctx); err != nil {
		return err
	}
	select {
	case a.updates <- struct{}{}:
	default: // only now a context that makes its channel when it is asked for it does so
		select {
		case a.updates <- struct{}{}:
		case <-a.leaving:
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("greenroom: update of %q: %w", a.Name(), ctx.Err())
		}
	}
	select {
	case <-a.leaving:
		<-a.updates
		return ErrClosed
	default:
		a.updater.Store(goroutine())
		return nil
	}
}

func (a *Actor) leave() {
	a.updater.Store(0)
	<-a.updates
}

// updating is the key under which the context of a Tx has whose it is.
type updating struct{ *Actor }

// A refusal is the connector of a database that can't be opened.
type refusal struct{ why func(context.Context) error }

func (r refusal) Connect(ctx context.Context) (driver.Conn, error) { return nil, r.why(ctx) }
func (r refusal) Driver() driver.Driver                            { return r }
func (r refusal) Open(string) (driver.Conn, error)                 { return r.Connect(context.Background()) }

// closedPool returns the pool of every actor that is closed.
var closedPool = sync.OnceValue(func() *sql.DB {
	return sql.OpenDB(refusal{func(context.Context) error { return ErrClosed }})
})
