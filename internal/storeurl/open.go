package storeurl

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/envlimits"
)

// A Store is an open store together with the engine below it. It takes actors by their
// ids, too; see greenroom.Options.IDs.
type Store struct{ *greenroom.Store }

// Close closes the store, then its engine.
func (s *Store) Close() error {
	return errors.Join(s.Store.Close(), s.Engine().Close())
}

// Open opens the store of that name; see Parse. The caller closes it. Without a Logger
// nothing is logged. The environment may lower the limits that are left open; see package
// internal/envlimits.
//
// A store that another process has open is read through that process, see Reach. A store in memory is always new, so that with MustExist, or ReadOnly, it is
// kv.ErrNoStore.
func Open(ctx context.Context, name string, o greenroom.Options) (*Store, error) {
	var err error
	if o.Limits, err = envlimits.Apply(o.Limits); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	o = quiet(o)
	open := OpenEngine
	if o.ReadOnly {
		open = Reach
	}
	engine, err := open(ctx, name, o)
	if err != nil {
		return nil, err
	}
	o.IDs = true
	s, err := greenroom.New(ctx, engine, &o)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &Store{s}, nil
}
