package storeurl

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv"
)

// A Store is an open store together with the engine below it. It takes actors by their
// ids, too; see greenroom.Options.IDs.
type Store struct {
	*greenroom.Store
	process *admin.Client // that has the store open, nil if this one has
}

// Close closes the store, then its engine.
func (s *Store) Close() error {
	err := errors.Join(s.Store.Close(), s.Engine().Close())
	if s.process != nil {
		s.process.Close()
	}
	return err
}

// Unstored returns what the awake actors of the process that holds the store used, and the store doesn't say yet; nil if this process holds it. Of a store that several processes share it knows nothing.
func (s *Store) Unstored(ctx context.Context) ([]actorstore.ActorUsage, error) {
	if s.process == nil {
		return nil, nil
	}
	return s.process.Usage(ctx)
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
	s := &Store{}
	engine, err := OpenEngine(ctx, name, o)
	if o.ReadOnly && errors.Is(err, kv.ErrStoreInUse) {
		engine, s.process, err = reach(ctx, name, err)
	}
	if err != nil {
		return nil, err
	}
	o.IDs = true
	if s.Store, err = greenroom.New(ctx, engine, &o); err != nil {
		err = errors.Join(err, engine.Close())
		if s.process != nil {
			s.process.Close()
		}
		return nil, err
	}
	return s, nil
}
