package greenroom

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/metrics"
)

// Options change what Open and New do; nil is the zero Options.
type Options struct {
	// MustExist has Open fail with ErrNotFound instead of making a store. New takes what
	// its engine has.
	MustExist bool
	// ReadOnly opens a store that is there to look at it, with View and Actors: nothing is
	// written, and Actor is ErrReadOnly. It implies MustExist.
	ReadOnly bool
	// WithoutLogRest, if it isn't nil, opens a store in a directory whose log is damaged, with ReadOnly, and gets the cause; see
	// pebblekv.Options. New takes what its engine has.
	WithoutLogRest func(cause error)
	// MinFree is how many bytes of the disk a store that Open opens keeps free: with fewer, commits are ErrNoSpace, and reads go on.
	// 0 means 64 MiB, a negative value that commits go on until the disk is full; see pebblekv.Options. New takes what its
	// engine has.
	MinFree int64
	// Limits bound what an actor stores, and the sizes of keys, values and commits; zero
	// fields are those of batch.DefaultLimits.
	Limits batch.Limits
	// CacheBytes bounds the memory for what is kept of values that were read, of all actors
	// that the process owns, in bytes. 0 means 32 MiB, a negative value none.
	CacheBytes int64
	// Host names this process to others, on an engine that several processes use at
	// once.
	Host actorstore.HostOptions
	// If IDs is set, the name "id:TEXT" means the actor with that id, in the text of
	// actorstore.ID, whether it has a name or not. Use it in tools only: names from untrusted
	// callers could then reach every actor.
	IDs bool
	// Logger takes what goes wrong while no caller waits; nil means slog.Default().
	Logger *slog.Logger
	// Metrics is told what the engine and the parts of the actors count; nil means no one.
	Metrics metrics.Sink
}

// A Store is a set of actors in one engine. All methods are safe for concurrent use.
type Store struct {
	lower  *actorstore.Store
	engine kv.Engine
	own    bool // Close closes the engine
	opts   Options
	roster roster // of *Actor
}

// Open opens the store in the directory dir, which one process can have open at a time, and creates it if it doesn't
// exist. The engine is Pebble, with its default options; for others see New.
//
// Errors: ErrNotFound, ErrInUse, ErrNewerFormat, ErrCorrupt, those of the file system.
func Open(ctx context.Context, dir string, opts *Options) (*Store, error) {
	o := opts.withDefaults()
	engine, err := pebblekv.Open(dir, &pebblekv.Options{
		MinFree: o.MinFree, MustExist: o.MustExist, ReadOnly: o.ReadOnly, WithoutLogRest: o.WithoutLogRest, Logger: o.Logger, Metrics: o.Metrics,
	})
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, engine, &o)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	s.own = true
	return s, nil
}

// New returns the store that engine has, and makes one if it is empty. The engine stays
// the caller's: close it after the Store.
func New(ctx context.Context, engine kv.Engine, opts *Options) (*Store, error) {
	o := opts.withDefaults()
	lower, err := actorstore.Open(ctx, engine, &actorstore.Options{
		Limits: o.Limits, ReadOnly: o.ReadOnly, CacheBytes: o.CacheBytes, Host: o.Host,
	})
	if err != nil {
		return nil, err
	}
	if !numbered() {
		o.Logger.Warn("greenroom: goroutines can't be told apart with this version of Go: an Update within an Update waits for itself unless it is given the transaction as its context",
			slog.String("go", runtime.Version()))
	}
	return &Store{lower: lower, engine: engine, opts: o}, nil
}

