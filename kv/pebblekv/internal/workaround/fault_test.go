package workaround

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// TestGuard: a panic poisons the store, and so does what Guard runs within Close, which ends then.
func TestGuard(t *testing.T) {
	f := NewFault()
	if err := f.Guard(func() error { return nil }); err != nil || f.Get() != nil {
		t.Errorf("got %v, %v without a panic", err, f.Get())
	}
	err := f.Close(func() error { return f.Guard(func() error { panic("in doubt") }) })
	if !errors.Is(err, kv.ErrPoisoned) || f.Get() != err {
		t.Errorf("got %v, %v after a panic", err, f.Get())
	}
}
