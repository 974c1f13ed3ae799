package sqlrun_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// TestRead: a reader gives the rows of one statement, within bounds, and refuses what changes anything.
func TestRead(t *testing.T) {
	t.Chdir(t.TempDir())
	onActor(t, func(ctx context.Context, a *greenroom.Actor) {
		if _, err := a.SQL().Exec("create table t(a, b); create virtual table f using fts5(x); insert into f values ('one two'); insert into t values (1, 'x'), (2.5, null)"); err != nil {
			t.Fatal(err)
		}
		s, err := sqlrun.OpenReader(ctx, a.SQL())
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			text string
			args []any
			out  string
		}{
			{"select a, b from t; -- all", nil, `["a" "b"] 1 x; 2.5 ; more=false`},
			{"values (?), (?), (?), (?2)", []any{int64(1 << 62), "y", nil}, `["column1"] 4611686018427387904; y; ; more=true`},
			{"select ? > 0.5, ?", []any{0.75, true}, `["? > 0.5" "?"] 1 1; more=false`},
			{"select name from pragma_table_info('t')", nil, `["name"] a; b; more=false`},
			{"pragma table_info(t)", nil, `["cid" "name" "type" "notnull" "dflt_value" "pk"] 0 a  0  0; 1 b  0  0; more=false`},
			{"select x from f where f match 'two'", nil, `["x"] one two; more=false`},
			{"select highlight(f, 0, '<', '>') as h, bm25(f) < 0 as b from f where f match 'two'", nil, `["h" "b"] one <two> 1; more=false`},
			{"select snippet(f, 0, '', '', '', 64) from f where f match 'two'", nil, "snippet"},
			{"select 'ab' from t union all select zeroblob(380)", nil, `["'ab'"] ab; ab; more=true`},
			{"select zeroblob(400)", nil, "too much"},
			{"select zeroblob(1000)", nil, "too big"},
			{"select 1; select 2", nil, "more than one statement"},
			{"-- nothing", nil, "no statement"},
			{"selec", nil, "syntax error"},
			{"select ?", nil, "1 parameters"},
			{"select 1\x00", nil, "NUL"},
			{"insert into t values (3, 3)", nil, "only what reads"},
			{"with x as (select 1) delete from t", nil, "only what reads"},
			{"create temp table x(a)", nil, "only what reads"},
			{"vacuum into 'file:x.db?vfs=os'", nil, "only what reads"},
			{"attach 'file:x.db?vfs=os' as x", nil, "only what reads"},
			{"attach ':memory:' as x", nil, "only what reads"},
			{"begin immediate", nil, "only what reads"},
			{"pragma user_version = 7", nil, "only what reads"},
			{"pragma cache_size = 1000000000", nil, "only what reads"},
		} {
			var out strings.Builder
			columns, more, err := s.Read(ctx, &sqlrun.Reading{SQL: test.text, Args: test.args, Rows: 3, Bytes: 400}, func(row []sqlrun.Cell) {
				for _, c := range row {
					fmt.Fprintf(&out, " %s", c.Text)
				}
				out.WriteString(";")
			})
			got := fmt.Sprintf("%q%s more=%v", columns, out.String(), more)
			if err != nil {
				if at := (*sqlrun.Error)(nil); !errors.As(err, &at) || !strings.Contains(err.Error(), test.out) {
					t.Errorf("%q: %v", test.text, err)
				}
			} else if got != test.out {
				t.Errorf("%q: %s, not %s", test.text, got, test.out)
			}
		}
		var n int
		if err := a.SQL().QueryRow("select count(*) from t").Scan(&n); err != nil || n != 2 {
			t.Errorf("there are %d rows, %v", n, err)
		}
		if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
			t.Errorf("there are files: %v, %v", left, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestReadTime: what would run for minutes within one step ends at its deadline, or doesn't begin.
func TestReadTime(t *testing.T) {
	onActor(t, func(ctx context.Context, a *greenroom.Actor) {
		s, err := sqlrun.OpenReader(ctx, a.SQL())
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]string{
			"select instr(zeroblob(4000000), cast(zeroblob(2000000) || x'01' as blob))":              sqlrun.ErrInterrupted.Error(),
			"select replace(hex(zeroblob(1000000)), hex(zeroblob(500000)) || '1', '')":               sqlrun.ErrInterrupted.Error(),
			"select hex(zeroblob(1000000)) like '%' || hex(zeroblob(500000)) || '1'":                 sqlrun.ErrInterrupted.Error(),
			"select trim(hex(zeroblob(1000000)), hex(zeroblob(1000000)))":                            sqlrun.ErrInterrupted.Error(),
			"with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n": sqlrun.ErrInterrupted.Error(),
			"select json_patch('{}', '{}')":                                                          "the function json_patch isn't here",
			"select '1.5' collate decimal = '1.50'":                                                  "decimal",
			"select " + strings.Repeat("hex(zeroblob(2000000)), ", 500) + "1":                        "a cost of",
			"explain select " + strings.Repeat("hex(zeroblob(2000000)), ", 500) + "1":                "",
			"/**/select " + strings.Repeat("hex(zeroblob(2000000)), ", 500) + "1 as /***/explain":    "a cost of",
			"/* a *//***/ explain select " + strings.Repeat("hex(zeroblob(2000000)), ", 500) + "1":   "",
			"select " + strings.Repeat("1, ", 40_000) + "1":                                          "too",
		} {
			ctx := ctx // of this statement
			if want == sqlrun.ErrInterrupted.Error() {
				ctx = &lateContext{Context: ctx, looks: 5}
			}
			_, _, err := s.Read(ctx, &sqlrun.Reading{SQL: text, Rows: 10_000, Bytes: 4 << 20}, func([]sqlrun.Cell) {})
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%.60s: %v, not %q", text, err, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A lateContext is over when it was looked at a number of times.
type lateContext struct {
	context.Context
	looks int
}

func (c *lateContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}
