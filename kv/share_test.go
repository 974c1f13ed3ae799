package kv_test

import (
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

type sharing struct {
	kv.Engine
	m sync.Map
}

func (s *sharing) Shared() *sync.Map { return &s.m }

func TestShared(t *testing.T) {
	s := &sharing{}
	if got := kv.Shared(s); got != &s.m {
		t.Errorf("got %p, want %p", got, &s.m)
	}
	if got := kv.Shared(struct{ kv.Engine }{s}); got != nil {
		t.Error("an engine that is no Sharer shares something")
	}
}
