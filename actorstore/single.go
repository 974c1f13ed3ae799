package actorstore

import (
	"context"
)

// alone commits s, durably, which is the store's again then.
func (a *Actor) alone(ctx context.Context, s *single) error {
	err := a.Commit(ctx, &s.batch)
	s.batch.Reset()
	a.store.singles.pool.Put(s)
	return err
}

// Put stores value under key. It is durable when Put returns.
func (a *Actor) Put(ctx context.Context, key, value []byte) error {
	s := a.store.singles.take()
	s.batch.Put(key, value)
	return a.alone(ctx, s)
}

// Delete removes key; a missing one isn't an error. It is durable when Delete returns.
func (a *Actor) Delete(ctx context.Context, key []byte) error {
	s := a.store.singles.take()
	s.batch.Delete(key)
	return a.alone(ctx, s)
}

// DeleteRange removes the keys in [start, end); a nil end means no upper bound. It
// is durable when DeleteRange returns.
func (a *Actor) DeleteRange(ctx context.Context, start, end []byte) error {
	s := a.store.singles.take()
	s.batch.DeleteRange(start, end)
	return a.alone(ctx, s)
}
