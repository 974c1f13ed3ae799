package inspector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/admin"
)

// Bounds of a grid.
const (
	gridRows = 100
	// maxCells bounds the values of a page of a table with many columns, of which each page has minRows at least.
	maxCells = 10_000
	minRows  = 10
	// maxCell is how much of a value a grid shows, in characters of a text and bytes of a blob.
	maxCell = 120
	// maxOffset bounds how far pages go in an order that has no key.
	maxOffset = 1_000_000
	// maxMeasured is how many columns a table may have whose long values aren't read as a whole: what measures them costs some 70 a column, with an order and a filter, and the API lets
	// a statement cost 2000.
	maxMeasured = 20
	// maxSorted is how many columns a statement may return with an order and a filter: each costs 3, and a few more.
	maxSorted = 500
)

// A gridPage is a page of the rows of a table.
type gridPage struct {
	Table   *table
	Rows    []gridRow
	Next    string
	Sort    string // the column; "" is the rowid, or the primary key
	Desc    bool
	Filter  filter
	Tests   []string
	TooLong bool // the rows weren't found in time

	where, order []string // in SQL
	rows         int      // that a page has at most
	offset       int
}

// A gridRow is a row of a table.
type gridRow struct {
	Rowid string // "" if it has none
	Cells []cell
}

// A cell is a value of a row.
type cell struct {
	Column string
	Type   string // null, integer, real, text or blob
	Text   string
	Size   string // of a value that is cut; "" for one that is whole
}

// A filter selects rows.
type filter struct{ Column, Test, Value string }

// filterTests are what a filter may test, with what that is in SQL.
var filterTests = []struct{ name, sql string }{
	{"=", "%s = ?"}, {"≠", "%s IS NOT ?"}, {"<", "%s < ?"}, {"≤", "%s <= ?"}, {">", "%s > ?"}, {"≥", "%s >= ?"}, {"contains", "instr(%s, ?) > 0"},
	{"is null", "%s IS NULL"}, {"is not null", "%s IS NOT NULL"},
}

// showTable shows a page of the rows of a table: in the order of the rowid without a look at any other row, and in other orders as long as that takes no more than
// gridTime.
func showTable(ctx context.Context, v *visit) (*shown, error) {
	t, err := pathTable(ctx, v)
	if err != nil {
		return nil, err
	}
	p := &gridPage{Table: t, Sort: v.param("sort"), Desc: v.param("desc") == "true", Filter: filter{v.param("column"), v.param("test"), v.param("value")}}
	for _, test := range filterTests {
		p.Tests = append(p.Tests, test.name)
	}
	in, err := p.statement(v.param("after"))
	if err != nil {
		return nil, err
	}
	out, err := v.query(ctx, in)
	for _, size := range []int{maxSorted, maxMeasured} {
		if e := (*admin.Error)(nil); errors.As(err, &e) && (e.Code == "too_large" || e.Code == "invalid") && len(t.Columns) > size {
			out, err = p.inParts(ctx, v, in, size)
		}
	}
	if e := (*admin.Error)(nil); errors.As(err, &e) && e.Code == "timeout" {
		p.TooLong = true
		return &shown{Title: cut(t.Name, maxPreview), Template: "table", Data: p}, nil
	}
	if err != nil {
		return nil, err
	}
	p.fill(v, out)
	return &shown{Title: cut(t.Name, maxPreview), Template: "table", Data: p, Live: "actor"}, nil
}

// byRowid reports whether the rows are in the order of the rowid.
func (p *gridPage) byRowid() bool { return p.Sort == "" && p.Table.Rowid != "" }

