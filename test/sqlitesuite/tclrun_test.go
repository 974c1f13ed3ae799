package sqlitesuite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
	"github.com/ncruces/go-sqlite3/ext/rtree"
)

// SQLite's own tests are Tcl programs. A tclFile runs those parts of one that are
// little more than SQL, in their order and on both sides at once: statements,
// tests of statements, simple loops, variables, and connections that come and go.
// Everything else is passed over, so that some tests find less than they need;
// they fail on stock SQLite too, and don't count.
type tclFile struct {
	t      *testing.T
	mode   mode
	house  *house
	memory stock

	vars   map[string]any // string or int64
	sites  map[string]*tclSite
	opened []*tclSite // all that ever were
	conns  map[string]*tclConn
	blocks map[int]*tclBlock // by the place of the command in the file

	crashed bool // SQLite did: nothing can go on
	refused bool // a journal mode was, and what follows may lack it
}

// A tclSite is one database on both sides, a tclConn a connection to each.
type (
	tclSite struct{ here, there *site }
	tclConn struct {
		here, there *sqlite3.Conn
		null        string // how NULL is shown
	}
)

// A tclBlock is one do_execsql_test command.
type tclBlock struct {
	line    int
	agrees  bool   // on both sides
	ran     bool   // at least once
	differs string // what came here, where stock SQLite agrees with the test
	reason  string // why it doesn't agree, or didn't run
}

// errComputed is the answer of a word that only Tcl could compute.
var errComputed = errors.New("uses a value that Tcl computes")

var blockStart = regexp.MustCompile(`(?m)^[ \t]*(do_execsql_test)\b`)

// gigabytes is a file that makes a database of three of them, and sorts it in
// memory.
const gigabytes = "bigsort.test"

// runTclFile runs one of SQLite's test files and returns its blocks.
func runTclFile(t *testing.T, path string, m mode, h *house, k stock) (blocks map[int]*tclBlock, crashed bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &tclFile{
		t: t, mode: m, house: h, memory: k,
		vars: map[string]any{}, sites: map[string]*tclSite{}, conns: map[string]*tclConn{}, blocks: map[int]*tclBlock{},
	}
	text := string(data)
	for _, at := range blockStart.FindAllStringSubmatchIndex(text, -1) {
		f.blocks[at[2]] = &tclBlock{line: 1 + strings.Count(text[:at[2]], "\n"), reason: unreached}
	}
	if filepath.Base(path) == gigabytes {
		f.markUnreached("stores gigabytes")
		return f.blocks, false
	}
	f.open("db", "test.db")
	switch stop, err := f.eval(text, 0); {
	case f.crashed:
		f.markUnreached("behind one at which SQLite itself crashes")
	case err != nil:
		f.markUnreached("behind Tcl that can't be read")
	case stop:
		f.markUnreached("in a file that needs what this build of SQLite doesn't have")
	}
	f.end()
	return f.blocks, f.crashed
}

// end closes and drops everything.
func (f *tclFile) end() {
	if f.crashed {
		f.house.haunted = true
		return
	}
	for name := range f.conns {
		f.close(name)
	}
	for _, s := range f.opened {
		s.here.drop()
		s.there.drop()
	}
}

// open makes a connection to a file, which begins empty.
func (f *tclFile) open(name, file string) {
	f.close(name)
	file = strings.TrimPrefix(file, "./")
	if file == "" || strings.HasPrefix(file, ":memory:") || strings.HasPrefix(file, "file:") {
		f.conns[name] = &tclConn{} // no VFS sees it, or it isn't clear which
		return
	}
	s := f.sites[file]
	if s == nil {
		s = &tclSite{f.house.create(f.t, nil), f.memory.create(f.t, nil)}
		f.sites[file], f.opened = s, append(f.opened, s)
	}
	f.conns[name] = &tclConn{here: tclOpen(f.t, s.here, f.mode.pragmas...), there: tclOpen(f.t, s.there)}
}

