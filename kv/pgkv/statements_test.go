//go:build unix

package pgkv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// No statement may read more of the table than what it is about, with whatever
// statistics, and none may sort more than a group.
func TestPlans(t *testing.T) {
	db := open(t)
	for _, fill := range []int{0, 5000} {
		var ops []kv.Op
		for i := range fill {
			ops = append(ops, kv.Set(fmt.Appendf(nil, "key %06d", i), []byte("value")))
		}
		if err := db.Commit(t.Context(), &kv.Commit{Ops: ops}); err != nil {
			t.Fatal(err)
		}
		for _, analyze := range []bool{false, true} {
			c, err := db.connect(t)
			if err != nil {
				t.Fatal(err)
			}
			if analyze {
				if err := c.simple(t.Context(), "analyze "+quote(db.target.schema)+".kv"); err != nil {
					t.Fatal(err)
				}
			}
			checkPlans(t, c, fmt.Sprintf("%d rows, analyzed %v", fill, analyze))
			c.close()
		}
	}
}

// connect opens a connection of no pool.
func (db *DB) connect(t testing.TB) (*conn, error) { return db.writes.connect(t.Context()) }

func checkPlans(t *testing.T, c *conn, when string) {
	t.Helper()
	if err := c.simple(t.Context(), makeStage); err != nil {
		t.Fatal(err)
	}
	for s, args := range map[*statement]string{
		c.sql.get:        `'\x00'`,
		c.sql.page:       `'\x00', '\xff', 10, 10`,
		c.sql.pageDown:   `'\x00', '\xff', 10, 10`,
		c.sql.group:      `'\x00', '\xff', 10, 10, '\x00', null`,
		c.sql.groupDown:  `'\x00', '\xff', 10, 10, '\x00', null`,
		c.sql.check:      `'{a,b}', '{a,b}'`,
		c.sql.set:        `'{a,b}', '{}', '{a,b}'`,
		c.sql.clear:      `'{a,b}'`,
		c.sql.clearRange: `'\x00', '\xff', '\x00', '\xff', '{}'`,
		c.sql.outcome:    `'\x00', 1, 2`,
		c.sql.fence:      `'\x00', 1, 2`,
		c.sql.mutate:     `'{a,b}', '{}', '{0,1}', '{a,b}', null, null`,
		c.sql.stampKey:   `'{a,b}', '{a,b}', '{1,1}'`,
		c.sql.stampValue: `'{a,b}', '{a,b}', '{1,1}'`,
	} {
		checkPlan(t, c, when, s, args)
		if staged := s.staged(); staged.text != s.text {
			staged.name = s.name + "_staged"
			if _, err := c.pg.Prepare(t.Context(), staged.name, staged.text, staged.oids); err != nil {
				t.Fatalf("%s: %v", staged.name, err)
			}
			checkPlan(t, c, when, staged, args+", 1")
		}
	}
}

func checkPlan(t *testing.T, c *conn, when string, s *statement, args string) {
	t.Helper()
	results, err := c.pg.Exec(t.Context(), fmt.Sprintf("explain execute %s(%s)", s.name, args)).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	var plan strings.Builder
	for _, row := range results[0].Rows {
		plan.Write(row[0])
		plan.WriteByte('\n')
	}
	text := plan.String()
	whole := strings.Contains(text, "Seq Scan on kv")
	for _, node := range strings.Split(text, "->") {
		// An index that is read without a condition is the whole table.
		if (strings.Contains(node, " on kv ") || strings.Contains(node, " on kv\n")) &&
			strings.Contains(node, "Scan") && !strings.Contains(node, "Index Cond") {
			whole = true
		}
	}
	sorts := strings.Contains(text, "Sort")
	for _, may := range []*statement{c.sql.group, c.sql.groupDown, c.sql.check, c.sql.clearRange, c.sql.ranges} {
		sorts = sorts && !strings.HasPrefix(s.name, may.name)
	}
	if whole || sorts {
		t.Errorf("%s: the plan of %s reads too much:\n%s", when, s.name, text)
	}
}

// Every call is one round trip, after the first one on a connection.
func TestRoundTrips(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	var ops []kv.Op
	for i := range 128 {
		ops = append(ops, kv.Set(fmt.Appendf(nil, "key %03d", i), make([]byte, 4096)))
	}
	full := &kv.Commit{
		ID:     kv.CommitID{1},
		Checks: []kv.Check{{Key: []byte("head"), Value: []byte("1")}, {Key: []byte("name"), Absent: true}},
		Ops:    append(ops, kv.Set([]byte("head"), []byte("2")), kv.Clear([]byte("x")), kv.ClearRange([]byte("a"), []byte("b"))),
	}
	var many []kv.Op
	for i := range firstRows {
		many = append(many, kv.Set(fmt.Appendf(nil, "many%06d", i), make([]byte, 2048)))
	}
	if err := db.Commit(ctx, &kv.Commit{Ops: many, Durability: kv.Applied}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		want int64
		call func() error
	}{
		{"a commit of one row", 1, func() error {
			return db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("head"), []byte("1"))}})
		}},
		{"a commit with everything", 1, func() error { return db.Commit(ctx, full) }},
		{"a commit that conflicts", 2, func() error {
			if err := db.Commit(ctx, full); err == nil {
				return fmt.Errorf("it did not")
			}
			return nil
		}},
		{"a commit that is not waited for", 1, func() error {
			return db.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied})
		}},
		{"Get", 1, func() error { _, err := db.Get(ctx, []byte("head"), nil); return err }},
		{"a scan of 100 rows", 1, func() error { return exhaust(db, kv.Range{Start: []byte("key"), Limit: 100}) }},
		{"a scan of a window of pages", 1, func() error { return exhaust(db, kv.Range{Start: []byte("many"), End: []byte("many000512")}) }},
		{"a scan of more than a page", 4, func() error { return exhaust(db, kv.Range{}) }}, // a page, a snapshot, a page, its end
		{"200 ranges", 1, func() error {
			var rs []kv.Range
			for i := range 200 {
				rs = append(rs, kv.Range{Start: fmt.Appendf(nil, "key %03d", i), Limit: 1, Reverse: i%2 == 1, End: []byte("l")})
			}
			for _, err := range db.ScanRanges(ctx, rs) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"a snapshot", 1, func() error {
			s, err := db.Snapshot(ctx)
			if err == nil {
				t.Cleanup(func() { s.Close() })
			}
			return err
		}},
		{"Sync", 1, func() error { return db.Sync(ctx, db.Incarnation()) }},
		{"Outcome of a known commit", 0, func() error { _, err := db.Outcome(ctx, full.ID); return err }},
	} {
		before := db.trips.Load()
		if err := test.call(); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got := db.trips.Load() - before; got != test.want {
			t.Errorf("%s: got %d round trips, want %d", test.name, got, test.want)
		}
	}
}

func exhaust(r kv.Reader, rng kv.Range) error {
	for _, err := range r.Scan(ctx, rng) {
		if err != nil {
			return err
		}
	}
	return nil
}
