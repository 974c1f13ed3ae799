package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// A mode is how rows are written.
type mode string

const (
	modeList  mode = "list"  // fields separated by a bar, as sqlite3 does
	modeTable mode = "table" // in a frame, for people
	modeLine  mode = "line"  // each value on a line of its own, behind its name
	modeCSV   mode = "csv"   // RFC 4180, with line feeds
	modeJSON  mode = "json"  // one array of objects per result
)

var modes = []mode{modeTable, modeLine, modeList, modeCSV, modeJSON}

// A cellKind is the type of a value: SQLite's five, with its numbers but for NULL's, and one
// more.
type cellKind byte

const (
	cellNull cellKind = iota
	cellInt
	cellReal
	cellText
	cellBlob
	cellJSON // a text that is JSON
)

// A cell is one value of a row.
type cell struct {
	kind cellKind
	text []byte // as SQLite writes it; the bytes of a blob; nil for NULL
	real float64
}

// A maybe is a text that is NULL if it is empty.
type maybe string

// newCell returns a value as a list shows it: a text, a maybe, an error or a Stringer as a
// text, a time as stamp does, and an integer, or a pointer to one. NULL are nil, the zero
// time, and an id of a message that is 0.
func newCell(v any) cell {
	switch v := v.(type) {
	case cell:
		return v
	case string:
		return cell{kind: cellText, text: []byte(v)}
	case maybe:
		if v != "" {
			return newCell(string(v))
		}
	case error:
		return newCell(v.Error())
	case time.Time:
		return newCell(maybe(stamp(v)))
	case queue.ID:
		if v != 0 {
			return newCell(uint64(v))
		}
	case fmt.Stringer:
		return newCell(v.String())
	default:
		if n := reflect.Indirect(reflect.ValueOf(v)); n.IsValid() {
			return cell{kind: cellInt, text: fmt.Append(nil, n.Interface())}
		}
	}
	return cell{}
}

// jsonCell is a value in JSON, NULL if JSON can't hold it.
func jsonCell(v any) cell {
	var b bytes.Buffer
	if err := newJSON(&b).Encode(v); err != nil {
		return cell{}
	}
	return cell{kind: cellJSON, text: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}
}

// stamp is a time in UTC, to the millisecond that is recorded; nothing for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// dated is a time that a workflow has recorded; 0 is the zero time.
func dated(m workflow.Millis) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return m.Time()
}

// A printer writes the rows of one result. Write errors stay in the
// bufio.Writer, whose Flush reports them.
type printer interface {
	// begin is called once, before the rows.
	begin(columns []string)
	// row may keep nothing of cells.
	row(cells []cell)
	// end is called once, after the last row.
	end()
}

// A layout says how results are written.
type layout struct {
	mode mode
	// header says whether list and csv begin with the names of the columns.
	header bool
	// separated keeps each row of a list or a table on its line, line feeds being
	// escaped with all else that doesn't print. The fields of a list have a tab
	// between them, for other programs to take apart.
	separated bool
	// tty says that a terminal shows them.
	tty bool
	// width returns how many columns the terminal has for a table; nil is any number.
	width func() int
}

// newLayout returns the layout of a mode with its own habits: csv has a header
// and a list has none.
func newLayout(m mode) layout { return layout{mode: m, header: m != modeList} }

// printer returns a printer for one result.
func (l layout) printer(w *bufio.Writer) printer {
	lines := &linePrinter{w: w, header: l.header, separator: "|", field: appendRaw}
	switch {
	case l.mode == modeTable:
		p := &tablePrinter{w: w, oneLine: l.separated}
		if l.width != nil {
			p.width = l.width()
		}
		return p
	case l.mode == modeLine:
		return &recordPrinter{w: w, shown: l.tty}
	case l.mode == modeJSON:
		return &jsonPrinter{w: w}
	case l.mode == modeCSV:
		lines.separator, lines.field = ",", appendCSV
	case l.separated:
		lines.separator, lines.field = "\t", appendEscaped
	}
	if l.tty {
		lines.field = shown(lines.field)
	}
	return lines
}

// cells returns the cells of some values.
func cells[T any](values []T) []cell {
	cells := make([]cell, len(values))
	for i, v := range values {
		cells[i] = newCell(v)
	}
	return cells
}

// listLayout is the layout of a list: a name stays on its line in all of them.
func listLayout(json, tty bool) layout {
	m := modeList
	switch {
	case json:
		m = modeJSON
	case tty:
		m = modeTable
	}
	l := newLayout(m)
	l.separated = true
	return l
}

// An output is a list that a command writes: a table on a terminal, elsewhere lines with
// fields separated by tabs, or an array of JSON. The columns are words; without any JSON
// has what row returns as it is.
type output struct {
	env     *env
	json    bool
	columns string
}

