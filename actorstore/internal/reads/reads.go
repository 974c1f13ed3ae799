// Package reads answers what is read of one actor: of its newest state, and of older ones that a
// snapshot shows. There is one Reads for each handle to an actor, of one of three kinds:
//
//   - Plain asks the engine for everything.
//   - Near keeps the pages that are read again and again: a read costs a search in the tables of the
//     engine, and no round trip. Snapshots are the engine's.
//   - Far keeps whatever was read and written: a read crosses a network. A snapshot asks the engine for
//     nothing, and the next commit sees to it that what it replaces stays readable.
package reads

// Files, from the top down:
//
//	new.go farstate.go farread.go far.go near.go plain.go preload.go undolog.go lengths.go reads.go change.go

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

var (
	// ErrClosed is actorstore.ErrClosed.
	ErrClosed = errkind.New("actorstore: closed", errkind.ErrClosed)
	// ErrNotPinned says that a commit would have changed what open snapshots show, and the engine
	// couldn't pin it for them; nothing was written. A state returns it that could not be pinned when
	// the handle was closed.
	ErrNotPinned = errors.New("actorstore: the state of a snapshot could not be pinned")
)

// A Handle is the handle to an actor as its Reads see it. It is safe for concurrent use.
type Handle interface {
	// Seq is the number of the newest applied commit. Once the handle is open it changes within Reads.Land alone.
	Seq() uint64
	// Phase is odd while an engine commit is under way, and never the same again after one.
	Phase() uint64
	// Usable returns why nothing may be read by the handle: that it is closed, or what Err returns.
	Usable() error
	// Err returns why nothing may be read by a snapshot of the handle either.
	Err() error
	// Owned makes sure, after src was read, that the actor is the handle's still.
	Owned(ctx context.Context, src kv.Reader) error
	// StateOwned is Owned for what is read of a state, whose handle may be closed.
	StateOwned(ctx context.Context) error
	// Pin returns a snapshot of the engine, and the number of the commit whose state it shows.
	Pin(ctx context.Context) (kv.Snapshot, uint64, error)
}

// A Reads reads one actor for its handle. What isn't said to need the commit lock is safe for
// concurrent use. A key that is missing is kv.ErrNotFound; damage is kv.ErrCorrupt.
type Reads interface {
	reader

	// Read appends the value of key in the newest state to dst if whole, else its first 10,000 bytes.
	Read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error)
	// Open lets s be the newest state from now on. One that isn't to be listed may cost less.
	Open(ctx context.Context, s *State, lists bool) error
	// Ahead returns how many bytes what is read ahead may fill; 0 where reading ahead doesn't pay.
	Ahead() int64
	// Preload reads ranges of rows with one read of the engine, calls each, unless it is nil, with every
	// entry, and keeps what is worth it as what is used often.
	Preload(ctx context.Context, ranges []kv.Range, each func(rows.Entry) error) error
	// Part returns what is kept of the actor in the cache, nil for nothing. It isn't called while Recall is.
	Part() *cache.Part

	// Size returns the length of the value of key, −1 for a missing one. empty says that the actor has
	// no keys. The caller has the commit lock, as for what follows.
	Size(ctx context.Context, key []byte, empty bool) (int64, error)
	// Depart is called before the engine is sent c. If it fails c must not be sent.
	Depart(ctx context.Context, c *Change) error
	// Land makes c, which the engine has applied, the newest state: it calls c.Publish.
	Land(c *Change)
	// Abort says that c was not applied, or that the handle failed because of it.
	Abort(c *Change)

	// Recall takes over what the handle before has left, if row, which is the stored head now, is what
	// that left. It is called before the handle claims the actor.
	Recall(row []byte)
	// Retire ends the Reads of a handle that is closed. last is its head row, nil if the actor doesn't exist.
	Retire(last *[layout.HeadSize]byte)
}

// A State is a state of an actor that stays as it is, once Reads.Open has set it. It is safe for concurrent
// use, and must not be copied then.
type State struct {
	Seq   uint64      // the number of its commit
	Lists bool        // it may be listed
	Rows  rows.Space  // of the state
	snap  kv.Snapshot // the engine's, nil if far keeps the state

	of     reader
	handle Handle
	closed atomic.Bool
}

// A reader reads a State that it has opened.
type reader interface {
	readAt(ctx context.Context, s *State, key, dst []byte, whole bool) ([]byte, error)
	prefetch(ctx context.Context, s *State, r kv.Range, limit int) (int, error)
	cached(s *State, key []byte) bool
	close(s *State) error
}

// Pin lets s be what a snapshot of the engine shows of an actor that needn't be owned.
func (s *State) Pin(sp rows.Space, snap kv.Snapshot, seq uint64) {
	s.Seq, s.Lists, s.Rows, s.snap, s.of, s.handle = seq, true, sp.Of(snap), snap, views, unowned{}
}

// Err returns why nothing may be read: ErrClosed, or the Err of the handle.
func (s *State) Err() error {
	if s.closed.Load() {
		return ErrClosed
	}
	return s.handle.Err()
}

// Owned makes sure, after a read, that what was read is the handle's still.
func (s *State) Owned(ctx context.Context) error { return s.handle.StateOwned(ctx) }

// Read is Reads.Read of this state.
func (s *State) Read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	return s.of.readAt(ctx, s, key, dst, whole)
}

// Prefetch reads a range of rows ahead, of at most limit keys if limit isn't 0, and returns how many values
// are kept. Where that doesn't pay it does nothing.
func (s *State) Prefetch(ctx context.Context, r kv.Range, limit int) (int, error) {
	return s.of.prefetch(ctx, s, r, limit)
}

// Cached says whether the first page of key would be answered from memory. It asks nothing of the engine.
func (s *State) Cached(key []byte) bool { return s.of.cached(s, key) }

// Close gives the state up, when nothing reads it any more. A second Close returns nil.
func (s *State) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.of.close(s)
}

// An Actor is whose keys are read, and what with.
type Actor struct {
	ID     layout.ID
	Rows   rows.Space // of the newest state; its Source is Engine
	Engine kv.Engine
	Handle Handle
}
