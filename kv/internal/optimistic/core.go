// Package optimistic is the transactions of the engines that a single process has to
// itself: memkv and pebblekv share it. Attempts read a snapshot and take no locks;
// when one commits, it is compared with what was committed since it was pinned, and
// fails if that has written what it has read (txn.Commit has the rule).
//
// The engine brings a store: snapshots, and commits under a lock that orders them.
// While no attempt is pinned and no key watched, the engine's own commits see one
// boolean of this package, and nothing else.
//
// It isn't for engines that several processes write to: they wouldn't see each other.
package optimistic

import (
	"context"
	"sync"

	"github.com/greenroomdb/greenroom/internal/groupcommit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A store is what an engine brings. Its Lock is the one under which every commit of
// the engine is checked and applied; it isn't held during an fsync. The methods that
// say so are called with it held.
type store interface {
	sync.Locker

	// Enter begins a commit, before anything is locked; Leave must follow when it
	// returned nil. It waits where commits have to wait, as ctx allows.
	Enter(ctx context.Context) error
	Leave()

	// Snapshot is kv.Engine's. Pin is the same, called with the lock held.
	Snapshot(ctx context.Context) (kv.Snapshot, error)
	Pin(ctx context.Context) (kv.Snapshot, error)

	// Version is that of the newest applied state: every commit that applies raises
	// it, also those of kv.Engine. Called with the lock held.
	Version() uint64

	// Read appends the newest value of key to dst, see kv.Reader. Called with the
	// lock held.
	Read(key, dst []byte) ([]byte, error)

	// Valid says why ops can't be applied, whatever is stored, alone: the others of
	// their group must not fail with them.
	Valid(ops []kv.Op) error

	// Apply applies ops as one commit, which also makes version the one of the store,
	// for good: it is larger than every version there was, and will never be used
	// again once a reader has seen it. wait returns when the commit is durable, and
	// must be called once, after unlocking. On an error nothing was applied, or the
	// store is poisoned. Called with the lock held.
	Apply(ops []kv.Op, version uint64) (wait func() error, err error)

	// Record remembers an outcome for kv.Engine.Outcome.
	Record(id kv.CommitID, o kv.Outcome)
}

// A Core is the transactions of one store. It must not be copied. What isn't the
// line is guarded by the lock of the store.
type Core struct {
	store store
	// busy: the engine has to tell about its own commits.
	busy bool
	// pinned are the attempts that may still conflict, in the order of their
	// versions. Those that have ended leave when they are the first.
	pinned  []*attempt
	history history
	watches watches
	line    *groupcommit.Line[request] // of commits that wait for their turn
	// group is scratch space of the leader.
	group group
}

// New returns the transactions of s.
func New(s store) *Core { return &Core{store: s, line: groupcommit.New[request](1)} }

// Busy reports whether Applied must be called. Called with the lock held.
func (c *Core) Busy() bool { return c.busy }

// Applied tells of a commit of the engine's own, which made this version. Called with
// the lock held, before anybody can pin a state with the commit.
func (c *Core) Applied(ops []kv.Op, version uint64) {
	c.expire()
	c.note(ops, nil, version)
	for i := range ops {
		c.watches.changed(&ops[i])
	}
}

// note adds what a commit wrote to the history, if anybody can conflict with it.
func (c *Core) note(ops []kv.Op, spans []txn.Span, version uint64) {
	if len(c.pinned) == 0 {
		return
	}
	for i := range ops {
		o := &ops[i]
		if o.Kind == kv.OpClearRange {
			c.history.write(clone(o.Key), clone(o.Value), version)
		} else {
			c.history.writeKey(o.Key, version)
		}
	}
	for _, s := range spans {
		c.history.write(clone(s.Start), clone(s.End), version)
	}
}

// clone copies b; a nil b stays nil, and an empty one doesn't become it.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// pin puts a on the list of those that can conflict.
func (c *Core) pin(a *attempt) {
	c.pinned = append(c.pinned, a)
	c.busy = true
}

// expire drops the attempts at the head of the list that have ended or are too old,
// and the history that no remaining attempt can ask for.
func (c *Core) expire() {
	n := 0
	for n < len(c.pinned) && (c.pinned[n].ended || c.pinned[n].tooOld()) {
		c.pinned[n].ended = true
		c.pinned[n] = nil
		n++
	}
	if c.pinned = c.pinned[n:]; len(c.pinned) > 0 {
		c.history.prune(c.pinned[0].version)
	} else {
		c.pinned, c.history = nil, history{}
	}
	c.busy = len(c.pinned) > 0 || c.watches.len() > 0
}
