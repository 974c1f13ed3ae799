package sqlconfine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/internal/sqlconfine"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

var must = testkit.Must

// confine confines a connection.
func confine(c *sqlite3.Conn) error { return sqlconfine.Confine(c, "there is no %s") }

// memory opens a database in memory, with or without what confines modules.
func memory(t testing.TB, setUp ...func(*sqlite3.Conn) error) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.Open(":memory:")
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	for _, fn := range setUp {
		must(t, fn(c))
	}
	return c
}

// answer is what an expression is, with its type, or the error.
func answer(t testing.TB, c *sqlite3.Conn, expression string, values ...any) string {
	t.Helper()
	s, _, err := c.Prepare("select typeof(x), hex(x) from (select " + expression + " as x)")
	must(t, err)
	for i, v := range values[:min(len(values), s.BindCount())] {
		switch v := v.(type) {
		case string:
			err = s.BindText(i+1, v)
		case []byte:
			err = s.BindBlob(i+1, v)
		case int:
			err = s.BindInt(i+1, v)
		}
		must(t, err)
	}
	var got string
	for s.Step() {
		got = s.ColumnText(0) + " " + s.ColumnText(1)
	}
	if err := s.Close(); err != nil {
		return err.Error()
	}
	return got
}

// expressions call all functions that are replaced.
var expressions = []string{
	"?1 like ?2", "?1 like ?2 escape ?3", "?1 glob ?2", "instr(?1, ?2)", "replace(?1, ?2, ?3)", "trim(?1)", "ltrim(?1)", "rtrim(?1)",
	"trim(?1, ?2)", "ltrim(?1, ?2)", "rtrim(?1, ?2)", "unhex(?1, ?2)",
}

// TestReplaced compares the functions that are replaced with SQLite's, of any values.
func TestReplaced(t *testing.T) {
	theirs, ours := memory(t), memory(t, confine)
	part := rapid.SampledFrom([]string{
		"a", "b", "A", "B", "ab", "aab", "%", "_", "*", "?", "[", "]", "^", "-", "[a-b]", "[^a]", "[]a]", "[a", "\\", "é", "É", "ß", "語", "\xff", "\xc3", "\xa9",
		"\x80", "\xed\xa0\x80", "\xf0\x9f\x98\x80", "\xf8\x88\x80\x80\x80", "\x00", " ", "1", "\xc1\x81", "\ufffd", "\uffff", "%a", "*a", "%\\",
	})
	rapid.Check(t, func(rt *rapid.T) {
		values := make([]any, 3)
		for i := range values {
			text := strings.Join(rapid.SliceOfN(part, 0, 8).Draw(rt, "text"), "")
			switch rapid.IntRange(0, 12).Draw(rt, "type") {
			case 0:
				values[i] = []byte(text)
			case 1:
				values[i] = rapid.IntRange(-200, 200).Draw(rt, "number")
			case 2: // NULL
			default:
				values[i] = text
			}
		}
		for _, x := range expressions {
			if got, want := answer(t, ours, x, values...), answer(t, theirs, x, values...); got != want {
				rt.Errorf("%s of %q: got %q, want %q", x, values, got, want)
			}
		}
	})
}

// TestReplacedLimits looks at values that are too large, and at functions in a schema.
func TestReplacedLimits(t *testing.T) {
	c := memory(t, confine)
	c.Limit(sqlite3.LIMIT_LENGTH, 1000)
	long := strings.Repeat("a", 900)
	if got := answer(t, c, "replace(?1, 'a', 'bb')", long); !strings.Contains(got, "too big") {
		t.Errorf("got %.40q", got)
	}
	if got := answer(t, c, "length(replace(?1, 'a', 'b'))", long); got != "integer 393030" {
		t.Errorf("got %q", got)
	}
	must(t, c.Exec(`create table t(a, b as (replace(a, 'x', 'y')), check(a like 'x%')); create index i on t(trim(a));
		create view v as select instr(a, 'x') as n from t; insert into t(a) values('xx')`))
	if err := c.Exec("insert into t(a) values('a')"); err == nil {
		t.Error("the check has not been made")
	}
	if got := answer(t, c, "(select b || n from t, v)"); got != "text "+fmt.Sprintf("%X", "yy1") {
		t.Errorf("got %q", got)
	}
}

// TestReplacedTime: each function ends that would take hours, when the time is over.
func TestReplacedTime(t *testing.T) {
	c := memory(t, confine)
	many := strings.Repeat("a", 1<<20)
	half := many[:len(many)/2] + "b"
	for _, x := range []string{
		"?1 like '%' || ?2", "?1 glob '*' || ?2", "?1 glob '*[' || ?2 || ']c'", "instr(?1, ?2)", "replace(?1, ?2, '')", "trim(?1, ?2)",
		"unhex(?1, ?2)",
	} {
		ctx := &lateContext{Context: t.Context(), looks: 5}
		c.SetInterrupt(ctx)
		if got := answer(t, c, x, many, half); !strings.Contains(got, "interrupted") {
			t.Errorf("%s: %.40s", x, got)
		}
		c.SetInterrupt(t.Context())
	}
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
