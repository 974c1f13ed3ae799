package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/vfs"
)

// A keyboard is a terminal without a terminal: keys come in portions, as a
// person types them, and what the program writes is kept.
type keyboard struct {
	keys []string
	strings.Builder
}

func (k *keyboard) Read(p []byte) (int, error) {
	if len(k.keys) == 0 {
		return 0, io.EOF
	}
	n := copy(p, k.keys[0])
	if k.keys[0] = k.keys[0][n:]; k.keys[0] == "" {
		k.keys = k.keys[1:]
	}
	return n, nil
}

// interact types keys into an interactive shell and returns what it wrote to
// standard output, and all that was on the screen besides.
func interact(t *testing.T, h *history, keys ...string) (out, screen string, err error) {
	t.Helper()
	sig := &serving.Signals{End: func() { t.Error("an interrupt reached the program") }}
	conn := memory(t)
	// A statement that presses Ctrl-C while it runs.
	err = conn.CreateFunction("ctrl_c", 0, 0, func(ctx sqlite3.Context, _ ...sqlite3.Value) { sig.Interrupt() })
	if err != nil {
		t.Fatal(err)
	}
	var stdout strings.Builder
	k := &keyboard{keys: keys}
	sh := &shell{
		session: &session{executor: solo(t, conn), out: bufio.NewWriter(&stdout), layout: newLayout(modeList)},
		signals: sig,
	}
	err = sh.interact(t.Context(), newTerminalSource(k, nil, h), "music")
	return stdout.String(), k.String(), err
}

func memory(t *testing.T) *sqlite3.Conn {
	t.Helper()
	conn, err := sqlite3.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func TestInteractive(t *testing.T) {
	tests := []struct {
		name   string
		keys   []string
		out    string
		screen []string // what must be on the screen, in this order
	}{
		{"a statement", []string{"select 1;\r"}, "1\n", []string{"database of music", "greenroom> select 1;"}},
		{"over lines", []string{"select\r", "2;\r"}, "2\n", []string{"greenroom> select", "...> 2;"}},
		{"several at once", []string{"select 1; select 2;\rselect 3;\r"}, "1\n2\n3\n", nil},
		{"an error is told and forgotten", []string{"boom;\r", "select 1;\r"}, "1\n", []string{"error: SQL logic error: near \"boom\": syntax error"}},
		{"an error drops the rest of its line", []string{"boom; select 'dropped';\r", "select 1;\r"}, "1\n", nil},
		{"Ctrl-C gives up a line", []string{"select 'gone", "\x03", "select 1;\r"}, "1\n", nil},
		{"Ctrl-C gives up a statement", []string{"select\r", "2,\r", "oops\x03select 1;\r"}, "1\n", nil},
		{"Ctrl-C between lines", []string{"select 1;\r\x03\x03select 2;\r"}, "1\n2\n", nil},
		{"Ctrl-C ends a statement that runs", []string{
			"with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c where x <> 10 or ctrl_c() is null;\r",
			"select 1;\r",
		}, "1\n", []string{"error: interrupted", "greenroom> select 1;"}},
		{"Ctrl-D ends", []string{"select 1;\r\x04select 2;\r"}, "1\n", nil},
		{"the end drops half a statement", []string{"select 1\r"}, "", nil},
		{".quit ends", []string{".quit\rselect 1;\r"}, "", nil},
		{"commands", []string{"create table t(a);\r.tables\r.sch t\r.exit\r"}, "t\nCREATE TABLE t(a);\n", nil},
		{"a wrong command", []string{".nope\r.mode nope\r"}, "", []string{"error: no command .nope: .help lists them", `error: no mode "nope"`}},
		{"changes are counted", []string{"create table t(a); insert into t values (1), (2), (3);\r",
			"/* two */ update t set a = 7 where a > 1;\rdelete from t where a = 7 returning a;\rdelete from t;\rupdate t set a = 1;\r"},
			"7\n7\n", []string{"3 rows changed", "2 rows changed", "1 row changed", "0 rows changed"}},
		{"a mode", []string{".mode json\rselect 1 as a;\r"}, "[{\"a\":1}]\n", nil},
	}
	for _, test := range tests {
		out, screen, err := interact(t, &history{}, test.keys...)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if out != test.out {
			t.Errorf("%s: wrote %q, want %q", test.name, out, test.out)
		}
		rest := screen
		for _, want := range test.screen {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("%s: the screen lacks %q:\n%s", test.name, want, screen)
			}
			rest = after
		}
	}
}