// tclOpen opens a connection with the settings of SQLite's test program, which
// are those of old.
func tclOpen(t *testing.T, s *site, pragmas ...string) *sqlite3.Conn {
	t.Helper()
	c := s.open(t, pragmas...)
	set := func(op sqlite3.DBConfig, on bool) error {
		_, err := c.Config(op, on)
		return err
	}
	// These look at the file, which may be one that memdb can't read any more; then
	// the tests that follow say so.
	if cmp.Or(fts5.Register(c), rtree.Register(c)) != nil {
		return c
	}
	err := cmp.Or(c.SetAuthorizer(confine),
		set(sqlite3.DBCONFIG_DQS_DML, true), set(sqlite3.DBCONFIG_DQS_DDL, true),
		set(sqlite3.DBCONFIG_ENABLE_FKEY, false), set(sqlite3.DBCONFIG_TRUSTED_SCHEMA, true))
	if err != nil {
		t.Fatalf("%s: %v", s.dsn, err)
	}
	return c
}

func (f *tclFile) close(name string) {
	if c := f.conns[name]; c != nil && c.here != nil {
		closeConn(f.t, c.here)
		closeConn(f.t, c.there)
	}
	delete(f.conns, name)
}

// mark gives the blocks of a part of the file that haven't run a reason.
func (f *tclFile) mark(from, to int, reason string) {
	for at, b := range f.blocks {
		if from <= at && at < to && !b.ran {
			b.reason = reason
		}
	}
}

// unreached is the reason of a block until a better one is known.
const unreached = "on a path that isn't taken"

func (f *tclFile) markUnreached(reason string) {
	for _, b := range f.blocks {
		if !b.ran && b.reason == unreached {
			b.reason = reason
		}
	}
}

// eval runs a script; stop says that it returned.
func (f *tclFile) eval(script string, base int) (stop bool, err error) {
	commands, err := tclCommands(script, base)
	for _, words := range commands {
		if f.crashed || f.t.Context().Err() != nil {
			return true, nil
		}
		if f.command(words) {
			return true, nil
		}
	}
	return false, err
}

// body runs a word as a script, if it is one as it stands.
func (f *tclFile) body(w tclWord) (stop bool) {
	if !w.braced {
		return false
	}
	stop, err := f.eval(w.text, w.at)
	if err != nil {
		f.mark(w.at, w.at+len(w.text), "behind Tcl that can't be read")
	}
	return stop
}

// command runs one command.
func (f *tclFile) command(words []tclWord) (stop bool) {
	name, args := words[0].text, words[1:]
	switch name {
	case "return":
		return true
	case "set":
		f.set(args)
	case "incr":
		if n, ok := f.vars[words[len(words)-1].text].(int64); ok && len(args) == 1 {
			f.vars[args[0].text] = n + 1
		}
	case "do_execsql_test":
		f.block(words)
	case "do_catchsql_test":
		if len(args) == 3 {
			f.setup("db", args[1])
		}
	case "execsql", "catchsql":
		if len(args) > 0 {
			conn := "db"
			if len(args) > 1 {
				conn = args[1].text
			}
			f.setup(conn, args[0])
		}
	case "do_test":
		if len(args) == 3 {
			f.body(args[1])
		}
	case "catch":
		if len(args) > 0 {
			f.body(args[0])
		}
	case "ifcapable":
		return f.ifCapable(args)
	case "foreach", "for":
		return f.loop(name, words)
	case "sqlite3":
		if len(args) >= 2 {
			if file, err := f.subst(args[1]); err == nil {
				f.open(args[0].text, file)
			}
		}
	case "reset_db", "db_delete_and_reopen":
		f.close("db")
		delete(f.sites, "test.db")
		f.open("db", "test.db")
	case "forcedelete", "delete_file":
		for _, w := range args {
			delete(f.sites, w.text)
		}
	case "drop_all_tables":
		f.dropAll()
	default:
		if f.conns[name] != nil {
			f.connCommand(name, args)
			break
		}
		f.passOver(name, words)
	}
	return false
}

// passOver explains the blocks below a command that isn't run.
func (f *tclFile) passOver(name string, words []tclWord) {
	reason := "below a command that isn't run"
	switch name {
	case "proc":
		reason = "in a procedure"
	case "if", "while", "switch":
		reason = "under a condition that Tcl computes"
	case "foreach", "for":
		reason = "in a loop over what Tcl computes"
	}
	last := words[len(words)-1]
	f.mark(words[0].at, last.at+len(last.text), reason)
}

