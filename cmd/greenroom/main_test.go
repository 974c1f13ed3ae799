package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// A result is what a run of the program left.
type result struct {
	stdout, stderr string
	code           int
}

// program runs it in this process.
func program(ctx context.Context, stdin io.Reader, args ...string) result {
	var stdout, stderr strings.Builder
	e := &env{
		stdin: stdin, stdout: &stdout, stderr: &stderr,
		getenv:  func(string) string { return "" },
		signals: &serving.Signals{End: func() {}},
	}
	code := run(ctx, e, args)
	return result{stdout.String(), stderr.String(), code}
}

// must runs the program and returns its output; the test ends if it fails.
func must(t *testing.T, args ...string) string {
	t.Helper()
	r := program(t.Context(), strings.NewReader(""), args...)
	if r.code != serving.ExitOK {
		t.Fatalf("greenroom %q: status %d, %s%s", args, r.code, r.stderr, r.stdout)
	}
	return r.stdout
}

// ownBelow is own for what only the layers below can do.
func ownBelow(ctx context.Context, t target, fn func(*actorstore.Actor) error) error {
	t.env = &env{stderr: io.Discard}
	return own(ctx, t, func(a *greenroom.Actor) error { return fn(a.Lower()) })
}

// times are what no two runs have the same.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)

// holders are the processes that have a store open.
var holders = regexp.MustCompile(`process \d+ \([^)]*\) has`)

// TestCommands runs the commands in testdata/commands, each file in an empty
// folder. In a file, "greenroom" is followed by the arguments, each one in double
// quotes where it has spaces, and by standard input; "file NAME" writes a file.
func TestCommands(t *testing.T) {
	runFiles(t, "commands", func() directives {
		return func(*testing.T, *datadriven.TestData) (string, bool) { return "", false }
	})
}

// Directives run a directive of a file that is not one of TestCommands, and report whether it is theirs.
type directives func(t *testing.T, d *datadriven.TestData) (out string, known bool)

// runFiles runs the files in a folder of testdata, each in an empty folder, with directives of its own.
func runFiles(t *testing.T, folder string, start func() directives) {
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in testdata/%s: %v", folder, err)
	}
	for _, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		run := func(name string, command func(t *testing.T, input string) string) {
			t.Run(name, func(t *testing.T) {
				t.Chdir(t.TempDir())
				s := start()
				datadriven.RunTest(t, abs, func(t *testing.T, d *datadriven.TestData) string {
					if out, known := s(t, d); known {
						return out
					}
					if d.Cmd == "greenroom" {
						return command(t, d.Input)
					}
					return directive(t, d)
				})
			})
		}
		run(filepath.Base(path), transcript)
		run(filepath.Base(path)+" of an open store", transcriptBeside)
	}
}

// exclusive are the commands for which the store must not be open; and no SQL reaches a file of the operating system then.
var exclusive = []string{"host", "engine", "serve", "import-rivetkit", "salvage", "backup"}

// transcriptBeside is transcript while a host has the store open that is an argument, if there is one. Another actor of it is busy meanwhile, unless that would be shown.
func transcriptBeside(t *testing.T, input string) string {
	line, _, _ := strings.Cut(input, "\n")
	args := words(line)
	if len(args) > 0 && !slices.Contains(exclusive, args[0]) && !strings.Contains(input, "vfs=os") {
		for _, arg := range args {
			if dir := strings.TrimPrefix(arg, "pebble:"); isStore(dir) {
				h, end := hostedHere(t, dir)
				defer end()
				if h != nil && !listing(args) {
					defer loaded(t, h)()
				}
				break
			}
		}
	}
	return transcript(t, input)
}

// listing says whether a command shows actors that its arguments don't name.
func listing(args []string) bool {
	return slices.Contains([]string{"check", "hosts", "ls", "top"}, args[0]) || len(args) > 1 && args[1] == "ls"
}

