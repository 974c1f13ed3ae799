package sqlitesuite

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// A script is one of mptest's, with the number of checks that it makes.
type script struct {
	name  string
	tests int
}

// scripts lists them. Their counts are fixed by the scripts, so that one that
// ended early, or tested nothing, is seen.
var scripts = []script{
	{"multiwrite01.test", 81},
	{"crash01.test", 94},
	{"config01.test", 163},
	{"config02.test", 627},
}

// osOnly is the line by which config01.test makes no checks but over SQLite's
// own VFSs in C.
const osOnly = "--if vfsname() GLOB 'os'\n"

// journalOff is the line of config01.test that Greenroom's VFS answers with an
// error: without a journal, a transaction that spilled could not be undone.
const journalOff = "  PRAGMA journal_mode=OFF;\n"

// patience is how long a process waits for another one, in milliseconds: for a
// lock, and for a task to end. mptest's own ten seconds are not enough for its
// largest transactions under the race detector on a busy machine.
const patience = "120000"

// scriptFiles returns mptest's scripts as go-sqlite3's module has them, but for
// the given lines of config01.test, and with more patience.
func scriptFiles(t *testing.T, without ...string) fs.FS {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ncruces/go-sqlite3").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "vfs", "tests", "mptest", "testdata")
	files := fstest.MapFS{}
	for _, name := range []string{"multiwrite01.test", "crash01.test", "crash02.subtest", "config01.test", "config02.test"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for _, line := range without {
			if name != "config01.test" {
				continue
			}
			if strings.Count(text, line) != 1 {
				t.Fatalf("%s has no line %q any more", name, line)
			}
			text = strings.Replace(text, line, "", 1)
		}
		text = strings.ReplaceAll(text, "--wait all\n", "--wait all "+patience+"\n")
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}
