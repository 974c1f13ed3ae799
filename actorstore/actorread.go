package actorstore

import (
	"context"
	"iter"
)

// Get appends the value of key to dst. See Reader.
func (a *Actor) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := a.check(); err != nil {
		return dst, err
	}
	if a.tip != nil {
		return a.tip.read(ctx, key, dst, true)
	}
	value, err := a.space.get(ctx, key, dst)
	if err := a.owned(ctx, a.store.eng); err != nil {
		return dst, err
	}
	return value, err
}

// Page appends the first 10,000 bytes of the value of key to dst. See Reader.
func (a *Actor) Page(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := a.check(); err != nil {
		return dst, err
	}
	if a.tip != nil {
		return a.tip.read(ctx, key, dst, false)
	}
	if a.near != nil {
		return a.near.page(ctx, key, dst)
	}
	value, err := a.space.page(ctx, key, dst)
	if err := a.owned(ctx, a.store.eng); err != nil {
		return dst, err
	}
	return value, err
}

// List yields the entries that opts select. See Reader.
func (a *Actor) List(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error] {
	return a.space.list(ctx, opts, func() error {
		if err := a.check(); err != nil {
			return err
		}
		return a.owned(ctx, a.store.eng)
	})
}
