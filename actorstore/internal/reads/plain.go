package reads

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/kv"
)

// plain is the Reads that keep nothing but the lengths of what is written again and again.
type plain struct {
	Actor
	asked bool    // a write didn't say what it replaces
	sizes lengths // nil before they are of use
}

// Read asks the engine.
func (p *plain) Read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	out, err := p.Rows.Read(ctx, key, dst, whole)
	if owned := p.Handle.Owned(ctx, p.Engine); owned != nil {
		return dst, owned
	}
	return out, err
}

// Open pins the state with a snapshot of the engine.
func (p *plain) Open(ctx context.Context, s *State, lists bool) error { return p.pin(ctx, s, lists, p) }

// pin lets s be the newest state as the engine keeps it.
func (p *plain) pin(ctx context.Context, s *State, lists bool, of reader) error {
	snap, seq, err := p.Handle.Pin(ctx)
	if err != nil {
		return err
	}
	s.Seq, s.Lists, s.Rows, s.snap, s.of, s.handle = seq, lists, p.Rows.Of(snap), snap, of, p.Handle
	return nil
}

func (p *plain) readAt(ctx context.Context, s *State, key, dst []byte, whole bool) ([]byte, error) {
	out, err := s.Rows.Read(ctx, key, dst, whole)
	if owned := s.Owned(ctx); owned != nil {
		return dst, owned
	}
	return out, err
}

func (p *plain) prefetch(context.Context, *State, kv.Range, int) (int, error) { return 0, nil }

func (p *plain) cached(*State, []byte) bool { return false }

func (p *plain) close(s *State) error { return s.snap.Close() }

// Ahead is 0.
func (p *plain) Ahead() int64 { return 0 }

// Preload keeps nothing.
func (p *plain) Preload(ctx context.Context, ranges []kv.Range, each func(rows.Entry) error) error {
	err := Preload(ctx, &p.Rows, ranges, each)
	if owned := p.Handle.Owned(ctx, p.Engine); owned != nil {
		return owned
	}
	return err
}

// Part is nil.
func (p *plain) Part() *cache.Part { return nil }

// Size knows the lengths of what was written without being asked for.
func (p *plain) Size(ctx context.Context, key []byte, empty bool) (int64, error) {
	p.asked = true
	if empty {
		return -1, nil
	}
	if n, ok := p.sizes[string(key)]; ok {
		return *n, nil
	}
	return p.Rows.NearSize(ctx, key)
}

// Depart needs nothing: snapshots are the engine's.
func (p *plain) Depart(context.Context, *Change) error { return nil }

// Land keeps the lengths up.
func (p *plain) Land(c *Change) {
	if p.asked && p.sizes == nil {
		p.sizes = lengths{}
	}
	if p.sizes != nil && !c.Drop {
		p.sizes.land(c)
	}
	c.Publish()
}

// Abort has nothing to take back.
func (p *plain) Abort(*Change) {}

// Recall finds nothing.
func (p *plain) Recall([]byte) {}

// Retire leaves nothing.
func (p *plain) Retire(*[layout.HeadSize]byte) {}

// views reads states of actors that needn't be owned.
var views = new(plain)

// unowned is the Handle of such a state.
type unowned struct{ Handle }

func (unowned) Err() error { return nil }

func (unowned) StateOwned(context.Context) error { return nil }
