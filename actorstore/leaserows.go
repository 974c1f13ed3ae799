package actorstore

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// An unclaim is an actor whose owner row is to be removed, if it names this host, so that
// other hosts may have the actor without asking.
type unclaim struct {
	row   []byte  // the row, nil if that isn't known
	ops   []kv.Op // what lands with that, of the index of actors to be woken
	known bool    // ops is right; else the store says what it is
	tries int     // how often it may be found missing: the claim is perhaps still to land
}

// triesInDoubt is how many renewals a claim whose outcome isn't known is looked for: a
// TTL, in which an engine surely ends what it heard of a lost connection.
const triesInDoubt = 4

// released are the actors whose owner rows a host has removed lately. After a failover to a
// server that has missed these commits, some of the rows are back, and would keep every other
// host from opening the actors for as long as this one lives.
type released struct {
	in         kv.Incarnation // in which all of them were removed
	ids, older map[ID]bool
	since      time.Time // of ids
}

// A server that takes over may have missed the last seconds, so ids are kept for at least
// releasedFor, unless there are more than maxReleased.
const (
	releasedFor = time.Minute
	maxReleased = 8192
)

func (r *released) add(id ID) {
	if now := monotonic(); r.ids == nil || len(r.ids) == maxReleased || now.Sub(r.since) > releasedFor {
		r.ids, r.older, r.since = map[ID]bool{}, r.ids, now
	}
	r.ids[id] = true
}

// releaseAgain has giveUp look, in a new incarnation of the engine, for the owner rows that were
// removed in the one before.
func (h *host) releaseAgain() {
	in := h.hosting.store.eng.Incarnation()
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &h.released
	if r.in == in || h.lost {
		return
	}
	for _, ids := range []map[ID]bool{r.older, r.ids} {
		for id := range ids {
			h.unclaimed[id] = unclaim{tries: max(h.unclaimed[id].tries, 1)}
		}
	}
	h.released = released{in: in}
}

// leave removes a handle, and its claim. What can't be removed now is tried again with
// the renewals, and ends with the host.
func (h *host) leave(a *Actor) {
	u := unclaim{row: a.claim, tries: 1}
	u.ops, u.known = yieldWake(a)
	if !a.claimed {
		u.tries = triesInDoubt
	}
	h.mu.Lock()
	if h.handles[a.id] == a {
		delete(h.handles, a.id)
	}
	claimed := a.claim != nil && !h.lost && h.hosting.store.check() == nil // a host that is gone claims nothing
	if claimed {
		h.unclaimed[a.id] = u
	}
	h.mu.Unlock()
	if claimed && a.claimed {
		ctx, cancel := context.WithTimeout(context.Background(), h.every)
		defer cancel()
		_ = h.release(ctx, a.id, u) // it is tried again
	}
}

// release removes the owner row of an actor that the host doesn't have open.
func (h *host) release(ctx context.Context, id ID, u unclaim) error {
	in := h.hosting.store.eng.Incarnation()
	there, err := h.remove(ctx, id, u)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch now, ok := h.unclaimed[id]; {
	case !ok || !bytes.Equal(now.row, u.row): // it was opened and closed again meanwhile
	case !there && now.tries > 1:
		h.unclaimed[id] = unclaim{u.row, u.ops, u.known, now.tries - 1}
	case in != h.released.in: // it may be there again
		h.unclaimed[id] = unclaim{tries: 1}
	default:
		delete(h.unclaimed, id)
		h.released.add(id)
	}
	return nil
}

// remove removes an owner row; if u has none, whichever one names this host. there is false if
// the row belongs to another host by now, or to a handle that is open.
func (h *host) remove(ctx context.Context, id ID, u unclaim) (there bool, err error) {
	key, row := layout.RecordKey(layout.ID(id), layout.PartOwner), u.row
	if row == nil {
		row, err = h.hosting.store.eng.Get(ctx, key, nil)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
		o, damaged := layout.ParseOwner(layout.ID(id), row) // a check tells of it
		if err != nil || damaged != nil || o.Host != h.id || h.handle(id) != nil {
			return false, nil // a handle opened after this writes another row, and the check fails
		}
	}
	if !u.known {
		if u.ops, err = h.yieldUnknown(ctx, id); err != nil {
			return false, err
		}
	}
	err = h.hosting.store.eng.Commit(ctx, &kv.Commit{
		Checks: []kv.Check{{Key: key, Value: row}},
		Ops:    append(slices.Clip(u.ops), kv.Clear(key)),
	})
	if errors.Is(err, kv.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// giveUp removes the owner rows that are left, and those that are there again.
func (h *host) giveUp(ctx context.Context) {
	h.releaseAgain()
	h.mu.Lock()
	left := maps.Clone(h.unclaimed)
	h.mu.Unlock()
	for id, u := range left {
		if h.release(ctx, id, u) != nil {
			return // they wait for the next renewal
		}
	}
}

// sweepEvery is how many renewals lie between two sweeps, sweepRows how many rows one
// looks at.
const (
	sweepEvery = 256
	sweepRows  = 256
)

// sweep removes the rows of hosts that died long ago and had no actor that anybody
// has opened since. It is a courtesy: what fails of it is left to the next one.
func (g *hosting) sweep(ctx context.Context) {
	if g.opts.MaxClockSkew < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, g.opts.TTL)
	defer cancel()
	start, end := layout.RowsRange(layout.KindHost)
	page, err := g.store.page(ctx, kv.Range{Start: start, End: end, Limit: sweepRows})
	if err != nil {
		return
	}
	for _, e := range page {
		id, ok := layout.ParseHostKey(e.Key)
		if !ok {
			continue // a check tells
		}
		row, err := layout.ParseHost(id, e.Value)
		if err != nil || !g.expired(&row) {
			continue
		}
		if err := g.kill(ctx, id, e.Value); err != nil && !errors.Is(err, kv.ErrConflict) {
			return
		}
	}
}

// left returns for how long a lease may hold, going by the clocks of both hosts: below
// 0 when it is over. Where no clock is believed it is never over.
func (g *hosting) left(row *layout.Host) time.Duration {
	skew := g.opts.MaxClockSkew
	if skew < 0 {
		return layout.MaxTTL
	}
	const bound = 1 << 40 // ms: no row makes the sum run over
	left := min(max(row.Expires-g.clock.earliest(), -bound), bound) + min(skew.Milliseconds(), bound)
	return time.Duration(left) * time.Millisecond
}

// expired says whether a lease is over, going by the clocks of both hosts.
func (g *hosting) expired(row *layout.Host) bool { return g.left(row) < 0 }

// kill removes the row of a host whose lease is over, so that it can't be renewed
// any more. It conflicts if it was renewed meanwhile.
func (g *hosting) kill(ctx context.Context, id HostID, row []byte) error {
	key := layout.HostKey(id)
	return g.store.eng.Commit(ctx, &kv.Commit{
		Checks: []kv.Check{{Key: key, Value: row}},
		Ops:    []kv.Op{kv.Clear(key)},
	})
}

// A sighting is when another host's row was first seen as it is. It is of the same
// count as long as nothing was renewed.
type sighting struct {
	count uint64
	since time.Time
	gone  bool // for ever: ids of hosts are never used again
}
