package lint

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestRenderLayers(t *testing.T) {
	got := renderLayers(fake(t, map[string]string{
		"kv/kv.go":              "package kv",
		"kv/memkv/memkv.go":     "package memkv",
		"kv/pgkv/pgkv_test.go":  "package pgkv",
		"cmd/greenroom/main.go": "package main",
	}))
	for _, want := range []string{
		"| floor | package | is |\n| --- | --- | --- |\n| 0 | `tuple` (planned) |",
		"| 1 | `kv` | the contract",
		"| 1 | `kv/memkv` `kv/pebblekv` (planned) `kv/pgkv` (planned) | engines |\n",
		"| 7 | `cmd/greenroom` `bench` (planned) |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestRenderKeyspace(t *testing.T) {
	got := renderKeyspace(fake(t, map[string]string{
		"queue/keys.go": "// Package queue is.\npackage queue\n\n// Keys of a queue.\n//\n// Key layout:\n//\n//\t[5] id  → message\n//\n//\t[6]     → metadata\n//\n// Ids are big-endian.\nconst x = 5\n",
		"conn/keys.go":  "// Package conn is.\n//\n// Key layout:\n//\n//\t[2] id → connection\npackage conn\n",
		"vfs/a.go":      "package vfs\n\n// Key layout:\n//\n//\tnot a keys.go\n",
	}))
	_, got, _ = strings.Cut(got, "\n\n## ")
	want := "`conn`\n\n```text\n[2] id → connection\n```\n\n## `queue`\n\n```text\n[5] id  → message\n\n[6]     → metadata\n```\n"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestMarkers(t *testing.T) {
	const page = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n"
	got, err := replace(page, "x", "new\n")
	if want := "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"; err != nil || got != want {
		t.Errorf("Replace: got %q, %v, want %q", got, err, want)
	}
	if got, err := between(page, "x"); err != nil || got != "old\n" {
		t.Errorf("Between: got %q, %v", got, err)
	}
	for _, bad := range []string{
		"", "<!-- x -->\n", "<!-- /x -->\n", "<!-- /x -->\n<!-- x -->\n", page + page, "<!-- x --> <!-- /x -->",
	} {
		if got, err := replace(bad, "x", "new\n"); err == nil {
			t.Errorf("Replace in %q: got %q, want an error", bad, got)
		}
	}
}

func TestCommand(t *testing.T) {
	got, err := command("<!-- x -->\n```sh\ngo run . \\\n  a\n```\n<!-- /x -->\n", "x")
	if want := "go run . \\\n  a"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, bad := range []string{"", "<!-- x -->\ngo test\n<!-- /x -->\n", "<!-- x -->\n```\n```\n<!-- /x -->\n"} {
		if got, err := command(bad, "x"); err == nil {
			t.Errorf("in %q: got %q, want an error", bad, got)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, fsys := range map[string]fstest.MapFS{
		"no module":    {"a.go": {Data: []byte("package a")}},
		"broken file":  {"go.mod": {Data: []byte("module m\n")}, "a.go": {Data: []byte("package")}},
		"empty go.mod": {"go.mod": {}},
	} {
		if _, err := load(fsys); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
