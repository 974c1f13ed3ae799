package lease

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// A Handle is a handle to an actor, as its host sees it. The methods must be quick, but for
// Survey, and safe for concurrent use.
type Handle interface {
	// Fence makes the handle refuse everything from now on, because of cause.
	Fence(cause error)
	// Survey finds out, if the handle has not in that incarnation of the engine, what it has lost with the
	// engine's server. One that can't tell yet is asked again.
	Survey(ctx context.Context, in kv.Incarnation)
}

// A held is a handle of a host.
type held struct {
	id     layout.ID
	handle Handle
	row    []byte // the owner row that was sent, nil if none was
	landed bool   // the row is known to be there
	// dropped is the incarnation in which the actor was removed, and the row with it; 0 if it wasn't.
	dropped kv.Incarnation
}

// claims are the handles of a host, and the owner rows of those that it has open no more.
type claims struct {
	*base
	host [16]byte

	mu      sync.Mutex
	lost    bool                // the host has no lease any more  +checklocks:mu
	handles map[layout.ID]*held // +checklocks:mu
	// unclaimed are the owner rows that are still to be removed.
	unclaimed map[layout.ID]unclaim // +checklocks:mu
	released  released              // +checklocks:mu
}

// errHostLost is why the handles of a host are fenced whose lease another host ended.
var errHostLost = errors.New("the lease of its host was not renewed in time, and others have taken over")

// An unclaim is an actor whose owner row is to be removed, if it names this host, so that
// other hosts may have the actor without asking.
type unclaim struct {
	row   []byte // the row, nil if that isn't known: any that names this host
	index Index  // what lands with that
	known bool   // index is as the handle knows it; else the store says what it is
	tries int    // how often to look for it: the claim is perhaps still to land
}

// triesInDoubt is how many renewals a claim whose outcome isn't known is looked for: a
// TTL, in which an engine surely ends what it heard of a lost connection.
const triesInDoubt = 4

// released are the actors whose owner rows a host has removed lately. After a failover to a
// server that has missed these commits, some of the rows are back, and would keep every other
// host from opening the actors for as long as this one lives.
type released struct {
	in         kv.Incarnation // in which all of them were removed
	ids, older map[layout.ID]bool
	since      time.Time // of ids
}

// A server that takes over may have missed the last seconds, so ids are kept for at least
// releasedFor, unless there are more than maxReleased.
const (
	releasedFor = time.Minute
	maxReleased = 8192
)

func (r *released) add(id layout.ID) {
	if now := monotonic(); r.ids == nil || len(r.ids) == maxReleased || now.Sub(r.since) > releasedFor {
		r.ids, r.older, r.since = map[layout.ID]bool{}, r.ids, now
	}
	r.ids[id] = true
}

// releaseAgain makes giveUp look, in a new incarnation of the engine, for the owner rows that were
// removed in the one before.
func (c *claims) releaseAgain() {
	in := c.Engine.Incarnation()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.released
	if r.in == in || c.lost {
		return
	}
	for _, ids := range []map[layout.ID]bool{r.older, r.ids} {
		for id := range ids {
			c.unclaimed[id] = unclaim{tries: max(c.unclaimed[id].tries, 1)}
		}
	}
	c.released = released{in: in}
}

// enter adds a handle, before it claims its actor; false when the lease is lost.
func (c *claims) enter(h *held) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lost {
		c.handles[h.id] = h
	}
	return !c.lost
}

// handle returns the handle to an actor, nil if the host doesn't have it open.
func (c *claims) handle(id layout.ID) *held {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handles[id]
}

// survey asks each handle what it has lost with the engine's server.
func (c *claims) survey(ctx context.Context) {
	in := c.Engine.Incarnation()
	c.mu.Lock()
	handles := slices.Collect(maps.Values(c.handles))
	c.mu.Unlock()
	for _, h := range handles {
		if ctx.Err() == nil {
			h.handle.Survey(ctx, in)
		}
	}
}

// lose fences every handle: another host has ended the lease.
func (c *claims) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = true
	clear(c.unclaimed)
	for _, h := range c.handles {
		h.handle.Fence(errHostLost)
	}
}

func (c *claims) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// leave removes a handle, and says whether its claim, which is u, is to be removed.
func (c *claims) leave(h *held, u unclaim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handles[h.id] == h {
		delete(c.handles, h.id)
	}
	if c.lost || c.Check() != nil { // a host that is gone claims nothing
		return false
	}
	if u.row == nil {
		if _, left := c.unclaimed[h.id]; !left && h.dropped != 0 {
			c.removed(h.id, h.dropped)
		}
		return false
	}
	if old, left := c.unclaimed[h.id]; left { // the row that is stored may be of either
		u = unclaim{tries: max(old.tries, u.tries)}
	}
	c.unclaimed[h.id] = u
	return true
}

// release removes the owner row of an actor that the host doesn't have open.
func (c *claims) release(ctx context.Context, id layout.ID, u unclaim) error {
	in := c.Engine.Incarnation()
	there, err := c.remove(ctx, id, u)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch now, ok := c.unclaimed[id]; {
	case !ok || !bytes.Equal(now.row, u.row): // it was opened and closed again meanwhile
	case now.tries > 1 && (!there || u.row == nil): // of several rows one is gone
		c.unclaimed[id] = unclaim{u.row, u.index, u.known, now.tries - 1}
	default:
		c.removed(id, in)
	}
	return nil
}

// removed notes that the owner row of an actor was removed, in an incarnation of the engine or a later one.
//
// +checklocks:c.mu
func (c *claims) removed(id layout.ID, in kv.Incarnation) {
	if in != c.released.in { // it may be there again
		c.unclaimed[id] = unclaim{tries: 1}
		return
	}
	delete(c.unclaimed, id)
	c.released.add(id)
}

// remove removes an owner row; if u has none, whichever one names this host. there is false if
// the row belongs to another host by now, or to a handle that is open.
func (c *claims) remove(ctx context.Context, id layout.ID, u unclaim) (there bool, err error) {
	key, row := layout.RecordKey(id, layout.PartOwner), u.row
	if row == nil {
		row, err = c.Engine.Get(ctx, key, nil)
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return false, err
		}
		o, damaged := layout.ParseOwner(id, row) // a check tells of it
		if err != nil || damaged != nil || o.Host != c.host || c.handle(id) != nil {
			return false, nil // a handle opened after this writes another row, and the check fails
		}
	}
	if !u.known {
		if u.index, err = c.Yield(ctx, id); err != nil {
			return false, err
		}
	}
	err = c.Engine.Commit(ctx, &kv.Commit{
		Checks: append(slices.Clip(u.index.Checks), kv.Check{Key: key, Value: row}),
		Ops:    append(slices.Clip(u.index.Ops), kv.Clear(key)),
		// If a crash takes it back the row is removed again, or ends with the lease.
		Durability: kv.Applied,
	})
	switch {
	case !errors.Is(err, kv.ErrConflict):
		return err == nil, err
	case u.known && len(u.index.Checks) > 0: // a crash may have taken what the handle knew
		u.known = false
		return c.remove(ctx, id, u)
	}
	return false, nil
}

// giveUp removes the owner rows that are left, and those that are there again.
func (c *claims) giveUp(ctx context.Context) {
	c.releaseAgain()
	c.mu.Lock()
	left := maps.Clone(c.unclaimed)
	c.mu.Unlock()
	for id, u := range left {
		if u.row == nil && c.handle(id) != nil {
			continue // the row is perhaps that of a handle that is open
		}
		if c.release(ctx, id, u) != nil {
			return // they wait for the next renewal
		}
	}
}
