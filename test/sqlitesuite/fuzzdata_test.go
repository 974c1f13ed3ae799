package sqlitesuite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
	"github.com/ncruces/go-sqlite3/ext/rtree"
)

// Fuzzers wrote these scripts, and SQLite's developers kept those that reach
// something new. Most fail somewhere; what counts is that they fail alike.

// A fuzzInput is a row of a corpus.
type fuzzInput struct {
	name string // of the file, and the row's number
	data []byte
}

// fuzzInputs returns every n-th row of a query over SQLite's eight corpora. Its
// columns are a number and the input.
func fuzzInputs(t *testing.T, query string, n int) (inputs []fuzzInput) {
	t.Helper()
	dir := corpora(t)
	rows := 0
	for i := range 8 {
		file := fmt.Sprintf("fuzzdata%d", i+1)
		c, err := sqlite3.Open("file:" + filepath.Join(dir, file+".db") + "?immutable=1")
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := c.Prepare(query)
		if err != nil {
			t.Fatal(err)
		}
		for ; s.Step(); rows++ {
			if rows%n == 0 {
				inputs = append(inputs, fuzzInput{fmt.Sprintf("%s/%d", file, s.ColumnInt(0)), s.ColumnBlob(1, nil)})
			}
		}
		if err := cmp.Or(s.Err(), s.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return inputs
}

// The bounds of SQLite's own fuzzcheck program, or near them.
//
// https://sqlite.org/src/file/test/fuzzcheck.c
const (
	fuzzBudget  = 2_000 // in thousands of steps of the virtual machine, and calls
	fuzzRows    = 1_000
	fuzzLength  = 50_000
	fuzzPattern = 50
	fuzzOps     = 25_000
)

// fuzzConn opens a connection for an unknown script: bounded, and with no way to
// other files.
func fuzzConn(t *testing.T, s *site, pragmas ...string) *sqlite3.Conn {
	t.Helper()
	c := s.open(t, pragmas...)
	c.Limit(sqlite3.LIMIT_LENGTH, fuzzLength)
	c.Limit(sqlite3.LIMIT_LIKE_PATTERN_LENGTH, fuzzPattern)
	c.Limit(sqlite3.LIMIT_VDBE_OP, fuzzOps)
	err := cmp.Or(c.SetAuthorizer(confine), loadDice(c))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// confine refuses to attach files: an actor has one database, and the machine's
// files are nothing for a fuzzer. It also refuses to take memory away, which
// go-sqlite3 answers with a panic once none is left.
func confine(action sqlite3.AuthorizerActionCode, name, _, _, _ string) sqlite3.AuthorizerReturnCode {
	switch {
	case action == sqlite3.AUTH_ATTACH && name != "" && name != ":memory:",
		action == sqlite3.AUTH_PRAGMA && strings.HasSuffix(strings.ToLower(name), "heap_limit"):
		return sqlite3.AUTH_DENY
	}
	return sqlite3.AUTH_OK
}

// A reading is what a script led to on one side.
type reading struct {
	out     transcript
	failed  error // the last one
	stopped bool  // the budget was spent
	crashed bool  // SQLite itself did; its connection can't even be closed
}

// readFuzz runs a script on a site, and then SQLite's check of the whole file.
//
// Some scripts need more stack, or memory, than go-sqlite3 gives to SQLite: it
// panics then, in the middle of C. What the panic says is part of the reading.
func readFuzz(t *testing.T, s *site, script string, pragmas ...string) (r reading) {
	t.Helper()
	var c *sqlite3.Conn
	defer func() {
		if p := recover(); p != nil {
			r.out, r.crashed = append(r.out, "! panic"), true
			if !inSQLite(debug.Stack()) {
				t.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			return
		}
		closeConn(t, c)
	}()
	c = fuzzConn(t, s, pragmas...)
	if err := cmp.Or(fts5.Register(c), rtree.Register(c)); err != nil {
		r.out = append(r.out, "! "+err.Error()) // it looks at the file
	}
	b := &budget{Context: context.Background(), left: fuzzBudget}
	c.SetInterrupt(b)
	p := player{conn: c, row: typedRow, maxRows: fuzzRows, resume: true}
	out, _ := p.play(script)
	r.out = append(r.out, out...)
	r.stopped = b.left < 0
	c.SetInterrupt(&budget{Context: context.Background(), left: fuzzBudget})
	r.out = append(r.out, play(c, "PRAGMA integrity_check")...)
	for i, line := range r.out {
		r.out[i] = passingNames.ReplaceAllString(line, "x")
	}
	return r
}

// passingNames are those of the sites, which count up, and of the copies that
// VACUUM makes, which some errors tell.
var passingNames = regexp.MustCompile(`/[0-9]+\.db|vacuum_[0-9a-f]{16}`)

// inSQLite says whether a panic came from SQLite's C, or from go-sqlite3 that has
// no memory for it, and not from a VFS that it called.
func inSQLite(stack []byte) bool {
	_, below, _ := strings.Cut(string(stack), "\npanic(")
	return !strings.Contains(below, "github.com/greenroomdb/greenroom")
}

// loadDice makes random() and randomblob() the same on every new connection.
func loadDice(c *sqlite3.Conn) error {
	dice := rand.New(rand.NewPCG(1, 2))
	return cmp.Or(
		c.CreateFunction("random", 0, sqlite3.INNOCUOUS, func(ctx sqlite3.Context, _ ...sqlite3.Value) {
			ctx.ResultInt64(int64(dice.Uint64()))
		}),
		c.CreateFunction("randomblob", 1, sqlite3.INNOCUOUS, func(ctx sqlite3.Context, arg ...sqlite3.Value) {
			n := max(1, arg[0].Int64())
			if n > fuzzLength {
				ctx.ResultError(sqlite3.TOOBIG)
				return
			}
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(dice.Uint32())
			}
			ctx.ResultBlob(b)
		}))
}

// excuses are why a script may be answered differently.
var excuses = []struct {
	name string
	text *regexp.Regexp
}{
	{"asks for a journal mode that is refused", regexp.MustCompile(`(?i)journal_mode\W*of?f?\b`)},
	{"asks for how often others wrote", regexp.MustCompile(`(?i)data_version`)},
	{"explains with an address", regexp.MustCompile(`(?i)\bexplain\b`)},
	{"lets a rowid be chosen by chance", regexp.MustCompile(`9223372036854775807`)},
	{"attaches a file whose name it computes", regexp.MustCompile(`(?i)\battach`)},
	{"asks for the time", regexp.MustCompile(`(?i)'now'|current_(date|time)|\b((date)?time|date|strftime|julianday|unixepoch)\(`)},
}

// TestFuzzScripts runs scripts of SQLite's fuzz corpora over Greenroom's VFS and
// over memdb, on connections that throw the same dice: the same rows, the same
// errors, and the same bytes in the end. Where memdb is the odd one, the plain VFS
// decides, and a file where a write-ahead log is asked for.
func TestFuzzScripts(t *testing.T) {
	inputs := fuzzInputs(t, "SELECT sqlid, sqltext FROM xsql ORDER BY sqlid", stride(t, 17))
	t.Chdir(t.TempDir()) // whatever a script may name there
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			f := fuzzer{house: newHouse(t, m), mode: m}
			memory, disk, file := stock{}, newPlain(t), files(t.TempDir())
			counts := map[string]int{}
			for _, in := range inputs {
				script := string(in.data)
				outcome, d := f.compare(t, in, script, memory.create(t, nil))
				if d != "" {
					if outcome, d = f.compare(t, in, script, disk.create(t, nil)); d == "" {
						outcome += " as over the plain VFS, not as over memdb"
					}
				}
				if d != "" && strings.Contains(strings.ToLower(script), "wal") {
					if outcome, d = f.compare(t, in, script, file.create(t, nil)); d == "" {
						outcome += " as in a file, which has a write-ahead log"
					}
				}
				if d != "" {
					if excuse := excuseFor(script); excuse != "" {
						outcome += ", " + excuse
						t.Logf("%s: %s: %s", in.name, excuse, d)
					} else {
						t.Errorf("%s: %s\n%.2000s", in.name, d, script)
					}
				}
				counts[outcome]++
			}
			logCounts(t, len(inputs), "scripts", counts)
			if f.lines < 2*len(inputs) {
				t.Errorf("%d lines of answers to %d scripts: they do nothing", f.lines, len(inputs))
			}
		})
	}
}

