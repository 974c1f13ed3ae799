//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A recipe is the commands in the section "Backup" of docs/postgres.md. The test replaces the page's names of files, servers
// and moments by its own.
type recipe struct {
	blocks map[string][]string // of each heading, the fenced blocks in order
	dir    string              // in the place of /backup
}

// The names that the page uses.
const (
	pageURL    = "postgres://postgres@db1/shop"
	pageURL2   = "postgres://postgres@db1/restored"
	pageData   = "/var/lib/postgresql/15/main"
	pageTarget = "recovery_target_time = '2026-03-01 09:00:00+00'"
)

// readRecipe reads the page.
func readRecipe(t *testing.T, dir string) *recipe {
	t.Helper()
	page, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Backup\n")
	section, _, found := strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/postgres.md has no section Backup, or none behind it")
	}
	r := &recipe{blocks: map[string][]string{}, dir: dir}
	heading, block, inside := "", "", false
	for line := range strings.Lines(section) {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "```"):
			if inside {
				r.blocks[heading] = append(r.blocks[heading], block)
			}
			block, inside = "", !inside
		case inside:
			block += text + "\n"
		case strings.HasPrefix(text, "### "):
			heading = text[len("### "):]
		}
	}
	return r
}

// of returns the blocks of a heading, for a server, with the moment to go back to.
func (r *recipe) of(t *testing.T, heading string, blocks int, n *pgtest.Node, target string) []string {
	t.Helper()
	if got := len(r.blocks[heading]); got != blocks {
		t.Fatalf("%q has %d blocks, want %d", heading, got, blocks)
	}
	words := strings.NewReplacer("/backup", r.dir, pageURL, n.URL(""), pageURL2, databaseURL(n, "restored"), pageData, n.Dir, pageTarget, target)
	var out []string
	for _, block := range r.blocks[heading] {
		out = append(out, words.Replace(block))
	}
	return out
}

// databaseURL returns the address of another database of a server.
func databaseURL(n *pgtest.Node, name string) string {
	return strings.Replace(n.URL(""), "/postgres?", "/"+name+"?", 1)
}

// run runs a block. The test starts the server, runs greenroom in this process, and repeats the query that says
// whether recovery is over; the shell runs all other lines.
func (r *recipe) run(t *testing.T, n *pgtest.Node, block string) {
	t.Helper()
	script := ""
	flush := func() {
		t.Helper()
		if script != "" {
			n.Shell(t, script)
		}
		script = ""
	}
	for line := range strings.Lines(block) {
		switch {
		case strings.HasPrefix(line, "systemctl start "):
			flush()
			n.Start(t)
		case strings.HasPrefix(line, "greenroom "):
			flush()
			args := words(strings.ReplaceAll(line, "'", `"`))
			if got := must(t, args[1:]...); !strings.Contains(got, "no problems") {
				t.Errorf("%s%s", line, got)
			}
		case strings.Contains(line, "pg_is_in_recovery()"):
			flush()
			err := pglocal.Poll(func() (bool, error) { return n.Shell(t, line) == "f", nil })
			if err != nil {
				t.Fatalf("recovery: %v", err)
			}
		default:
			script += line
		}
	}
	flush()
}

