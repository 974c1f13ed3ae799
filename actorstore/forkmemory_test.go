package actorstore

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// The memory of a fork, and the size of its commits, don't depend on what is forked.
func TestForkMemory(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, memkv.New(), nil)
	testkit.Must(t, err)
	a, err := s.Actor(ctx, NewID(), nil)
	testkit.Must(t, err)
	value := bytes.Repeat([]byte("x"), 100_000)
	for i := range 100 {
		testkit.Must(t, a.Put(ctx, UserKey([]byte(fmt.Sprint(i))), value))
	}
	snap, err := a.Snapshot(ctx)
	testkit.Must(t, err)
	b, err := s.Actor(ctx, NewID(), nil)
	testkit.Must(t, err)
	b.forking, b.hidden = true, true
	c, n := copier{to: b}, 0
	c.progress = func(int64) { n++ }
	testkit.Must(t, c.run(ctx, snap, false))
	if limit := 2 * s.limits.Payload; cap(c.values) > limit || n < 10 {
		t.Errorf("%d commits, %d bytes kept, want at most %d", n, cap(c.values), limit)
	}
	testkit.Must(t, errors.Join(snap.Close(), b.Close(), a.Close(), s.Close()))
}
