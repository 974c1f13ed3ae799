package lint

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fence is a fenced block of Go, or of what was typed and printed, on a Markdown page.
var fence = regexp.MustCompile("(?ms)^```(go|console)\n(.*?)^```$")

// tested is what go test prints of a package, with the time that it took.
var tested = regexp.MustCompile(`(?m)^ok  \t.*$`)

// here is the address at which a page has its server listen.
const here = "127.0.0.1:8080"

// TestReadmeProgram runs what the README has a reader paste.
func TestReadmeProgram(t *testing.T) {
	page := readPage(t, "README.md")
	programs, runs := checkPage(t, page)
	if programs != 1 || runs == 0 {
		t.Errorf("README.md has %d programs and %d runs, want one that is run", programs, runs)
	}
	if n := strings.Count(page, "\n"); n > 140 {
		t.Errorf("README.md has %d lines, want at most 140", n)
	}
	if program := fence.FindStringSubmatch(page)[2]; strings.Count(program, "\n") > 52 {
		t.Error("the program of README.md has more than 52 lines")
	}
}

// TestTutorial runs each step of the tutorial.
func TestTutorial(t *testing.T) {
	if _, runs := checkPage(t, readPage(t, "docs/tutorial.md")); runs < 5 {
		t.Errorf("docs/tutorial.md has %d runs, want some for each of its five steps", runs)
	}
}

// TestModelPages runs the programs of the pages about items and documents, which are those among the examples.
func TestModelPages(t *testing.T) {
	for name, example := range map[string]string{"docs/items.md": "examples/school/main.go", "docs/documents.md": "examples/library/main.go"} {
		page := readPage(t, name)
		if files, runs := checkPage(t, page); files != 1 || runs != 1 {
			t.Errorf("%s has %d programs and %d runs, want one that is run", name, files, runs)
		}
		if program := fence.FindStringSubmatch(page)[2]; program != readPage(t, example) {
			t.Errorf("the program of %s is not %s", name, example)
		}
	}
}

// TestHowToPages runs the program with which each of these pages begins.
func TestHowToPages(t *testing.T) {
	for _, name := range []string{"docs/fake-time.md", "docs/sql.md", "docs/sizes.md", "docs/slow-work.md", "docs/flow-control.md", "docs/testing-actors.md"} {
		page := readPage(t, name)
		if files, runs := checkPage(t, page); files == 0 || runs == 0 {
			t.Errorf("%s has %d programs and %d runs, want one that is run", name, files, runs)
		}
		if index := readPage(t, "README.md"); !strings.Contains(index, "("+name+")") {
			t.Errorf("README.md has no link to %s", name)
		}
	}
}

// TestPageFails: what a page shows and doesn't happen is seen.
func TestPageFails(t *testing.T) {
	const hello = "```go\npackage main\n\nfunc main() { println(\"on stderr\"); print() }\n```\n"
	for _, tt := range []struct{ page, want string }{
		{"```go\npackage main\n\nfunc main() { nothing() }\n```\n```console\n$ go run .\n```\n", "undefined: nothing"},
		{hello + "```console\n$ go run .\nhello\n```\n", `printed "", want "hello\n"`},
		{hello + "```console\n$ rm -r /\n```\n", `can't be typed: "rm -r /"`},
		{hello, "is not run"},
	} {
		programs, err := buildPages(t.Context(), t.TempDir(), tt.page)
		if err == nil {
			err = newReader(t, programs[tt.page]).read(tt.page)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want an error with %q", err, tt.want)
		}
	}
}

// checkPage does what a page says, and returns how many files it has and how many
// commands.
func checkPage(t *testing.T, page string) (files, commands int) {
	t.Helper()
	programs, err := builtPages()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(slices.Collect(maps.Keys(programs)), page) {
		t.Fatal("the list pagesRead lacks the page")
	}
	r := newReader(t, programs[page])
	if err := r.read(page); err != nil {
		t.Error(err)
	}
	return r.written, r.typed
}

