package main

import (
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A growth is one line of docs/performance.md's table of
// what an operation costs in a database of some size.
type growth struct {
	pages                             int64
	open, read, insert, again, update faultkv.Counts
}

// measureGrowth counts what operations ask of the engine in a database of so many rows: to
// open it, to read one row of it with nothing in SQLite's cache, to append one, to change one.
func measureGrowth(t *testing.T, rows int) (g growth) {
	t.Helper()
	staged(t, site{on: enginePebble}, func(s *stand) {
		c := loaded(s, anActor, name(0), rows)()
		step := func(sql string) faultkv.Counts {
			before := s.tally()
			check(c.Exec(sql))
			return s.tally().plus(before, -1).counts
		}
		g.open = s.engine.Counts() // since it was opened again
		g.read = step(fmt.Sprintf(`SELECT a FROM t WHERE id = %d`, rows/2))
		const insert = `INSERT INTO t(a, b) VALUES(1, randomblob(100))`
		g.insert, g.again = step(insert), step(insert)
		g.update = step(fmt.Sprintf(`UPDATE t SET b = randomblob(100) WHERE id = %d`, rows/3))
		pages := statement(s, c, `PRAGMA page_count`)
		pages.Step()
		g.pages = pages.ColumnInt64(0)
	})
	return g
}

// TestGrowth: what an operation asks of the engine grows with the height of the tree, and not
// with the size of the database.
func TestGrowth(t *testing.T) {
	for _, rows := range []int{100, 100_000} {
		g := measureGrowth(t, rows)
		t.Logf("%d rows, %d pages: open %d reads, a row %d, insert %d reads %d commits %d bytes, update %d reads %d commits %d bytes",
			rows, g.pages, reads(g.open), reads(g.read), reads(g.insert), g.insert.Commits, g.insert.Bytes, reads(g.update), g.update.Commits, g.update.Bytes)
		if n := reads(g.open); n > 16 {
			t.Errorf("%d rows: to open takes %d reads", rows, n)
		}
		// The schema's page, and a page on each floor of the tree, of which there are three.
		if n := reads(g.read); n == 0 || n > 4 {
			t.Errorf("%d rows: the first row takes %d reads", rows, n)
		}
		if n := reads(g.again); n != 0 || g.again.Commits != 1 {
			t.Errorf("%d rows: the second insert takes %d reads and %d commits, want 0 and 1", rows, n, g.again.Commits)
		}
		for name, c := range map[string]faultkv.Counts{"insert": g.insert, "update": g.update} {
			if c.Commits != 1 || reads(c) > 3 || c.Bytes > 3*4096 {
				t.Errorf("%d rows: an %s asks the engine for %+v", rows, name, c)
			}
		}
	}
}

func reads(c faultkv.Counts) int64 { return c.Gets + c.Scans }
