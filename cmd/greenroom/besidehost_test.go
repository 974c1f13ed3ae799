//go:build unix

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestBesideHost works with a store that a process serves, whose actors are called all the time: with one that is called, with one that sleeps,
// and with one that the host has no type for.
func TestBesideHost(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "notes", "k", "v")
	must(t, "sql", "data", "notes", "create table t(a); insert into t values (1)")
	p := startHost(t, "", "--demo", "--idle", "100ms", "data")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	calls := make([]int, 4)
	for i := range calls {
		load.Go(func() {
			for ctx.Err() == nil {
				var n int
				err := p.post(ctx, fmt.Sprintf("/actors/counter/busy%d/actions/add", i), 1, &n)
				if ctx.Err() != nil {
					return
				}
				if calls[i]++; err != nil || n != calls[i] {
					t.Errorf("call %d: %d, %v", calls[i], n, err)
					return
				}
			}
		})
	}
	var n int
	if err := p.post(ctx, "/actors/counter/asleep/actions/add", 5, &n); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for _, test := range []struct {
			args []string
			want string
		}{
			{[]string{"put", "data", "notes", "r", fmt.Sprint(round)}, ""},
			{[]string{"get", "data", "notes", "r"}, fmt.Sprint(round)},
			{[]string{"sql", "data", "notes", "insert into t values (2); select count(*) from t"}, fmt.Sprintf("%d\n", round+2)},
			{[]string{"sql", "--read-only", "data", "notes", "select count(*) from t"}, fmt.Sprintf("%d\n", round+2)},
			{[]string{"put", "data", "counter/busy0", "r", fmt.Sprint(round)}, ""},
			{[]string{"get", "data", "counter/busy0", "r"}, fmt.Sprint(round)},
			{[]string{"sql", "data", "counter/busy1", "create table if not exists t(a); insert into t values (1); select count(*) from t"}, fmt.Sprintf("%d\n", round+1)},
			{[]string{"put", "data", "counter/asleep", "r", fmt.Sprint(round)}, ""},
			{[]string{"get", "data", "counter/asleep", "r"}, fmt.Sprint(round)},
			{[]string{"fork", "data", "counter/busy2", fmt.Sprintf("fork%d", round)}, ""},
			{[]string{"import", "data", fmt.Sprintf("fork%d", round), "notes.db"}, ""},
			{[]string{"drop", "--yes", "data", fmt.Sprintf("fork%d", round)}, ""},
		} {
			if test.args[0] == "import" {
				must(t, "export", "--force", "data", "notes", "notes.db")
			}
			if got := must(t, test.args...); got != test.want {
				t.Errorf("%q: %q, want %q", test.args, got, test.want)
			}
		}
	}
	if err := p.post(ctx, "/actors/counter/asleep/actions/add", 1, &n); err != nil || n != 6 {
		t.Errorf("the one that slept is at %d, %v", n, err)
	}
	names := must(t, "ls", "data", "--by-name")
	for _, name := range []string{"counter/busy0", "counter/busy3", "counter/asleep", "notes"} {
		if !strings.Contains(names, name+"\t") {
			t.Errorf("ls lacks %s: %s", name, names)
		}
	}
	if got := must(t, "check", "data"); !strings.HasSuffix(got, "no problems\n") {
		t.Errorf("check: %s", got)
	}
	for _, args := range [][]string{{"host", "--demo", "data", "--listen", "127.0.0.1:0"}, {"engine", "data", "--listen", "127.0.0.1:0"}} {
		r := program(t.Context(), strings.NewReader(""), args...)
		if want := fmt.Sprintf("process %d (", p.cmd.Process.Pid); r.code != exitFailed || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v, want %s", args[0], r, want)
		}
	}
	// A shell that is in a transaction ends with the host.
	shell := newStream(t, t.Context(), "data")
	shell.say(t, "begin; create table if not exists x(a); insert into x values (8) returning a;", "8")
	cancel()
	load.Wait()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		t.Fatal("it doesn't end")
	}
	if p.err != nil {
		t.Errorf("it ends with %v: %s", p.err, &p.stderr)
	}
	shell.in.Close()
	if r := <-shell.done; r.code == exitOK {
		t.Errorf("the shell doesn't say that its transaction is lost: %+v", r)
	}
	for i, want := range calls {
		got := must(t, "state", "show", "data", fmt.Sprintf("counter/busy%d", i))
		number := func(n int) string { return fmt.Sprintf(`"number":%d,`, n) }
		if !strings.Contains(got, number(want)) && !strings.Contains(got, number(want+1)) { // one may be unanswered
			t.Errorf("busy%d was called %d times, and has %s", i, want, got)
		}
	}
	if left, err := filepath.Glob(filepath.Join("data", "admin*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}
