package sqlitesuite

import (
	"bufio"
	"compress/gzip"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// A record is one statement or query of a sqllogictest script.
//
// https://sqlite.org/sqllogictest/doc/trunk/about.wiki
type record struct {
	line  int
	query bool
	fails bool   // a statement that must fail
	types string // of a query's columns: I, R or T for each
	sort  string // nosort, rowsort or valuesort
	label string // results of queries with the same label are equal
	sql   string
	want  []string // expected values, or the one line that states their hash
}

// logicScript returns the records of a script that are meant for SQLite, and the
// number of values from which on a result is given as a hash (0: never).
func logicScript(r io.Reader) (records []record, threshold int, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	line := 0
	next := func() (string, bool) {
		line++
		ok := in.Scan()
		return strings.TrimRight(in.Text(), " \t\r"), ok
	}
	skip := false
	for text, ok := next(); ok; text, ok = next() {
		words := strings.Fields(text)
		if len(words) == 0 || strings.HasPrefix(text, "#") {
			continue
		}
		switch words[0] {
		case "skipif", "onlyif":
			skip = skip || (words[1] == "sqlite") == (words[0] == "skipif")
		case "halt":
			if !skip {
				return records, threshold, in.Err()
			}
			skip = false
		case "hash-threshold":
			if threshold, err = strconv.Atoi(words[1]); err != nil {
				return nil, 0, fmt.Errorf("line %d: %w", line, err)
			}
		case "statement", "query":
			rec := record{line: line, query: words[0] == "query", sort: "nosort"}
			if rec.query {
				rec.types = words[1]
				if len(words) > 2 {
					rec.sort = words[2]
				}
				if len(words) > 3 {
					rec.label = words[3]
				}
			} else {
				rec.fails = words[1] == "error"
			}
			text, ok = next()
			for ; ok && text != "" && text != "----"; text, ok = next() {
				rec.sql += text + "\n"
			}
			if text == "----" {
				for text, ok = next(); ok && text != ""; text, ok = next() {
					rec.want = append(rec.want, text)
				}
			}
			if !skip {
				records = append(records, rec)
			}
			skip = false
		default:
			return nil, 0, fmt.Errorf("line %d: unknown record %q", line, text)
		}
	}
	return records, threshold, in.Err()
}

// logicRow writes the values of a row as the scripts do: one line each, an empty
// text as (empty), and what can't be printed as @.
func logicRow(types string) func(s *sqlite3.Stmt) []string {
	return func(s *sqlite3.Stmt) []string {
		values := make([]string, s.ColumnCount())
		for i := range values {
			kind := byte('T')
			if i < len(types) {
				kind = types[i]
			}
			switch {
			case s.ColumnType(i) == sqlite3.NULL:
				values[i] = "NULL"
			case kind == 'I':
				values[i] = strconv.FormatInt(s.ColumnInt64(i), 10)
			case kind == 'R':
				values[i] = decimal(s.ColumnFloat(i))
			default:
				values[i] = printable(s.ColumnText(i))
			}
		}
		return values
	}
}

// decimal writes a float as SQLite's printf("%.3f") does, of which the scripts are
// made: from 16 digits, however large it is.
func decimal(f float64) string {
	d, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', 15, 64))
	if !ok {
		return strconv.FormatFloat(f, 'f', 3, 64) // Inf
	}
	return d.FloatString(3)
}

func printable(s string) string {
	if s == "" {
		return "(empty)"
	}
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '@'
		}
	}
	return string(b)
}

// answer is what became of one record on one connection.
type answer struct {
	err    error
	values transcript // in the order that the record asks for
}

// ask runs a record.
func (r *record) ask(c *sqlite3.Conn) answer {
	p := player{conn: c, row: logicRow(r.types)}
	if !r.query {
		_, err := p.play(r.sql)
		return answer{err: err}
	}
	var a answer
	if a.values, a.err = p.play(r.sql); a.err != nil {
		return a
	}
	switch r.sort {
	case "rowsort":
		n := max(1, len(r.types))
		rows := slices.Collect(slices.Chunk(a.values, n))
		slices.SortStableFunc(rows, func(x, y transcript) int { return slices.Compare(x, y) })
		a.values = slices.Concat(rows...)
	case "valuesort":
		slices.Sort(a.values)
	}
	return a
}

// hash is how a script states a long result.
func (a *answer) hash() string {
	h := md5.New()
	for _, v := range a.values {
		io.WriteString(h, v+"\n") // a hash returns no errors
	}
	return fmt.Sprintf("%d values hashing to %s", len(a.values), hex.EncodeToString(h.Sum(nil)))
}

