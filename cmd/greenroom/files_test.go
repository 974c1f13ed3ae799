package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/vfs"
)

// chinook returns the path of the Chinook sample database, which isn't part of
// the project: the test is skipped where it isn't beside the checkout.
func chinook(t *testing.T) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "data", "chinook.sqlite")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the Chinook database is not there: %v", err)
	}
	return path
}

func TestChinook(t *testing.T) {
	original := chinook(t)
	dir := t.TempDir()
	store, exported := filepath.Join(dir, "data"), filepath.Join(dir, "out.db")

	must(t, "import", store, "music", original)
	if got := must(t, "sql", store, "music", "select count(*) from Track"); got != "3503\n" {
		t.Errorf("%q tracks", got)
	}
	must(t, "export", store, "music", exported)

	if got := contents(t, exported, "PRAGMA integrity_check"); got != "ok\n" {
		t.Errorf("integrity_check: %s", got)
	}
	tables := strings.Fields(contents(t, original, "SELECT name FROM sqlite_schema WHERE type = 'table'"))
	if len(tables) < 11 {
		t.Fatalf("only the tables %q", tables)
	}
	for _, query := range append(tables, "sqlite_schema") {
		query = fmt.Sprintf("SELECT rowid, * FROM %q", query)
		if got, want := contents(t, exported, query), contents(t, original, query); got != want {
			t.Errorf("%s: %d bytes differ from the original's %d", query, len(got), len(want))
		}
	}

	t.Run("dump", func(t *testing.T) {
		sqlite, err := exec.LookPath("sqlite3")
		if err != nil {
			t.Skip("there is no sqlite3 program")
		}
		dump := func(file string) string {
			out, err := exec.Command(sqlite, "-readonly", file, ".dump").Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		got, want := dump(exported), dump(original)
		if got != want || len(want) < 100_000 {
			t.Errorf("a dump of %d bytes differs from the original's %d", len(got), len(want))
		}
	})

	t.Run("dump in", func(t *testing.T) {
		script := strings.TrimSuffix(original, "ite") // chinook.sql
		text, err := os.ReadFile(script)
		if err != nil {
			t.Skip(err)
		}
		r := program(t.Context(), bytes.NewReader(text), "sql", store, "again")
		if r.code != serving.ExitOK {
			t.Fatal(r.stderr)
		}
		for _, table := range tables {
			query := fmt.Sprintf("SELECT * FROM %q", table)
			if got, want := must(t, "sql", store, "again", query), contents(t, original, query); got != want {
				t.Errorf("%s: %d bytes differ from the original's %d", query, len(got), len(want))
			}
		}
	})
}

// contents runs a query on a file.
func contents(t *testing.T, file, query string) string {
	t.Helper()
	c, err := sqlite3.OpenFlags(file, sqlite3.OPEN_READONLY)
	if err != nil {
		t.Fatal(err)
	}
	return rows(t, c, query)
}

// rows runs a query on a connection and closes that.
func rows(t *testing.T, c *sqlite3.Conn, query string) string {
	t.Helper()
	var out strings.Builder
	s := &session{executor: solo(t, c), out: bufio.NewWriter(&out), layout: newLayout(modeList)}
	_, err := s.run(t.Context(), piece{text: query, line: 1})
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out.String()
}

// An alone is a connection that is of no pool, and its own pool.
type alone struct{ *sqlite3.Conn }

// solo returns a session on a connection, which stays its opener's.
func solo(t *testing.T, c *sqlite3.Conn) *sqlrun.Session {
	t.Helper()
	s, err := sqlrun.Open(t.Context(), sql.OpenDB(alone{c}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (a alone) Connect(context.Context) (driver.Conn, error) { return a, nil }
func (alone) Driver() driver.Driver                          { return nil }
func (alone) Prepare(string) (driver.Stmt, error)            { return nil, errors.ErrUnsupported }
func (alone) Begin() (driver.Tx, error)                      { return nil, errors.ErrUnsupported }
func (alone) Close() error                                   { return nil }

func (a alone) Raw() *sqlite3.Conn { return a.Conn }
func (alone) Cause() error         { return nil }
func (alone) DSN() string          { return "" }
func (alone) Lose(p any) error     { panic(p) }

// filled makes an SQLite file with n rows of 100 bytes, and returns the
// connection to it.
func filled(t *testing.T, file string, n int, pragmas ...string) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pragmas {
		if err := c.Exec("PRAGMA " + p); err != nil {
			t.Fatal(err)
		}
	}
	err = c.Exec(fmt.Sprintf(`CREATE TABLE t(a INTEGER PRIMARY KEY, b);
		WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT %d)
		INSERT INTO t SELECT x, hex(zeroblob(50)) FROM c`, n))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestImportModes imports files of every page size and journal mode over each
// other. The one in WAL mode is open, and what is new in it is in its log.
func TestImportModes(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "data")
	for i, pragma := range []string{
		"page_size=4096", "page_size=512", "page_size=65536", "page_size=1024",
		"journal_mode=WAL", "journal_mode=PERSIST", "auto_vacuum=FULL", "encoding='UTF-16le'",
	} {
		n := 1000 + i
		file := filepath.Join(dir, fmt.Sprintf("%d.db", i))
		c := filled(t, file, n, pragma)
		if pragma == "journal_mode=WAL" {
			if info, err := os.Stat(file + "-wal"); err != nil || info.Size() == 0 {
				t.Errorf("nothing is in the log (%v): this tests nothing", err)
			}
		}
		must(t, "import", store, "music", file)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		got := must(t, "sql", store, "music", "PRAGMA journal_mode; SELECT count(*), sum(length(b)) FROM t; PRAGMA integrity_check")
		if want := fmt.Sprintf("delete\n%d|%d\nok\n", n, n*100); got != want {
			t.Errorf("%s: %q, want %q", pragma, got, want)
		}
		name, value, _ := strings.Cut(pragma, "=")
		if name != "journal_mode" {
			got, want := must(t, "sql", store, "music", "PRAGMA "+name), contents(t, file, "PRAGMA "+name)
			if got != want {
				t.Errorf("%s: the import has %q, want %q (%s)", name, got, want, value)
			}
		}
		out := filepath.Join(dir, "out.db")
		must(t, "export", "--force", store, "music", out)
		if got := contents(t, out, "SELECT count(*) FROM t; PRAGMA integrity_check"); got != fmt.Sprintf("%d\nok\n", n) {
			t.Errorf("%s: the export has %q", pragma, got)
		}
	}
}

func TestImportRefuses(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "data")
	must(t, "sql", store, "music", "create table t(a); insert into t values ('old')")

	whole := filepath.Join(dir, "whole.db")
	if err := filled(t, whole, 1000).Close(); err != nil {
		t.Fatal(err)
	}
	bytes, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct{ name, file, want string }{
		{"missing", filepath.Join(dir, "missing.db"), "there is no file"},
		{"empty", write("empty.db", nil), "empty.db is empty"},
		{"text", write("text.db", []byte(strings.Repeat("not a database ", 100))), "is not an SQLite database"},
		{"short text", write("short.db", []byte("hello")), "is not an SQLite database"},
		{"cut short", write("short2.db", bytes[:len(bytes)/2]), "is damaged"},
		{"a folder", dir, "is a folder, not an SQLite database"},
	}
	for _, test := range tests {
		r := program(t.Context(), strings.NewReader(""), "import", store, "music", test.file)
		if r.code != serving.ExitFailed || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%s: status %d, %q, want %q", test.name, r.code, r.stderr, test.want)
		}
		if got := must(t, "sql", store, "music", "select * from t"); got != "old\n" {
			t.Fatalf("%s: the old database is gone: %q", test.name, got)
		}
	}
}

// damage overwrites n pages of a database file behind those of a small schema,
// without which it could not even be opened, and says which, so that a failure can be repeated.
func damage(t *testing.T, file string, n int) {
	t.Helper()
	const pageSize = 1024 // or a part of a page
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{})
	for range n {
		page := 32 + int(random.Uint64()%uint64(len(data)/pageSize-32))
		if _, err := random.Read(data[page*pageSize:][:pageSize]); err != nil {
			t.Fatal(err)
		}
		t.Logf("damaged: %s, from byte %d", filepath.Base(file), page*pageSize)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestImportDamaged offers damaged databases: a good one must survive them.
func TestImportDamaged(t *testing.T) {
	for _, source := range []string{"made", "made with a log", "Chinook"} {
		t.Run(source, func(t *testing.T) {
			dir := t.TempDir()
			store, file := filepath.Join(dir, "data"), filepath.Join(dir, "source.db")
			switch source {
			case "Chinook":
				data, err := os.ReadFile(chinook(t))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, data, 0o600); err != nil {
					t.Fatal(err)
				}
			default:
				mode := map[bool]string{true: "WAL", false: "DELETE"}[source == "made with a log"]
				if err := filled(t, file, 10_000, "journal_mode="+mode).Close(); err != nil {
					t.Fatal(err)
				}
			}
			must(t, "import", store, "music", file)
			query := "PRAGMA integrity_check; SELECT count(*), total(length(sql)) FROM sqlite_schema; PRAGMA page_count"
			before := must(t, "sql", store, "music", query)
			damage(t, file, 20)

			var stderr, hints strings.Builder
			e := &env{stdout: io.Discard, stderr: &stderr, progress: &hints}
			code := run(t.Context(), e, []string{"import", store, "music", file})
			if want := "greenroom: " + file + " is damaged, so it is not imported: "; code != serving.ExitFailed || !strings.HasPrefix(stderr.String(), want) {
				t.Errorf("status %d, %q, want %q", code, stderr.String(), want)
			}
			if strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("not one line: %q", stderr.String())
			}
			if want := "checking source.db …\r\x1b[K"; hints.String() != want {
				t.Errorf("on the terminal %q, want %q", hints.String(), want)
			}
			if got := must(t, "sql", store, "music", query); got != before || !strings.HasPrefix(got, "ok\n") {
				t.Errorf("the old database is %q, was %q", got, before)
			}
		})
	}
}