// statement returns the statement for the page behind a place: that is a rowid, or a number of rows in any other order.
func (p *gridPage) statement(after string) (*admin.QueryIn, error) {
	p.rows = max(minRows, min(gridRows, maxCells/max(len(p.Table.Columns), 1)))
	in := &admin.QueryIn{Rows: p.rows + 1, Timeout: gridTime}
	if p.Filter.Column != "" {
		test, err := p.test(in)
		if err != nil {
			return nil, err
		}
		p.where = append(p.where, test)
	}
	direction, beyond := "ASC", ">"
	if p.Desc {
		direction, beyond = "DESC", "<"
	}
	switch {
	case p.byRowid():
		if after != "" {
			n, err := strconv.ParseInt(after, 10, 64)
			if err != nil {
				return nil, badPage
			}
			p.where = append(p.where, fmt.Sprintf("%s %s ?", p.Table.Rowid, beyond))
			in.Args = append(in.Args, json.RawMessage(strconv.FormatInt(n, 10)))
		}
		p.order = append(p.order, p.Table.Rowid+" "+direction)
	case p.Sort != "":
		c, ok := p.Table.has(p.Sort)
		if !ok {
			return nil, &admin.Error{Code: "not_found", Message: "The table has no column " + shownText(p.Sort) + "."}
		}
		p.order = append(p.order, quoted(c.Name)+" "+direction)
		if p.Table.Rowid != "" {
			p.order = append(p.order, p.Table.Rowid+" "+direction)
		}
	default:
		for _, name := range p.Table.Key {
			p.order = append(p.order, quoted(name)+" "+direction)
		}
	}
	if !p.byRowid() && after != "" {
		var err error
		if p.offset, err = strconv.Atoi(after); err != nil || p.offset < 0 || p.offset > maxOffset {
			return nil, badPage
		}
	}
	in.SQL = p.text(p.Table.Columns)
	return in, nil
}

// badPage refuses an after that no page gave out.
var badPage = &admin.Error{Code: "invalid", Message: "There is no such page of the table."}

// inParts is query of a table with many columns that the API doesn't answer whole: it asks for size columns at a time. If the rows change meanwhile,
// those up to the first difference are the page. Without a rowid nothing says which rows of two answers are the same, as they may come in another order
// for other columns: then the page has the first columns alone.
func (p *gridPage) inParts(ctx context.Context, v *visit, in *admin.QueryIn, size int) (all *admin.QueryOut, err error) {
	if p.Table.Rowid == "" {
		p.Table.Columns, p.Table.More = p.Table.Columns[:size], true
	}
	end := time.Now().Add(gridTime * time.Millisecond)
	for columns := range slices.Chunk(p.Table.Columns, size) {
		in.SQL, in.Timeout = p.text(columns), max(int(time.Until(end).Milliseconds()), 1)
		out, err := v.query(ctx, in)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = out
			continue
		}
		n := 0
		for ; n < min(len(all.Rows), len(out.Rows)) && slices.Equal(all.Rows[n][0], out.Rows[n][0]); n++ {
			all.Rows[n] = append(all.Rows[n], out.Rows[n][1:]...)
		}
		all.More = all.More || out.More || n < max(len(all.Rows), len(out.Rows))
		all.Rows = all.Rows[:n]
	}
	return all, nil
}

// text returns the statement. Of each column it returns the type and the size, and the value, of which it reads the beginning if it is long. Of more
// than maxMeasured columns it returns NULL, and the whole value.
func (p *gridPage) text(columns []column) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	if p.Table.Rowid != "" {
		b.WriteString(p.Table.Rowid)
	} else {
		b.WriteString("NULL")
	}
	for _, c := range columns {
		q := quoted(c.Name)
		if len(columns) > maxMeasured {
			b.WriteString(", NULL, " + q)
			continue
		}
		fmt.Fprintf(&b, ", typeof(%[1]s) || ' ' || coalesce(octet_length(%[1]s), 0), CASE WHEN octet_length(%[1]s) > %[3]d THEN NULL WHEN octet_length(%[1]s) > %[2]d THEN substr(%[1]s, 1, %[2]d) ELSE %[1]s END", q, maxCell, maxRead)
	}
	b.WriteString(" FROM " + quoted(p.Table.Name))
	if len(p.where) > 0 {
		b.WriteString(" WHERE " + strings.Join(p.where, " AND "))
	}
	if len(p.order) > 0 {
		b.WriteString(" ORDER BY " + strings.Join(p.order, ", "))
	}
	fmt.Fprintf(&b, " LIMIT %d", p.rows+1)
	if p.offset > 0 {
		fmt.Fprintf(&b, " OFFSET %d", p.offset)
	}
	return b.String()
}

