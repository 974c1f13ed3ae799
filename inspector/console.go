package inspector

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/admin"
)

// A consolePage is an SQL console, with what it ran last.
type consolePage struct {
	SQL     string
	Form    string // table, json or csv
	Names   []string
	Columns []string
	Rows    [][]string
	Text    string // the rows in JSON or in CSV
	Plan    []planRow
	More    bool
	Ran     bool
	Changed string // how many rows were changed; "" if none could be
	Failed  string
}

// A planRow is a line of a query plan.
type planRow struct {
	Indent int
	Detail string
}

// writeTime bounds how long a statement of the console may keep the actor from writing. Tests
// shorten it.
var writeTime = 5 * time.Second

// maxNames bounds the names of tables and columns that the console completes.
const maxNames = 1000

// showConsole shows an empty console.
func showConsole(ctx context.Context, v *visit) (*shown, error) {
	p := &consolePage{SQL: v.param("sql"), Form: "table"}
	return p.shown(ctx, v)
}

// runConsole runs a statement that only reads, or statements that may write.
func runConsole(ctx context.Context, v *visit) (*shown, error) {
	if err := v.r.ParseForm(); err != nil {
		return nil, unread(err)
	}
	p := &consolePage{SQL: v.r.PostFormValue("sql"), Form: v.r.PostFormValue("form"), Ran: true}
	in := &admin.QueryIn{SQL: p.SQL, Rows: 1000}
	explain := v.r.PostFormValue("do") == "explain"
	if explain {
		in.SQL = "EXPLAIN QUERY PLAN " + p.SQL
	}
	var out *admin.QueryOut
	var err error
	if v.r.PostFormValue("do") == "write" {
		out, err = p.write(ctx, v)
	} else {
		out, err = v.query(ctx, in)
	}
	if e := (*admin.Error)(nil); errors.As(err, &e) && (e.Code == "invalid" || e.Code == "timeout" || e.Code == "too_large" || e.Code == "not_found") {
		p.Failed = e.Message
		return p.shown(ctx, v)
	}
	if err != nil {
		return nil, err
	}
	p.More, p.Columns = out.More, out.Columns
	switch {
	case explain:
		p.Plan = planOf(out.Rows)
	case p.Form == "json":
		p.Text, p.More = asJSON(out)
	case p.Form == "csv":
		p.Text = asCSV(out)
	default:
		p.Form = "table"
		for _, row := range out.Rows {
			cells := make([]string, len(row))
			for i, value := range row {
				cells[i] = cut(stringOf(value), maxPreview)
			}
			p.Rows = append(p.Rows, cells)
		}
	}
	return p.shown(ctx, v)
}

// write runs statements that may write.
func (p *consolePage) write(ctx context.Context, v *visit) (*admin.QueryOut, error) {
	if !v.mayWrite() {
		return nil, &admin.Error{Code: "forbidden", Message: "Your token may only read."}
	}
	r := &rows{}
	bounded, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	err := r.run(bounded, v.client, "id:"+v.actor.ID, p.SQL)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = &admin.Error{Code: "timeout", Message: "The statement was given up after " + duration(writeTime) + ". It is rolled back, unless it was just ending."}
	}
	if err == nil && r.writes {
		p.Changed = grouped(r.changed)
	}
	return &r.out, err
}

// nameQueries find the names that the console completes, the first that can be run: SQLite doesn't tell the columns of any table beside a view of a table that is
// gone, or a virtual one whose module isn't there.
var nameQueries = []string{
	`SELECT name FROM pragma_table_list WHERE "schema" = 'main' UNION
		SELECT c.name FROM pragma_table_list AS t, pragma_table_info(t.name) AS c WHERE t."schema" = 'main' ORDER BY 1`,
	`SELECT name FROM pragma_table_list WHERE "schema" = 'main' UNION
		SELECT c.name FROM pragma_table_list AS t, pragma_table_info(t.name) AS c WHERE t."schema" = 'main' AND t."type" = 'table' ORDER BY 1`,
	`SELECT name FROM pragma_table_list WHERE "schema" = 'main' ORDER BY 1`,
}

// shown returns the console, with the names that it completes.
func (p *consolePage) shown(ctx context.Context, v *visit) (*shown, error) {
	var names *admin.QueryOut
	var err error
	for _, text := range nameQueries {
		names, err = v.query(ctx, &admin.QueryIn{Rows: maxNames, Timeout: gridTime, SQL: text})
		if e := (*admin.Error)(nil); !errors.As(err, &e) || e.Code != "invalid" && e.Code != "timeout" && e.Code != "too_large" {
			break
		}
	}
	if e := (*admin.Error)(nil); missing(err) || errors.As(err, &e) && e.Code == "too_large" { // no database, or names that are too long to be completed
		names, err = &admin.QueryOut{}, nil
	}
	if err != nil {
		return nil, err
	}
	for _, row := range names.Rows {
		if name := stringOf(row[0]); linked(name) {
			p.Names = append(p.Names, name)
		}
	}
	return &shown{Title: "SQL", Template: "console", Data: p}, nil
}

// planOf returns a query plan as a tree: https://sqlite.org/eqp.html.
func planOf(rows [][]json.RawMessage) (plan []planRow) {
	depth := map[int64]int{0: -1}
	for _, row := range rows {
		id, parent := intOf(row[0]), intOf(row[1])
		depth[id] = depth[parent] + 1
		plan = append(plan, planRow{min(depth[id], maxIndent), shownText(stringOf(row[3]))})
	}
	return plan
}

// asJSON returns rows as an array of objects, or of arrays if two columns have one name, and whether there are more: each row has the names of the columns.
func asJSON(out *admin.QueryOut) (text string, more bool) {
	unique := map[string]bool{}
	for _, c := range out.Columns {
		unique[c] = true
	}
	var b bytes.Buffer
	b.WriteString("[")
	more = out.More
	for i, row := range out.Rows {
		if b.Len() > maxBytes {
			more = true
			break
		}
		var v any = row
		if len(unique) == len(out.Columns) {
			fields := map[string]json.RawMessage{}
			for j, c := range out.Columns {
				fields[c] = row[j]
			}
			v = fields
		}
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte("null") // an infinity, which JSON has no number for
		}
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n  ")
		b.Write(text)
	}
	b.WriteString("\n]\n")
	return shownText(b.String()), more
}

// asCSV returns rows in CSV, with a line of the names of the columns.
func asCSV(out *admin.QueryOut) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	lines := [][]string{out.Columns}
	for _, row := range out.Rows {
		line := make([]string, len(row))
		for i, value := range row {
			if string(value) != "null" {
				line[i] = stringOf(value)
			}
		}
		lines = append(lines, line)
	}
	if err := w.WriteAll(lines); err != nil {
		return err.Error() // a strings.Builder takes all
	}
	return shownText(b.String())
}
