package faultkv_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func TestShared(t *testing.T) {
	below := memkv.New()
	e := faultkv.New(faultkv.New(below))
	if got := kv.Shared(e); got != below.Shared() {
		t.Errorf("got %p, want %p", got, below.Shared())
	}
	if e := faultkv.New(struct{ kv.Engine }{below}); kv.Shared(e) != nil {
		t.Error("something is shared over an engine that shares nothing")
	}
	if got := faultkv.New(below).Unwrap(); got != kv.Engine(below) {
		t.Errorf("Unwrap: got %v", got)
	}
}
