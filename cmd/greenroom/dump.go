package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/internal/visible"
)

// A dumper writes the SQL that makes a database as it is, for this program and for sqlite3.
//
// As in what sqlite3 writes, a virtual table is a row of the schema, and what it has is in its shadow tables: so none of its code
// runs while they are written. The order of rows is theirs; rowids that nothing else would give are written, too.
type dumper struct {
	*session
	like string // selects tables by their names
}

// A dumped is a table that is written.
type dumped struct {
	name, sql string
	rowids    bool // that may differ from the order of the rows
}

// dump writes everything, or the tables of a name and what belongs to them.
func dump(sh *shell, ctx context.Context, pattern string) (err error) {
	d := &dumper{session: sh.session, like: quoteText(cmp.Or(pattern, "%"))}
	if !d.InTransaction() { // all of it is of one state
		if err := d.query(ctx, "BEGIN", nil); err != nil {
			return err
		}
		defer func() {
			if d.InTransaction() {
				err = errors.Join(err, d.Rollback())
			}
		}()
	}
	tables, err := d.tables(ctx)
	if err == nil && len(tables) == 0 && pattern != "" {
		err = fmt.Errorf("no such table: %s", pattern)
	}
	if err == nil {
		err = d.all(ctx, tables, pattern == "")
	}
	return errors.Join(err, d.out.Flush())
}

// tables returns the tables that are written. A virtual one has its shadow tables with it.
func (d *dumper) tables(ctx context.Context) (tables []dumped, err error) {
	err = d.query(ctx, `WITH virtual(name) AS (SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%' AND name LIKE `+d.like+`)
		SELECT s.name, s.sql, l.type = 'table' AND NOT l.wr FROM sqlite_schema AS s LEFT JOIN pragma_table_list AS l ON l.schema = 'main' AND l.name = s.name
		WHERE s.type = 'table' AND (s.name LIKE `+d.like+` OR s.name = 'sqlite_sequence' OR
			l.type = 'shadow' AND EXISTS (SELECT 1 FROM virtual AS v WHERE substr(s.name, 1, length(v.name) + 1) = v.name || '_'))
		ORDER BY s.name = 'sqlite_sequence', s.rowid`, func(row []sqlrun.Cell) {
		tables = append(tables, dumped{string(row[0].Text), string(row[1].Text), string(row[2].Text) == "1"})
	})
	if len(tables) == 1 && tables[0].name == "sqlite_sequence" {
		tables = nil
	}
	return tables, err
}

// all writes tables, and what belongs to them; and what the database says of itself, if whole.
func (d *dumper) all(ctx context.Context, tables []dumped, whole bool) error {
	fmt.Fprint(d.out, "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")
	isVirtual := func(t dumped) bool { return strings.HasPrefix(t.sql, "CREATE VIRTUAL TABLE") }
	virtual := slices.ContainsFunc(tables, isVirtual)
	if virtual {
		fmt.Fprintln(d.out, "PRAGMA writable_schema=ON;")
	}
	for _, t := range tables {
		var err error
		switch {
		case t.name == "sqlite_sequence":
			err = d.sequence(ctx, whole)
		case t.name == "sqlite_stat1":
			fmt.Fprintln(d.out, "ANALYZE sqlite_schema;")
			err = d.values(ctx, t, "")
		case strings.HasPrefix(t.name, "sqlite_"): // of SQLite's own, which it makes
		case isVirtual(t):
			name, sql := textLiteral(t.name), textLiteral(t.sql)
			fmt.Fprintf(d.out, "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table',%s,%s,0,%s);\n", name, name, sql)
		default:
			d.statement(t.sql)
			err = d.values(ctx, t, "")
		}
		if err != nil {
			return err
		}
	}
	err := d.query(ctx, `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND type <> 'table' AND tbl_name LIKE `+d.like+`
		ORDER BY type = 'trigger', type = 'view', rowid`, func(row []sqlrun.Cell) { d.statement(string(row[0].Text)) })
	for _, pragma := range []string{"user_version", "application_id"} {
		if err == nil && whole {
			err = d.query(ctx, "PRAGMA "+pragma, func(row []sqlrun.Cell) {
				if n := string(row[0].Text); n != "0" {
					fmt.Fprintf(d.out, "PRAGMA %s=%s;\n", pragma, n)
				}
			})
		}
	}
	if err != nil {
		return err
	}
	if virtual {
		fmt.Fprintln(d.out, "PRAGMA writable_schema=RESET;")
	}
	fmt.Fprintln(d.out, "COMMIT;")
	return nil
}

