package actorstore

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// The memory of a fork, and the size of its commits, don't depend on what is forked.
func TestForkMemory(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a := openActor(t, s)
	value := bytes.Repeat([]byte("x"), 100_000)
	for i := range 100 {
		must(t, a.Put(ctx, user(fmt.Sprint(i)), value))
	}
	snap, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	b, err := s.Actor(ctx, NewID(), nil)
	must(t, err)
	defer func() { must(t, b.Close()) }()
	b.forking, b.hidden = true, true
	c, n := copier{to: b}, 0
	c.progress = func(int64) { n++ }
	must(t, c.run(ctx, snap, false))
	if limit := 2 * s.limits.Payload; cap(c.values) > limit || n < 10 {
		t.Errorf("%d commits, %d bytes kept, want at most %d", n, cap(c.values), limit)
	}
}
