package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/ncruces/go-sqlite3"
)

// TestImportHotJournal imports a database whose program ended in a transaction:
// what it had changed is undone, and not in the file.
func TestImportHotJournal(t *testing.T) {
	for _, size := range []int{512, 4096, 65536} {
		o := newOld(t)
		tempFolder(t)
		live, file := o.path("live.db"), o.path("cut off.db")
		c := filled(t, live, 3000, fmt.Sprintf("page_size=%d", size), "cache_size=5")
		err := c.Exec(`BEGIN; UPDATE t SET b = 'new'; DELETE FROM t WHERE a % 2;
			INSERT INTO t(b) SELECT hex(randomblob(50)) FROM t; CREATE TABLE new(a)`)
		if err != nil {
			t.Fatal(err)
		}
		snapshot(t, live, file, "-journal")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		before := sums(t, file)
		must(t, "import", o.store, "music", file)
		got := must(t, "sql", o.store, "music", "SELECT count(*), sum(length(b)), min(length(b)) FROM t; SELECT name FROM sqlite_schema; PRAGMA integrity_check")
		if want := "3000|300000|100\nt\nok\n"; got != want {
			t.Errorf("page size %d: %q, want %q", size, got, want)
		}
		if after := sums(t, file); after != before {
			t.Errorf("the source was\n%sand is\n%s", before, after)
		}

		// The same through a link: the journal lies beside the file, not the link.
		link := filepath.Join(t.TempDir(), "link.db")
		if err := os.Symlink(file, link); err != nil {
			t.Skip(err)
		}
		must(t, "import", o.store, "linked", link)
		if got := must(t, "sql", o.store, "linked", "SELECT count(*) FROM t"); got != "3000\n" {
			t.Errorf("through a link: %q", got)
		}
	}
}

// TestImportFirstTransaction offers a file in which nothing was ever committed.
func TestImportFirstTransaction(t *testing.T) {
	o := newOld(t)
	tempFolder(t)
	live, file := o.path("live.db"), o.path("cut off.db")
	c, err := sqlite3.Open(live)
	if err == nil {
		err = c.Exec(`PRAGMA cache_size=5; BEGIN; CREATE TABLE t(a);
			WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 1000) INSERT INTO t SELECT hex(zeroblob(200)) FROM c`)
	}
	if err != nil {
		t.Fatal(err)
	}
	snapshot(t, live, file, "-journal")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if len(read(t, file)) == 0 {
		t.Fatal("nothing is in the file")
	}
	o.refuses(file, "the database in "+file+" is empty")
}

// TestImportDeadJournal imports databases beside which lies what SQLite takes for
// no journal to roll back.
func TestImportDeadJournal(t *testing.T) {
	for name, journal := range map[string][]byte{
		"empty":    {},
		"zeroed":   make([]byte, 4096),
		"one zero": {0},
		"garbage":  bytes.Repeat([]byte("garbage "), 1000), // copied, and found to be none
	} {
		o := newOld(t)
		tempFolder(t)
		file := o.path("source.db")
		if err := filled(t, file, 500).Close(); err != nil {
			t.Fatal(err)
		}
		o.write("source.db-journal", journal)
		before := sums(t, file)
		must(t, "import", o.store, "music", file)
		if got := must(t, "sql", o.store, "music", "SELECT count(*) FROM t"); got != "500\n" {
			t.Errorf("%s: %q", name, got)
		}
		if after := sums(t, file); after != before {
			t.Errorf("%s: the source was\n%sand is\n%s", name, before, after)
		}
	}
}

// TestImportSuperJournal offers one of two databases that a program changed in one
// transaction when it ended.
func TestImportSuperJournal(t *testing.T) {
	o := newOld(t)
	tempFolder(t)
	file := o.path("source.db")
	c := filled(t, file, 500, "cache_size=5")
	if err := c.Exec("BEGIN; UPDATE t SET b = 'new'; INSERT INTO t(b) SELECT hex(randomblob(50)) FROM t"); err != nil {
		t.Fatal(err)
	}
	cut := o.path("cut.db")
	snapshot(t, file, cut, "-journal")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	// A super-journal's name, its length, the sum of its bytes, and the magic
	// follow the pages, after the number of the page that has the lock byte.
	super := o.write("super-mj123", []byte(cut+"-journal\x00"))
	sum := 0
	for _, b := range []byte(super) {
		sum += int(b)
	}
	tail := []byte{0, 4, 0, 1} // 1 GiB / 4096 + 1
	tail = append(tail, super...)
	tail = append(tail, 0, 0, byte(len(super)>>8), byte(len(super)), 0, 0, byte(sum>>8), byte(sum))
	tail = append(tail, "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"...)
	o.write("cut.db-journal", append(read(t, cut+"-journal"), tail...))
	before := sums(t, cut)
	o.refuses(cut, cut+" has an unfinished transaction over several files beside it (see "+super+
		"): open it once with write access, so that it is rolled back")

	// Without the super-journal the transaction was committed.
	if err := os.Remove(super); err != nil {
		t.Fatal(err)
	}
	r := program(t.Context(), strings.NewReader(""), "import", o.store, "music", cut)
	if r.code == serving.ExitOK {
		if got := must(t, "sql", o.store, "music", "SELECT count(*) FROM t"); got == "500\n" {
			t.Error("a committed transaction was rolled back")
		}
	}
	if after := sums(t, cut); after != before {
		t.Errorf("the source was\n%sand is\n%s", before, after)
	}
}

