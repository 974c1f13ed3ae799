package actorstore

import (
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A far engine says that its reads cross a network. All of its users are in this
// process.
type far struct{ kv.Engine }

func (f far) Limits() kv.Limits {
	l := f.Engine.Limits()
	l.Far = true
	return l
}

func (f far) Shared() *sync.Map { return kv.Shared(f.Engine) }

// openFar opens a store with a cache of so many bytes on a far engine that counts and
// fails.
func openFar(t testing.TB, cacheBytes int64) (*Store, *faultkv.Engine) {
	t.Helper()
	eng := faultkv.New(far{memkv.New()})
	s, err := Open(ctx, eng, &Options{Now: clock, CacheBytes: cacheBytes, Limits: batch.Limits{Storage: 1 << 40}})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s, eng
}
