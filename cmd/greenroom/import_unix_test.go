//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestImportReadOnlyFolder imports from a folder in which the program may create
// nothing, not even what SQLite reads a write-ahead log with.
func TestImportReadOnlyFolder(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	program := builtProgram(t)
	o := newOld(t)
	logged, hot := o.path("logged.db"), o.path("hot.db")
	c, d := filled(t, logged, 500, "journal_mode=WAL", "wal_autocheckpoint=0"), filled(t, hot, 2000, "cache_size=5")
	if err := d.Exec("BEGIN; UPDATE t SET b = hex(randomblob(50)); DELETE FROM t"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		from       string
		companions []string
		mode       os.FileMode // of the journal or log
		index      os.FileMode // of the log's index
		want       string      // the number of rows, or the error
	}{
		"a log without its index": {logged, []string{"-wal"}, 0o444, 0, "500"},
		"a log with its index":    {logged, []string{"-wal", "-shm"}, 0o444, 0o444, "500"},
		"an index for others":     {logged, []string{"-wal", "-shm"}, 0o444, 0, "file.db-shm: permission denied"},
		"a log for others":        {logged, []string{"-wal"}, 0, 0, "file.db-wal: permission denied"},
		"a hot journal":           {hot, []string{"-journal"}, 0o444, 0, "2000"},
		"a journal for others":    {hot, []string{"-journal"}, 0, 0, "file.db-journal: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "folder")
			file := filepath.Join(folder, "file.db")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			snapshot(t, test.from, file, test.companions...)
			for _, c := range test.companions {
				mode := test.mode
				if c == "-shm" {
					mode = test.index
				}
				if err := os.Chmod(file+c, mode); err != nil {
					t.Fatal(err)
				}
			}
			store, temp := filepath.Join(filepath.Dir(folder), "data"), filepath.Join(filepath.Dir(folder), "temp")
			err := errors.Join(
				os.Chmod(file, 0o444), os.Chmod(folder, 0o555),
				os.Mkdir(temp, 0o700), os.Mkdir(store, 0o700), os.Chmod(filepath.Dir(filepath.Dir(folder)), 0o755),
			)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := os.Chmod(folder, 0o755); err != nil {
					t.Error(err)
				}
			})
			cmd := exec.Command(program, "import", store, "music", file)
			cmd.Env = []string{"TMPDIR=" + temp}
			asNobody(t, cmd, store, temp)
			out, err := cmd.CombinedOutput()
			if rows, failed := test.want, strings.Trim(test.want, "0123456789") != ""; failed {
				if err == nil || !strings.Contains(string(out), test.want) || strings.Count(string(out), "\n") != 1 {
					t.Errorf("%v, %s", err, out)
				}
			} else if err != nil {
				t.Errorf("%v, %s", err, out)
			} else if got := must(t, "sql", store, "music", "SELECT count(*) FROM t WHERE length(b) = 100; PRAGMA integrity_check"); got != rows+"\nok\n" {
				t.Errorf("%q, want %s rows", got, rows)
			}
			entries, err := os.ReadDir(folder)
			if len(entries) != 1+len(test.companions) || err != nil {
				t.Errorf("in the folder are %v, %v", entries, err)
			}
			if left, err := os.ReadDir(temp); len(left) > 0 || err != nil {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	if err := errors.Join(c.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// asNobody makes cmd run as a user that permissions apply to, and that owns some folders.
func asNobody(t *testing.T, cmd *exec.Cmd, folders ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	for _, folder := range folders {
		if err := os.Chown(folder, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}
