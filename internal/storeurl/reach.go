package storeurl

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/kv"
)

// Reach is OpenEngine that, for a store that another process has open, returns that process's engine, of which everything can be read, and
// what belongs to none of the actors can be written. Errors: those of OpenEngine, and of Ask.
func Reach(ctx context.Context, name string, o greenroom.Options) (kv.Engine, error) {
	e, err := OpenEngine(ctx, name, o)
	if !errors.Is(err, kv.ErrStoreInUse) {
		return e, err
	}
	e, c, err := reach(ctx, name, err)
	if c != nil {
		c.Close()
	}
	return e, err
}

// reach returns the engine of the process that has a store open, and a client of it, since opening it has failed with inUse. The caller closes both.
func reach(ctx context.Context, name string, inUse error) (kv.Engine, *admin.Client, error) {
	c, err := Ask(ctx, name, inUse)
	if err != nil {
		return nil, nil, err
	}
	e, err := c.Engine(ctx)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return e, c, nil
}

// Ask returns a client of the process that has the store of that name open, since opening it has failed with inUse. The caller closes it.
// A process that can't be asked is inUse.
func Ask(ctx context.Context, name string, inUse error) (*admin.Client, error) {
	dir, _, err := Dir(name)
	if err != nil {
		return nil, err
	}
	c, err := admin.Dial(ctx, dir)
	if errors.Is(err, admin.ErrNoServer) {
		err = inUse
	}
	return c, err
}