// list writes a row for each of items. row returns its values, nil to leave
// it out, and io.EOF instead of those at which the list ends.
func list[T any](o output, items iter.Seq2[T, error], row func(T) ([]any, error)) error {
	out := bufio.NewWriter(o.env.stdout)
	p := listLayout(o.json, terminal(o.env.stdout) != nil).printer(out)
	p.begin(strings.Fields(o.columns))
	for item, err := range items {
		var values []any
		if err == nil {
			values, err = row(item)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if values != nil {
			p.row(cells(values))
		}
	}
	p.end()
	return out.Flush()
}

// all yields the items of a list that can't fail.
func all[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// object writes one value in JSON, on one line unless there is an indent.
func (e *env) object(v any, indent string) error {
	enc := newJSON(e.stdout)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// A linePrinter writes each row as it comes, on a line.
type linePrinter struct {
	w         *bufio.Writer
	header    bool
	separator string
	field     func(dst []byte, c cell) []byte
	buf       []byte
}

func (p *linePrinter) begin(columns []string) {
	if p.header {
		p.row(cells(columns))
	}
}

func (p *linePrinter) row(cells []cell) {
	p.buf = p.buf[:0]
	for _, c := range cells {
		p.buf = p.field(append(p.buf, p.separator...), c)
	}
	p.w.Write(append(p.buf[len(p.separator):], '\n'))
}

func (p *linePrinter) end() {}

// appendRaw writes a value as sqlite3's list does, except that bytes after a NUL
// are not cut off: NULL is nothing, a blob its bytes.
func appendRaw(dst []byte, c cell) []byte { return append(dst, c.text...) }

// shown makes visible what field appends.
func shown(field func(dst []byte, c cell) []byte) func(dst []byte, c cell) []byte {
	return func(dst []byte, c cell) []byte { return append(dst, visibleText(string(field(nil, c)))...) }
}

// appendEscaped keeps a value on its line and in its field.
func appendEscaped(dst []byte, c cell) []byte {
	return append(dst, onOneLine(visibleText(string(c.text)))...)
}

// onOneLine escapes line feeds.
func onOneLine(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }

// appendCSV quotes what must be, and the empty string, so that NULL differs.
//
// https://www.rfc-editor.org/rfc/rfc4180
func appendCSV(dst []byte, c cell) []byte {
	switch {
	case c.kind == cellBlob:
		return appendBlob(dst, c.text)
	case c.kind != cellText || len(c.text) > 0 && !strings.ContainsAny(string(c.text), "\",\r\n"):
		return append(dst, c.text...)
	}
	return fmt.Appendf(dst, `"%s"`, bytes.ReplaceAll(c.text, []byte(`"`), []byte(`""`)))
}

// appendBlob writes a blob as a literal of SQL.
func appendBlob(dst, blob []byte) []byte {
	return fmt.Appendf(dst, "X'%X'", blob)
}

// A jsonPrinter writes an array with an object per row. Two columns of the same
// name give an object with two members of that name. Without columns a row is one value.
type jsonPrinter struct {
	w    *bufio.Writer
	keys [][]byte
	rows int
	buf  []byte
}

func (p *jsonPrinter) begin(columns []string) {
	for _, name := range columns {
		p.keys = append(p.keys, append(appendJSONString(nil, []byte(name)), ':'))
	}
	p.w.WriteByte('[')
}

func (p *jsonPrinter) row(cells []cell) {
	p.buf = p.buf[:0]
	if p.rows++; p.rows > 1 {
		p.buf = append(p.buf, ",\n"...)
	}
	for i, key := range p.keys {
		p.buf = append(append(p.buf, "{,"[min(i, 1)]), key...)
		p.buf = appendJSON(p.buf, cells[i])
	}
	if len(p.keys) == 0 {
		p.buf = appendJSON(p.buf, cells[0])
	} else {
		p.buf = append(p.buf, '}')
	}
	p.w.Write(p.buf)
}

func (p *jsonPrinter) end() { p.w.WriteString("]\n") }

// appendJSON writes integers with all their digits, and reals with as many as
// it takes to read the same number back. An infinity is a number too large for
// a double, which is how SQLite writes and reads it. A blob is a string with a
// literal of SQL in it.
func appendJSON(dst []byte, c cell) []byte {
	switch c.kind {
	case cellNull:
		return append(dst, "null"...)
	case cellInt:
		return append(dst, c.text...)
	case cellJSON:
		return appendVisibleJSON(dst, c.text)
	case cellReal:
		return admin.AppendReal(dst, c.real)
	case cellBlob:
		return append(appendBlob(append(dst, '"'), c.text), '"')
	}
	return appendJSONString(dst, c.text)
}

// appendJSONString replaces what isn't UTF-8.
func appendJSONString(dst, s []byte) []byte { return append(dst, jsonCell(string(s)).text...) }

// A tablePrinter keeps all rows: how wide a column is, the last one may say.
type tablePrinter struct {
	w       *bufio.Writer
	width   int    // of the terminal; 0 is any
	oneLine bool   // escape line feeds
	numbers []bool // columns that hold nothing but numbers and NULL
	head    table.Row
	rows    []table.Row
}

func (p *tablePrinter) begin(columns []string) {
	p.head = make(table.Row, len(columns))
	p.numbers = make([]bool, len(columns))
	for i, name := range columns {
		p.head[i] = visibleText(name)
		p.numbers[i] = true
	}
}

func (p *tablePrinter) row(cells []cell) {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		shown := tableText(c, true)
		if p.oneLine {
			shown = onOneLine(shown)
		}
		row[i] = shown
		p.numbers[i] = p.numbers[i] && c.kind <= cellReal
	}
	p.rows = append(p.rows, row)
}

// tableText is a value for people, shown if a terminal needs that.
func tableText(c cell, shown bool) string {
	switch {
	case c.kind == cellNull:
		return "NULL"
	case c.kind == cellBlob:
		return string(appendBlob(nil, c.text))
	case shown:
		return visibleText(string(c.text))
	}
	return string(c.text)
}

func (p *tablePrinter) end() {
	if !p.fit() {
		r := &recordPrinter{w: p.w}
		for _, row := range p.rows {
			r.record(p.head, row)
		}
		return
	}
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	t := table.NewWriter()
	t.SetStyle(style)
	t.AppendHeader(p.head)
	t.AppendRows(p.rows)
	var columns []table.ColumnConfig
	for i, is := range p.numbers {
		if is && len(p.rows) > 0 {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.SetColumnConfigs(columns)
	fmt.Fprintln(p.w, t.Render())
}

// minCut is how much of a value is always shown.
const minCut = 12

// fit cuts what makes the table wider than the terminal, and says whether it fits then.
func (p *tablePrinter) fit() bool {
	left := p.width - 1 // for the last bar
	if p.width == 0 {
		return true
	}
	widths := make([]int, len(p.head))
	for _, row := range append([]table.Row{p.head}, p.rows...) {
		for i, v := range row {
			widths[i] = max(widths[i], text.LongestLineLen(v.(string)))
		}
	}
	sorted := slices.Sorted(slices.Values(widths))
	for i, w := range sorted {
		columns := len(sorted) - i              // this one, and those that aren't narrower
		if most := left/columns - 3; w > most { // with its bar and blanks
			if most < minCut {
				return false
			}
			p.cut(most)
			return true
		}
		left -= w + 3
	}
	return true
}

// cut leaves no line of a value wider than most.
func (p *tablePrinter) cut(most int) {
	for _, row := range append(p.rows, p.head) {
		for i, v := range row {
			lines := strings.Split(v.(string), "\n")
			for j := range lines {
				lines[j] = text.Snip(lines[j], most, "…")
			}
			row[i] = strings.Join(lines, "\n")
		}
	}
}

// A planPrinter draws the rows of EXPLAIN QUERY PLAN as a tree, as sqlite3 does.
type planPrinter struct {
	w     *bufio.Writer
	below map[string][]planStep // by the id of what is above; 0 is the top
}

// A planStep is one step of a plan.
type planStep struct{ id, detail string }

func (p *planPrinter) begin([]string) { p.below = map[string][]planStep{} }

// row takes id, parent, something unused, and detail.
func (p *planPrinter) row(cells []cell) {
	above := string(cells[1].text)
	p.below[above] = append(p.below[above], planStep{string(cells[0].text), visibleText(string(cells[3].text))})
}

func (p *planPrinter) end() {
	fmt.Fprintln(p.w, "QUERY PLAN")
	p.draw("0", "")
}

// draw draws what is below a step.
func (p *planPrinter) draw(above, indent string) {
	steps := p.below[above]
	for i, s := range steps {
		branch, next := "|--", "|  "
		if i == len(steps)-1 {
			branch, next = "`--", "   "
		}
		fmt.Fprintln(p.w, indent+branch+onOneLine(s.detail))
		p.draw(s.id, indent+next)
	}
}

// A recordPrinter writes each value on a line of its own, and an empty line between rows.
type recordPrinter struct {
	w     *bufio.Writer
	shown bool // make all visible
	head  table.Row
	rows  int
}

func (p *recordPrinter) begin(columns []string) {
	for _, name := range columns {
		if p.shown {
			name = visibleText(name)
		}
		p.head = append(p.head, name)
	}
}

func (p *recordPrinter) row(cells []cell) {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = tableText(c, p.shown)
	}
	p.record(p.head, row)
}

// record writes one row.
func (p *recordPrinter) record(head, row table.Row) {
	if p.rows++; p.rows > 1 {
		p.w.WriteByte('\n')
	}
	width := 0
	for _, name := range head {
		width = max(width, text.StringWidth(name.(string)))
	}
	for i, name := range head {
		fmt.Fprintf(p.w, "%s = %s\n", text.AlignRight.Apply(name.(string), width), row[i])
	}
}

func (p *recordPrinter) end() {}
