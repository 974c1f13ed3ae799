package storeurl

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/kv"
)

// An InUseError is that another process has a store open. It is kv.ErrStoreInUse.
type InUseError struct {
	PID     int    // of the process, 0 if the system doesn't say it
	Program string // its name, "" if the system doesn't say it
	Err     error
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("storeurl: process %d (%s) has the store open: %v", e.PID, e.Program, e.Err)
}

// Unwrap returns Err.
func (e *InUseError) Unwrap() error { return e.Err }

// inUse returns why the store in dir can't be opened.
func inUse(dir string, err error) error {
	if !errors.Is(err, kv.ErrStoreInUse) {
		return err
	}
	e := &InUseError{Err: err}
	e.PID, e.Program = holder(dir, err)
	return e
}

// Reach is OpenEngine that, for a store that another process has open, returns that process's engine, of which everything can be read, and
// what is no actor's can be written. Errors: those of OpenEngine, and of Ask.
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
