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
	c, err := Ask(ctx, name, err)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Engine(ctx)
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
