package vfs_test

import (
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestBuiltin: FTS5 and R-Trees are there on every connection, unless they are left out.
func TestBuiltin(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, `CREATE VIRTUAL TABLE page USING fts5(title, body, tokenize='porter');
		INSERT INTO page VALUES('Tea', 'leaves of tea'), ('Coffee', 'roasted beans');
		CREATE VIRTUAL TABLE place USING rtree(id, x0, x1, y0, y1);
		INSERT INTO place VALUES(1, 0, 1, 0, 1), (2, 5, 6, 5, 6)`)
	found := func(db *vfs.DB) {
		t.Helper()
		if got := one[string](t, db, "SELECT title FROM page WHERE page MATCH 'bean'"); got != "Coffee" {
			t.Errorf("found %s", got)
		}
		if got := one[int](t, db, "SELECT id FROM place WHERE x1 >= 5"); got != 2 {
			t.Errorf("found %d", got)
		}
		intact(t, db)
	}
	found(db)
	c := oneConn(t, db) // the limit by which opening reads nothing is gone
	exec(t, c, "SELECT '"+strings.Repeat("x", 100_000)+"' AS x")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	view, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	reader, err := vfs.OpenView(t.Context(), view, nil)
	if err != nil {
		t.Fatal(err)
	}
	found(reader)
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = r.open(t, &vfs.Options{Plain: true})
	for _, table := range []string{"page", "place"} {
		if _, err := db.QueryContext(t.Context(), "SELECT * FROM "+table); err == nil || !strings.Contains(err.Error(), "no such module") {
			t.Errorf("%s without its module: %v", table, err)
		}
	}
}

// TestBuiltinReadsNothing: a connection reads the database when a statement does.
func TestBuiltinReadsNothing(t *testing.T) {
	r := newRig(t, batch.Limits{})
	exec(t, r.open(t, nil), "CREATE TABLE t(v)")
	for _, plain := range []bool{true, false} {
		r.Reopen(t, batch.Limits{})
		db, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{Plain: plain})
		if err != nil {
			t.Fatal(err)
		}
		if s := db.Stats(); s.PageReads+s.CacheHits != 0 {
			t.Errorf("plain %v: opening has read %d pages, %d of them in memory", plain, s.PageReads+s.CacheHits, s.CacheHits)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