func (o *Options) withDefaults() (d Options) {
	if o != nil {
		d = *o
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	return d
}

// Engine returns what the store stands on.
func (s *Store) Engine() kv.Engine { return s.engine }

// Lower returns the layer below: actors as keys and commits alone.
func (s *Store) Lower() *actorstore.Store { return s.lower }

// Close closes the store, and an engine that Open has opened. Actors are to be closed
// before. A second Close returns nil.
func (s *Store) Close() error {
	err := s.lower.Close()
	if s.own {
		err = errors.Join(err, s.engine.Close())
	}
	return err
}

// Actors yields the actors that opts selects, open or not; nil is all of them,
// in the order of their ids. It finds them by an index, so that it costs no more in a store that has many others. An error is yielded once, with a zero ActorInfo.
func (s *Store) Actors(ctx context.Context, opts *ActorsOptions) iter.Seq2[ActorInfo, error] {
	return s.lower.Actors(ctx, opts)
}

// ActorsOptions select actors; see actorstore.ActorsOptions.
type ActorsOptions = actorstore.ActorsOptions

// An ActorInfo is what the store has recorded about an actor; see actorstore.ActorInfo.
type ActorInfo = actorstore.ActorInfo

// Fork makes the actor to, with everything but connections that the actor from stores now.
// The one that is copied may be in use meanwhile, here or elsewhere. An actor of the name
// to that exists is an error, and stays as it is.
//
// Errors: ErrNotFound; those of actorstore.Store.Fork.
func (s *Store) Fork(ctx context.Context, from, to string) (err error) {
	view, err := s.view(ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	o := actorstore.ForkOptions{Name: to, Attributes: attributes.SetReadable}
	if s.isID(to) || to == "" { // no name is ErrName: Fork below would choose a random id
		o.Name = ""
		if o.ID, err = s.ID(ctx, to); err != nil {
			return err
		}
	}
	_, err = s.lower.Fork(ctx, view.Snapshot, &o)
	return err
}

// Drop removes everything that the actor stores, and its name. An actor that is open is
// ErrInUse.
func (s *Store) Drop(ctx context.Context, name string) error {
	id, err := s.ID(ctx, name)
	if err != nil {
		return err
	}
	return s.DropID(ctx, id)
}

// DropID is Drop of the actor with that id, whether it has a name or not.
func (s *Store) DropID(ctx context.Context, id actorstore.ID) error {
	a, err := s.take(ctx, id, actorstore.ActorOptions{MustExist: true})
	if err != nil {
		return err
	}
	return errors.Join(a.Drop(ctx), a.Close())
}

// Restore makes an actor what it was in an earlier state, which Bookmark, or a command, has named: its database, keys, messages, schedule,
// state, workflow and traces are what they were then. All of it is one commit, which is on stable storage when Restore returns, so a crash leaves
// the one or the other. What the actor had before is in the backup, too: Restored.Before leads there. An actor that was dropped
// since is there again.
//
// What can't be undone stays as it is: the ids of messages and the numbers of what the actor sends go on, since receivers go by
// them. Messages that are still to be sent leave when the actor is awake, and those that left are listed. Connections end. What is due by the state (alarms, messages that were leased) waits
// until the actor is called, or woken (RestoreOptions.Wake). Its usage is counted on.
//
// The actor must not be open: ErrInUse. A host.Host that runs it has a Restore of its own.
//
// Errors: ErrUnsupported if no archive.Writer backs the store up in this process, on PostgreSQL for one; ErrNotFound, if the actor, or the state, isn't
// in the backup; archive.ErrBookmark; actorstore.ErrLayout, of an actor that was made anew with other keys; actorstore.ErrNameTaken, of one that was dropped and
// whose name another actor has; ErrTooLarge beyond RestoreOptions.MaxBytes; ErrCorrupt, if a row is damaged, of the actor too: drop it before; those of the
// backup's bucket and of the engine. After an error the actor is as it was, unless that says ErrUnknownOutcome or ErrPoisoned.
func (s *Store) Restore(ctx context.Context, name string, to archive.Bookmark, opts *RestoreOptions) (*Restored, error) {
	id, err := s.ID(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.RestoreID(ctx, id, to, opts)
}

// RestoreID is Restore of the actor with that id, whether it has a name or not.
func (s *Store) RestoreID(ctx context.Context, id actorstore.ID, to archive.Bookmark, opts *RestoreOptions) (r *Restored, err error) {
	var was undo
	if err := was.open(ctx, s.engine, id, to, opts); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, was.state.Close()) }()
	o := actorstore.ActorOptions{Layout: was.state.Layout(), Name: was.state.Info().Name}
	if now, err := s.lower.View(ctx, id); err == nil { // it has its own name
		o.Name = ""
		if err := now.Close(); err != nil {
			return nil, err
		}
	}
	a, err := s.take(ctx, id, o)
	if err != nil {
		return nil, err
	}
	r, err = was.do(ctx, a)
	return r, errors.Join(err, a.Close())
}

// isID says whether a name is the text of an id; see Options.IDs. What begins as one and is
// not well-formed is not a name either: ID says so.
func (s *Store) isID(name string) bool { return s.opts.IDs && strings.HasPrefix(name, "id:") }

// ID returns the id of the actor of that name, or of the one that Actor would create: for
// what is done to an actor by Lower.
//
// Errors: actorstore.ErrName; actorstore.ErrID with Options.IDs; those of the engine.
func (s *Store) ID(ctx context.Context, name string) (actorstore.ID, error) {
	if s.isID(name) {
		return actorstore.ParseID(strings.TrimPrefix(name, "id:"))
	}
	id, err := s.lower.Lookup(ctx, name)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return actorstore.IDFromName(name), nil
	}
	return id, err
}

// take returns the handle of an actor.
func (s *Store) take(ctx context.Context, id actorstore.ID, opts actorstore.ActorOptions) (*actorstore.Actor, error) {
	for waited := true; ; {
		a, err := s.lower.Actor(ctx, id, &opts)
		if !errors.Is(err, ErrInUse) {
			return a, err
		}
		// By a visit, or a handle that is being closed, it isn't for long. The last of those was perhaps there until just now.
		before := waited
		var werr error
		if waited, werr = s.roster.await(ctx, id); !waited && !before || werr != nil {
			return nil, errors.Join(err, werr)
		}
	}
}

// view pins the newest state of an actor. The caller closes it.
func (s *Store) view(ctx context.Context, name string) (*actorstore.View, error) {
	id, err := s.ID(ctx, name)
	if err != nil {
		return nil, err
	}
	v, err := s.lower.View(ctx, id)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		err = fmt.Errorf("greenroom: actor %q: %w", name, actorstore.ErrUnknownActor)
	}
	return v, err
}
