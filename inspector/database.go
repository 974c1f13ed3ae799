package inspector

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/admin"
)

// gridTime is how long a query of the page may take, in milliseconds.
const gridTime = 2000

// tablesPage is what a database has.
type tablesPage struct {
	Tables []admin.SchemaTable // and views
	Others []admin.SchemaTable // indices and triggers
	More   bool
}

// listTables shows the tables of the database of an actor.
func listTables(ctx context.Context, v *visit) (*shown, error) {
	schema, err := get[admin.Schema](ctx, v, "/schema", nil)
	if missing(err) {
		schema, err = &admin.Schema{}, nil
	}
	if err != nil {
		return nil, err
	}
	p := &tablesPage{More: schema.More}
	for _, t := range schema.Tables {
		if t.Type == "table" || t.Type == "view" {
			p.Tables = append(p.Tables, t)
		} else {
			p.Others = append(p.Others, t)
		}
	}
	return &shown{Title: "Tables", Template: "tables", Data: p, Live: "actor"}, nil
}

// A table is what SQLite says of a table or a view.
type table struct {
	Name    string
	Kind    string // table, view, virtual or shadow
	Columns []column
	Key     []string // of the primary key, in its order
	Rowid   string   // the name by which the rowid is reached; "" if it has none
	More    bool     // it has other columns than Columns
}

// A column is one of a table.
type column struct {
	Name, Type string
	Hidden     int // 0 for an ordinary one, 2 and 3 for a generated one
	Key        int // its place in the primary key, from 1; 0 for none
}

const (
	// maxColumns bounds the columns of a table that are shown: a page asks for two values of each, and a statement returns up to 2000.
	maxColumns = 900
	// maxColumnNames bounds the names of the columns together, in bytes: each is in the statement, up to seven times, and in the links of the page.
	maxColumnNames = 100_000
)

// pathTable returns what SQLite says of the table that the path names.
func pathTable(ctx context.Context, v *visit) (*table, error) {
	t := &table{Name: nameIn(v.r.PathValue("table"))}
	if !linked(t.Name) {
		return nil, &admin.Error{Code: "too_large", Message: "The name of the table is too long for this page. The SQL console reads it."}
	}
	name, err := json.Marshal(t.Name)
	if err != nil {
		return nil, err
	}
	list, err := v.query(ctx, &admin.QueryIn{SQL: `SELECT "type", wr FROM pragma_table_list WHERE "schema" = 'main' AND name = ?`, Args: []json.RawMessage{name}})
	if err != nil {
		return nil, err
	}
	if len(list.Rows) == 0 {
		return nil, &admin.Error{Code: "not_found", Message: "The database has no table " + shownText(t.Name) + "."}
	}
	t.Kind = stringOf(list.Rows[0][0])
	columns, err := v.query(ctx, &admin.QueryIn{SQL: `SELECT name, "type", hidden, pk FROM pragma_table_xinfo(?) ORDER BY cid`, Args: []json.RawMessage{name}, Rows: 1000})
	if err != nil {
		return nil, err
	}
	taken, names := map[string]bool{}, 0
	for _, row := range columns.Rows {
		c := column{Name: stringOf(row[0]), Type: stringOf(row[1]), Hidden: int(intOf(row[2])), Key: int(intOf(row[3]))}
		if names += len(c.Name); !linked(c.Name) || names > maxColumnNames {
			t.More = true
		} else if c.Hidden != 1 { // of a virtual table
			t.Columns = append(t.Columns, c)
		}
		taken[strings.ToLower(c.Name)] = true
	}
	byPlace := slices.SortedStableFunc(slices.Values(t.Columns), func(a, b column) int { return cmp.Compare(a.Key, b.Key) })
	for _, c := range byPlace {
		if c.Key > 0 {
			t.Key = append(t.Key, c.Name)
		}
	}
	if len(t.Columns) > maxColumns {
		t.Columns, t.More = t.Columns[:maxColumns], true
	}
	if t.Kind != "view" && intOf(list.Rows[0][1]) == 0 {
		for _, name := range []string{"rowid", "_rowid_", "oid"} { // https://sqlite.org/lang_createtable.html#rowid
			if !taken[name] {
				t.Rowid = name
				break
			}
		}
	}
	return t, nil
}

// has returns the column of a name.
func (t *table) has(name string) (column, bool) {
	for _, c := range t.Columns {
		if c.Name == name {
			return c, true
		}
	}
	return column{}, false
}

// maxRead is how large a value may be, in bytes, for the API to read any of it.
const maxRead = 4 << 20

// A cellPage is one value of a table.
type cellPage struct {
	Table, Column, Rowid string
	Key                  string // the name by which the rowid is reached
	Kinds                []string
	Editable             bool // the form has all of the value
	Type                 string
	Size                 int64
	Value                string
	Text                 string // of the form
	Before               string // the value as the form sends it back, see before
	Cut, Huge            bool   // Value is the beginning, or nothing
}

// showCell shows one value as a whole, up to a bound.
func showCell(ctx context.Context, v *visit) (*shown, error) {
	t, err := pathTable(ctx, v)
	if err != nil {
		return nil, err
	}
	c, ok := t.has(v.param("column"))
	rowid, perr := strconv.ParseInt(v.param("rowid"), 10, 64)
	if !ok || t.Rowid == "" || perr != nil {
		return nil, &admin.Error{Code: "not_found", Message: "The table has no such value."}
	}
	q := quoted(c.Name)
	out, err := v.query(ctx, &admin.QueryIn{
		SQL:  fmt.Sprintf("SELECT typeof(%[1]s), octet_length(%[1]s), CASE WHEN octet_length(%[1]s) > %[5]d THEN NULL WHEN octet_length(%[1]s) > %[2]d THEN substr(%[1]s, 1, %[2]d) ELSE %[1]s END FROM %[3]s WHERE %[4]s = ?", q, maxWhole, quoted(t.Name), t.Rowid, maxRead),
		Args: []json.RawMessage{json.RawMessage(strconv.FormatInt(rowid, 10))}, Timeout: gridTime,
	})
	if err != nil {
		return nil, err
	}
	if len(out.Rows) == 0 {
		return nil, &admin.Error{Code: "not_found", Message: "The row is gone."}
	}
	row := out.Rows[0]
	p := &cellPage{Table: t.Name, Column: c.Name, Rowid: v.param("rowid"), Type: stringOf(row[0]), Size: intOf(row[1]), Key: t.Rowid, Kinds: kinds}
	text := stringOf(row[2])
	if p.Value, p.Cut = shownText(text), p.Size > maxWhole; p.Size > maxRead {
		p.Value, p.Cut, p.Huge = "", false, true
	}
	// What a form can't hold would be lost, and what the API has replaced, which isn't UTF-8.
	p.Editable = v.mayWrite() && !p.Cut && !p.Huge && c.Hidden == 0 && t.Kind == "table" && !strings.ContainsAny(text, "\x00\r") &&
		(p.Type != "text" || int64(len(text)) == p.Size)
	if p.Text = text; p.Editable {
		p.Before = before(p.Type, text)
	}
	return &shown{Title: "Value", Template: "cell", Data: p}, nil
}