// TestBackupPostgres runs the commands of docs/postgres.md while a host writes to actors: a base backup, two restores of
// it, as of a time and as of a place in the log, and a dump. Each restored store passes the check, is the one of its moment, and
// takes writes. The host stays up, and reaches the first restored store when the server is lost.
func TestBackupPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	first, second := server.Beside(t, "first"), server.Beside(t, "second")
	r := readRecipe(t, filepath.Join(filepath.Dir(server.Dir), "backup"))
	server.Shell(t, "mkdir "+r.dir)
	archive := r.of(t, "Set up the archive", 2, server, "")
	r.run(t, server, archive[0])
	configure(t, server, archive[1])

	l := openLedger(t, pglocal.URL("", server.Node, first.Node), "anna", "ben", "carl")
	db, err := txn.New(l.store.Engine(), nil)
	if err != nil {
		t.Fatal(err)
	}
	stampOf(t, db)
	l.write(t)
	l.more(t)
	r.run(t, server, r.of(t, "Make a base backup", 1, server, "")[0])
	l.more(t)
	atTime := l.now(t, server, "select clock_timestamp()")
	l.more(t)
	atPlace := l.now(t, server, "select pg_current_wal_lsn()")
	l.more(t)
	dump := r.of(t, "Dump and restore", 2, server, "")
	dumped := moment{is: "the dump", least: load(l.acked)}
	r.run(t, server, dump[0])
	dumped.most = load(l.begun)
	l.more(t)
	l.stop.Store(true)
	l.done.Wait()
	lost, lostStamp := incarnationOf(t, server), stampOf(t, db)
	archiveAll(t, server)
	in := l.store.Engine().Incarnation()
	server.Kill(t)

	for _, block := range r.of(t, "Go back to a moment", 3, first, "recovery_target_time = '"+atTime.is+"'") {
		r.run(t, first, block)
	}
	at := l.want(t, first.URL(""), atTime)
	err = pglocal.Poll(func() (bool, error) { return l.store.Engine().Incarnation() > in, nil })
	if err != nil {
		t.Fatalf("the host and the restored server: %v", err)
	}
	// The first one that writes there gives the server its incarnation: the host, which has come back.
	if now := incarnationOf(t, first); now == lost || now == "" {
		t.Errorf("the restored store is in incarnation %q, the lost one was in %q", now, lost)
	}
	l.moves(t, at)
	if now := stampOf(t, db); bytes.Compare(now[:], lostStamp[:]) <= 0 {
		t.Errorf("a transaction in the restored store has the stamp %x, one that is lost had %x", now, lostStamp)
	}

	for _, block := range r.of(t, "Go back to a moment", 3, second, "recovery_target_lsn = '"+atPlace.is+"'") {
		r.run(t, second, block)
	}
	l.goesOnAt(t, second.URL(""), l.want(t, second.URL(""), atPlace))

	r.run(t, second, r.of(t, "Dump and restore", 2, second, "")[1])
	restored := databaseURL(second, "restored")
	left := second.Shell(t, "psql -XAtqd '"+restored+"' -c 'select (select count(*) from greenroom.incarnation) + (select count(*) from greenroom.counter)'")
	if left != "0" {
		t.Errorf("the dump brings %s rows along that belong to a life of the server", left)
	}
	l.goesOnAt(t, restored, l.want(t, restored, dumped))
	must(t, "check", restored)
}

// configure adds settings to a server's file, and starts the server again.
func configure(t *testing.T, n *pgtest.Node, settings string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(n.Dir, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(settings)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	n.Restart(t)
}

// archiveAll waits until the WAL of all commits is in the archive of a server.
func archiveAll(t *testing.T, n *pgtest.Node) {
	t.Helper()
	last := n.SQL(t, "select pg_walfile_name(pg_switch_wal())")
	err := pglocal.Poll(func() (bool, error) {
		return n.SQL(t, "select last_archived_wal >= '"+last+"' from pg_stat_archiver") == "t", nil
	})
	if err != nil {
		t.Fatalf("the archive of %s: %v", last, err)
	}
}

// incarnationOf returns the random number of a server's life.
func incarnationOf(t *testing.T, n *pgtest.Node) string {
	t.Helper()
	return n.SQL(t, "select id from greenroom.incarnation")
}

// stampOf returns the versionstamp of a transaction that it runs, which leaves nothing.
func stampOf(t *testing.T, db *txn.DB) txn.Stamp {
	t.Helper()
	var ran *txn.Tx
	err := db.Update(t.Context(), func(tx *txn.Tx) error {
		ran = tx
		return tx.Clear([]byte("stamped"))
	})
	if err != nil {
		t.Fatal(err)
	}
	stamp, err := ran.Versionstamp()
	if err != nil {
		t.Fatal(err)
	}
	return stamp
}
