package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/kv"
)

// TestDocs runs the commands in testdata/docs, each file in an empty folder. "greenroom" and "file" are as in
// TestCommands; "users" stores as many documents, and a category that isn't built; "damage" removes a row.
func TestDocs(t *testing.T) {
	runFiles(t, "docs", func() directives {
		return func(t *testing.T, d *datadriven.TestData) (string, bool) {
			switch d.Cmd {
			case "users":
				return onEngine(t, func(e kv.Engine) string { return putUsers(t, e, d) }), true
			case "damage":
				return onEngine(t, func(e kv.Engine) string { return removeRow(t, e, "members\x00") }), true
			}
			return "", false
		}
	})
}

// putUsers stores some documents in /users, and then creates a category of them.
func putUsers(t *testing.T, e kv.Engine, d *datadriven.TestData) string {
	t.Helper()
	n := 0
	d.ScanArgs(t, "n", &n)
	ctx := t.Context()
	s, err := docstore.Open(ctx, e, "documents", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(ctx, func(tx *docstore.Tx) error {
		if err := tx.CreateContainer(ctx, "/users"); err != nil {
			return err
		}
		for i := range n {
			if err := tx.Create(ctx, docstore.Join("users", fmt.Sprint(i)), "User", docstore.Properties{"n": i}); err != nil {
				return err
			}
		}
		return tx.CreateCategory(ctx, "/even", "User", "n % 2 == 0")
	})
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

// TestDocsJSON: what get writes is read back as what it was.
func TestDocsJSON(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"a":1}`, `{"a":-9223372036854775808}`, `{"a":18446744073709551615}`, `{"a":{"$uint":5}}`, `{"a":1.0}`,
		`{"a":1e+21}`, `{"a":-0.0}`, `{"a":{"$float":"NaN"}}`, `{"a":{"$float":"-Inf"}}`, `{"a":{"$bytes":"AAE="}}`,
		`{"a":{"$$bytes":"AAE="}}`, `{"$$a":1}`, `{"a":[null,true,"x",{"b":2.5}]}`, `{"a":{"$bytes":"x","b":1}}`,
	} {
		var p propertiesJSON
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := json.Marshal(p)
		if err != nil || string(got) != text {
			t.Errorf("%s became %s, %v", text, got, err)
		}
	}
	for _, text := range []string{
		`1`, `{"a":18446744073709551616}`, `{"a":1e999}`, `{"a":{"$bytes":"?"}}`, `{"a":{"$bytes":1}}`, `{"a":{"$float":"x"}}`,
		`{"a":{"$uint":-1}}`, `{"a":{"$other":1}}`, `{"$bytes":"AAE="}`,
	} {
		var p propertiesJSON
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s is read as %v", text, p)
		}
	}
}

// TestDocsRoundTrip: what export writes import stores, in lines and in a directory of files, and export writes the same.
func TestDocsRoundTrip(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "docs", "mkdir", "data", "/users")
	must(t, "docs", "put", "data", "/users/john", "--type", "User", `{"name":"Jöhn Doe","role":"user","raw":{"$bytes":"AAE="}}`)
	must(t, "docs", "put", "data", "/users/a:b", "--type", "User", `{"name":"Ann","role":1,"age":1.0}`)
	must(t, "docs", "create", "data", "category", "/grown", "User", "age != null")
	must(t, "docs", "create", "data", "catalogue", "/by-role", "User", "role")
	must(t, "docs", "create", "data", "index", "/by-name", "User", "name")
	dump := must(t, "docs", "export", "data")
	lines := strings.Split(strings.TrimSpace(dump), "\n")
	slices.Sort(lines)
	if err := os.Mkdir("files", 0o777); err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		var p pairLine
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		if got := must(t, "docs", "export", "data", p.Key); got != string(p.Value) {
			t.Errorf("the key %s is %q alone, and %q in the dump", p.Key, got, p.Value)
		}
		name := hex.EncodeToString([]byte(p.Key)) + []string{"", ".dat"}[i%2]
		if len(name) > 255 {
			t.Fatalf("%s: too long for a file", p.Key)
		}
		if err := os.WriteFile(filepath.Join("files", name), p.Value, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("dump", []byte(dump), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"dump", "files", "-"} {
		to := "from" + from
		if r := program(t.Context(), strings.NewReader(dump), "docs", "import", to, from); r.code != serving.ExitOK {
			t.Fatalf("%+v", r)
		}
		again := strings.Split(strings.TrimSpace(must(t, "docs", "export", to)), "\n")
		slices.Sort(again)
		if !slices.Equal(again, lines) {
			t.Errorf("%s: got\n%s\nwant\n%s", from, strings.Join(again, "\n"), strings.Join(lines, "\n"))
		}
		if got := must(t, "docs", "check", to); got != "0 problems\n" {
			t.Errorf("%s: %s", from, got)
		}
	}
}

// removeRow removes the first row that has a text in its key.
func removeRow(t *testing.T, e kv.Engine, text string) string {
	t.Helper()
	var c kv.Commit
	for row, err := range e.Scan(t.Context(), kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(row.Key), text) && c.Ops == nil {
			c.Ops = []kv.Op{kv.Clear(bytes.Clone(row.Key))}
		}
	}
	if err := e.Commit(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	return ""
}

// TestDocsImportFiles: a file whose name is not a key is named.
func TestDocsImportFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("files", 0o777), os.WriteFile("files/readme.txt", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	r := program(t.Context(), strings.NewReader(""), "docs", "import", "data", "files")
	if want := fmt.Sprintf("made the store data\ngreenroom: the name of the file %s is not a key in hexadecimal\n", filepath.Join("files", "readme.txt")); r.stderr != want {
		t.Errorf("got %q, want %q", r.stderr, want)
	}
}
