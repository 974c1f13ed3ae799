package sqlrun_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A page is a Sink that writes what it gets as text.
type page struct {
	strings.Builder
	flushed int
	fails   error
}

func (p *page) Begin(columns []string) { fmt.Fprintf(p, "%q", columns) }
func (p *page) Row(row []sqlrun.Cell) {
	for _, c := range row {
		fmt.Fprintf(p, " %d:%s:%v", c.Kind, c.Text, c.Real)
	}
	p.WriteString(";")
}
func (p *page) End()               { p.WriteString(".") }
func (p *page) Changed(rows int64) { fmt.Fprintf(p, "+%d", rows) }
func (p *page) Flush() error       { p.flushed++; return p.fails }

// onActor runs fn with an actor in memory.
func onActor(t *testing.T, fn func(ctx context.Context, a *greenroom.Actor)) {
	t.Helper()
	s, err := greenroom.New(t.Context(), memkv.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Actor(t.Context(), "room", nil)
	if err != nil {
		t.Fatal(err)
	}
	fn(t.Context(), a)
	if err := errors.Join(a.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestRun(t *testing.T) {
	onActor(t, func(ctx context.Context, a *greenroom.Actor) {
		s, err := sqlrun.Open(ctx, a.SQL())
		if err != nil {
			t.Fatal(err)
		}
		boom := errors.New("boom")
		for _, test := range []struct {
			text, out string
			ran       int
			at        int // of the error, -1 for none
			fails     error
		}{
			{"create table t(a, b); insert into t values (1, 'x'), (2.5, null)", "+2", 2, -1, nil},
			{" -- nothing", "", 0, -1, nil},
			{"select a, b, x'00ff' as c from t", "[\"a\" \"b\" \"c\"] 1:1:0 3:x:0 4:\x00\xff:0; 2:2.5:2.5 0::0 4:\x00\xff:0;.", 1, -1, nil},
			{"delete from t; selec", "+2", 2, 15, nil},
			{"select 1; select abs(-9223372036854775808)", "[\"1\"] 1:1:0;.", 2, 9, nil},
			{"select\x00 1", "", 1, 6, nil},
			{"select 1; select 2", "[\"1\"] 1:1:0;.", 1, -1, boom},
		} {
			p := &page{fails: test.fails}
			ran, err := s.Run(ctx, test.text, p)
			at := -1
			if e := (*sqlrun.Error)(nil); errors.As(err, &e) {
				at = e.Offset
			} else if !errors.Is(err, test.fails) {
				t.Errorf("%q: %v", test.text, err)
			}
			if ran != test.ran || at != test.at || p.String() != test.out {
				t.Errorf("%q: %d ran, an error at %d (%v), and %q", test.text, ran, at, err, p.String())
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = s.Run(ended, "with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c", &page{})
		if !errors.Is(err, sqlrun.ErrInterrupted) {
			t.Errorf("a statement without end: %v", err)
		}
		if _, err := s.Run(ctx, "begin; insert into t values (3, 3)", &page{}); err != nil || !s.InTransaction() {
			t.Errorf("begin: %v, %v", err, s.InTransaction())
		}
		if err := s.Rollback(); err != nil || s.InTransaction() {
			t.Errorf("rollback: %v, %v", err, s.InTransaction())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestGuest: a guest reaches no file of the operating system, and leaves nothing on the connection.
func TestGuest(t *testing.T) {
	t.Chdir(t.TempDir())
	onActor(t, func(ctx context.Context, a *greenroom.Actor) {
		a.SQL().SetMaxOpenConns(1)
		s, err := sqlrun.OpenGuest(ctx, a.SQL())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			"attach 'file:x.db?vfs=os' as x", "attach 'file:/etc/passwd?vfs=os&mode=ro' as x", "vacuum into 'file:x.db?vfs=os'", "attach 'file:x?vfs=memdb' as x", "attach 'fi' || 'le:x.db?vfs=os' as x", "attach ? as x", "vacuum into 'fi' || 'le:x.db?vfs=os'",
		} {
			_, err := s.Run(ctx, text, &page{})
			if err == nil || !strings.Contains(err.Error(), "greenroom export") {
				t.Errorf("%s: %v", text, err)
			}
		}
		for _, text := range []string{"create table t(a)", "vacuum", "attach ':memory:' as m; create table m.t(a)", "create temp table x(a); pragma recursive_triggers=on; begin; insert into t values (1)"} {
			if _, err := s.Run(ctx, text, &page{}); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		var n int
		if err := a.SQL().QueryRow("select (select count(*) from sqlite_temp_schema) + (select count(*) from t) + (select recursive_triggers from pragma_recursive_triggers)").Scan(&n); err != nil || n != 0 {
			t.Errorf("the next connection finds %d, %v", n, err)
		}
	})
}
