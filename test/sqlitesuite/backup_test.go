package sqlitesuite

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// openConn opens a connection that waits a minute for locks.
func openConn(t *testing.T, dsn string) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.BusyTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	return c
}

// Accounts hold 100 each, and transfers keep the sum, so that a copy that mixes
// two states is seen to.
const accounts = 1000

const accountSchema = `
	CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER, note TEXT);
	CREATE INDEX account_note ON account(note);
	WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)
		INSERT INTO account SELECT i, 100, printf('%%0200d', i) FROM n;`

// transfer moves money between accounts, some more with each round, and
// rewrites their indexed notes.
func transfer(c *sqlite3.Conn, round int) error {
	return c.Exec(fmt.Sprintf(`
		BEGIN IMMEDIATE;
		UPDATE account SET balance = balance - 7, note = printf('%%0200d', %[1]d) WHERE id = 1 + %[1]d %% %[2]d;
		UPDATE account SET balance = balance + 7, note = printf('%%0200d', -%[1]d) WHERE id = 1 + (%[1]d * 37 + 1) %% %[2]d;
		COMMIT`, round, accounts))
}

// checkAccounts wants a whole copy, of one state.
func checkAccounts(t *testing.T, c *sqlite3.Conn) {
	t.Helper()
	s, _, err := c.Prepare(`SELECT count(*), sum(balance), (SELECT integrity_check FROM pragma_integrity_check) FROM account`)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.Step() {
		t.Fatal("no row: ", s.Err())
	}
	if n, sum, ok := s.ColumnInt(0), s.ColumnInt(1), s.ColumnText(2); n != accounts || sum != 100*accounts || ok != "ok" {
		t.Errorf("got %d accounts, sum %d, integrity_check %q; want %d, %d, ok", n, sum, ok, accounts, 100*accounts)
	}
}

// TestBackup copies the database with SQLite's online backup through one
// connection while another one commits, in steps between the commits and at
// once beside them.
func TestBackup(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name+"/stepwise", func(t *testing.T) { testBackupSteps(t, newRoom(t, m).target) })
		t.Run(m.name+"/concurrent", func(t *testing.T) { testBackupConcurrent(t, newRoom(t, m).target) })
	}
}

// TestBackupFile does so over go-sqlite3's file VFS, where a writer and a backup
// that runs must wait for each other.
func TestBackupFile(t *testing.T) {
	testBackupSteps(t, fileTarget(t))
}

// testBackupSteps lets the writer commit between any two steps. SQLite starts a
// backup over when it sees a change by another connection: if it didn't see
// one, the copy would be of two states.
func testBackupSteps(t *testing.T, x target) {
	writer, reader := openConn(t, x.dsn()), openConn(t, x.dsn())
	if err := writer.Exec(fmt.Sprintf(accountSchema, accounts)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "copy.db")
	b, err := reader.BackupInit("main", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	restarts, steps := 0, 0
	for last := 0; ; steps++ {
		done, err := b.Step(20)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			break
		}
		if steps > 0 && b.Remaining() >= last {
			restarts++
		}
		last = b.Remaining()
		// After a while it gets peace, or it would never end.
		if steps < 40 {
			if err := transfer(writer, steps); err != nil {
				t.Fatal(err)
			}
		}
	}
	if restarts == 0 {
		t.Errorf("no restart in %d steps: the backup did not notice the writer", steps)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	checkAccounts(t, openConn(t, "file:"+file))
}

// testBackupConcurrent copies in one step, again and again, while a writer
// commits as fast as it can.
func testBackupConcurrent(t *testing.T, x target) {
	writer, reader := openConn(t, x.dsn()), openConn(t, x.dsn())
	if err := writer.Exec(fmt.Sprintf(accountSchema, accounts)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var rounds atomic.Int64
	written := make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = transfer(writer, int(rounds.Add(1)))
		}
		written <- err
	}()
	first := rounds.Load()
	for i := range 20 {
		// A writer that the disk, or the machine, holds up would be met by none of them.
		for before := rounds.Load(); rounds.Load() == before && len(written) == 0; {
			runtime.Gosched()
		}
		file := filepath.Join(t.TempDir(), fmt.Sprintf("copy%d.db", i))
		if err := reader.Backup("main", "file:"+file); err != nil {
			t.Error(err)
			break
		}
		checkAccounts(t, openConn(t, "file:"+file))
	}
	n := rounds.Load() - first
	stop()
	if err := <-written; err != nil {
		t.Error(err)
	}
	if n < 20 {
		t.Errorf("the writer committed %d times during 20 backups: they did not meet", n)
	}
	checkAccounts(t, reader)
}
