package sqlitesuite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
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

// fuzzConn opens a connection for a script that nobody knows: bounded, and with
// no way to other files.
func fuzzConn(t *testing.T, s *site, pragmas ...string) *sqlite3.Conn {
	t.Helper()
	c := s.open(t, pragmas...)
	c.Limit(sqlite3.LIMIT_LENGTH, fuzzLength)
	c.Limit(sqlite3.LIMIT_LIKE_PATTERN_LENGTH, fuzzPattern)
	c.Limit(sqlite3.LIMIT_VDBE_OP, fuzzOps)
	err := cmp.Or(fts5.Register(c), rtree.Register(c), c.SetAuthorizer(confine), loadDice(c))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// confine refuses to attach files: an actor has one database, and the machine's
// files are nothing for a fuzzer. It also refuses to take memory away, which
// go-sqlite3 answers with a panic once there is none.
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
	stopped bool // the budget was spent
}

// readFuzz runs a script on a site, and then SQLite's check of the whole file.
func readFuzz(t *testing.T, s *site, script string, pragmas ...string) reading {
	t.Helper()
	c := fuzzConn(t, s, pragmas...)
	defer closeConn(t, c)
	b := &budget{Context: context.Background(), left: fuzzBudget}
	c.SetInterrupt(b)
	p := player{conn: c, row: typedRow, maxRows: fuzzRows, resume: true}
	out, _ := p.play(script)
	stopped := b.left < 0
	c.SetInterrupt(&budget{Context: context.Background(), left: fuzzBudget})
	return reading{append(out, integrity(c)...), stopped}
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
	{"asks for a journal mode that is refused", regexp.MustCompile(`(?i)journal_mode\W*(wal|of?f?\b)`)},
	{"attaches a file whose name it computes", regexp.MustCompile(`(?i)\battach`)},
	{"asks for the time", regexp.MustCompile(`(?i)'now'|current_(date|time)|\b((date)?time|date|strftime|julianday|unixepoch)\(`)},
}

// journalMode finds scripts that see the journal mode. memdb has another one than
// files, and than Greenroom's VFS: these are compared over go-sqlite3's file VFS.
var journalMode = regexp.MustCompile(`(?i)journal_mode`)

// TestFuzzScripts runs scripts of SQLite's fuzz corpora over Greenroom's VFS and
// over memdb, on connections that throw the same dice: the same rows, the same errors, and the same bytes in the end.
func TestFuzzScripts(t *testing.T) {
	inputs := fuzzInputs(t, "SELECT sqlid, sqltext FROM xsql ORDER BY sqlid", stride(t, 17))
	t.Chdir(t.TempDir()) // whatever a script may name there
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			h, k, f := newHouse(t, m), &stock{}, &files{dir: t.TempDir()}
			counts := map[string]int{}
			lines := 0
			for _, in := range inputs {
				script := string(in.data)
				here, there := h.create(t, nil), k.create(t, nil)
				if journalMode.MatchString(script) {
					there.drop()
					there = f.create(t, nil)
				}
				got, want := readFuzz(t, here, script, m.pragmas...), readFuzz(t, there, script)
				d := difference(got.out, want.out)
				if d == "" {
					d = differentImages(t, here, there)
				}
				lines += len(got.out)
				switch excuse := excuseFor(script); {
				case d == "" && got.stopped:
					counts["same until stopped"]++
				case d == "":
					counts["same"]++
				case excuse != "":
					counts["different, "+excuse]++
					t.Logf("%s: %s: %s", in.name, excuse, d)
				default:
					counts["different"]++
					t.Errorf("%s: %s\n%.2000s", in.name, d, script)
				}
				here.drop()
				there.drop()
			}
			logCounts(t, len(inputs), "scripts", counts)
			if lines < 2*len(inputs) {
				t.Errorf("%d lines of answers to %d scripts: they do nothing", lines, len(inputs))
			}
		})
	}
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
