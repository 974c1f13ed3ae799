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
			{"select 'ab' from t union all select zeroblob(380)", nil, `["'ab'"] ab; ab; more=true`},
			{"select zeroblob(400)", nil, "too large"},
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
