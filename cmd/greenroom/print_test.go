package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/greenroomdb/greenroom/admin"
)

func realCell(text string, f float64) cell { return cell{cellReal, []byte(text), f} }

func printed(l layout, columns []string, rows ...[]cell) string {
	var b strings.Builder
	w := bufio.NewWriter(&b)
	p := l.printer(w)
	p.begin(columns)
	for _, r := range rows {
		p.row(r)
	}
	p.end()
	w.Flush()
	return b.String()
}

// TestListLayout: whatever an actor's name holds, it is one line of a list.
func TestListLayout(t *testing.T) {
	for _, test := range []struct{ json, tty bool }{{false, false}, {false, true}, {true, false}} {
		got := printed(listLayout(test.json, test.tty), []string{"name"}, []cell{newCell("two\nlines")})
		if !strings.Contains(got, `two\nlines`) || strings.Contains(got, "two\n") {
			t.Errorf("%+v: got %q", test, got)
		}
	}
	// SQL's own tables show text as it is.
	if got := printed(newLayout(modeTable), []string{"a"}, []cell{newCell("two\nlines")}); strings.Contains(got, `\n`) {
		t.Errorf("got %q", got)
	}
}

func TestPrint(t *testing.T) {
	columns := []string{"n", "a b", "n"}
	rows := [][]cell{
		{newCell(math.MinInt64), newCell("x,\"y\"\n\x1b[2J"), {kind: cellBlob, text: []byte{0, 0xab, '|'}}},
		{{}, newCell(""), {kind: cellBlob, text: []byte{}}},
		{realCell("0.1", 0.1), newCell("größe"), realCell("Inf", math.Inf(1))},
	}
	tests := []struct {
		name string
		l    layout
		want string
	}{
		{"list", newLayout(modeList), "-9223372036854775808|x,\"y\"\n\x1b[2J|\x00\xab|\n||\n0.1|größe|Inf\n"},
		{"line", newLayout(modeLine), "  n = -9223372036854775808\na b = x,\"y\"\n\x1b[2J\n  n = X'00AB7C'\n\n  n = NULL\na b = \n  n = X''\n\n  n = 0.1\na b = größe\n  n = Inf\n"},
		{"csv", newLayout(modeCSV), "n,a b,n\n-9223372036854775808,\"x,\"\"y\"\"\n\x1b[2J\",X'00AB7C'\n,\"\",X''\n0.1,größe,Inf\n"},
		{"csv without header", layout{mode: modeCSV}, "-9223372036854775808,\"x,\"\"y\"\"\n\x1b[2J\",X'00AB7C'\n,\"\",X''\n0.1,größe,Inf\n"},
		{"list with header", layout{mode: modeList, header: true}, "n|a b|n\n" +
			"-9223372036854775808|x,\"y\"\n\x1b[2J|\x00\xab|\n||\n0.1|größe|Inf\n"},
		{"separated", layout{mode: modeList, separated: true}, "-9223372036854775808\tx,\"y\"\\n\\x1b[2J\t\\x00\\xab|\n" +
			"\t\t\n0.1\tgröße\tInf\n"},
		{"json", newLayout(modeJSON), `[{"n":-9223372036854775808,"a b":"x,\"y\"\n\u001b[2J","n":"X'00AB7C'"},` + "\n" +
			`{"n":null,"a b":"","n":"X''"},` + "\n" + `{"n":0.1,"a b":"größe","n":9.0e+999}]` + "\n"},
		{"table", newLayout(modeTable), "" +
			"┌──────────────────────┬─────────┬───────────┐\n" +
			"│                    n │ a b     │ n         │\n" +
			"├──────────────────────┼─────────┼───────────┤\n" +
			"│ -9223372036854775808 │ x,\"y\"   │ X'00AB7C' │\n" +
			"│                      │ \\x1b[2J │           │\n" +
			"│                 NULL │         │ X''       │\n" +
			"│                  0.1 │ größe   │ Inf       │\n" +
			"└──────────────────────┴─────────┴───────────┘\n"},
	}
	for _, test := range tests {
		if got := printed(test.l, columns, rows...); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

func TestPrintNothing(t *testing.T) {
	for m, want := range map[mode]string{
		modeList:  "",
		modeCSV:   "a\n",
		modeJSON:  "[]\n",
		modeTable: "┌───┐\n│ a │\n├───┤\n└───┘\n",
	} {
		if got := printed(newLayout(m), []string{"a"}); got != want {
			t.Errorf("%s: %q, want %q", m, got, want)
		}
	}
}

func TestPrintReal(t *testing.T) {
	for _, f := range []float64{0, 1, -1.5, 0.1, 1e100, 1e-7, 123456789.123456789, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		text := string(admin.AppendReal(nil, f))
		var back float64
		if err := json.Unmarshal([]byte(text), &back); err != nil || back != f {
			t.Errorf("%v is written %s, read back as %v, %v", f, text, back, err)
		}
		if !strings.ContainsAny(text, ".e") {
			t.Errorf("%v is written %s, which is no real number", f, text)
		}
	}
}

// FuzzPrint reads CSV and JSON back with other people's parsers.
func FuzzPrint(f *testing.F) {
	f.Add("a,b", "\"\r\n")
	f.Add("", "é\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		row := []cell{newCell(a), newCell(b)}
		r := csv.NewReader(strings.NewReader(printed(newLayout(modeCSV), []string{"a", "b"}, row)))
		records, err := r.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		// encoding/csv reads a carriage return and line feed in quotes as a line feed.
		fold := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
		if len(records) != 2 || records[1][0] != fold(a) || records[1][1] != fold(b) {
			t.Errorf("CSV of %q, %q is read as %q", a, b, records)
		}
		var objects []map[string]string
		if err := json.Unmarshal([]byte(printed(newLayout(modeJSON), []string{"a", "b"}, row)), &objects); err != nil {
			t.Fatal(err)
		}
		valid := func(s string) string {
			var b strings.Builder
			for _, r := range s {
				b.WriteRune(r)
			}
			return b.String()
		}
		if objects[0]["a"] != valid(a) || objects[0]["b"] != valid(b) {
			t.Errorf("JSON of %q, %q is read as %q", a, b, objects)
		}
	})
}

// TestTableFits: a table that is wider than the terminal has its long values cut, or becomes lines.
func TestTableFits(t *testing.T) {
	long, columns := strings.Repeat("0123456789", 20), []string{"id", "text", "note"}
	print := func(columns []string, values ...any) (lines []string) {
		l := newLayout(modeTable)
		l.tty, l.width = true, func() int { return 80 }
		return strings.Split(strings.TrimSuffix(printed(l, columns, cells(values)), "\n"), "\n")
	}
	for _, values := range [][]any{{1, "short", "x"}, {1, long, "x"}, {1, long, long}, {1, "a\n" + long, "ü" + long}, {1, strings.Repeat("字", 100), long}} {
		lines := print(columns, values...)
		for _, line := range lines {
			if n := text.StringWidth(line); n > 80 || n != text.StringWidth(lines[0]) {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		if cut := strings.Contains(strings.Join(lines, ""), "…"); cut != (values[1] != "short") || !strings.HasPrefix(lines[0], "┌") {
			t.Errorf("%q:\n%s", values, strings.Join(lines, "\n"))
		}
	}
	// Exactly as wide as the terminal.
	if lines := print([]string{"a"}, long[:76]); text.StringWidth(lines[0]) != 80 || strings.Contains(lines[3], "…") {
		t.Errorf("%q", lines)
	}
	var many []string
	var values []any
	for i := range 8 {
		many = append(many, strings.Repeat("n", i+1))
		values = append(values, long)
	}
	if lines := print(many, values...); lines[0] != "       n = "+long || len(lines) != 8 {
		t.Errorf("many columns:\n%s", strings.Join(lines, "\n"))
	}
}
