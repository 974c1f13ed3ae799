package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/workflow"
	"github.com/greenroomdb/greenroom/workflow/workflowtest"
)

// commands are what is typed after every start: an order that was placed stays what it is.
const commands = `place tea-1 tea 500
place piano-1 piano 90000
place organ-1 organ 70000
place dodo-1 dodo 300
approve piano-1
reject organ-1
`

// ends are how the orders end, and books what the bank has done then.
var (
	ends = []string{
		"done dodo-1 failed: workflow: failed: can't be delivered",
		"done organ-1 failed: workflow: failed: not approved",
		"done piano-1 piano for 900.00",
		"done tea-1 tea for 5.00",
	}
	books = []string{
		"charge dodo-1 300", "charge organ-1 70000", "charge piano-1 90000", "charge tea-1 500",
		"deliver piano-1 90000", "deliver tea-1 500", "pay-back dodo-1 300", "pay-back organ-1 70000",
	}
)

// TestKill kills the shop with SIGKILL after each line that it says, and starts it again: all
// orders end as they do undisturbed, and each customer is charged, served or paid back once.
func TestKill(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "order")
	if out, err := exec.Command("go", "build", "-ldflags=-w -s", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	most := testkit.Pick(8, 20, 40)
	for _, every := range []int{1, 3} {
		// A shop goes on until the signal comes, and may be through early: then another one is
		// killed, too. The first run says too few lines for all orders.
		for kills := 0; kills < 5; {
			folder := t.TempDir()
			for lines := every; kills < most; lines += every {
				if finished(t, program, folder, lines) {
					break
				}
				kills++
			}
			if !finished(t, program, folder, 1<<30) {
				t.Fatal("the shop has ended by itself")
			}
			wantBooks(t, folder)
		}
	}
}

// finished runs the shop until all orders have ended, or it has said so many lines: then it
// is killed.
func finished(t *testing.T, program, folder string, lines int) bool {
	t.Helper()
	cmd := exec.Command(program, folder)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	go func() { _, _ = io.WriteString(in, commands) }() // the pipe breaks when it is killed
	done := map[string]bool{}
	s := bufio.NewScanner(out)
	for n := 0; n < lines && len(done) < len(ends) && s.Scan(); n++ {
		if line := s.Text(); strings.HasPrefix(line, "done ") {
			if !slices.Contains(ends, line) {
				t.Errorf("it says %q", line)
			}
			done[line] = true
		} else if strings.HasPrefix(line, "stopped") || strings.HasPrefix(line, "error") {
			t.Errorf("it says %q", line)
		}
	}
	must(t, cmd.Process.Kill())
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return len(done) == len(ends)
}

func wantBooks(t *testing.T, folder string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "ledger.txt"))
	must(t, err)
	var got []string
	for line := range strings.Lines(string(text)) {
		_, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		got = append(got, what)
	}
	slices.Sort(got)
	if !slices.Equal(got, books) {
		t.Errorf("the bank has done %q, want %q", got, books)
	}
}

// must fails the test if err is not nil.
var must = testkit.Must

// TestNoReply: two weeks are a moment in a test, and an order without an answer is paid back.
func TestNoReply(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, e *workflowtest.Env) {
		b := &bank{file: filepath.Join(t.TempDir(), "ledger.txt")}
		e.Options.Errors = sentinels
		start := time.Now()
		w := workflowtest.Start(e, b.order, Order{"harp-1", "harp", 80_000})
		workflowtest.Rest(e, w)
		e.Restart()
		w = workflowtest.Open(e, b.order)
		_, err := w.Live(context.Background())
		if !errors.Is(err, workflow.ErrFailed) || !errors.Is(err, errNoReply) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took < reply || took > reply+time.Minute {
			t.Errorf("it took %v", took)
		}
		text, err := os.ReadFile(b.file)
		must(t, err)
		if got := strings.Count(string(text), "\n"); got != 2 {
			t.Errorf("the bank has done %s", text)
		}
	})
}

// TestCut: a line that the end of the process cut off is written anew.
func TestCut(t *testing.T) {
	b := &bank{file: filepath.Join(t.TempDir(), "ledger.txt")}
	o := Order{"a", "b", 1}
	must(t, b.book("k1", "charge", o))
	must(t, os.WriteFile(b.file, []byte("k1 charge a 1\nk2 cha"), 0o644))
	for _, key := range []string{"k2", "k1", "k2", "k3"} {
		must(t, b.book(key, "charge", o))
	}
	got, err := os.ReadFile(b.file)
	must(t, err)
	if want := "k1 charge a 1\nk2 charge a 1\nk3 charge a 1\n"; string(got) != want {
		t.Errorf("got %q", got)
	}
	if err := (&bank{file: filepath.Join(b.file, "no")}).book("k", "charge", o); err == nil {
		t.Error("a bank without a file")
	}
}
