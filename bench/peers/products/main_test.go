package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"goqite"}, {"other", "x", "1"}, {"goqite", "x", "0"}, {"goqite", "x", "many"}} {
		if err := run(t.Context(), args, nil, nil); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestFiles runs the products that store in a file.
func TestFiles(t *testing.T) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "maragu.dev/goqite").Output()
	if err != nil {
		t.Skip("no Go to ask for the module's folder")
	}
	schema := filepath.Join(strings.TrimSpace(string(module)), "schema_sqlite.sql")
	for name, place := range map[string]string{"goqite": filepath.Join(t.TempDir(), "db") + "," + schema, "dbos": "sqlite:" + filepath.Join(t.TempDir(), "db")} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := run(t.Context(), []string{name, place, "3"}, strings.NewReader("1\n7\n"), &out); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out.String(), "\n")
			if len(lines) != 3 || !strings.HasPrefix(lines[0], `1 {"Took":[`) || !strings.HasPrefix(lines[1], `7 {"Took":[`) || strings.Count(lines[1], ",") != 6 {
				t.Errorf("answers %q", out.String())
			}
		})
	}
}
