package storeurl

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
)

// An InUseError is that another process has a store open. It is kv.ErrStoreInUse.
type InUseError struct {
	PID     int    // of the process, 0 if the system doesn't say it
	Program string // its name, "" if the system doesn't say it
	Err     error
}

// Error says which process it is.
func (e *InUseError) Error() string {
	if e.PID == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("storeurl: process %d %s has the store open: %v", e.PID, e.Program, e.Err)
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
