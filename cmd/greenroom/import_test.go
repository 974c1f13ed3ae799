package main

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// An old is a database that is to be replaced, and what it had in the beginning.
type old struct {
	t                  *testing.T
	dir, store, before string
}

// newOld makes a store with a database of some pages.
func newOld(t *testing.T) *old {
	t.Helper()
	o := &old{t: t, dir: t.TempDir()}
	o.store = filepath.Join(o.dir, "data")
	must(t, "sql", o.store, "music", `create table old(a); insert into old values ('old'), (hex(zeroblob(20000)))`)
	o.before = o.export()
	return o
}

// path returns the path of a file beside the store.
func (o *old) path(name string) string { return filepath.Join(o.dir, name) }

// write makes a file.
func (o *old) write(name string, data []byte) string {
	o.t.Helper()
	path := o.path(name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		o.t.Fatal(err)
	}
	return path
}

// export returns the bytes of the database as they are exported.
func (o *old) export() string {
	o.t.Helper()
	out := o.path("exported.db")
	must(o.t, "export", "--force", o.store, "music", out)
	return string(read(o.t, out))
}

// unchanged fails the test if the database is not what it was, byte for byte.
func (o *old) unchanged() {
	o.t.Helper()
	if after := o.export(); after != o.before {
		o.t.Errorf("the old database had %d bytes, and has %d others", len(o.before), len(after))
	}
}

// refuses imports a file that is to be refused with one line that ends like want.
func (o *old) refuses(file, want string) {
	o.t.Helper()
	r := program(o.t.Context(), strings.NewReader(""), "import", o.store, "music", file)
	if r.code != serving.ExitFailed || r.stdout != "" || r.stderr != "greenroom: "+want+"\n" {
		o.t.Errorf("status %d, %q, want %q", r.code, r.stderr, want)
	}
	o.unchanged()
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sums returns the sums of the files of a folder that have a prefix.
func sums(t *testing.T, prefix string) string {
	t.Helper()
	paths, err := filepath.Glob(prefix + "*")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	var b strings.Builder
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			b.WriteString(sums(t, path+string(filepath.Separator)))
			continue
		}
		fmt.Fprintf(&b, "%s %x\n", path, sha256.Sum256(read(t, path)))
	}
	return b.String()
}