// loaded has two callers add to an actor of the host, one call after the other, until end is called, which leaves nothing of it. It returns when they have begun.
func loaded(t *testing.T, h *host.Host) (end func()) {
	t.Helper()
	busy, one := host.Address{Type: "counter", Key: "busy"}, host.Raw("\x01") // in CBOR
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	begun := make(chan struct{}, 2)
	for range 2 {
		callers.Go(func() {
			for said := false; ctx.Err() == nil; said = true {
				_, err := h.Do(t.Context(), &host.Call{Actor: busy, Action: "add", Args: one})
				if !said {
					begun <- struct{}{}
				}
				if err != nil {
					t.Errorf("a call beside the command: %v", err)
					return
				}
			}
		})
	}
	<-begun
	<-begun
	return func() {
		cancel()
		callers.Wait()
		if err := h.Destroy(t.Context(), busy); err != nil {
			t.Error(err)
		}
	}
}

// isStore says whether a folder has what looks like a store.
func isStore(dir string) bool {
	markers, err := filepath.Glob(filepath.Join(dir, "marker.manifest.*"))
	return err == nil && len(markers) > 0
}

// hosted opens the store in dir as greenroom host does, until end is called. One that can't be opened stays closed.
func hosted(t *testing.T, dir string) (end func()) {
	t.Helper()
	_, end = hostedHere(t, dir)
	return end
}

// hostedHere is hosted with the host, nil if the store can't be opened.
func hostedHere(t *testing.T, dir string) (h *host.Host, end func()) {
	t.Helper()
	s, err := storeurl.Open(t.Context(), dir, greenroom.Options{MustExist: true})
	if err != nil {
		return nil, func() {}
	}
	log := slog.New(slog.DiscardHandler)
	h, err = host.Open(t.Context(), s.Engine(), []*host.Type{demoCounter()}, &host.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := admin.Listen(t.Context(), dir, s.Store, &admin.Options{Actors: h, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return h, func() {
		if err := errors.Join(tools.Close(), h.Close(t.Context()), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// directive runs what isn't a command line.
func directive(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd != "file" {
		d.Fatalf(t, "no directive %q", d.Cmd)
	}
	if err := os.WriteFile(d.CmdArgs[0].String(), []byte(d.Input+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return ""
}

// transcript runs the command line that input begins with, on the rest of it.
func transcript(t *testing.T, input string) string {
	line, stdin, _ := strings.Cut(input, "\n")
	return report(program(t.Context(), strings.NewReader(stdin), words(line)...))
}

// report writes what a run left as the files in testdata have it.
func report(r result) string {
	var b strings.Builder
	b.WriteString(visibleText(times.ReplaceAllString(r.stdout, "TIME")))
	r.stderr = holders.ReplaceAllString(r.stderr, "process PID (NAME) has")
	if r.stdout != "" && !strings.HasSuffix(r.stdout, "\n") {
		b.WriteString("(no line feed)\n")
	}
	for line := range strings.Lines(r.stderr) {
		b.WriteString("stderr: " + line)
	}
	if r.code != serving.ExitOK {
		fmt.Fprintf(&b, "status %d\n", r.code)
	}
	return b.String()
}

// words splits a command line at spaces outside of double quotes.
func words(line string) []string {
	var words []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// TestShownKeys: get and rm take what ls shows.
func TestShownKeys(t *testing.T) {
	store := filepath.Join(t.TempDir(), "data")
	for _, key := range []string{"plain", "hex:00ff", "with space", `a"quote`, "user/nested", "hex:75736572"} {
		must(t, "put", store, "lobby", key, "value of "+key)
	}
	for i := 6; i > 0; i-- {
		shown, _, _ := strings.Cut(must(t, "ls", store, "lobby", "user/"), "\t")
		if got := must(t, "get", store, "lobby", shown); !strings.HasPrefix(got, "value of ") {
			t.Errorf("%s: %q", shown, got)
		}
		must(t, "rm", store, "lobby", shown)
		if n := strings.Count(must(t, "ls", store, "lobby"), "\n"); n != i-1 {
			t.Errorf("%d keys after rm %s", n, shown)
		}
	}
}