// A fuzzer runs scripts over Greenroom's VFS and somewhere else.
type fuzzer struct {
	house *house
	mode  mode
	lines int // of answers so far
}

// compare runs a script on a database that begins as there does, and drops both.
// It returns what came of that in words, and the difference, "" if the two agree.
func (f *fuzzer) compare(t *testing.T, in fuzzInput, script string, there *site, image ...byte) (outcome, diff string) {
	t.Helper()
	here := f.house.create(t, image)
	got, want := readFuzz(t, here, script, f.mode.pragmas...), readFuzz(t, there, script)
	f.lines += len(got.out)
	outcome = "same"
	diff = difference(got.out, want.out)
	switch {
	case diff == "" && got.crashed:
		outcome = "SQLite itself crashed on both"
	case diff == "":
		diff = differentImages(t, here, there)
		if got.stopped {
			outcome = "same until stopped"
		}
	}
	if diff != "" {
		outcome = "different"
	}
	if got.crashed && !want.crashed {
		t.Errorf("%s crashed here only", in.name)
	}
	f.house = f.house.after(t, f.mode, here, got)
	there.drop()
	return outcome, diff
}

func excuseFor(script string) string {
	for _, e := range excuses {
		if e.text.MatchString(script) {
			return e.name
		}
	}
	return ""
}

// logCounts prints what became of n things.
func logCounts(t *testing.T, n int, things string, counts map[string]int) {
	t.Helper()
	t.Logf("%d %s", n, things)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%6d %s", counts[name], name)
	}
}
