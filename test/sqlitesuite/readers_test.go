package sqlitesuite

import (
	"slices"
	"strings"
	"testing"
)

// TestTclCommands holds the reader of Tcl against what Tcl says.
func TestTclCommands(t *testing.T) {
	const script = "# a {comment \\\n continued\nset a {b {c} \\} d}; set \"x y\" z\\ w\nfoo [bar {\"} ; baz] \\\n  {*}$list\n"
	commands, err := tclCommands(script, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, words := range commands {
		for _, w := range words {
			if !strings.HasPrefix(w.text, "[list ") && script[w.at:w.at+len(w.text)] != w.text {
				t.Errorf("word %q is not at %d", w.text, w.at)
			}
			got = append(got, w.text)
		}
		got = append(got, ";")
	}
	want := []string{"set", "a", `b {c} \} d`, ";", "set", "x y", `z\ w`, ";", "foo", `[bar {"} ; baz]`, "[list $list]", ";"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if _, err := tclCommands("set a {", 0); err == nil {
		t.Error("an open brace is no error")
	}
}

func TestTclList(t *testing.T) {
	got, err := tclList("a {b c} \"d\\te\" {} {\\n} \\{ \n {{x}}")
	want := []string{"a", "b c", "d\te", "", `\n`, "{", "{x}"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestLogicScript holds the reader of sqllogictest's scripts against one of each
// kind of record.
func TestLogicScript(t *testing.T) {
	const script = `hash-threshold 8

skipif sqlite
statement ok
NOT FOR SQLITE

onlyif mysql
halt

statement error
SELECT
FROM

onlyif sqlite
query IT rowsort label-1
SELECT 1, 'a'
----
1
a

halt

statement ok
BEHIND THE END
`
	records, threshold, err := logicScript(strings.NewReader(script))
	if err != nil || threshold != 8 || len(records) != 2 {
		t.Fatalf("got %d records, threshold %d, %v", len(records), threshold, err)
	}
	s, q := records[0], records[1]
	if s.query || !s.fails || s.sql != "SELECT\nFROM\n" || s.line != 10 {
		t.Errorf("statement: %+v", s)
	}
	if !q.query || q.types != "IT" || q.sort != "rowsort" || q.label != "label-1" || !slices.Equal(q.want, []string{"1", "a"}) {
		t.Errorf("query: %+v", q)
	}
	labels := map[string]string{}
	for _, c := range []struct {
		values []string
		want   bool
	}{{[]string{"1", "a"}, true}, {[]string{"1", "b"}, false}} {
		if got := q.holds(answer{values: c.values}, 8, labels); got != c.want {
			t.Errorf("holds(%q) = %t", c.values, got)
		}
	}
	if (&record{}).holds(answer{err: errComputed}, 0, labels) {
		t.Error("a statement that failed holds")
	}
}

// TestDecimal: SQLite prints 16 digits, and zeros behind them.
func TestDecimal(t *testing.T) {
	for f, want := range map[float64]string{1.0005: "1.001", -2: "-2.000", -18446744073709551616: "-18446744073709550000.000", 0: "0.000"} {
		if got := decimal(f); got != want {
			t.Errorf("decimal(%g) = %s, want %s", f, got, want)
		}
	}
}

// TestPlainFile holds the plain VFS against a slice of bytes at the places where
// sectors meet.
func TestPlainFile(t *testing.T) {
	f, want := newPlainFile(), []byte{}
	write := func(at int, b []byte) {
		if _, err := f.WriteAt(b, int64(at)); err != nil {
			t.Fatal(err)
		}
		want = append(want, make([]byte, max(0, at+len(b)-len(want)))...)
		copy(want[at:], b)
	}
	check := func(when string) {
		got := make([]byte, len(want)+10)
		n, _ := f.ReadAt(got, 0) // io.EOF: it asks for more
		if !slices.Equal(got[:n], want) {
			t.Errorf("%s: %d bytes read of %d, or others", when, n, len(want))
		}
	}
	write(4090, []byte("across the edge"))
	check("across an edge")
	write(3*sectorSize, []byte("behind a hole"))
	check("behind a hole")
	if err := f.Truncate(4095); err != nil {
		t.Fatal(err)
	}
	want = want[:4095]
	check("cut")
	write(2*sectorSize, []byte{1})
	check("grown again")
}
