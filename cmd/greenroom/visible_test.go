package main

import (
	"bufio"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/visible"
	"github.com/ncruces/go-sqlite3"
)

// commands are the characters that command a terminal, and those that turn the direction.
func commands() (all []rune) {
	for _, span := range [][2]rune{{0, '\n' - 1}, {'\n' + 1, 0x1f}, {0x7f, 0x9f}, {0x202a, 0x202e}, {0x2066, 0x2069}} {
		for r := span[0]; r <= span[1]; r++ {
			all = append(all, r)
		}
	}
	return append(all, 0x061c, 0x200e, 0x200f, 0x2028, 0x2029, 0xad, 0xfeff, 0xe0041)
}

// harmless fails the test if text holds anything that doesn't print, or isn't UTF-8.
func harmless(t *testing.T, what, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s: %q at %d of %q", what, r, i, text)
			return
		}
	}
	if !utf8.ValidString(text) {
		t.Errorf("%s: %q is not UTF-8", what, text)
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünï 日本 😀\n":   "plain ünï 日本 😀\n",
		"\x1b]0;x\a\r\t\x7f": `\x1b]0;x\a\r\t\x7f`,
		"a\xffb\xe2\x80":     `a\xffb\xe2\x80`,
		"\u202ex\u0085":      `\u202ex\u0085`,
		"literal \ufffd":     "literal \ufffd",
		`\x1b`:               `\x1b`, // is escaped already
	} {
		if got := visibleText(in); got != want {
			t.Errorf("visibleText(%q) = %q, want %q", in, got, want)
		}
		if got := visibleText(visibleText(in)); got != want {
			t.Errorf("twice: visibleText(%q) = %q, want %q", in, got, want)
		}
	}
	for _, r := range commands() {
		in := "a" + string(r) + "b"
		harmless(t, "visible", visibleText(in))
		for _, l := range []layout{newLayout(modeTable), newLayout(modeJSON), {mode: modeList, separated: true},
			{mode: modeList, tty: true}, {mode: modeCSV, header: true, tty: true}, {mode: modeJSON, tty: true}} {
			harmless(t, string(l.mode), printed(l, []string{in}, []cell{newCell(in)}))
		}
		if r < 0x20 {
			continue // JSON has none of them in its strings
		}
		harmless(t, "JSON", printed(newLayout(modeJSON), []string{"a"}, []cell{{kind: cellJSON, text: []byte(`"` + in + `"`)}}))
	}
}

// FuzzVisible holds that nothing in what is written commands a terminal, and that JSON is
// what it was.
func FuzzVisible(f *testing.F) {
	f.Add("a\xff\u009b\U000e0041\x00\x1f\x7f \\u0041 \u2028")
	f.Fuzz(func(t *testing.T, s string) {
		harmless(t, "visible", visibleText(s))
		var b strings.Builder
		if err := newJSON(&b).Encode(map[string]string{s: s}); err != nil {
			t.Fatal(err)
		}
		harmless(t, "JSON", b.String())
		var got map[string]string
		want := string([]rune(s)) // each byte that isn't UTF-8 is replaced
		if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got[want] != want {
			t.Errorf("%q is read back as %q, %v", s, got, err)
		}
	})
}

// evil is a name that gives commands.
const evil = "i \x1b[31m \x1b]0;pwned\a \u009b2J \u202e \xff x"

// quoted is a name in SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// wrongSchema are statements that leave a database which SQLite refuses, naming an index.
var wrongSchema = []string{
	"create table if not exists t(a)",
	"create index " + quoted(evil) + " on t(a)",
	"pragma writable_schema=on",
	"update sqlite_schema set sql = 'create index nonsense' where type = 'index'",
}

// TestErrorsVisible holds that no error of a command has in it what a file, a store or an
// argument tells the terminal.
func TestErrorsVisible(t *testing.T) {
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "evil.db")
	c, err := sqlite3.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range wrongSchema {
		if err := c.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	must(t, "sql", data, "music", "create table t(a)")
	must(t, "sql", data, "bad", strings.Join(wrongSchema, ";"))
	must(t, "queue", "send", data, "music", "n\u009b\u202e", `"\u009b2J \u202e"`)

	attach := "attach 'file:" + filepath.ToSlash(file) + "?vfs=os' as evil; select * from evil.t"
	failing := [][]string{
		{"import", data, "music", file}, {"sql", data, "music", attach}, {"sql", data, "bad", "select * from t"}, {"check", data, "bad"},
		{"sql", data, "music", "select * from " + quoted(evil)}, {"sql", data, "music", "select '" + evil},
		{"ls", data, evil}, {"get", data, "music", evil}, {"get", data, evil, "key"}, {"export", data, evil, filepath.Join(dir, "x.db")},
		{"export", data, "bad", filepath.Join(dir, evil, "x.db")}, {"import", data, "music", filepath.Join(dir, evil)}, {"fork", data, evil, "new"},
		{"check", data, evil}, {"ls", filepath.Join(dir, evil)}, {"traces", "show", data, "music", evil}, {"traces", "ls", data, "music", "--status", evil},
		{"queue", "ls", data, evil}, {"workflow", "show", data, evil}, {evil}, {"sql", "--" + evil}, {"host", "--listen", evil, data},
	}
	for _, args := range failing {
		r := program(t.Context(), strings.NewReader(""), args...)
		if r.code == serving.ExitOK {
			t.Errorf("%q didn't fail: %s%s", args, r.stdout, r.stderr)
		}
		harmless(t, args[0], r.stderr+r.stdout)
	}
	for _, args := range [][]string{{"check", "--json", data}, {"queue", "ls", data, "music"}, {"queue", "ls", "--json", data, "music"},
		{"queue", "peek", data, "music"}, {"queue", "drain", "--json", data, "music"}, {"ls", "--json", data, "bad"}} {
		r := program(t.Context(), strings.NewReader(""), args...)
		harmless(t, strings.Join(args[:2], " "), r.stderr+strings.ReplaceAll(r.stdout, "\t", " ")) // tabs are between fields
	}
}

// TestShellVisible: on a terminal the shell shows names, values and errors, and obeys none.
func TestShellVisible(t *testing.T) {
	c, err := sqlite3.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out, errs strings.Builder
	s := &session{executor: solo(t, c), out: bufio.NewWriter(&out), layout: layout{mode: modeTable, tty: true}}
	sh := &shell{session: s, signals: &serving.Signals{End: func() {}}, errs: visible.Writer(&errs)}
	name := strings.ReplaceAll(evil, "\xff", "")
	script := "create table " + quoted(name) + "(a);\n.tables\n.schema\n.mode list\nselect '" + name + "';\n.mode csv\nselect '" + name + "';\nselect " + quoted(name) + "(1);\n"
	if err := sh.run(t.Context(), newReaderSource(strings.NewReader(script))); err != nil {
		t.Fatal(err)
	}
	harmless(t, "shell", out.String())
	harmless(t, "errors", errs.String())
	if n := strings.Count(out.String(), `\x1b]0;pwned\a`); n < 4 || !strings.Contains(errs.String(), `\x1b[31m`) {
		t.Errorf("%d names are shown in %q, and the error is %q", n, out.String(), errs.String())
	}
}
