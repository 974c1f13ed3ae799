package inspector

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// Kinds of values, as typeof of SQLite names them.
var kinds = []string{"text", "integer", "real", "blob", "null"}

// before returns a value of a kind as a form sends it back in one word that no browser changes.
func before(kind, text string) string { return kind + ":" + hex.EncodeToString([]byte(text)) }

// same returns the condition, in SQL, that a column has the value that before has returned as word; "" has it be anything.
func same(column, word string) (string, error) {
	if word == "" {
		return "", nil
	}
	kind, digits, _ := strings.Cut(word, ":")
	text, err := hex.DecodeString(digits)
	if err != nil {
		return "", &admin.Error{Code: "invalid", Message: "The form has no value that was there before."}
	}
	value, err := literal(kind, string(text))
	return fmt.Sprintf(" AND %s IS %s COLLATE BINARY", column, value), err
}

// setCell stores a value in a row of a table, unless the row has another one than the form has seen.
func setCell(ctx context.Context, c *admin.Client, actor string, form url.Values) error {
	value, err := literal(form.Get("kind"), form.Get("value"))
	if err != nil {
		return err
	}
	rowid, err := strconv.ParseInt(form.Get("rowid"), 10, 64)
	key := form.Get("key") // the name by which the rowid is reached
	if err != nil || key != "rowid" && key != "_rowid_" && key != "oid" {
		return &admin.Error{Code: "invalid", Message: "There is no such row."}
	}
	column := quoted(form.Get("column"))
	unchanged, err := same(column, form.Get("before"))
	if err != nil {
		return err
	}
	r := &rows{}
	text := fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s = %d", quoted(form.Get("table")), column, value, key, rowid) + unchanged
	if err := r.run(ctx, c, actor, text); err != nil {
		return err
	}
	if r.changed != 1 {
		return &admin.Error{Code: "conflict", Message: "The row is gone, or its value is another one by now."}
	}
	return nil
}

// literal returns a value in SQL, as a form writes it.
func literal(kind, value string) (string, error) {
	switch kind {
	case "null":
		return "NULL", nil
	case "integer":
		if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
			return strconv.FormatInt(n, 10), nil
		}
	case "real":
		// One that is out of range is an infinity, as in SQLite.
		if f, err := strconv.ParseFloat(strings.TrimSpace(value), 64); (err == nil || errors.Is(err, strconv.ErrRange)) && f == f {
			return string(admin.AppendReal(nil, f)), nil
		}
	case "text": // in which anything may be, a NUL too
		return "CAST(X'" + hex.EncodeToString([]byte(strings.ReplaceAll(value, "\r\n", "\n"))) + "' AS TEXT)", nil
	case "blob":
		digits := strings.TrimSuffix(strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(value)), "X'"), "'")
		if _, err := hex.DecodeString(digits); err == nil {
			return "X'" + digits + "'", nil
		}
	}
	return "", &admin.Error{Code: "invalid", Message: "The value is not one of type " + shownText(kind) + "."}
}

// rows are what statements return. They are a sqlrun.Sink.
type rows struct {
	out     admin.QueryOut
	bytes   int
	changed int64
	writes  bool // a statement has said how many rows it changed
}

// maxRows and maxBytes bound what is kept.
const (
	maxRows  = 1000
	maxBytes = 4 << 20
)

// run runs statements, each in a transaction of its own, on the database of an actor.
func (r *rows) run(ctx context.Context, c *admin.Client, actor, text string) error {
	s, err := c.SQL(ctx, actor, false)
	if err != nil {
		return err
	}
	_, err = s.Run(ctx, text, r)
	if e := (*admin.Error)(nil); errors.As(err, &e) && e.Code == "failed" { // what SQLite says of the statement
		err = &admin.Error{Code: "invalid", Message: e.Message}
	}
	return errors.Join(err, s.Close())
}

// Begin implements sqlrun.Sink. The rows of the last statement are kept.
func (r *rows) Begin(columns []string) {
	r.out, r.bytes = admin.QueryOut{Columns: columns}, 0
}

// Row implements sqlrun.Sink. A statement goes on beyond the bounds: an INSERT with a RETURNING that was interrupted would be rolled back.
func (r *rows) Row(cells []sqlrun.Cell) {
	if len(r.out.Rows) == maxRows || r.bytes > maxBytes {
		r.out.More = true
		return
	}
	row := make([]json.RawMessage, len(cells))
	for i, c := range cells {
		r.bytes += len(c.Text)
		row[i] = admin.CellJSON(c)
	}
	r.out.Rows = append(r.out.Rows, row)
}

// End implements sqlrun.Sink.
func (r *rows) End() {}

// Changed implements sqlrun.Sink.
func (r *rows) Changed(n int64) { r.changed, r.writes = r.changed+n, true }

// Flush implements sqlrun.Sink.
func (r *rows) Flush() error { return nil }