func (f *tclFile) set(args []tclWord) {
	if len(args) != 2 {
		return
	}
	name := strings.TrimPrefix(args[0].text, "::")
	v, err := f.subst(args[1])
	if err != nil {
		delete(f.vars, name)
		return
	}
	f.vars[name] = v
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && strconv.FormatInt(n, 10) == v {
		f.vars[name] = n
	}
}

var tclVariable = regexp.MustCompile(`\$(?:\{([^}]*)\}|((?:::)?[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)(\()?)`)

// subst returns a word with its variables and escapes replaced.
func (f *tclFile) subst(w tclWord) (string, error) {
	if w.braced {
		return w.text, nil
	}
	if strings.Contains(strings.ReplaceAll(w.text, `\[`, ""), "[") {
		return "", errComputed
	}
	var err error
	s := tclVariable.ReplaceAllStringFunc(w.text, func(ref string) string {
		m := tclVariable.FindStringSubmatch(ref)
		v, ok := f.vars[strings.TrimPrefix(m[1]+m[2], "::")]
		if !ok || m[3] != "" {
			err = errComputed
		}
		return fmt.Sprint(v)
	})
	return tclUnescape(s), err
}

// connCommand runs a command of a connection: NAME eval SQL, NAME close.
func (f *tclFile) connCommand(name string, args []tclWord) {
	switch {
	case len(args) == 1 && args[0].text == "close":
		f.close(name)
	case len(args) == 2 && (args[0].text == "eval" || args[0].text == "one"):
		f.setup(name, args[1])
	case len(args) == 2 && strings.HasPrefix(args[0].text, "null"):
		if null, err := f.subst(args[1]); err == nil {
			f.conns[name].null = null
		}
	}
}

// setup runs statements for what they leave behind.
func (f *tclFile) setup(conn string, w tclWord) {
	sql, err := f.subst(w)
	if c := f.conns[conn]; err == nil && c != nil && c.here != nil {
		f.ask(c, sql)
	}
}

// dropAll is SQLite's procedure of that name.
func (f *tclFile) dropAll() {
	c := f.conns["db"]
	if c == nil || c.here == nil {
		return
	}
	f.ask(c, "PRAGMA foreign_keys = OFF")
	_, there := f.ask(c, `SELECT 'DROP '||type||' "'||name||'"' FROM sqlite_schema
		WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`)
	for _, drop := range there.out {
		f.ask(c, drop)
	}
}

var (
	capability = regexp.MustCompile(`[A-Za-z0-9_]+`)
	// incapable lists what this build of SQLite, or the two VFSes, can't do.
	incapable = []string{"fts1", "fts2", "fts3", "fts3_unicode", "fts4", "icu", "icu_collations", "shared_cache", "tclvar",
		"memorymanage", "load_ext", "deprecated", "session", "mem5", "mem3", "multiplex_ext_overwrite", "unlock_notify", "threadsafe",
		"update_delete_limit", "normalize", "deserialize", "complete", "gettable", "like_match_blobs", "prefer_proxy_locking",
		"lock_proxy_pragmas", "debug", "stmtvtab", "bytecode_vtab", "dbpage_vtab", "uint", "cursorhints", "hiddencolumns", "scanstatus",
		"columnmetadata_x", "win32malloc", "8_3_names", "explain_comments", "rowid32", "malloc_usable_size", "zlib", "userauth"}
)

// ifCapable runs the branch that fits.
func (f *tclFile) ifCapable(args []tclWord) (stop bool) {
	if len(args) < 2 {
		return false
	}
	// The expression is of names, !, &&, || and parentheses; here it decides by
	// its disjuncts, without parentheses.
	holds := false
	for _, or := range strings.Split(args[0].text, "||") {
		all := true
		for _, and := range strings.Split(or, "&&") {
			can := !slices.Contains(incapable, capability.FindString(and))
			all = all && can != strings.Contains(and, "!")
		}
		holds = holds || all
	}
	if holds {
		return f.body(args[1])
	}
	f.mark(args[1].at, args[1].at+len(args[1].text), "needs what this build of SQLite doesn't have")
	if len(args) == 4 {
		return f.body(args[3])
	}
	return false
}

