package actorstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// A suitor is an opening of an actor that another host may have. Nothing is claimed
// before that host provably answers nothing about the actor any more:
//
//   - It has closed its handle, and removed the owner row.
//   - Its row is gone: it ended, or another host found it dead.
//   - It is dead: its lease is over, going by what either clock allows, or its
//     process is gone. Its row is removed first, so that it learns so if it isn't.
//   - It was asked for the actor (ActorOptions.Force), and has renewed its lease since,
//     which it does only after it has fenced its handle.
type suitor struct {
	a    *Actor
	opts *ActorOptions

	free  []byte // the owner row whose handle answers no more
	asked []byte // the one that its host was asked to give up
	wait  time.Duration
}

// admit says whether the actor may be claimed as rec shows it. If not it has waited,
// and rec is to be read again.
func (w *suitor) admit(ctx context.Context, rec *record) (bool, error) {
	if w.a.host == nil || rec.owner == nil || bytes.Equal(rec.owner, w.free) {
		return true, nil
	}
	o, err := layout.ParseOwner(layout.ID(w.a.id), rec.owner)
	if err != nil {
		return false, err
	}
	if o.Host == w.a.host.id {
		return true, nil // a handle of this Store, which has just one for each actor
	}
	v, err := w.a.store.hosting.look(ctx, o.Host)
	switch {
	case err != nil:
		return false, fmt.Errorf("actorstore: read host %s: %w", HostID(o.Host), err)
	case v.gone:
		return true, nil
	case v.dead:
		return w.bury(ctx, v)
	case w.asked != nil && bytes.Equal(w.asked, rec.owner) && !v.row.Wants(layout.ID(w.a.id)):
		w.free = w.asked
		return true, nil
	}
	return false, w.stay(ctx, v, rec.owner)
}

// bury removes the row of a dead host.
func (w *suitor) bury(ctx context.Context, v *visit) (bool, error) {
	g := &w.a.store.hosting
	err := g.kill(ctx, v.host, v.stored)
	if errors.Is(err, kv.ErrConflict) {
		return false, ctx.Err() // it lives, or another host was faster
	}
	if err != nil {
		return false, fmt.Errorf("actorstore: end the lease of host %s: %w", v.host, err)
	}
	g.forget(v.host)
	return true, nil
}

// stay waits for a host that is alive, or says that it has the actor.
func (w *suitor) stay(ctx context.Context, v *visit, owned []byte) error {
	ttl := v.row.Lease()
	// What is waited for happens at a renewal of the other host, or at any time: a
	// look now and then finds it soon enough, and the end of the lease on the spot.
	pause := min(max(2*w.wait, ttl/24), ttl/3)
	switch {
	case w.opts.Force:
		if err := w.ask(ctx, v, owned); err != nil {
			return err
		}
		pause = ttl / 12
	case !w.opts.Wait:
		return &InUseError{Host: hostInfo(v.host, &v.row)}
	}
	w.wait = pause
	for _, left := range []time.Duration{ttl + margin(ttl) - v.same, w.a.store.hosting.left(&v.row)} {
		if left >= 0 {
			pause = min(pause, left+time.Millisecond)
		}
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", &InUseError{Host: hostInfo(v.host, &v.row)}, ctx.Err())
	case <-w.a.store.closing:
		return ErrClosed
	}
}

// ask asks the host to give the actor up, unless that has been done.
func (w *suitor) ask(ctx context.Context, v *visit, owned []byte) error {
	if !v.row.Wants(layout.ID(w.a.id)) {
		if len(v.row.Wanted) == layout.MaxWanted {
			return nil // as soon as there is room
		}
		row := v.row
		row.Wanted = append(append([]layout.ID{}, row.Wanted...), layout.ID(w.a.id))
		key := layout.HostKey(v.host)
		err := w.a.store.eng.Commit(ctx, &kv.Commit{
			Checks: []kv.Check{{Key: key, Value: v.stored}},
			Ops:    []kv.Op{kv.Set(key, row.Append(nil))},
		})
		if errors.Is(err, kv.ErrConflict) {
			return nil // it was renewed just now
		}
		if err != nil {
			return fmt.Errorf("actorstore: ask host %s for actor %s: %w", v.host, w.a.id, err)
		}
	}
	w.asked = bytes.Clone(owned)
	return nil
}

// A visit is what was found of another host.
type visit struct {
	host   HostID
	row    layout.Host
	stored []byte
	same   time.Duration // for how long it was surely not renewed
	gone   bool          // the host is gone
	dead   bool          // it answers nothing any more, and its row says that it might
}

// look reads another host's row, with one Get, unless it is known to be gone.
func (g *hosting) look(ctx context.Context, id HostID) (*visit, error) {
	v := &visit{host: id}
	if v.gone = g.isGone(id); v.gone {
		return v, nil
	}
	// What is read is not older than this.
	before := monotonic()
	var err error
	v.stored, err = g.store.eng.Get(ctx, layout.HostKey(id), nil)
	if errors.Is(err, ErrNotFound) {
		g.forget(id)
		v.gone = true
		return v, nil
	}
	if err != nil {
		// Where no row can be read none can be renewed: that it was not is not a sign.
		g.unsee(id)
		return nil, err
	}
	if v.row, err = layout.ParseHost(id, v.stored); err != nil {
		return nil, err
	}
	v.same = g.sight(id, v.row.Count, before)
	ttl := v.row.Lease()
	v.dead = v.same > ttl+margin(ttl) || g.expired(&v.row) || g.replaced(&v.row)
	return v, nil
}

// replaced says whether the host is one that this Store stands in for: it had the same
// name, and its process has ended.
func (g *hosting) replaced(row *layout.Host) bool {
	if g.opts.Name == "" || row.Name != g.opts.Name {
		return false
	}
	return g.opts.Sole || row.Machine != "" && g.gone(row)
}

// sight notes that a host was seen, and returns for how long it has been the same.
func (g *hosting) sight(id HostID, count uint64, before time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s, ok := g.seen[id]; ok && s.count == count {
		return before.Sub(s.since)
	}
	g.makeRoom()
	g.seen[id] = sighting{count: count, since: monotonic()}
	return 0
}

// forget notes that a host has gone.
func (g *hosting) forget(id HostID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.makeRoom()
	g.seen[id] = sighting{gone: true}
}

func (g *hosting) unsee(id HostID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.seen, id)
}

func (g *hosting) isGone(id HostID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[id].gone
}

// maxSeen bounds how many hosts are remembered; to forget one costs a read, or a
// longer wait.
const maxSeen = 4096

// +checklocks:g.mu
func (g *hosting) makeRoom() {
	if len(g.seen) >= maxSeen {
		clear(g.seen)
	}
}
