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

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestBesideHost works with a store that a process serves, whose actors are called all the time: with one that is called, with one that sleeps,
// and with one whose type the host doesn't have.
func TestBesideHost(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "notes", "k", "v")
	must(t, "sql", "data", "notes", "create table t(a); insert into t values (1)")
	p := startHost(t, "", "--demo", "--idle", "100ms", "data")
	ended := countBusily(t, p)
	var n int
	if err := p.post(t.Context(), "/actors/counter/asleep/actions/add", 5, &n); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		workBeside(t, round)
	}
	if err := p.post(t.Context(), "/actors/counter/asleep/actions/add", 1, &n); err != nil || n != 6 {
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
		if want := fmt.Sprintf("process %d (", p.cmd.Process.Pid); r.code != serving.ExitFailed || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v, want %s", args[0], r, want)
		}
	}
	endBeside(t, p, ended)
	if left, err := filepath.Glob(filepath.Join("data", "admin*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// countBusily calls four counters until end is called, which returns how often each was called.
func countBusily(t *testing.T, p *hostProcess) (end func() []int) {
	ctx, cancel := context.WithCancel(t.Context())
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
	end = func() []int {
		cancel()
		load.Wait()
		return calls
	}
	t.Cleanup(func() { end() })
	return end
}

// workBeside reads and writes actors of all kinds.
func workBeside(t *testing.T, round int) {
	t.Helper()
	number, fork := fmt.Sprint(round), fmt.Sprintf("fork%d", round)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"put", "data", "notes", "r", number}, ""},
		{[]string{"get", "data", "notes", "r"}, number},
		{[]string{"sql", "data", "notes", "insert into t values (2); select count(*) from t"}, fmt.Sprintf("%d\n", round+2)},
		{[]string{"sql", "--read-only", "data", "notes", "select count(*) from t"}, fmt.Sprintf("%d\n", round+2)},
		{[]string{"put", "data", "counter/busy0", "r", number}, ""},
		{[]string{"get", "data", "counter/busy0", "r"}, number},
		{[]string{"sql", "data", "counter/busy1", "create table if not exists t(a); insert into t values (1); select count(*) from t"}, fmt.Sprintf("%d\n", round+1)},
		{[]string{"put", "data", "counter/asleep", "r", number}, ""},
		{[]string{"get", "data", "counter/asleep", "r"}, number},
		{[]string{"fork", "data", "counter/busy2", fork}, ""},
		{[]string{"export", "--force", "data", "notes", "notes.db"}, ""},
		{[]string{"import", "data", fork, "notes.db"}, ""},
		{[]string{"drop", "--yes", "data", fork}, ""},
	} {
		if got := must(t, test.args...); got != test.want {
			t.Errorf("%q: %q, want %q", test.args, got, test.want)
		}
	}
}

// endBeside ends the host while a shell is in a transaction, which is lost. What was answered before is stored.
func endBeside(t *testing.T, p *hostProcess, ended func() []int) {
	t.Helper()
	shell := newStream(t, t.Context(), "data")
	shell.say(t, "begin; create table if not exists x(a); insert into x values (8) returning a;", "8")
	calls := ended()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(testkit.Patience(time.Second)):
		t.Fatal("it doesn't end")
	}
	if p.err != nil {
		t.Errorf("it ends with %v: %s", p.err, &p.stderr)
	}
	shell.in.Close()
	if r := <-shell.done; r.code == serving.ExitOK {
		t.Errorf("the shell doesn't say that its transaction is lost: %+v", r)
	}
	for i, want := range calls {
		got := must(t, "state", "show", "data", fmt.Sprintf("counter/busy%d", i))
		number := func(n int) string { return fmt.Sprintf(`"number":%d,`, n) }
		if !strings.Contains(got, number(want)) && !strings.Contains(got, number(want+1)) { // one may be unanswered
			t.Errorf("busy%d was called %d times, and has %s", i, want, got)
		}
	}
}
