package actorstore

import (
	"context"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
)

// Get appends the value of key to dst. See Reader.
func (a *Actor) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return a.read(ctx, key, dst, true)
}

// Page appends the first 10,000 bytes of the value of key to dst. See Reader.
func (a *Actor) Page(ctx context.Context, key, dst []byte) ([]byte, error) {
	return a.read(ctx, key, dst, false)
}

func (a *Actor) read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	if err := a.check(); err != nil {
		return dst, err
	}
	return a.reads.Read(ctx, key, dst, whole)
}

// List yields the entries that opts select. See Reader.
func (a *Actor) List(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error] {
	return list(ctx, &a.space, opts, func() error {
		if err := a.check(); err != nil {
			return err
		}
		return a.owned(ctx, a.store.eng)
	})
}

// list yields the entries of a Space.
func list(ctx context.Context, sp *rows.Space, opts ListOptions, check func() error) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		sp.List(ctx, rows.Options(opts), check)(func(e rows.Entry, err error) bool { return yield(Entry(e), err) })
	}
}
