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
	if got := faultkv.New(below).Unwrap(); got != kv.Engine(below) {
		t.Errorf("Unwrap: got %v", got)
	}
}
