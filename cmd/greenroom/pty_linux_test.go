package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A pty is a terminal of 80 columns on which the program runs.
type pty struct {
	t      *testing.T
	keys   *os.File
	shown  chan string // pieces of what the program writes; closed at its end
	screen string      // what was not yet expected
	exit   chan error
}

// onTerminal starts the program.
func onTerminal(t *testing.T, args ...string) *pty {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { keys.Close() }) // its other end is gone
	fd := int(keys.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), builtProgram(t), args...)
	c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := tty.Close(); err != nil {
		t.Error(err)
	}
	p := &pty{t: t, keys: keys, shown: make(chan string), exit: make(chan error, 1)}
	go func() {
		defer close(p.shown)
		buf := make([]byte, 64<<10)
		for {
			n, err := keys.Read(buf)
			if n > 0 {
				select {
				case p.shown <- string(buf[:n]):
				case <-t.Context().Done():
					return
				}
			}
			if err != nil { // EIO, when the program has closed its end
				return
			}
		}
	}()
	go func() { p.exit <- c.Wait() }()
	return p
}

// controls are sequences that draw nothing.
var controls = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]|\r")

// expect reads until the screen has a text, and returns what was written up to its end.
func (p *pty) expect(want string) string {
	p.t.Helper()
	late := time.After(testkit.Patience(time.Second))
	for {
		plain := controls.ReplaceAllString(p.screen, "")
		if before, after, ok := strings.Cut(plain, want); ok {
			p.screen = after
			return before + want
		}
		select {
		case piece, more := <-p.shown:
			if !more {
				p.t.Fatalf("the program ends before %q:\n%s", want, plain)
			}
			p.screen += piece
		case <-late:
			p.t.Fatalf("%q doesn't come:\n%s", want, plain)
		}
	}
}

// press types keys.
func (p *pty) press(keys string) {
	p.t.Helper()
	if _, err := p.keys.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// say types keys, and expects texts, or else the end of a line, and the next prompt behind them.
func (p *pty) say(keys string, want ...string) (screen string) {
	p.t.Helper()
	p.press(keys)
	if want == nil {
		want = []string{"\n"}
	}
	for _, w := range append(want, promptNew) {
		screen += p.expect(w)
	}
	return screen
}

// TestShellOnTerminal drives the shell as a person does, on a store that it opens, and on one that a host has open.
func TestShellOnTerminal(t *testing.T) {
	builtProgram(t) // in this folder
	for _, name := range []string{"alone", "beside a host"} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			must(t, "put", "data", "music", "k", "v")
			if name != "alone" {
				defer hosted(t, "data")()
			}
			driveShell(t)
		})
	}
}

func driveShell(t *testing.T) {
	csv := "id,name\n1,tea\n2,cake\n3,\"of two\nlines\"\n"
	if err := os.WriteFile("items.csv", []byte(csv), 0o600); err != nil {
		t.Fatal(err)
	}
	p := onTerminal(t, "sql", "data", "musik")
	p.expect("there is no actor musik in data; did you mean music?")
	p.expect("Make it? [y/N] ")
	p.say("y\r", "The database of musik")
	p.say("create table item(id integer primary key, name); create table wide(a, b, c, d, e, f, g, h);\r")
	p.say(".imp\tit\tit\t\r", "3 rows changed")
	p.say("sel\tnam\tfrom it\twhere id = 3;\r", "│ of two │\n│ lines  │\n")
	p.say("select\r2,\r 'three';\r", "│ 2 │ three   │")
	if out := p.say(keyUp+"\r", "│ 2 │ three   │"); strings.Contains(out, promptMore) {
		t.Errorf("from the history come several lines: %s", out)
	}
	p.say("\x1b[200~select\t'pasted' as\tx;\x1b[201~\r", "│ pasted │")
	p.say("explain query plan select * from item order by name;\r", "QUERY PLAN\n|--SCAN item\n`--USE TEMP B-TREE FOR ORDER BY\n")

	p.say("update item set name = hex(zeroblob(100)) where id = 1;\r", "1 row changed")
	out := p.say("select * from item where id = 1;\r", "0000…")
	for line := range strings.Lines(strings.TrimSuffix(out, promptNew)) {
		if n := text.StringWidth(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	p.say("insert into wide values (1, 2, 3, 4, 5, 6, hex(zeroblob(9)), hex(zeroblob(9)));\r", "1 row changed")
	p.say("select a as a_long_name_1, b as a_long_name_2, c as a_long_name_3, d as a_long_name_4, g, h from wide;\r", "a_long_name_1 = 1\n", "h = 000000000000000000\n")

	// A row that is written at once, and no other one.
	p.say("insert into item(name) select 'more' from item;\r", "3 rows changed")
	p.say(".mode list\r")
	p.press("with recursive c(x) as (select 1 union all select x + 1 from c) select printf('%.9000c', '=') from c where x = 1; select 'dropped';\r")
	p.expect(strings.Repeat("=", 9000))
	if out := p.say("\x03", "error: interrupted"); strings.Contains(out, "dropped") {
		t.Errorf("Ctrl-C leaves the rest of the line: %s", out)
	}
	p.say(".mode table\r")
	p.say("select count(*) || ' rows' from item;\r", "│ 6 rows")

	p.say(".dump wide\r", "CREATE TABLE wide(a, b, c, d, e, f, g, h);\nINSERT INTO wide VALUES(1,2,3,4,5,6,'000000000000000000','000000000000000000');\nCOMMIT;\n")
	p.press(".exit\r")
	for range p.shown {
	}
	if err := <-p.exit; err != nil {
		t.Error(err)
	}
	if names, err := filepath.Glob("*"); err != nil || len(names) != 2 {
		t.Errorf("%q, %v", names, err)
	}
}
