// Package actorstore keeps the data of actors in a kv.Engine: each actor with an
// ordered keyspace of its own, one owner at a time, limits and an exact quota.
//
// A Store stands on an engine. Store.Actor takes an actor over and returns the one
// handle to it, an Actor, through which everything of it is written; Store.View
// looks at an actor without owning it. What lives under which key is in keys.go,
// how it lies in the engine in package internal/layout.
//
// # Commits
//
// Everything is written by committing a batch.Batch. Commits of one actor are
// ordered: one lock is held from the Late functions of the batch until the engine
// has applied it, and not during the wait for stable storage, so the next commit
// overlaps with that. Each engine commit checks the actor's head row by value and
// rewrites it, which fences off an owner that was replaced, and keeps the quota
// exact without a scan.
//
// Late functions and the hooks of a batch run under that lock, the hooks in the
// order of the commits. They may read the actor and take locks of their own, but
// must not wait for another commit of the same actor, nor close or drop it; and
// no goroutine may commit while holding a lock that a Late function or a hook takes.
//
// # What a writer knows
//
// To charge the quota, and to remove what a shorter value leaves, a commit must
// know the size of what it replaces. A batch.Prior tells it, and then a commit
// reads nothing; else it reads one range for each such key, or all keys of a
// deleted range. A Prior describes the state before the first write of the batch;
// that several writes of one batch meet the same key is taken care of here. A
// wrong Prior leaves rows behind and makes the quota wrong: only the owner of a
// key, which keeps track of it, may give one.
//
// # Far engines
//
// Where a read crosses a network, values of at most 10,000 bytes stay in a bounded
// cache (Options.CacheBytes), what isn't there included, and a Snapshot asks the engine
// for nothing: it reads the newest state, and the next commit sees to it that what it
// replaces stays readable, from memory if it can. A reader of single keys of a state
// should take a PageSnapshot, for which that is almost always so; Snapshot.Prefetch
// reads ahead.
//
// On near engines a Snapshot is the engine's, and only the pages that are read more than
// once are kept, of values of any size the first 10,000 bytes: that saves a search in the
// tables of the engine. A commit brings nothing in, and what a closed handle leaves behind
// is of no use.
//
// # What it is not
//
// actorstore gives no meaning to values, has no transactions beyond one batch, and
// doesn't own the engine: the program that opened it closes it, after the Store.
package actorstore

// Files, from the top down:
//
//	restore.go fork.go several.go commit.go stage.go open.go own.go flight.go actor.go view.go survey.go check.go notes.go search.go buildindex.go
//	attributes.go usage.go
//	snapshot.go wake.go owners.go user.go published.go incarnation.go store.go sharedsnapshot.go
//	lifecycle.go describe.go reader.go read.go listeners.go wakerow.go doubt.go
//	beside.go host.go places.go registry.go head.go names.go rowowner.go id.go errors.go
//	singles.go hints.go outside.go keys.go

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/lease"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// Limits of every actor; zero fields mean the defaults of package batch.
	Limits batch.Limits
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// ReadOnly refuses to own actors, and writes nothing.
	ReadOnly bool
	// CacheBytes bounds the memory for what is kept of values, of all actors that the
	// Store owns, in bytes. 0 means 32 MiB; a negative value means none.
	CacheBytes int64
	// Host says what this Store is to the others, where several hosts may use the
	// engine: one that isn't a kv.Sharer.
	Host HostOptions
}

// A Store is the actors of one engine. It is safe for concurrent use.
//
// Several Stores may stand on one engine, in one process or in many. In one process
// (kv.Sharer) an actor belongs to the Store that took it last. On other engines each Store is a
// host with a lease, and an actor that a living host has open is ErrInUse elsewhere:
// see HostOptions and docs/hosts.md.
type Store struct {
	directory
	engLimits kv.Limits
	now       func() time.Time
	readOnly  bool
	owners    *owners
	told      *told
	cache     *cache.Cache // nil: nothing is kept
	rows      *rows.Pool

	flights freeList
	shared  shared
	singles singles
	places  places
	doubts  doubts

	hosts *lease.Hosts // what this Store is to other hosts
}

// Open returns a Store on eng; a nil opts is the zero Options. In an empty engine
// it makes a new store, without waiting for stable storage.
//
// Errors: kv.ErrNotAStore when the engine holds something else, ErrNewerFormat
// (as *FormatError), and those of the engine.
func Open(ctx context.Context, eng kv.Engine, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	s := &Store{
		directory: directory{registry: registry{eng: eng, limits: opts.Limits.OrDefault(), closing: make(chan struct{})}}, engLimits: eng.Limits(),
		now: opts.Now, readOnly: opts.ReadOnly, owners: ownersOf(eng), told: toldOf(eng),
	}
	if s.now == nil {
		s.now = time.Now
	}
	var err error
	s.hosts, err = opts.Host.join(lease.Config{
		Engine: eng, Now: s.millis, Closing: s.closing, Check: s.check,
		Yield: func(ctx context.Context, id layout.ID) (lease.Index, error) { return yieldUnknown(ctx, eng, ID(id)) },
	})
	if err != nil {
		return nil, fmt.Errorf("actorstore: open store: %w", err)
	}
	s.cache, s.rows = cache.New(cmp.Or(opts.CacheBytes, cache.DefaultBytes)), rows.NewPool(Describe)
	if err := format(ctx, eng, s.now, s.readOnly); err != nil {
		return nil, fmt.Errorf("actorstore: open store: %w", err)
	}
	return s, nil
}

