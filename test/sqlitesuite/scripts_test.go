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

// osOnly is the line by which config01.test makes no checks over any VFS but
// SQLite's own.
const osOnly = "--if vfsname() GLOB 'os'\n"

// scriptFiles returns mptest's scripts, as go-sqlite3's module has them but for
// the line osOnly.
func scriptFiles(t *testing.T) fs.FS {
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
		if name == "config01.test" {
			if strings.Count(text, osOnly) != 1 {
				t.Fatalf("%s has no line %q any more", name, osOnly)
			}
			text = strings.Replace(text, osOnly, "", 1)
		}
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}