// tempFolder makes the temporary folder one of the test's own, and fails the test
// if something is left in it.
func tempFolder(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	t.Cleanup(func() {
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

// snapshot copies a database in use, with what lies beside it, to another name.
func snapshot(t *testing.T, from, to string, companions ...string) {
	t.Helper()
	for _, c := range append(companions, "") {
		if err := os.WriteFile(to+c, read(t, from+c), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImportNoDatabase imports files that aren't readable databases.
func TestImportNoDatabase(t *testing.T) {
	o := newOld(t)
	if err := filled(t, o.path("whole.db"), 1000).Close(); err != nil {
		t.Fatal(err)
	}
	whole := read(t, o.path("whole.db"))
	random := make([]byte, len(whole))
	if _, err := rand.NewChaCha8([32]byte{}).Read(random); err != nil {
		t.Fatal(err)
	}
	head := func(n int) []byte { return append(bytes.Clone(whole[:n]), random[n:]...) }
	bad := func(change func([]byte)) []byte {
		b := bytes.Clone(whole)
		change(b)
		return b
	}
	pages := len(whole) / 4096

	for _, test := range []struct {
		name string
		data []byte
		want string // behind the name of the file
	}{
		{"sql", []byte(strings.Repeat("INSERT INTO t VALUES ('Grüße');\r\n", 100)), "is not an SQLite database: it begins with text"},
		{"half a letter", []byte(strings.Repeat("x", 99) + "ü" + strings.Repeat("x", 900)), "is not an SQLite database: it begins with text"},
		{"one byte", []byte{0}, "is not an SQLite database, or it is encrypted"},
		{"zeros", make([]byte, 8192), "is not an SQLite database, or it is encrypted"},
		{"random, as SQLCipher's", random, "is not an SQLite database, or it is encrypted"},
		{"the magic in plain text", head(16), "begins like an SQLite database, but its header is damaged, or the rest is encrypted"},
		{"the header in plain text", head(100), "is damaged, so it is not imported: database disk image is malformed"},
		{"the header alone", whole[:100], fmt.Sprintf("is damaged, so it is not imported: %d pages of 4096 bytes are %d bytes, and the file has 100", pages, len(whole))},
		{"half", whole[:len(whole)/2], fmt.Sprintf("is damaged, so it is not imported: %d pages of 4096 bytes are %d bytes, and the file has %d", pages, len(whole), len(whole)/2)},
		// The missing byte would read as the zero that it is.
		{"a byte short", append(bytes.Clone(whole[:len(whole)-4096]), make([]byte, 4095)...),
			fmt.Sprintf("is damaged, so it is not imported: %d pages of 4096 bytes are %d bytes, and the file has %d", pages, len(whole), len(whole)-1)},
		{"a page size of 3", bad(func(b []byte) { b[16], b[17] = 0, 3 }), "begins like an SQLite database, but its header is damaged, or the rest is encrypted"},
		{"no room on a page", bad(func(b []byte) { b[16], b[17], b[20] = 2, 0, 200 }), "begins like an SQLite database, but its header is damaged, or the rest is encrypted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := *o
			o.t = t
			file := o.write(test.name+".db", test.data)
			o.refuses(file, file+" "+test.want)
		})
	}
	for _, test := range [][2]string{
		{o.path("missing.db"), "there is no file %s"},
		{o.write("empty.db", nil), "the file %s is empty"},
		{o.dir, "%s is a folder, not an SQLite database"},
		{o.store, "%s is a folder, not an SQLite database"},
	} {
		o.refuses(test[0], fmt.Sprintf(test[1], test[0]))
	}
}

// TestImportEncrypted offers databases of which the pages are encrypted, as a VFS
// above the file does it, and but for what tells the size of a page, as SQLite's
// own extension does it.
//
// https://sqlite.org/see/doc/trunk/www/readme.wiki
func TestImportEncrypted(t *testing.T) {
	o := newOld(t)
	plain := o.path("plain.db")
	if err := filled(t, plain, 1000).Close(); err != nil {
		t.Fatal(err)
	}
	data := read(t, plain)
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	for _, clear := range [][2]int{{}, {16, 24}} {
		secret := make([]byte, len(data))
		cipher.NewCTR(block, make([]byte, 16)).XORKeyStream(secret, data)
		copy(secret[clear[0]:clear[1]], data[clear[0]:])
		file := o.write("secret.db", secret)
		o.refuses(file, file+" is not an SQLite database, or it is encrypted")
	}
}

// TestImportPageSizes imports databases of each page size over each other one.
func TestImportPageSizes(t *testing.T) {
	dir := t.TempDir()
	sizes := []int{512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}
	if testkit.Short() {
		sizes = []int{512, 4096, 65536}
	}
	source := map[int]*sqlite3.Conn{}
	for i, size := range sizes {
		c := filled(t, filepath.Join(dir, fmt.Sprint(size)), 700+300*(i%3), fmt.Sprintf("page_size=%d", size))
		source[size] = c
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	db := actorDB(t, batch.Limits{})
	for _, a := range sizes {
		for _, b := range sizes {
			for _, size := range []int{a, b} {
				if err := copyDatabase(t.Context(), source[size], db.DSN(), nil); err != nil {
					t.Fatalf("%d over %d: %v", b, a, err)
				}
			}
			query := `SELECT (SELECT page_size FROM pragma_page_size), (SELECT page_count FROM pragma_page_count),
				count(*), sum(length(b)), (SELECT integrity_check FROM pragma_integrity_check) FROM t`
			var got, want [4]int64
			var ok string
			row := db.QueryRow(query)
			if err := row.Scan(&got[0], &got[1], &got[2], &got[3], &ok); err != nil || ok != "ok" {
				t.Fatalf("%d over %d: %v, %s", b, a, err, ok)
			}
			stmt, _, err := source[b].Prepare(query)
			if err != nil {
				t.Fatal(err)
			}
			if stmt.Step() {
				for i := range want {
					want[i] = stmt.ColumnInt64(i)
				}
			}
			if err := errors.Join(stmt.Err(), stmt.Close()); err != nil {
				t.Fatal(err)
			}
			if got != want || want[0] != int64(b) {
				t.Errorf("%d over %d: page size, pages, rows, bytes are %d, want %d", b, a, got, want)
			}
		}
	}
}

// TestImportReserved imports a database whose pages end with bytes of an extension.
func TestImportReserved(t *testing.T) {
	o := newOld(t)
	file := o.path("reserved.db")
	c, err := sqlite3.Open(file)
	if err == nil {
		_, err = c.FileControl("main", sqlite3.FCNTL_RESERVE_BYTES, 32)
	}
	if err == nil {
		err = c.Exec("CREATE TABLE t(a); INSERT INTO t VALUES (hex(zeroblob(9000)))")
	}
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	if read(t, file)[20] != 32 {
		t.Fatal("nothing is reserved")
	}
	must(t, "import", o.store, "music", file)
	got := must(t, "sql", o.store, "music", "INSERT INTO t VALUES ('new'); SELECT count(*), sum(length(a)) FROM t; PRAGMA integrity_check")
	if want := "2|18003\nok\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestImportInterrupted ends an import in each of its stages.
func TestImportInterrupted(t *testing.T) {
	o := newOld(t)
	tempFolder(t)
	plain, logged, hot := o.path("plain.db"), o.path("logged.db"), o.path("hot.db")
	c := filled(t, plain, 20_000, "cache_size=5")
	if err := c.Exec("BEGIN; UPDATE t SET b = hex(randomblob(50))"); err != nil {
		t.Fatal(err)
	}
	snapshot(t, plain, hot, "-journal")
	if err := errors.Join(c.Close(), filled(t, logged, 20_000, "journal_mode=WAL").Close()); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{plain, logged, hot} {
		ended := false
		for at := 1; !ended; at++ {
			ctx, cancel := context.WithCancel(t.Context())
			drawn := 0
			var stderr strings.Builder
			e := &env{stdout: io.Discard, stderr: &stderr, progress: writerFunc(func() {
				if drawn++; drawn == at {
					cancel()
				}
			})}
			code := run(ctx, e, []string{"import", o.store, "music", file})
			cancel()
			switch {
			case code == serving.ExitOK || drawn < at:
				ended = true // there are no more moments
				if at < 4 {
					t.Errorf("%s: only %d moments", file, at)
				}
				continue
			case code != serving.ExitFailed || stderr.String() != "greenroom: interrupted\n":
				t.Errorf("%s, at %d: status %d, %q", file, at, code, stderr.String())
			}
			o.unchanged()
		}
		o = newOld(t) // for the next one
	}
}

// TestImportQuota imports what an actor has no room for. The import of another
// database first fills the room that its undo journal needs.
func TestImportQuota(t *testing.T) {
	o := newOld(t)
	huge, big := o.path("huge.db"), o.path("big.db")
	if err := errors.Join(filled(t, huge, 50_000).Close(), filled(t, big, 25_000).Close()); err != nil {
		t.Fatal(err)
	}
	// No atomic commit holds such a file, so what is replaced goes to a journal.
	limits := batch.Limits{Storage: 4 << 20, AtomicBatches: 1}
	run := func(args ...string) (string, int) {
		var stderr strings.Builder
		code := run(t.Context(), &env{stdout: io.Discard, stderr: &stderr, limits: limits}, args)
		return stderr.String(), code
	}
	size := func(file string) int { return len(read(t, file)) }
	if size(huge) < 4<<20 || size(big) > 4<<20 || size(big) < 2<<20 {
		t.Fatalf("%d and %d bytes", size(huge), size(big))
	}

	for _, actor := range []string{"music", "new"} {
		stderr, code := run("import", o.store, actor, huge)
		want := fmt.Sprintf("greenroom: %s does not fit into the actor %s: it has %d bytes, and an actor may store %d\n", huge, actor, size(huge), 4<<20)
		if code != serving.ExitFailed || stderr != want {
			t.Errorf("%s: status %d, %q, want %q", actor, code, stderr, want)
		}
	}
	o.unchanged()
	if got := must(t, "ls", o.store); strings.Contains(got, "new") {
		t.Errorf("an actor was made for nothing: %q", got)
	}

	// It fits over what is there, but not over itself with the journal.
	if stderr, code := run("import", o.store, "music", big); code != serving.ExitOK {
		t.Fatal(stderr)
	}
	o.before = o.export()
	other := o.path("other.db")
	if err := filled(t, other, 25_000, "page_size=1024").Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{big, other} {
		stderr, code := run("import", o.store, "music", file)
		var had, wanted, may int
		tail := "with what was copied of it and the undo journal of what it replaces, "
		_, numbers, ok := strings.Cut(stderr, tail)
		_, err := fmt.Sscanf(numbers, "the actor had %d bytes, and would have needed %d of the %d that it may store; nothing is changed", &had, &wanted, &may)
		if code != serving.ExitFailed || !ok || err != nil || strings.Count(stderr, "\n") != 1 {
			t.Errorf("status %d, %q, %v", code, stderr, err)
		}
		if may != 4<<20 || had <= size(big) || had > may || wanted <= may {
			t.Errorf("had %d, wanted %d of %d", had, wanted, may)
		}
		o.unchanged()
	}
	// The actor still works, and has room for what fits.
	small := o.path("small.db")
	if err := filled(t, small, 100).Close(); err != nil {
		t.Fatal(err)
	}
	if stderr, code := run("import", o.store, "music", small); code != serving.ExitOK {
		t.Error(stderr)
	}
	if got := must(t, "sql", o.store, "music", "SELECT count(*) FROM t; PRAGMA integrity_check"); got != "100\nok\n" {
		t.Errorf("got %q", got)
	}
}

// TestImportOddNames: what a URI, or SQLite, would take for something else.
func TestImportOddNames(t *testing.T) {
	for _, name := range []string{
		"a b.db", "50%.db", "what?mode=rwc.db", "#1.db", "a%20b&c=d.db", "größe.db", ":memory:", "file:x.db",
		"-rf", "x.db-journal", "x.db-wal", "two\nlines.db", "\xff.db", `quote'".db`, `back\slash`,
	} {
		o := newOld(t)
		tempFolder(t)
		file := o.path(name)
		c, err := sqlite3.Open(fileURI(file))
		if err != nil {
			t.Logf("this system has no files of the name %q: %v", name, err)
			continue
		}
		err = c.Exec("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES (1)")
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		before := read(t, file)
		must(t, "import", o.store, "music", file)
		if got := must(t, "sql", o.store, "music", "SELECT * FROM t"); got != "1\n" {
			t.Errorf("%q: %q", name, got)
		}
		if !bytes.Equal(before, read(t, file)) {
			t.Errorf("%q is changed", name)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		must(t, "import", o.store, "again", file) // without its program
	}
}

// TestImportReadOnly imports a read-only file.
func TestImportReadOnly(t *testing.T) {
	o := newOld(t)
	tempFolder(t)
	file := o.path("source.db")
	if err := filled(t, file, 500).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	must(t, "import", o.store, "music", file)
	if got := must(t, "sql", o.store, "music", "SELECT count(*) FROM t"); got != "500\n" {
		t.Errorf("got %q", got)
	}
}