// Make makes a new store in an engine that is empty, as Open does, and leaves one as it is. A
// package that keeps rows of its own for the whole store calls it before it writes the first
// one: an engine that has rows and no store is refused for good.
//
// Errors are those of Open.
func Make(ctx context.Context, eng kv.Engine) error {
	if err := format(ctx, eng, time.Now, false); err != nil {
		return fmt.Errorf("actorstore: make store: %w", err)
	}
	return nil
}

// format checks the format row, and writes it into an empty engine.
func format(ctx context.Context, eng kv.Engine, now func() time.Time, readOnly bool) error {
	for {
		row, err := eng.Get(ctx, layout.FormatKey(), nil)
		if err == nil {
			return layout.CheckFormat(row)
		}
		if !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		if err := noRows(ctx, eng); err != nil {
			return err
		}
		if readOnly {
			return nil // empty, and it stays so
		}
		d := kv.Applied // if it is lost in a crash, then so is everything that came after it
		if kv.Shared(eng) == nil {
			d = kv.Durable // others, or a later Incarnation, may go on without it
		}
		err = eng.Commit(ctx, &kv.Commit{
			Checks:     []kv.Check{{Key: layout.FormatKey(), Absent: true}},
			Ops:        []kv.Op{kv.Set(layout.FormatKey(), layout.AppendFormat(nil, now().UnixMilli())), kv.Set(layout.BuiltKey(), (&layout.Built{Done: true}).Append(nil))},
			Durability: d,
		})
		// A conflict means that another one was faster: look again.
		if !errors.Is(err, kv.ErrConflict) {
			return err
		}
	}
}

// beside are the first elements of the rows that other packages of the module keep in the engine, ascending: it
// need not be empty of those. Items and documents need no store of actors. Earlier versions of the third wrote
// their row without Make.
var beside = []string{"docs", "greenroom.front", "items"}

// noRows makes sure that the engine holds nothing but a format row and what lies beside actors.
func noRows(ctx context.Context, eng kv.Engine) error {
	var start []byte
	for i := range len(beside) + 1 {
		r := kv.Range{Start: start, Limit: 1}
		if i < len(beside) {
			r.End = tuple.Tuple{beside[i]}.Pack()
			start = layout.AppendAbove(r.End)
		}
		for e, err := range eng.Scan(ctx, r) {
			if err != nil {
				return err
			}
			if string(e.Key) != string(layout.FormatKey()) {
				return fmt.Errorf("%w: it has no format row, and holds the key %x", kv.ErrNotAStore, e.Key)
			}
		}
	}
	return nil
}

// millis is the time in Unix milliseconds.
func (s *Store) millis() int64 { return s.now().UnixMilli() }

// Advertise tells the other hosts, and tools, at which address they reach the API to look into the store (package admin), which this Store's process serves:
// HOST:PORT, or https://HOST:PORT of a proxy in front of it that speaks TLS, at most 256 bytes; "" for none any more. It stands in the row of the
// store's lease, from the first actor on that the store opens. Hosts of an older version can't read such a row: their calls for
// an actor that this host has, or had when it died, fail with a *kv.FormatError.
//
// A row that is there is rewritten at once; if that fails, the next renewal does it. Where all users of the engine are in one process (see HostOptions) it
// does nothing. Errors: ErrClosed, ErrReadOnly, one of an address that can't be told, that of ctx.
func (s *Store) Advertise(ctx context.Context, address string) error {
	var err error
	if address != "" {
		err = CheckAddress(address)
	}
	if err = cmp.Or(s.announces(), err); err == nil && s.owners == nil {
		err = s.hosts.Announce(ctx, func(a *layout.Announcement) { a.Address = address })
	}
	if err != nil {
		return fmt.Errorf("actorstore: advertise: %w", err)
	}
	return nil
}

// Offer tells the other hosts what this Store's process does for them. A Store that isn't a host becomes one: the host's row, which Hosts lists, says o from now on, and Self
// is the host's id; after the lease was lost that takes another call, or an actor that the Store opens. The rest is as with Advertise.
func (s *Store) Offer(ctx context.Context, o *Offer) error {
	row := o.row()
	err := cmp.Or(s.announces(), row.Check())
	if err == nil && s.owners == nil {
		err = cmp.Or(s.hosts.Announce(ctx, func(a *layout.Announcement) { a.Offer = row }), s.hosts.Register(ctx))
	}
	if err != nil {
		return fmt.Errorf("actorstore: offer: %w", err)
	}
	return nil
}

// announces returns an error if the Store can tell others nothing.
func (s *Store) announces() error {
	if err := s.check(); err != nil {
		return err
	}
	if s.readOnly {
		return ErrReadOnly
	}
	return nil
}

// Self returns the id of the host that the Store is, the zero HostID before its first actor or Offer, and where all users of the engine are in one
// process. The Store may have lost that host's lease.
func (s *Store) Self() HostID {
	if s.owners != nil || s.readOnly {
		return HostID{}
	}
	return s.hosts.Own()
}

// Close closes every handle of s, waiting for commits until they are applied, and
// refuses new ones; a call that waits for an actor gets ErrClosed. Other hosts may take the
// actors at once then; if the engine can't be told so within a TTL they wait for the
// end of the lease, and the error says why. Snapshots and views stay open and are their owners'
// to close. It doesn't close the engine. A second Close returns nil.
func (s *Store) Close() error {
	open, first := s.places.close()
	if !first {
		return nil
	}
	close(s.closing)
	var errs []error
	for _, a := range open {
		errs = append(errs, a.Close())
	}
	return errors.Join(append(errs, s.hosts.Close())...)
}

// space returns the rows of an actor that src shows.
func (s *Store) space(id ID, src kv.Reader) rows.Space {
	return rows.Space{Source: src, Prefix: layout.NewPrefix(layout.ID(id)), Pool: s.rows}
}
