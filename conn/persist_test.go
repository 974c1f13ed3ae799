package conn_test

import (
	"context"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/persist"
)

// TestWithPersist has connections and the actor's own record land in one engine commit, or
// not at all.
func TestWithPersist(t *testing.T) {
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	eng := faultkv.New(memkv.New())
	store, err := actorstore.Open(ctx, eng, nil)
	must(err)
	actor, err := store.Named(ctx, "room", nil)
	must(err)
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true})
	must(err)
	set, err := conn.Open(ctx, actor, nil)
	must(err)

	both := func() error {
		var b batch.Batch
		_, err := set.In(&b).Create(conn.Info{Path: "/"})
		must(err)
		must(rec.In(&b).SetRawState([]byte{1}))
		return actor.Commit(ctx, &b)
	}
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	if err := both(); err == nil {
		t.Fatal("no error")
	}
	eng.Heal()
	look := func() (n, conns int) {
		t.Helper()
		for _, err := range conn.List(ctx, actor) {
			must(err)
			conns++
		}
		raw, err := rec.RawState()
		must(err)
		return int(raw[0]), conns
	}
	if n, conns := look(); n != 0xf7 || conns != 0 {
		t.Errorf("%d and %d connections after a commit that failed", n, conns)
	}
	eng.Reset()
	must(both())
	if n, conns := look(); n != 1 || conns != 1 || eng.Counts().Commits != 1 {
		t.Errorf("%d and %d connections with %d commits", n, conns, eng.Counts().Commits)
	}
	must(set.Close(ctx))
	must(rec.Close(ctx))
	must(actor.Close())
	must(store.Close())
}