// TestImportWAL imports a database of which all that matters is in its log, whose
// program is gone, with and without the index of the log.
func TestImportWAL(t *testing.T) {
	for _, companions := range [][]string{{"-wal"}, {"-wal", "-shm"}} {
		o := newOld(t)
		tempFolder(t)
		live, file := o.path("live.db"), o.path("gone.db")
		c := filled(t, live, 500, "journal_mode=WAL", "wal_autocheckpoint=0")
		snapshot(t, live, file, companions...)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		wal := file + "-wal"
		before := sums(t, file) + sums(t, wal)
		must(t, "import", o.store, "music", file)
		if got := must(t, "sql", o.store, "music", "SELECT count(*) FROM t; PRAGMA journal_mode"); got != "500\ndelete\n" {
			t.Errorf("%q: %q", companions, got)
		}
		after := sums(t, wal)
		if !strings.Contains(before, after) {
			t.Errorf("%q: the log is changed", companions)
		}
	}
}

// TestImportLogUnreadable offers a log that can't be opened: the database without
// it would be an older one.
func TestImportLogUnreadable(t *testing.T) {
	o := newOld(t)
	tempFolder(t)
	file := o.path("source.db")
	if err := filled(t, file, 500, "journal_mode=WAL").Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file+"-wal", 0o700); err != nil {
		t.Fatal(err)
	}
	r := program(t.Context(), strings.NewReader(""), "import", o.store, "music", file)
	if want := "greenroom: import of " + file + ": "; r.code != serving.ExitFailed || !strings.HasPrefix(r.stderr, want) || !strings.Contains(r.stderr, file+"-wal") {
		t.Errorf("status %d, %q", r.code, r.stderr)
	}
	o.unchanged()
}

// TestImportWhileWritten imports a file into which another connection writes at
// every opportunity: it has to wait, or its log does the waiting for it, and what
// is imported is one state.
func TestImportWhileWritten(t *testing.T) {
	for _, mode := range []string{"DELETE", "WAL"} {
		o := newOld(t)
		tempFolder(t)
		file := o.path("source.db")
		c := filled(t, file, 5000, "journal_mode="+mode)
		if err := c.Exec("PRAGMA synchronous=OFF; CREATE TABLE n(a); INSERT INTO n VALUES (0)"); err != nil {
			t.Fatal(err)
		}
		writes, refused := 0, 0
		writer := writerFunc(func() {
			// As many rows change as the number says.
			err := c.Exec("BEGIN IMMEDIATE; UPDATE n SET a = a + 1; UPDATE t SET b = 'new' WHERE a <= (SELECT a FROM n); COMMIT")
			switch {
			case errors.Is(err, sqlite3.BUSY):
				refused++
				err = c.Exec("ROLLBACK")
			default:
				writes++
			}
			if err != nil {
				t.Error(err)
			}
		})
		e := &env{stdout: io.Discard, stderr: io.Discard, progress: writer}
		if code := run(t.Context(), e, []string{"import", o.store, "music", file}); code != serving.ExitOK {
			t.Errorf("%s: status %d", mode, code)
		}
		if mode == "WAL" && (writes == 0 || refused > 0) || mode != "WAL" && refused == 0 {
			t.Errorf("%s: %d writes, %d refused", mode, writes, refused)
		}
		got := must(t, "sql", o.store, "music", "SELECT (SELECT count(*) FROM t WHERE b = 'new') - a, a FROM n; PRAGMA integrity_check")
		if want := "0|0\nok\n"; got != want {
			t.Errorf("%s: %q, want %q", mode, got, want)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
