package vfs_test

import (
	"bytes"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestShortChunksSQL: SQLite finds a database whole whose chunks don't store the
// zeros at their ends, and changes it.
func TestShortChunksSQL(t *testing.T) {
	for _, limits := range []batch.Limits{{}, oneBatch} {
		r := newRig(t, batch.Limits{})
		db, err := vfs.Open(t.Context(), r.Actor, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range olderSetup {
			exec(t, db, s)
		}
		content := contentOf(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		var b batch.Batch
		short := 0
		start, end := layout.FileChunks(actorstore.FileMain, 0)
		for e, err := range r.Actor.List(t.Context(), actorstore.ListOptions{Start: start, End: end}) {
			if err != nil {
				t.Fatal(err)
			}
			if v := bytes.TrimRight(e.Value, "\x00"); len(v) < len(e.Value) {
				b.Put(e.Key, bytes.Clone(v))
				short++
			}
		}
		if err := r.Actor.Commit(t.Context(), &b); err != nil || short < 2 {
			t.Fatalf("%d short chunks, %v", short, err)
		}
		r.Reopen(t, limits)
		db = r.open(t, nil)
		if got := contentOf(t, db); got != content {
			t.Errorf("the database holds %.60s, want %.60s", got, content)
		}
		for _, s := range []string{"update t set b = randomblob(800)", "insert into t(b) values (zeroblob(20000))", "delete from t where a % 2", "vacuum"} {
			exec(t, db, s)
			intact(t, db)
			rig.Exact(t, r.Actor)
		}
	}
}
