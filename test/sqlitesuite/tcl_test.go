package sqlitesuite

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block runs one do_execsql_test and judges it.
func (f *tclFile) block(words []tclWord) {
	b := f.blocks[words[0].at]
	if b == nil {
		b = &tclBlock{} // not at the beginning of a line
		f.blocks[words[0].at] = b
	}
	args, name := words[1:], "db"
	if len(args) > 2 && args[0].text == "-db" {
		name, args = args[1].text, args[2:]
	}
	c := f.conns[name]
	switch {
	case len(args) < 2 || len(args) > 3:
		b.reason = "has arguments that can't be told apart"
		return
	case c == nil:
		b.reason = "on a connection that Tcl would have opened"
		return
	case c.here == nil:
		b.reason = "on a database in memory or behind a URI"
		return
	}
	sql, err := f.subst(args[1])
	want := ""
	if err == nil && len(args) == 3 {
		want, err = f.subst(args[2])
	}
	if err != nil {
		if !b.ran {
			b.reason = err.Error()
		}
		return
	}
	f.judge(b, c, sql, want)
}

// judge runs the statements of a block and compares. A block of a loop agrees if
// it does at every turn. What stock SQLite can't say decides nothing: memdb has no
// journal, and no log.
func (f *tclFile) judge(b *tclBlock, c *tclConn, sql, want string) {
	here, there := f.ask(c, sql)
	switch {
	case !there.agrees(want) && !here.agrees(want):
		b.ran, b.agrees, b.reason = true, false, whyNot(sql, there)
	case !here.agrees(want) && (f.refused || refusedMode.MatchString(sql)):
		f.refused = true
		b.ran, b.agrees, b.reason = true, false, "asks for a journal mode that is refused, or stands behind such a one"
	case !here.agrees(want):
		b.ran, b.agrees = true, false
		b.differs = fmt.Sprintf("%s\ngot  %.300q\nwant %.300s", sql, here.out, want)
	case !b.ran:
		b.ran, b.agrees, b.reason = true, true, ""
	}
}

// refusedMode finds the journal mode that Greenroom's VFS refuses.
var refusedMode = regexp.MustCompile(`(?i)journal_mode\W*off`)

// agrees says whether an answer is what the test states: a list of values, or a
// pattern that the list as text must match.
func (r reading) agrees(want string) bool {
	if r.failed != nil || r.stopped || r.crashed {
		return false
	}
	if m := patternForm.FindStringSubmatch(strings.TrimSpace(want)); m != nil {
		re := strings.ReplaceAll(m[2], "#", `[-0-9.]+`)
		if strings.HasPrefix(m[2], "*") {
			re = "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(m[2]), `\*`, ".*") + "$"
		}
		pattern, err := regexp.Compile(re)
		return err == nil && pattern.MatchString(tclJoin(r.out)) != (m[1] == "~")
	}
	list, err := tclList(want)
	return err == nil && slices.Equal(list, r.out)
}

var patternForm = regexp.MustCompile(`(?s)^(~?)/(.*)/$`)

// tclJoin writes a list as Tcl does, or nearly so.
func tclJoin(elements []string) string {
	quoted := make([]string, len(elements))
	for i, e := range elements {
		quoted[i] = e
		if e == "" || strings.ContainsAny(e, " \t\n;\"$[]{}\\") {
			quoted[i] = "{" + e + "}"
		}
	}
	return strings.Join(quoted, " ")
}

// whyNots are the reasons for which stock SQLite disagrees with a test, by what
// it says or was asked.
var whyNots = []struct {
	text   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^! .*no such (module|function|collation|tokenizer)|unknown tokenizer`), "needs a module, function or collation of SQLite's test program"},
	{regexp.MustCompile(`^! .*(no such (table|column|index|view|trigger|savepoint)|already exists|unknown database)`), "misses something that Tcl would have set up"},
	{regexp.MustCompile(`^! .*not authorized`), "attaches a file"},
	{regexp.MustCompile(`^! `), "fails on stock SQLite for another reason"},
}

// whyNot returns the reason.
func whyNot(sql string, r reading) string {
	lower := strings.ToLower(sql)
	switch {
	case r.stopped:
		return "takes too long"
	case r.crashed:
		return "SQLite itself crashes"
	case r.failed == nil && strings.Contains(lower, "journal_mode"), strings.Contains(lower, "wal_checkpoint"):
		return "asks for a journal mode that memdb doesn't have"
	case r.failed == nil && (strings.Contains(lower, "explain") || strings.Contains(lower, "sqlite_stat")):
		return "shows a query plan or statistics of another build"
	case r.failed == nil:
		return "other rows on stock SQLite: another build, or a setup that Tcl computes"
	}
	last := r.out[len(r.out)-1]
	for _, w := range whyNots {
		if w.text.MatchString(last) {
			return w.reason
		}
	}
	return "fails on stock SQLite for another reason"
}

// TestTclBlocks replays the do_execsql_test commands of SQLite's own tests: what
// gives the rows that a test expects on stock SQLite must give them over
// Greenroom's VFS.
func TestTclBlocks(t *testing.T) {
	t.Chdir(t.TempDir()) // whatever a test may name there
	paths := tclPaths(t, stride(t, 8))
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			h, k := newHouse(t, m), stock{}
			counts := map[string]int{}
			total, ran, agree := 0, 0, 0
			for _, path := range paths {
				blocks, crashed := runTclFile(t, path, m, h, k)
				if crashed {
					t.Logf("%s: SQLite itself crashed", filepath.Base(path))
					h = newHouse(t, m)
				}
				for _, b := range blocks {
					total++
					switch {
					case b.differs != "":
						ran++
						counts["DIFFERENT"]++
						t.Errorf("%s:%d: %s", filepath.Base(path), b.line, b.differs)
					case b.agrees:
						ran++
						agree++
					case b.ran:
						ran++
						counts["ran: "+b.reason]++
					default:
						counts["not run: "+b.reason]++
					}
				}
			}
			t.Logf("%d files: %d blocks, %d ran, %d agree", len(paths), total, ran, agree)
			logCounts(t, total-agree, "do not agree", counts)
			if agree < total/2 {
				t.Errorf("only %d of %d blocks agree: too much is passed over", agree, total)
			}
		})
	}
}