// sequence writes the last keys of tables with AUTOINCREMENT.
func (d *dumper) sequence(ctx context.Context, whole bool) error {
	t := dumped{name: "sqlite_sequence"}
	if whole {
		fmt.Fprintln(d.out, "DELETE FROM sqlite_sequence;")
		return d.values(ctx, t, "")
	}
	where := " WHERE name LIKE " + d.like
	var names []string
	err := d.query(ctx, "SELECT name FROM sqlite_sequence"+where, func(row []sqlrun.Cell) { names = append(names, literal(&row[0])) })
	if err != nil || len(names) == 0 {
		return err
	}
	fmt.Fprintf(d.out, "DELETE FROM sqlite_sequence WHERE name IN (%s);\n", strings.Join(names, ","))
	return d.values(ctx, t, where)
}

// statement writes one that the schema has. It may end with a comment.
func (d *dumper) statement(sql string) {
	s := newSplitter()
	s.add(sql + ";")
	if _, ok := s.next(); !ok {
		sql += "\n"
	}
	if d.layout.tty {
		sql = visibleText(sql)
	}
	fmt.Fprintln(d.out, sql+";")
}

// values writes the rows of a table, or those of a clause.
func (d *dumper) values(ctx context.Context, t dumped, where string) error {
	columns, err := d.columns(ctx, &t)
	if err != nil {
		return err
	}
	into := "INSERT INTO " + quoteName(t.name)
	if t.rowids {
		into += "(" + quoteNames(columns) + ")"
	}
	return d.query(ctx, "SELECT "+quoteNames(columns)+" FROM "+quoteName(t.name)+where, func(row []sqlrun.Cell) {
		d.out.WriteString(into + " VALUES(")
		for i := range row {
			if i > 0 {
				d.out.WriteByte(',')
			}
			d.out.WriteString(literal(&row[i]))
		}
		d.out.WriteString(");\n")
	})
}

// columns returns those that a row is made of, the first of which is the rowid if t.rowids stays.
func (d *dumper) columns(ctx context.Context, t *dumped) (columns []string, err error) {
	free := []string{"rowid", "_rowid_", "oid"}
	keys, alias := 0, false
	err = d.query(ctx, "SELECT name, hidden, pk, upper(type) = 'INTEGER' FROM pragma_table_xinfo("+quoteText(t.name)+")", func(row []sqlrun.Cell) {
		name := string(row[0].Text)
		free = slices.DeleteFunc(free, func(f string) bool { return strings.EqualFold(f, name) })
		if string(row[1].Text) == "0" { // not a generated one
			columns = append(columns, name)
		}
		if string(row[2].Text) != "0" {
			keys++
			alias = string(row[3].Text) == "1"
		}
	})
	if t.rowids = t.rowids && len(free) > 0 && !(keys == 1 && alias); err != nil || !t.rowids {
		return columns, err
	}
	err = d.query(ctx, fmt.Sprintf("SELECT min(%s) <> 1 OR max(%[1]s) <> count(*) FROM %s", free[0], quoteName(t.name)), func(row []sqlrun.Cell) {
		t.rowids = string(row[0].Text) == "1"
	})
	if t.rowids {
		columns = append(free[:1:1], columns...)
	}
	return columns, err
}

// literal returns a value as SQL has it.
func literal(c *sqlrun.Cell) string {
	switch c.Kind {
	case sqlrun.Null:
		return "NULL"
	case sqlrun.Real:
		return string(admin.AppendReal(nil, c.Real))
	case sqlrun.Blob:
		return string(appendBlob(nil, c.Text))
	case sqlrun.Text:
		return textLiteral(string(c.Text))
	}
	return string(c.Text)
}

// textLiteral returns any text as SQL has it: as the cast of a blob, if it has NUL, or what doesn't print.
func textLiteral(text string) string {
	if visible.Text(text, "\n\t") != text {
		return "CAST(" + string(appendBlob(nil, []byte(text))) + " AS TEXT)"
	}
	return quoteText(text)
}
