package actorstore

import (
	"context"
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// An unclaim is an owner row that is to be removed, so that other hosts may have the
// actor without asking.
type unclaim struct {
	row   []byte
	tries int // how often it may be found missing: the claim is perhaps still to land
}

// triesInDoubt is how many renewals a claim whose outcome isn't known is looked for: a
// TTL, in which an engine has long ended what it heard of a lost connection.
const triesInDoubt = 4

// leave removes a handle, and its claim. What can't be removed now is tried again with
// the renewals, and ends with the host.
func (h *host) leave(a *Actor) {
	h.mu.Lock()
	if h.handles[a.id] == a {
		delete(h.handles, a.id)
	}
	lost := h.lost
	h.mu.Unlock()
	if a.claim == nil || lost || h.hosting.store.check() != nil {
		return // a host that has gone has claimed nothing
	}
	u := unclaim{a.claim, 1}
	if !a.claimed {
		u.tries = triesInDoubt
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), h.every)
		defer cancel()
		if _, err := h.remove(ctx, a.id, a.claim); err == nil {
			return
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lost {
		h.unclaimed[a.id] = u
	}
}

// remove removes an owner row. It is not there to be removed when it is somebody
// else's by now.
func (h *host) remove(ctx context.Context, id ID, row []byte) (there bool, err error) {
	key := headOwnerKey(id)
	err = h.hosting.store.eng.Commit(ctx, &kv.Commit{
		Checks: []kv.Check{{Key: key, Value: row}},
		Ops:    []kv.Op{kv.Clear(key)},
	})
	if errors.Is(err, kv.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// giveUp removes the owner rows that are left.
func (h *host) giveUp(ctx context.Context) {
	h.mu.Lock()
	left := make(map[ID]unclaim, len(h.unclaimed))
	for id, u := range h.unclaimed {
		left[id] = u
	}
	h.mu.Unlock()
	for id, u := range left {
		there, err := h.remove(ctx, id, u.row)
		if err != nil {
			return // they wait for the next renewal
		}
		h.mu.Lock()
		// The actor may have been opened and closed again meanwhile.
		if now, ok := h.unclaimed[id]; ok && string(now.row) == string(u.row) {
			if now.tries--; now.tries > 0 && !there {
				h.unclaimed[id] = now
			} else {
				delete(h.unclaimed, id)
			}
		}
		h.mu.Unlock()
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
	start, end := rowRange(rowHost)
	page, err := g.store.page(ctx, kv.Range{Start: start, End: end, Limit: sweepRows})
	if err != nil {
		return
	}
	for _, e := range page {
		id, ok := parseHostKey(e.Key)
		if !ok {
			continue // a check tells
		}
		row, err := parseHostRow(id, e.Value)
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
func (g *hosting) left(row *hostRow) time.Duration {
	skew := g.opts.MaxClockSkew
	if skew < 0 {
		return mostTTL
	}
	const bound = 1 << 40 // ms: no row makes the sum run over
	left := min(max(row.Expires-g.clock.earliest(), -bound), bound) + min(skew.Milliseconds(), bound)
	return time.Duration(left) * time.Millisecond
}

// expired says whether a lease is over, going by the clocks of both hosts.
func (g *hosting) expired(row *hostRow) bool { return g.left(row) < 0 }

// kill removes the row of a host whose lease is over, so that it can't be renewed
// any more. It conflicts if it was renewed meanwhile.
func (g *hosting) kill(ctx context.Context, id HostID, row []byte) error {
	key := hostKey(id)
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
