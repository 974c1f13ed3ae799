package faultkv_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func TestServer(t *testing.T) {
	for _, keep := range []int{0, 1, 1 << 30} {
		kvtest.RunCrashes(t, 2, func(testing.TB) (kv.Engine, kvtest.Crasher) {
			s := faultkv.NewServer(func() kv.Engine { return memkv.New() })
			return s, func(testing.TB) kv.Engine {
				s.Crash(keep)
				return s
			}
		})
	}
}
