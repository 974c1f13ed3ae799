package reads

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// near is what a handle on a near engine keeps of its actor's pages: only what is read
// again and again is worth the memory, and a commit needn't bring in what it writes.
// Snapshots are the engine's; they look here first, for what no commit has touched since.
//
// A hit doesn't ask the engine, so it finds neither that it was closed, which is an error of
// the program that has actors open on it, nor that it was poisoned by another actor's commit.
type near struct {
	plain
	part *cache.Part
	mu   sync.Mutex // of what changes the entries: nothing old comes late
	// mine are the hashes of the first entries, which end with the handle: of many actors
	// that are opened for a moment nothing stays. Others are evicted some day.
	mine []uint64 // +checklocks:mu
	any  bool     // there was an entry  +checklocks:mu
}

// maxMine bounds what closing a handle takes.
const maxMine = 64

func newNear(a Actor, c *cache.Cache) *near { return &near{plain: plain{Actor: a}, part: c.Part()} }

// Read answers pages from memory. While a commit is under way it asks the engine:
// a reader that saw a part of the commit there must not find here what was before.
func (n *near) Read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	if whole {
		return n.plain.Read(ctx, key, dst, true)
	}
	h := n.Handle
	phase, seq := h.Phase(), h.Seq()
	if phase%2 == 0 {
		// A newer one may be of a commit that is just being entered, and in it not the last.
		if e := n.part.Get(key); e != nil && e.From <= seq {
			if err := h.Owned(ctx, n.Engine); err != nil {
				return dst, err
			}
			return e.Answer(dst, false)
		}
	}
	out, err := n.Rows.Page(ctx, key, dst)
	if owned := h.Owned(ctx, n.Engine); owned != nil {
		return dst, owned
	}
	// Else a commit has begun since, and this may be what it wrote.
	same := func() bool { return phase%2 == 0 && h.Phase() == phase }
	n.learn(key, out[len(dst):], err, seq, same)
	return out, err
}

// Open pins the state with a snapshot of the engine.
func (n *near) Open(ctx context.Context, s *State, lists bool) error { return n.pin(ctx, s, lists, n) }

// readAt looks in memory first, for what no commit has touched since.
func (n *near) readAt(ctx context.Context, s *State, key, dst []byte, whole bool) ([]byte, error) {
	if whole {
		return n.plain.readAt(ctx, s, key, dst, true)
	}
	// In this order: the engine may have shown its snapshot a commit that is not
	// entered here yet, and then what is here may be older than s.
	if n.Handle.Seq() >= s.Seq {
		if e := n.part.Get(key); e != nil && e.From <= s.Seq {
			if err := s.Owned(ctx); err != nil {
				return dst, err
			}
			return e.Answer(dst, false)
		}
	}
	out, err := s.Rows.Page(ctx, key, dst)
	if owned := s.Owned(ctx); owned != nil {
		return dst, owned
	}
	n.learn(key, out[len(dst):], err, s.Seq, func() bool { return true })
	return out, err
}

// learn keeps an answer of the engine about the state after commit seq, if that is the
// newest one and the key was asked for before. is says, asked when no commit can be
// entered, whether the answer is of that state for sure.
func (n *near) learn(key, value []byte, err error, seq uint64, is func() bool) {
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return
	}
	if n.Handle.Seq() != seq || !n.part.Asked(key) {
		return
	}
	e := &cache.Entry{Key: string(key), Value: bytes.Clone(value), From: seq, Kind: cache.Page}
	if err != nil {
		e.Kind = cache.NoPage
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Handle.Seq() == seq && is() && n.Handle.Usable() == nil {
		n.part.Put(e, false)
		n.any = true
		if len(n.mine) < maxMine {
			n.mine = append(n.mine, e.Hash())
		}
	}
}

// Part is Reads', as what follows is.
func (n *near) Part() *cache.Part { return n.part }

func (n *near) Land(c *Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case c.Drop:
		n.part.Die()
	case n.any: // as of most actors that have no database it isn't
		n.enter(c)
	}
	n.plain.Land(c)
}

// enter takes over what c has changed of the entries.
//
// +checklocks:n.mu
func (n *near) enter(c *Change) {
	ranges := c.deletes()
	for i := c.From; i < c.To; i++ {
		o := c.Op(i)
		if o.Kind == batch.DeleteRange {
			if c.Before[i] > 0 {
				n.part.ClearNear(o.Key, o.Value, c.Seq)
			}
			continue
		}
		// Most of what is written isn't here.
		old := n.part.Peek(o.Key)
		switch {
		case old == nil:
		case o.Kind == batch.Put && len(o.Value) > 0 && !c.clearedLater(i, ranges):
			n.part.Renew(old, o.Value[:min(len(o.Value), layout.RowSize)], c.Seq)
		default:
			n.part.Remove(o.Key)
		}
	}
}

// Retire gives up the entries: they are not asked for any more.
func (n *near) Retire(*[layout.HeadSize]byte) {
	n.part.Die()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.mine {
		n.part.Drop(h)
	}
	n.mine = nil
}