// TestImportForeignChecks imports what is sound, but breaks rules of its own.
func TestImportForeignChecks(t *testing.T) {
	dir := t.TempDir()
	store, file := filepath.Join(dir, "data"), filepath.Join(dir, "source.db")
	c := filled(t, file, 10, "ignore_check_constraints=ON")
	err := c.Exec("CREATE TABLE u(a CHECK(a > 5)); INSERT INTO u VALUES (1)")
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	must(t, "import", store, "music", file)
	if got := must(t, "sql", store, "music", "SELECT a FROM u"); got != "1\n" {
		t.Errorf("got %q", got)
	}
}

// An actorDB is an actor's database in a store in memory.
func actorDB(t *testing.T, limits batch.Limits) *vfs.DB {
	t.Helper()
	s, err := storeurl.Open(t.Context(), "mem:", greenroom.Options{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Lower().Named(t.Context(), "music", nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := vfs.Open(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Close(), a.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return db
}

// writerFunc is called with what a progress bar draws.
type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// TestCopyGivesUp ends copies half way: the old database must be there as it was.
func TestCopyGivesUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "big.db")
	src := filled(t, file, 20_000, "page_size=512")
	defer func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}()
	tight := batch.DefaultLimits()
	tight.Storage = 1 << 20
	tests := []struct {
		name   string
		limits batch.Limits
		cancel bool
		want   error
	}{
		{"cancelled", batch.DefaultLimits(), true, context.Canceled},
		{"no room", tight, false, actorstore.ErrQuota},
	}
	for _, test := range tests {
		db := actorDB(t, test.limits)
		if _, err := db.Exec("create table old(a); insert into old values (zeroblob(10000))"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		drawn := 0
		bar := writerFunc(func() {
			if drawn++; test.cancel {
				cancel()
			}
		})
		err := sqlrun.WithCause(copyDatabase(ctx, src, db.DSN(), bar), db.Cause)
		cancel()
		if !errors.Is(err, test.want) || drawn == 0 {
			t.Errorf("%s: %v after %d drawings, want %v", test.name, err, drawn, test.want)
		}
		var size int
		var check string
		row := db.QueryRow("select length(a), (select integrity_check from pragma_integrity_check) from old")
		if err := row.Scan(&size, &check); err != nil || size != 10000 || check != "ok" {
			t.Errorf("%s: the old database: %d, %s, %v", test.name, size, check, err)
		}
	}
}

// TestExportGivesUp ends an export half way: the file that is to be replaced must
// be there as it was, and nothing else.
func TestExportGivesUp(t *testing.T) {
	dir := t.TempDir()
	store, file, out := filepath.Join(dir, "data"), filepath.Join(dir, "big.db"), filepath.Join(dir, "folder", "out.db")
	if err := filled(t, file, 20_000).Close(); err != nil {
		t.Fatal(err)
	}
	must(t, "import", store, "music", file)
	if err := os.Mkdir(filepath.Dir(out), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	var stderr strings.Builder
	e := &env{stdout: io.Discard, stderr: &stderr, progress: writerFunc(func() {
		entries, err := os.ReadDir(filepath.Dir(out))
		if err != nil {
			t.Error(err)
		}
		seen = len(entries)
		cancel()
	})}
	code := run(ctx, e, []string{"export", "--force", store, "music", out})
	if code != serving.ExitFailed || stderr.String() != "greenroom: interrupted\n" {
		t.Errorf("status %d, %q", code, stderr.String())
	}
	if seen != 2 {
		t.Errorf("%d files while it was written, want the old and the new one", seen)
	}
	if got, err := os.ReadFile(out); string(got) != "before" || err != nil {
		t.Errorf("the old file has %d bytes, %v", len(got), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(out)); len(entries) != 1 || err != nil {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestSourceError(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{sqlite3.BUSY, "f.db is locked by another program"},
		{sqlite3.READONLY_ROLLBACK, "f.db has an unfinished transaction"},
		{sqlite3.NOTADB, "f.db is not an SQLite database"},
		{sqlite3.FULL, "import of f.db: database or disk is full"},
		{say(sqlite3.READONLY_ROLLBACK, "f.db is special"), "f.db is special"},
	} {
		err := sourceError("f.db", test.err)
		switch {
		case test.err == nil && err != nil:
			t.Errorf("nothing is wrong with %v", err)
		case test.err != nil && (err == nil || !strings.HasPrefix(err.Error(), test.want) || !errors.Is(err, test.err)):
			t.Errorf("%v is told as %q, want %q", test.err, err, test.want)
		}
	}
}

// TestExportOddNames: what a URI would take for something else.
func TestExportOddNames(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "da?ta #1")
	must(t, "sql", store, "music", "create table t(a); insert into t values (1)")
	for _, name := range []string{"a b.db", "50%.db", "what?.db", "#1.db", "a%20b&c=d.db", "größe.db"} {
		file := filepath.Join(dir, name)
		must(t, "export", store, "music", file)
		must(t, "import", store, name, file)
		if got := must(t, "sql", store, name, "select * from t"); got != "1\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestStoreInUse runs commands on a store that another program has open.
func TestStoreInUse(t *testing.T) {
	store := filepath.Join(t.TempDir(), "data")
	s, err := storeurl.Open(t.Context(), store, greenroom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"ls", store},
		{"sql", store, "music", "select 1"},
		{"put", store, "music", "k", "v"},
		{"get", store, "music", "k"},
	} {
		r := program(t.Context(), strings.NewReader(""), args...)
		want := "greenroom: the store " + store + " is in use: process PID (NAME) has it open, and lets no tools in; end it, or have it call admin.Listen, as greenroom host does\n"
		r.stderr = holders.ReplaceAllString(r.stderr, "process PID (NAME) has")
		if r.code != serving.ExitFailed || r.stderr != want || r.stdout != "" {
			t.Errorf("%s: %+v, want %q", args[0], r, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := must(t, "ls", store); got != "" {
		t.Errorf("after all that there are actors: %q", got)
	}
	if err := serving.StoreError("x", fmt.Errorf("y: %w", kv.ErrStoreInUse)); !errors.Is(err, kv.ErrStoreInUse) {
		t.Errorf("%v hides its cause", err)
	}
}

// TestCutOff looks at a store whose process ended in the middle of a transaction
// that was too large for memory: its journal is stored.
func TestCutOff(t *testing.T) {
	dir := t.TempDir()
	live, dead, out := filepath.Join(dir, "live"), filepath.Join(dir, "dead"), filepath.Join(dir, "out.db")
	err := serving.WithStore(t.Context(), live, greenroom.Options{}, func(store *storeurl.Store) error {
		a, err := store.Lower().Named(t.Context(), "music", nil)
		if err != nil {
			return err
		}
		db, err := vfs.Open(t.Context(), a, &vfs.Options{TxMemory: 1})
		if err != nil {
			return errors.Join(err, a.Close())
		}
		err = withExecutor(t.Context(), db.DB, func(e executor) error {
			s := &session{executor: e, out: bufio.NewWriter(io.Discard)}
			_, err := s.run(t.Context(), piece{text: `PRAGMA cache_size = 10; CREATE TABLE t(a);
				WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 5000)
				INSERT INTO t SELECT 'old' || hex(zeroblob(100)) FROM c;
				BEGIN; UPDATE t SET a = 'new' || hex(zeroblob(100))`})
			// The process that ends here is the copy of the store.
			return errors.Join(err, store.Engine().(txn.Transactor).Checkpoint(t.Context(), dead), s.Rollback())
		})
		return errors.Join(err, db.Close(), a.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"export", dead, "music", out},
		{"sql", "--read-only", dead, "music", "select count(*) from t"},
	} {
		r := program(t.Context(), strings.NewReader(""), args...)
		if want := "greenroom: the last transaction of the actor music was cut off: "; r.code != serving.ExitFailed || !strings.HasPrefix(r.stderr, want) {
			t.Errorf("%s: status %d, %q, want %q", args[0], r.code, r.stderr, want)
		}
	}
	checked := must(t, "check", dead)
	if !strings.HasPrefix(checked, "note: music: sqlite/metadata/journal: ") || !strings.HasSuffix(checked, " keys, no problems, 1 unfinished\n") {
		t.Errorf("check says %q", checked)
	}
	must(t, "sql", dead, "music", ".tables") // as the message says
	if checked := must(t, "check", dead); !strings.HasPrefix(checked, "1 actor, ") {
		t.Errorf("after the rollback, check says %q", checked)
	}
	must(t, "export", dead, "music", out)
	got := contents(t, out, "SELECT count(*) FROM t WHERE a LIKE 'old%'; PRAGMA integrity_check")
	if want := "5000\nok\n"; got != want {
		t.Errorf("after the rollback %q, want %q", got, want)
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b)
	p.show(512, 1024)
	p.end()
	if !strings.Contains(b.String(), "50%") {
		t.Errorf("drew %q", b.String())
	}
	none := newProgress(nil)
	none.show(1, 2)
	none.end()
}
