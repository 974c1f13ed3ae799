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

	"github.com/greenroomdb/greenroom/host/hosttest"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// must fails the test if err is not nil.
var must = testkit.Must

// TestAssistant gives tasks, with restarts between, and weeks that are a moment here.
func TestAssistant(t *testing.T) {
	var out strings.Builder
	o := &office{mails: t.TempDir(), out: &out}
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		o.host = e.Host
		restart := func() {
			e.Restart()
			o.host = e.Host
		}
		for _, line := range []string{
			"learn ada bob is at bob@example.org", "learn ada The office opens at nine",
			"task ada When does the office open?", "task ada add 2 3 4", "task ada add apples", "task ada mail eve hello",
			"task ada mail bob the report", "restart", "yes ada 5", "restart",
			"task ada mail bob a complaint", "no ada 7", "task ada mail bob regrets",
			"what", "what is it", "task bob where am I",
		} {
			if line == "restart" {
				restart()
			} else if err := o.obey(t.Context(), strings.Fields(line)); err != nil {
				o.say("error %v", err)
			}
			e.Advance(time.Minute)
		}
		restart()
		e.Advance(patience)
		must(t, o.obey(t.Context(), strings.Fields("recall ada report")))
		must(t, o.obey(t.Context(), strings.Fields("recall ada ...")))
		want := `learned ada
learned ada
given ada 1
done ada 1 The office opens at nine
given ada 2
done ada 2 9
given ada 3
done ada 3 that's no number
given ada 4
done ada 4 I know no address of eve
given ada 5
asks ada 5 mail bob@example.org: the report
told ada 5
done ada 5 mailed
given ada 7
asks ada 7 mail bob@example.org: a complaint
told ada 7
done ada 7 not allowed
given ada 9
asks ada 9 mail bob@example.org: regrets
error what is "what"?
error what is "what"?
given bob 1
done bob 1 I don't know
done ada 9 not allowed
knows ada task: mail bob the report: mailed
`
		// An assistant may be quicker than the one that hands over a task: the lines are
		// in any order.
		lines := func(text string) []string { return slices.Sorted(strings.Lines(text)) }
		if got := out.String(); !slices.Equal(lines(got), lines(want)) {
			t.Errorf("got\n%s", got)
		}
		wantMails(t, o.mails, "bob@example.org: the report")
	}, o.assistant())
}

// wantMails looks what was sent.
func wantMails(t *testing.T, folder string, want ...string) {
	t.Helper()
	var got []string
	files, err := os.ReadDir(folder)
	must(t, err)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		must(t, err)
		got = append(got, strings.TrimSpace(string(text)))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("mailed %q, want %q", got, want)
	}
}

// folderEnv tells a child process where to work.
const folderEnv = "GREENROOM_AGENT_FOLDER"

// TestChild is the process that is killed.
func TestChild(t *testing.T) {
	folder := os.Getenv(folderEnv)
	if folder == "" {
		t.Skip("it is for TestKill to run")
	}
	must(t, serve(t.Context(), folder, os.Stdin, os.Stdout))
}

// typed is what is typed after every start.
const typed = `recall ada complaint
learn ada bob is at bob@example.org
task ada mail bob the report
task ada add 2 3 4
task ada mail bob a complaint
yes ada 1
no ada 3
`

// TestKill kills the program after each line that it says, and starts it again: all tasks
// end as they do undisturbed, one mail is sent, and each outcome is remembered once.
func TestKill(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts processes")
	}
	// It goes on until the signal comes, and may be through early: then another one is
	// killed, too. The first line of a new one is never the last.
	for kills := 0; kills < 5; {
		folder, done := t.TempDir(), false
		for lines := 1; !done && kills < 40; lines++ {
			if done = finished(t, folder, lines); !done {
				kills++
			}
		}
		if !done {
			t.Errorf("after %d kills it hasn't ended", kills)
		}
		wantEnd(t, folder)
	}
}

// wantEnd looks what was mailed and is remembered when all tasks have ended.
func wantEnd(t *testing.T, folder string) {
	t.Helper()
	wantMails(t, filepath.Join(folder, "mails"), "bob@example.org: the report")
	var out strings.Builder
	must(t, serve(t.Context(), folder, strings.NewReader("recall ada report\nrecall ada complaint\nrecall ada 9\n"), &out))
	want := "knows ada task: mail bob the report: mailed\nknows ada task: mail bob a complaint: not allowed\nknows ada task: add 2 3 4: 9\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// finished runs the program until all tasks have ended, or it has said so many lines: then
// it is killed.
func finished(t *testing.T, folder string, lines int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(time.Second)) // else it would be waited for in vain
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), folderEnv+"="+folder)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	go func() { _, _ = io.WriteString(in, typed) }() // the pipe breaks when it is killed
	over := false
	scanner := bufio.NewScanner(out)
	for n := 0; n < lines && !over && scanner.Scan(); n++ {
		line := scanner.Text()
		if strings.HasPrefix(line, "error") {
			t.Errorf("it says %q", line)
		}
		// Its last line, or what a run knows that comes after it.
		over = line == "done ada 3 not allowed" || line == "knows ada task: mail bob a complaint: not allowed"
	}
	must(t, cmd.Process.Kill())
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return over
}