var countingLoop = regexp.MustCompile(`^\s*set\s+(\w+)\s+(\d+)\s*\|\s*\$(\w+)\s*(<=?)\s*(\d+)\s*\|\s*incr\s+(\w+)\s*$`)

// maxTurns bounds the turns of a loop.
const maxTurns = 2000

// loop runs a loop that counts, or goes over a list that is written down.
func (f *tclFile) loop(kind string, words []tclWord) (stop bool) {
	args := words[1:]
	body := args[len(args)-1]
	if kind == "for" && len(args) == 4 {
		m := countingLoop.FindStringSubmatch(args[0].text + "|" + args[1].text + "|" + args[2].text)
		if m != nil && m[1] == m[3] && m[1] == m[6] {
			i, err := strconv.ParseInt(m[2], 10, 64)
			n, err2 := strconv.ParseInt(m[5], 10, 64)
			if m[4] == "<=" {
				n++
			}
			if err == nil && err2 == nil && n-i <= maxTurns {
				for ; i < n && !stop; i++ {
					f.vars[m[1]] = i
					stop = f.body(body)
				}
				return stop
			}
		}
	}
	if kind == "foreach" && len(args) == 3 {
		names, err := tclList(args[0].text)
		text, err2 := f.subst(args[1])
		items, err3 := tclList(text)
		if err == nil && err2 == nil && err3 == nil && len(names) > 0 && len(items) <= maxTurns {
			for turn := range slices.Chunk(items, len(names)) {
				for i, v := range turn {
					f.set([]tclWord{{text: names[i]}, {text: v, braced: true}})
				}
				if f.body(body) {
					return true
				}
			}
			return false
		}
	}
	f.passOver(kind, words)
	return false
}

// tclBudget bounds a statement, in thousands of steps of the virtual machine.
const tclBudget = 50_000

// ask runs statements on both sides.
func (f *tclFile) ask(c *tclConn, sql string) (here, there reading) {
	return f.askOne(c.here, sql, c.null), f.askOne(c.there, sql, c.null)
}

func (f *tclFile) askOne(c *sqlite3.Conn, sql, null string) (r reading) {
	defer func() {
		if p := recover(); p != nil { // as in readFuzz
			r.crashed, f.crashed = true, true
			r.out = append(r.out, fmt.Sprint("! panic: ", p))
		}
	}()
	b := &budget{Context: context.Background(), left: tclBudget}
	c.SetInterrupt(b)
	p := player{conn: c, row: tclRow(null), bind: f.bind}
	out, err := p.play(sql)
	if err != nil {
		out = out[len(out)-1:]
	}
	c.SetInterrupt(context.Background())
	return reading{out: out, stopped: b.left < 0, failed: err}
}

// bind gives the parameters of a statement the values of the variables they name.
func (f *tclFile) bind(s *sqlite3.Stmt) error {
	for i := 1; i <= s.BindCount(); i++ {
		name := s.BindName(i)
		if len(name) < 2 {
			continue
		}
		var err error
		switch v := f.vars[strings.TrimPrefix(name[1:], "::")].(type) {
		case int64:
			err = s.BindInt64(i, v)
		case string:
			err = s.BindText(i, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tclRow is the values of a row, each as Tcl sees it.
func tclRow(null string) func(s *sqlite3.Stmt) []string {
	return func(s *sqlite3.Stmt) []string {
		values := make([]string, s.ColumnCount())
		for i := range values {
			switch s.ColumnType(i) {
			case sqlite3.NULL:
				values[i] = null
			case sqlite3.BLOB: // bytes are characters
				var b strings.Builder
				for _, c := range s.ColumnRawBlob(i) {
					b.WriteRune(rune(c))
				}
				values[i] = b.String()
			default:
				values[i] = s.ColumnText(i)
			}
		}
		return values
	}
}

// tclPaths returns every n-th of SQLite's test files that has blocks.
func tclPaths(t *testing.T, n int) (paths []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(corpora(t), "*.test"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range all {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !blockStart.Match(data) {
			continue
		}
		if found%n == 0 {
			paths = append(paths, path)
		}
		found++
	}
	return paths
}
