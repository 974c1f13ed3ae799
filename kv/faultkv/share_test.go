package faultkv_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A failer is an engine that can fail for good.
type failer struct {
	kv.Engine
	failed <-chan struct{}
}

func (f failer) Failed() <-chan struct{} { return f.failed }

// FreeSpace returns what no other engine does.
func (f failer) FreeSpace() (int64, bool, error) { return 7, true, kv.ErrClosed }

// HasRoom returns what no other engine does.
func (f failer) HasRoom() error { return kv.ErrClosed }

func TestShared(t *testing.T) {
	below := memkv.New()
	e := faultkv.New(faultkv.New(below))
	if got := kv.Shared(e); got != kv.Shared(below) {
		t.Errorf("got %p, want %p", got, kv.Shared(below))
	}
	if e := faultkv.New(struct{ kv.Engine }{below}); kv.Shared(e) != nil {
		t.Error("something is shared over an engine that shares nothing")
	}
	failing := failer{below, make(<-chan struct{})}
	if got := kv.Failed(faultkv.New(failing)); got != failing.failed {
		t.Errorf("Failed: got %v, want %v", got, failing.failed)
	}
	if got := kv.Failed(e); got != nil {
		t.Errorf("Failed of an engine that can't: got %v", got)
	}
	if free, known, err := kv.FreeSpace(faultkv.New(failing)); free != 7 || !known || err != kv.ErrClosed {
		t.Errorf("FreeSpace: got %d, %v, %v", free, known, err)
	}
	if err := kv.HasRoom(faultkv.New(failing)); err != kv.ErrClosed {
		t.Errorf("HasRoom: got %v", err)
	}
	if err := kv.HasRoom(e); err != nil {
		t.Errorf("HasRoom of an engine that doesn't know: got %v", err)
	}
	if free, known, err := kv.FreeSpace(e); free != 0 || known || err != nil {
		t.Errorf("FreeSpace of an engine that doesn't know: got %d, %v, %v", free, known, err)
	}
	if got := faultkv.New(below).Unwrap(); got != kv.Engine(below) {
		t.Errorf("Unwrap: got %v", got)
	}
}
