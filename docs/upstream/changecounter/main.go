// Command changecounter shows that two connections of go-sqlite3 disagree about a
// database whose VFS has batch-atomic writes: the one that reads keeps a stale
// cache, because SQLite doesn't move the file's change counter.
//
// It exits with status 1 if they disagree. With -plain the same VFS declares no
// batch-atomic writes, and they agree.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

func main() {
	plain := flag.Bool("plain", false, "declare no batch-atomic writes")
	flag.Parse()
	sqlitevfs.Register("shown", &memory{files: map[string]*file{}, plain: *plain})
	agree, err := show()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case !agree:
		fmt.Println("the second connection reads what is no longer there")
		os.Exit(1)
	}
	fmt.Println("both connections agree")
}

// setup makes a table whose rows are on a page of their own, so that an update
// changes no page that others look at.
const setup = `
	CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);
	INSERT INTO t VALUES (1, 'old');`

// show lets one connection update a row that another one has read.
func show() (agree bool, err error) {
	writer, err := sqlite3.Open("file:test.db?vfs=shown")
	if err != nil {
		return false, err
	}
	defer writer.Close()
	if err := writer.Exec(setup); err != nil {
		return false, err
	}
	reader, err := sqlite3.Open("file:test.db?vfs=shown")
	if err != nil {
		return false, err
	}
	defer reader.Close()

	const query = "SELECT v, (SELECT data_version FROM pragma_data_version) FROM t"
	if err := report("reader, before", reader, query); err != nil {
		return false, err
	}
	if err := writer.Exec("UPDATE t SET v = 'new' WHERE id = 1"); err != nil {
		return false, err
	}
	if err := report("writer, after ", writer, query); err != nil {
		return false, err
	}
	if err := report("reader, after ", reader, query); err != nil {
		return false, err
	}
	v, _, err := row(reader, query)
	return v == "new", err
}

// report prints what a connection sees.
func report(who string, c *sqlite3.Conn, query string) error {
	v, version, err := row(c, query)
	if err == nil {
		fmt.Printf("%s: v = %s, data_version = %d\n", who, v, version)
	}
	return err
}

// row returns the one row of a query.
func row(c *sqlite3.Conn, query string) (v string, version int64, err error) {
	s, _, err := c.Prepare(query)
	if err != nil {
		return "", 0, err
	}
	defer s.Close()
	if !s.Step() {
		return "", 0, fmt.Errorf("no row: %w", s.Err())
	}
	return s.ColumnText(0), s.ColumnInt64(1), nil
}