// TestAgree: a misspelt actor is made after a yes.
func TestAgree(t *testing.T) {
	missing := errors.New("there is no actor musik in data; did you mean music?")
	for keys, want := range map[string]error{"y\r": nil, " Yes \r": nil, "n\r": missing, "\r": missing, "\x03": missing, "": missing} {
		k := &keyboard{keys: []string{keys}}
		h := &history{}
		src := newTerminalSource(k, nil, h)
		if err := agree(t.Context(), src, missing); err != want {
			t.Errorf("%q: %v, want %v", keys, err, want)
		}
		if screen := k.String(); !strings.Contains(screen, missing.Error()) || !strings.Contains(screen, "Make it? [y/N]") {
			t.Errorf("%q: the screen has %q", keys, screen)
		}
		if src.term.History != h || h.Len() > 0 {
			t.Errorf("%q: the answer is in the history", keys)
		}
	}
}

func TestTimer(t *testing.T) {
	out, _, err := interact(t, &history{}, ".timer on\rselect 1;\r.timer off\rselect 2;\r")
	if !regexp.MustCompile(`^1\ntime: [0-9.]+(µs|ms|s)\n2\n$`).MatchString(out) || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

func TestInteractiveTransaction(t *testing.T) {
	_, _, err := interact(t, &history{}, "create table t(a);\rbegin; insert into t values (1);\r")
	if err == nil || !strings.Contains(err.Error(), "rolled back") {
		t.Errorf("the end of a shell in a transaction: %v", err)
	}
}

func TestInteractiveRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.sql")
	if err := os.WriteFile(file, []byte("select 1;\nboom;\nselect 2;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, screen, err := interact(t, &history{}, ".read "+file+"\rselect 3;\r")
	if out != "1\n3\n" || err != nil {
		t.Errorf("wrote %q, %v, want %q", out, err, "1\n3\n")
	}
	if want := "error: " + file + ": statement 2, line 2: "; !strings.Contains(strings.ReplaceAll(screen, "\r\n", ""), want) {
		t.Errorf("the screen lacks %q:\n%s", want, screen)
	}
}

// TestCompletion: Tab completes as far as is sure, and lists what there is beyond that.
func TestCompletion(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "rows.csv"), []byte("7,of a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const schema = `create table person(id integer primary key, person_name, "group" default 'g'); create table "order lines"(qty);` +
		" create table persons_old(born); create view people as select person_name as reader from person;" +
		" insert into person(person_name) values ('Ada');\r"
	for _, test := range []struct{ keys, out, screen string }{
		{"sel\t7;", "7\n", "select 7;"},
		{"SEL\t7;", "7\n", "SELECT 7;"},
		{"select count(*) from pers\t_old;", "", "no such table: person_old"},
		{"select count(*) from pers\ts_\t;", "0\n", "persons_old"},
		{"select person_\tfrom person;", "Ada\n", "person_name from"},
		{"select p.person_\tfrom person p;", "Ada\n", "p.person_name from"},
		{"select person.g\tfrom person;", "g\n", `person."group" from`},
		{"select count(qt\t\x7f) from \"ord\t;", "0\n", `from "order lines"`},
		{"select 1 from \t1;", "", "\"order lines\"  people  person  persons_old  "},
		{"select person.\t1;", "", "\"group\"  id  person_name\r\n"},
		{"select\t8;", "8\n", "select 8;"},
		{"\tselect 9\t;", "9\n", "select 9"},
		{".tab\t", "order lines\npeople\nperson\n", ".tables"},
		{".mode js\t\rselect 1 as a;", "[{\"a\":1}]\n", ".mode json"},
		{".sch\tpersons\t", "CREATE TABLE persons_old(born);\n", ".schema persons_old"},
		{".imp\t" + folder + "/r\tpairs\r.tables", "order lines\npairs\n", "rows.csv"},
	} {
		out, screen, err := interact(t, &history{}, schema, test.keys+"\r")
		if err != nil || !strings.HasPrefix(out, test.out) || !strings.Contains(screen, test.screen) {
			t.Errorf("%q: wrote %q, %v, with the screen\n%s", test.keys, out, err, screen)
		}
	}
}

// TestHistoryOfLines: a statement of several lines comes back as one, also by way of the file.
func TestHistoryOfLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	h := &history{}
	if err := h.open(file); err != nil {
		t.Fatal(err)
	}
	keys := []string{"select 'a␤',\r", "'b -- no comment\r", "c'; -- one\r", "select '␤'\r", ";\r", "select\r", "oops\x03", keyUp + keyUp + "\r"}
	out, screen, err := interact(t, h, keys...)
	if want := "a␤|b -- no comment\nc\n␤\na␤|b"; !strings.HasPrefix(out, want) || err != nil || !strings.Contains(screen, "select 'a␤',↵") {
		t.Errorf("wrote %q, %v, not %q; the screen has %s", out, err, want, screen)
	}
	again := &history{}
	if err := again.open(file); err != nil {
		t.Fatal(err)
	}
	if want := "select '␤'\n;"; again.Len() != 3 || again.lines[1] != want {
		t.Errorf("kept %q, not %q", again.lines, want)
	}
	if out, _, err := interact(t, again, keyUp+keyUp+keyUp+"\r", keyUp+keyUp+"\r"); err != nil || out != "a␤|b -- no comment\nc\n␤\n" {
		t.Errorf("wrote %q, %v", out, err)
	}
}

const (
	keyUp   = "\x1b[A"
	keyDown = "\x1b[B"
)

func TestHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dir", "history")
	h := &history{}
	if err := h.open(file); err != nil {
		t.Fatal(err)
	}
	out, _, err := interact(t, h, "select 1;\r", "select 1;\r", " select 'secret';\r", "\r", "select 2;\r", keyUp+keyUp+"\r")
	if want := "1\n1\nsecret\n2\n1\n"; out != want || err != nil {
		t.Errorf("wrote %q, %v, want %q", out, err, want)
	}
	again := &history{}
	if err := again.open(file); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(again.lines, ","), "select 1;,select 2;,select 1;"; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
	out, _, err = interact(t, again, keyUp+keyUp+keyDown+"\r")
	if out != "1\n" || err != nil {
		t.Errorf("from the kept history: %q, %v", out, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 600", info.Mode(), err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	text := strings.Repeat("old\n", 2*maxHistory) + "new\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &history{}
	if err := h.open(file); err != nil {
		t.Fatal(err)
	}
	if h.Len() != maxHistory || h.At(0) != "new" {
		t.Errorf("%d lines, the newest is %q", h.Len(), h.At(0))
	}
	kept, err := os.ReadFile(file)
	if n := strings.Count(string(kept), "\n"); n != maxHistory || err != nil {
		t.Errorf("the file has %d lines, %v", n, err)
	}
}

func TestHistoryPath(t *testing.T) {
	got, err := historyPath(func(string) string { return "/state" })
	if want := filepath.Join("/state", "greenroom", "history"); got != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	got, err = historyPath(func(string) string { return "relative" })
	if err != nil || !filepath.IsAbs(got) {
		t.Errorf("a relative folder leads to %q, %v", got, err)
	}
}

// A stream runs "sql data music" on a pipe.
type stream struct {
	in   *io.PipeWriter
	out  *bufio.Reader
	done chan result
}

func newStream(t *testing.T, ctx context.Context, store string) *stream {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &stream{in: inW, out: bufio.NewReader(outR), done: make(chan result, 1)}
	go func() {
		var stderr strings.Builder
		e := &env{
			stdin: inR, stdout: outW, stderr: &stderr,
			getenv:  func(string) string { return "" },
			signals: &serving.Signals{End: func() {}},
		}
		code := run(ctx, e, []string{"sql", store, "music"})
		outW.Close()
		s.done <- result{stderr: stderr.String(), code: code}
	}()
	return s
}

// say writes a line and reads the line that comes of it.
func (s *stream) say(t *testing.T, line, want string) {
	t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
	got, err := s.out.ReadString('\n')
	if got != want+"\n" || err != nil {
		t.Fatalf("%s: %q, %v, want %q", line, got, err, want)
	}
}

func TestStatementsAreFlushed(t *testing.T) {
	s := newStream(t, t.Context(), filepath.Join(t.TempDir(), "data"))
	s.say(t, "create table t(a); select 'made';", "made")
	s.say(t, "insert into t values (1), (2) returning a * 10; -- no more", "10")
	if line, err := s.out.ReadString('\n'); line != "20\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	s.say(t, "select count(*) from t;", "2")
	if err := s.in.Close(); err != nil {
		t.Fatal(err)
	}
	if r := <-s.done; r.code != serving.ExitOK || strings.Contains(r.stderr, "greenroom:") {
		t.Errorf("status %d, %s", r.code, r.stderr)
	}
}

// TestInterrupt ends the program while it waits for input, in a transaction.
func TestInterrupt(t *testing.T) {
	store := filepath.Join(t.TempDir(), "data")
	must(t, "put", store, "music", "k", "v")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newStream(t, ctx, store)
	s.say(t, "create table t(a); insert into t values (1) returning a;", "1")
	s.say(t, "begin; insert into t values (2) returning a;", "2")
	cancel()
	if r := <-s.done; r.code != serving.ExitFailed || r.stderr != "greenroom: interrupted\n" {
		t.Errorf("status %d, %q", r.code, r.stderr)
	}
	if got := must(t, "sql", store, "music", "select * from t"); got != "1\n" {
		t.Errorf("after an interrupt: %q, want what was committed, %q", got, "1\n")
	}
	// What the reader of the pipe still waits for.
	if err := s.in.Close(); err != nil {
		t.Error(err)
	}
}

func TestInterruptRunning(t *testing.T) {
	store := filepath.Join(t.TempDir(), "data")
	must(t, "put", store, "music", "k", "v")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newStream(t, ctx, store)
	// More rows than the output buffers hold: the statement is running when the
	// first ones can be read.
	s.say(t, "with recursive c(x) as (select 1 union all select x+1 from c) select x from c;", "1")
	cancel()
	if _, err := io.Copy(io.Discard, s.out); err != nil {
		t.Error(err)
	}
	if r := <-s.done; r.code != serving.ExitFailed || r.stderr != "greenroom: statement 1, line 1: interrupted\n" {
		t.Errorf("status %d, %q", r.code, r.stderr)
	}
	if err := s.in.Close(); err != nil {
		t.Error(err)
	}
}

func TestClosedOutput(t *testing.T) {
	inR, inW := io.Pipe()
	defer inW.Close()
	go io.WriteString(inW, "select 1;\n")
	outR, outW := io.Pipe()
	if err := outR.Close(); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	e := &env{stdin: inR, stdout: outW, stderr: &stderr, getenv: os.Getenv, signals: &serving.Signals{End: func() {}}}
	if code := run(t.Context(), e, []string{"sql", "mem:", "music"}); code != serving.ExitFailed {
		t.Errorf("status %d, %s", code, stderr.String())
	}
}

// TestCause fills an actor and looks for the reason behind SQLite's code.
func TestCause(t *testing.T) {
	limits := batch.DefaultLimits()
	limits.Storage = 64 << 10
	s, err := storeurl.Open(t.Context(), "mem:", greenroom.Options{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Lower().Named(t.Context(), "music", nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := vfs.Open(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = withExecutor(t.Context(), db.DB, func(e executor) error {
		s := &session{executor: e, out: bufio.NewWriter(io.Discard)}
		sh := &shell{session: s}
		return sh.run(t.Context(), newReaderSource(strings.NewReader("create table t(a);\ninsert into t values (zeroblob(100000));")))
	})
	if !errors.Is(err, actorstore.ErrQuota) || !errors.Is(err, sqlite3.FULL) {
		t.Errorf("%v: not both SQLite's code and the cause", err)
	}
	if text := serving.Message(err); !strings.Contains(text, "statement 2, line 2: database or disk is full: ") || !strings.Contains(text, "limit 65536") {
		t.Errorf("the message is %q", text)
	}
	if err := errors.Join(db.Close(), a.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// TestOutOfMemory: a statement that needs too much memory is an error, after which an
// interactive shell goes on.
func TestOutOfMemory(t *testing.T) {
	out, screen, err := interact(t, new(history), "pragma hard_heap_limit=6000000;\r", "create table t(a);\r",
		"begin; insert into t values (1); select hex(zeroblob(20000000));\r", "rollback;\r",
		"select 7 + count(*) from t;\r", ".quit\r")
	if err != nil || !strings.HasSuffix(out, "\n7\n") || !strings.Contains(screen, "error: out of memory") {
		t.Errorf("%q, %q, %v", out, screen, err)
	}
	r := program(t.Context(), strings.NewReader("pragma hard_heap_limit=6000000;\nselect hex(zeroblob(20000000)); select 2;"), "sql", "mem:", "music")
	if r.stdout != "6000000\n" || r.code != serving.ExitFailed || !strings.Contains(r.stderr, "statement 2, line 2: out of memory") {
		t.Errorf("%+v", r)
	}
}

func TestNUL(t *testing.T) {
	r := program(t.Context(), strings.NewReader("select 1;\nselect\n\x00 2; select 3;"), "sql", "mem:", "music")
	if r.stdout != "1\n" || r.code != serving.ExitFailed || !strings.Contains(r.stderr, "statement 2, line 3: a NUL byte") {
		t.Errorf("%+v", r)
	}
}
