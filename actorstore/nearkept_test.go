package actorstore

import (
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
)

// TestNearEntering: what a commit that isn't over enters may be a value that a later write
// of it replaces, and isn't to be seen yet.
func TestNearEntering(t *testing.T) {
	s, _ := openNear(t, 0)
	a := openActor(t, s)
	writePages(t, a, 1)
	a.reads.Part().Put(&cache.Entry{Key: string(chunk(0)), Value: pageOf(7), From: a.Seq() + 1, Kind: cache.Page}, false)
	readPage(t, a, 0)
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	readPage(t, snap, 0)
	must(t, snap.Close())
}

// TestNearClosedKeeps: what a handle had is gone when it is closed, although a snapshot goes on.
func TestNearClosedKeeps(t *testing.T) {
	s, _ := openNear(t, 0)
	a := openActor(t, s)
	writePages(t, a, 1)
	for range 3 {
		readPage(t, a, 0)
	}
	if a.reads.Part().Peek(chunk(0)) == nil {
		t.Error("what was read thrice isn't there")
	}
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	must(t, a.Close())
	if a.reads.Part().Peek(chunk(0)) != nil {
		t.Error("the entries are kept")
	}
	must(t, snap.Close())
}