// test returns the filter in SQL, and gives in its argument.
func (p *gridPage) test(in *admin.QueryIn) (string, error) {
	c, ok := p.Table.has(p.Filter.Column)
	if !ok {
		return "", &admin.Error{Code: "not_found", Message: "The table has no column " + shownText(p.Filter.Column) + "."}
	}
	for _, test := range filterTests {
		if test.name != p.Filter.Test {
			continue
		}
		if strings.Contains(test.sql, "?") {
			arg, err := json.Marshal(p.Filter.Value)
			if err != nil {
				return "", err
			}
			kind := strings.ToUpper(c.Type)
			text := strings.Contains(kind, "CHAR") || strings.Contains(kind, "CLOB") || strings.Contains(kind, "TEXT") // https://sqlite.org/datatype3.html#determination_of_column_affinity
			if number := json.RawMessage(p.Filter.Value); !text && test.name != "contains" && isNumber(number) {
				if test.name == "=" && (kind == "" || strings.Contains(kind, "BLOB")) { // where a text of digits stays one
					in.Args = append(in.Args, number, arg)
					return fmt.Sprintf("%s IN (?, ?)", quoted(c.Name)), nil
				}
				arg = number
			}
			in.Args = append(in.Args, arg)
		}
		return fmt.Sprintf(test.sql, quoted(c.Name)), nil
	}
	return "", &admin.Error{Code: "invalid", Message: "There is no test " + shownText(p.Filter.Test) + "."}
}

// isNumber reports whether a text is a number of JSON.
func isNumber(text json.RawMessage) bool {
	var n json.Number
	return len(text) > 0 && text[0] != '"' && json.Unmarshal(text, &n) == nil && n != ""
}

// fill takes the rows that a statement of text returned.
func (p *gridPage) fill(v *visit, out *admin.QueryOut) {
	rows := out.Rows[:min(len(out.Rows), p.rows)]
	for _, row := range rows {
		r := gridRow{}
		if p.Table.Rowid != "" {
			r.Rowid = string(row[0])
		}
		for i, c := range p.Table.Columns {
			kind, length, _ := strings.Cut(stringOf(row[1+2*i]), " ")
			text := stringOf(row[2+2*i])
			n, err := strconv.Atoi(length)
			if err != nil {
				kind, n = kindOf(row[2+2*i]), len(text)
				text = strings.ToValidUTF8(text[:min(len(text), maxCell)], "") // without the beginning of a character
			}
			if n > maxRead {
				text = "" // the API reads none of it
			}
			x := cell{Column: c.Name, Type: kind, Text: strings.ReplaceAll(shownText(text), "\n", "⏎")}
			if n > maxCell && (kind == "text" || kind == "blob") {
				x.Size = size(n)
			}
			r.Cells = append(r.Cells, x)
		}
		p.Rows = append(p.Rows, r)
	}
	if len(rows) == 0 || !out.More && len(out.Rows) == len(rows) { // More: wide rows have more bytes than an answer may
		return
	}
	if p.byRowid() {
		p.Next = v.next(string(rows[len(rows)-1][0]))
		return
	}
	p.Next = v.next(strconv.Itoa(p.offset + len(rows)))
}

// kindOf is the type of a value that the API has answered. A blob and a text that is a literal of one look alike there.
func kindOf(value json.RawMessage) string {
	text := string(value)
	switch {
	case text == "null":
		return "null"
	case strings.HasPrefix(text, `"X'`) && strings.HasSuffix(text, `'"`):
		return "blob"
	case strings.HasPrefix(text, `"`):
		return "text"
	case strings.ContainsAny(text, ".e"):
		return "real"
	}
	return "integer"
}

// SortBy returns the URL of the same rows in the order of a column, "" for the rowid: of the other direction if they are in that order.
func (p *gridPage) SortBy(name string) string {
	params := url.Values{}
	if name != "" {
		params.Set("sort", name)
	}
	if p.Sort == name && !p.Desc {
		params.Set("desc", "true")
	}
	if p.Filter.Column != "" {
		params.Set("column", p.Filter.Column)
		params.Set("test", p.Filter.Test)
		params.Set("value", p.Filter.Value)
	}
	return "?" + params.Encode()
}

// Sorted is what the heading of a column says of the order of the rows, in the words of aria-sort.
func (p *gridPage) Sorted(name string) string {
	switch {
	case p.Sort != name:
		return "none"
	case p.Desc:
		return "descending"
	}
	return "ascending"
}