// A reader does what a page says, in a folder of its own: the files of a program are
// what the blocks of Go say whose first lines name them, until a later block does.
type reader struct {
	t      *testing.T
	folder string
	files  map[string]string

	built          []string // the programs of the page, as far as they weren't run
	program        string   // of files, "" if they have changed
	server         *exec.Cmd
	address        string // of the server
	written, typed int
}

func newReader(t *testing.T, programs []string) *reader {
	return &reader{t: t, folder: t.TempDir(), files: map[string]string{}, built: programs}
}

// read does what the blocks of a page say, one after the other. A server runs until the end of
// the block that starts it.
func (r *reader) read(page string) (err error) {
	defer func() { err = errors.Join(err, r.stop()) }()
	for _, block := range fence.FindAllStringSubmatch(page, -1) {
		if block[1] == "go" {
			r.files[fileOf(block[2])] = block[2]
			r.program = ""
			r.written++
			continue
		}
		commands := strings.Split(block[2], "$ ")
		if commands[0] != "" {
			return fmt.Errorf("a block begins with %q, and not with a command", commands[0])
		}
		for _, c := range commands[1:] {
			command, want, _ := strings.Cut(c, "\n")
			got, err := r.do(command)
			if err != nil {
				return fmt.Errorf("%s: %w", command, err)
			}
			if want = tested.ReplaceAllString(want, "ok"); got != want {
				return fmt.Errorf("%s: printed %q, want %q", command, got, want)
			}
			r.typed++
		}
		if err := r.stop(); err != nil {
			return err
		}
	}
	if len(r.files) > 0 && r.program == "" {
		return fmt.Errorf("the program of %q is not run", slices.Sorted(maps.Keys(r.files)))
	}
	return nil
}

// do does one command, and returns what is printed.
func (r *reader) do(command string) (string, error) {
	words := strings.Fields(command)
	switch {
	case command == "go test .":
		if out, err := r.run(nil); err != nil {
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		return "ok\n", nil
	case strings.HasPrefix(command, "go run ."):
		return r.run(words[3:])
	case words[0] == "curl":
		method, text, url := http.MethodGet, "", words[len(words)-1]
		if body, ok := strings.CutPrefix(command, "curl -d '"); ok {
			method = http.MethodPost
			text, _, _ = strings.Cut(body, "'")
		}
		return r.curl(method, strings.Replace(url, here, r.address, 1), text)
	}
	return "", fmt.Errorf("can't be typed: %q", command)
}

// run runs the program, and until stop if its argument is an address: the program has to
// print which one it got in place of that.
func (r *reader) run(args []string) (string, error) {
	if r.program == "" {
		r.program, r.built = r.built[0], r.built[1:]
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(r.t.Context(), r.program, args...)
	cmd.Dir, cmd.Stderr = r.folder, &stderr
	if !slices.Equal(args, []string{here}) {
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, &stderr)
		}
		return string(out), err
	}
	cmd.Args[1], cmd.Stderr = "127.0.0.1:0", os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	r.server = cmd
	line, err := bufio.NewReader(out).ReadString('\n')
	r.address = strings.TrimPrefix(strings.TrimSpace(line), "http://")
	return strings.Replace(line, r.address, here, 1), err
}

// stop interrupts the server, if there is one, and waits for its end.
func (r *reader) stop() error {
	if r.server == nil {
		return nil
	}
	err := r.server.Process.Signal(os.Interrupt)
	err = errors.Join(err, r.server.Wait())
	r.server = nil
	return err
}

func (r *reader) curl(method, url, text string) (string, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, url, strings.NewReader(text))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), errors.Join(err, resp.Body.Close())
}

// fileOf returns the name of the file that a block of Go is.
func fileOf(text string) string {
	name, _ := strings.CutPrefix(text[:strings.IndexByte(text, '\n')], "// ")
	if !strings.HasSuffix(name, ".go") {
		return "main.go"
	}
	return name
}

// programsOf returns the files of each program that a page runs, as they are at its first run.
func programsOf(page string) (programs []map[string]string) {
	files, changed := map[string]string{}, false
	for _, block := range fence.FindAllStringSubmatch(page, -1) {
		if block[1] == "go" {
			files[fileOf(block[2])], changed = block[2], true
		} else if changed && strings.Contains(block[2], "$ go ") {
			programs, changed = append(programs, maps.Clone(files)), false
		}
	}
	return programs
}