// holds says whether an answer is the one that the script expects. Labels are
// what earlier queries of the script came to.
func (r *record) holds(a answer, threshold int, labels map[string]string) bool {
	if !r.query {
		return (a.err != nil) == r.fails
	}
	if a.err != nil {
		return false
	}
	hash := a.hash()
	if r.label != "" {
		if h, ok := labels[r.label]; ok && h != hash {
			return false
		}
		labels[r.label] = hash
	}
	if len(r.want) == 1 && strings.Contains(r.want[0], " values hashing to ") {
		return r.want[0] == hash
	}
	if threshold > 0 && len(a.values) > threshold {
		return false
	}
	return slices.Equal(a.values, r.want)
}

// logicFiles returns the scripts of the sqllogictest corpus, which isn't part of
// the project and lies beside some checkouts.
func logicFiles(t *testing.T) []string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "data", "sqllogictest")
	paths, err := filepath.Glob(filepath.Join(dir, "*.test.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skip("the sqllogictest corpus is not there")
	}
	return paths
}

func readLogicFile(t *testing.T, path string) (records []record, threshold int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if records, threshold, err = logicScript(z); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return records, threshold
}

// smallCache leaves SQLite ten pages, so that reads reach the VFS.
const smallCache = "cache_size=10"

// A logicCount is what a run of sqllogictest came to.
type logicCount struct {
	records, stock, here int // run, passed by stock SQLite, passed here
	pageReads            int64
}

// TestSQLLogic plays sqllogictest's scripts over Greenroom's VFS and over memdb,
// record by record: what passes there must pass here, and both must answer the
// same. CI takes the first records of each script.
func TestSQLLogic(t *testing.T) {
	paths := logicFiles(t)
	limit := 0
	if stride(t, 2) > 1 {
		limit = 2000
	}
	for _, m := range append(slices.Clone(modes), logMode) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			var sum logicCount
			h, k := newHouse(t, m), stock{}
			for _, path := range paths {
				records, threshold := readLogicFile(t, path)
				if limit > 0 {
					records = records[:min(limit, len(records))]
				}
				t.Run(strings.TrimSuffix(filepath.Base(path), ".test.gz"), func(t *testing.T) {
					sum.play(t, h.create(t, nil), k.create(t, nil), m, records, threshold)
				})
			}
			t.Logf("%d records, %d pass on stock SQLite, %d pass here; %d page reads",
				sum.records, sum.stock, sum.here, sum.pageReads)
			if sum.records == 0 || sum.pageReads == 0 {
				t.Error("nothing was tested")
			}
		})
	}
}

// reopenEvery is after how many records a connection is closed and another one
// goes on, with a cold cache.
const reopenEvery = 250

func (n *logicCount) play(t *testing.T, here, there *site, m mode, records []record, threshold int) {
	a, b := here.open(t, append(m.pragmas, smallCache)...), there.open(t, smallCache)
	labelsA, labelsB := map[string]string{}, map[string]string{}
	for i, r := range records {
		if i%reopenEvery == reopenEvery-1 && a.GetAutocommit() && b.GetAutocommit() {
			closeConn(t, a)
			closeConn(t, b)
			a, b = here.open(t, append(m.pragmas, smallCache)...), there.open(t, smallCache)
		}
		got, want := r.ask(a), r.ask(b)
		n.records++
		holds := r.holds(got, threshold, labelsA)
		if holds {
			n.here++
		}
		if !r.holds(want, threshold, labelsB) {
			t.Logf("line %d does not pass on stock SQLite: %s", r.line, r.sql)
		} else {
			n.stock++
			if !holds {
				t.Errorf("line %d passes on stock SQLite only: %s\ngot %v %q", r.line, r.sql, got.err, got.values)
			}
		}
		if d := difference(got.values, want.values); d != "" || fmt.Sprint(got.err) != fmt.Sprint(want.err) {
			t.Errorf("line %d: %s\ngot error %v, stock SQLite %v\n%s", r.line, r.sql, got.err, want.err, d)
		}
	}
	if got := play(a, "PRAGMA integrity_check"); !slices.Equal(got, transcript{`"ok"`}) {
		t.Errorf("integrity_check: %q", got)
	}
	closeConn(t, a)
	closeConn(t, b)
	// With a log a page may become free before it ever reached the file.
	if m.name != logMode.name {
		if d := differentImages(t, here, there); d != "" {
			t.Error(d)
		}
	}
	n.pageReads += here.counts().PageReads
	here.drop()
	there.drop()
}
