package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What compiles here and not on another system is found there, in the body of a function and in an import too.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ name, file, text, windows, linux string }{
		{name: "good", file: "a.go", text: "package a\n\nimport \"os\"\n\nfunc F() error { return os.ErrNotExist }\n"},
		{name: "body", file: "a_windows.go", text: "package a\n\nfunc F() int { return \"one\" }\n", windows: "a_windows.go:3"},
		{name: "standard library", file: "a.go", text: "package a\n\nimport \"syscall\"\n\nfunc F() error { return syscall.Kill(1, 9) }\n", windows: "undefined: syscall.Kill"},
		{name: "no file", file: "a_test.go", text: "package a\n", windows: "could not import"},
		{name: "syntax", file: "a_windows.go", text: "package a\n\nfunc {\n", windows: "a_windows.go:3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"go.mod":       "module example.com/m\n\ngo 1.26\n",
				"a/" + c.file:  c.text,
				"b/b.go":       "package b\n\nimport _ \"example.com/m/a\"\n",
				"a/none.s":     "",
				"a/a_linux.go": "package a\n",
			} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for target, want := range map[string]string{"windows/amd64": c.windows, "linux/arm64": c.linux} {
				n, err := check(dir, target)
				switch {
				case want == "" && (err != nil || n < 3):
					t.Errorf("%s: %d packages, %v", target, n, err)
				case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
					t.Errorf("%s: %v, want %s", target, err, want)
				}
			}
		})
	}
	if _, err := check(".", "windows"); err == nil {
		t.Error("a target without an architecture is taken")
	}
}