// pagesRead are the pages whose programs are built together.
var pagesRead = []string{
	"README.md", "docs/tutorial.md", "docs/items.md", "docs/documents.md",
	"docs/fake-time.md", "docs/sql.md", "docs/sizes.md", "docs/slow-work.md", "docs/flow-control.md", "docs/testing-actors.md",
}

// scratch is a folder for all tests.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "lint"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(scratch)
		return m.Run()
	}())
}

// builtPages returns what buildPages does of the pages that are read.
var builtPages = sync.OnceValues(func() (map[string][]string, error) {
	var pages []string
	for _, name := range pagesRead {
		page, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		pages = append(pages, string(page))
	}
	return buildPages(context.Background(), scratch, pages...)
})

// mainPackage and mainFunction are what makes a file the begin of a program.
var mainPackage, mainFunction = regexp.MustCompile(`(?m)^package main$`), regexp.MustCompile(`(?m)^func main\(\)`)

// A builder has the files of programs, which seem to be in the module.
type builder struct {
	ctx     context.Context
	dir     string // where they are
	replace map[string]string
}

// add adds a file, which seems to be at path in the module.
func (b *builder) add(path, text string) error {
	to := filepath.Join(b.dir, strings.ReplaceAll(path, "/", "."))
	b.replace[path] = to
	return os.WriteFile(to, []byte(text), 0o600)
}

// command runs the command go at the root of the module, with the files.
func (b *builder) command(args ...string) error {
	abs, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for path, to := range b.replace {
		replace[filepath.Join(abs, path)] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	file := filepath.Join(b.dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(b.ctx, "go", append(args[:1:1], append([]string{"-ldflags=-w -s", "-overlay", file}, args[1:]...)...)...)
	cmd.Dir = abs
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// buildPages builds the programs of pages into dir, and returns the paths of those of each page in the order in which it runs them. Those that aren't
// tests become one, which does by its name what the page's would do, without what is for debuggers: a linker takes most of the time of
// reading a page.
func buildPages(ctx context.Context, dir string, pages ...string) (programs map[string][]string, err error) {
	b := &builder{ctx, dir, map[string]string{}}
	programs = map[string][]string{}
	var imports, calls strings.Builder
	test := []string{"test", "-c", "-vet=off", "-o", dir + "/"}
	for i, page := range pages {
		for j, files := range programsOf(page) {
			name := fmt.Sprintf("page%dx%d", i, j)
			tested := slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(file string) bool { return strings.HasSuffix(file, "_test.go") })
			for file, text := range files {
				if strings.Contains(text, "/internal/") {
					return nil, fmt.Errorf("%s imports what a reader can't", file)
				}
				if !tested {
					text = mainFunction.ReplaceAllString(mainPackage.ReplaceAllString(text, "package "+name), "func Main()")
				}
				if err := b.add(name+"/"+file, text); err != nil {
					return nil, err
				}
			}
			program := filepath.Join(dir, name)
			if tested {
				program += ".test"
				test = append(test, "./"+name)
			} else {
				fmt.Fprintf(&imports, "import %q\n", "github.com/greenroomdb/greenroom/"+name)
				fmt.Fprintf(&calls, "\tcase %q:\n\t\t%s.Main()\n", name, name)
				if err := os.Symlink("pages", program); err != nil {
					return nil, err
				}
			}
			programs[page] = append(programs[page], program)
		}
	}
	if calls.Len() > 0 {
		text := "package main\n\nimport \"os\"\nimport \"path/filepath\"\n" + imports.String() + "\nfunc main() {\n\tswitch filepath.Base(os.Args[0]) {\n" + calls.String() + "\t}\n}\n"
		if err := cmp.Or(b.add("pages/main.go", text), b.command("build", "-o", filepath.Join(dir, "pages"), "./pages")); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(test[len(test)-1], "./") {
		err = b.command(test...)
	}
	return programs, err
}
