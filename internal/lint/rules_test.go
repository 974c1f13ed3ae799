package lint

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// fake is a tree with a go.mod and the given files: content by path.
func fake(t *testing.T, files map[string]string) *tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module example.com/house\n\ngo 1.26.0\n")}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// A ruleCase is a small tree and what one rule finds in it: each break begins
// with one of want, in order.
type ruleCase struct {
	name  string
	rule  string
	files map[string]string
	want  []string
}

func TestRules(t *testing.T) {
	fails := map[string]bool{}
	for _, c := range slices.Concat(layerCases, importCases, sourceCases, textCases, ratchetCases, errorCases, writerCases, gateCases) {
		fails[c.rule] = fails[c.rule] || len(c.want) > 0
		t.Run(c.rule+"/"+c.name, c.run)
	}
	for _, r := range rules() {
		if !fails[r.Name] {
			t.Errorf("rule %s: no case shows that it can fail", r.Name)
		}
	}
}

func (c ruleCase) run(t *testing.T) {
	i := slices.IndexFunc(rules(), func(r rule) bool { return r.Name == c.rule })
	if i < 0 {
		t.Fatalf("no rule is named %q", c.rule)
	}
	got := sortFindings(rules()[i].Check(fake(t, c.files)))
	if len(got) != len(c.want) {
		t.Fatalf("got %d findings %v, want %q", len(got), got, c.want)
	}
	for i, f := range got {
		if !strings.HasPrefix(f.String(), c.want[i]) {
			t.Errorf("got %q, want %q", f, c.want[i])
		}
	}
}

var layerCases = []ruleCase{
	{"down", "layers", map[string]string{
		"vfs/vfs.go": `package vfs; import "example.com/house/actorstore"`,
	}, nil},
	{"up", "layers", map[string]string{
		"kv/kv.go": `package kv; import "example.com/house/actorstore"`,
	}, []string{"kv/kv.go:1: imports actorstore: up, from floor 1 to floor 2"}},
	{"up in a test", "layers", map[string]string{
		"kv/kv_test.go": `package kv_test; import "example.com/house/vfs"`,
	}, []string{"kv/kv_test.go:1: imports vfs: up"}},
	{"the door in a test", "layers", map[string]string{
		"kv/kv_test.go": `package kv_test; import "example.com/house"`,
	}, []string{"kv/kv_test.go:1: imports .: up"}},
	{"the door in its example", "layers", map[string]string{
		"kv/example_door_test.go": `package kv_test; import "example.com/house"`,
	}, nil},
	{"sideways", "layers", map[string]string{
		"queue/queue.go": `package queue; import "example.com/house/persist"`,
	}, []string{"queue/queue.go:1: imports persist: sideways on floor 3"}},
	{"sideways in a test", "layers", map[string]string{
		"queue/queue_test.go": `package queue_test; import "example.com/house/vfs"`,
	}, nil},
	{"sideways as allowed", "layers", map[string]string{
		"kv/memkv/memkv.go": `package memkv; import "example.com/house/kv"`,
	}, nil},
	{"contract knows an engine", "layers", map[string]string{
		"kv/kv.go": `package kv; import "example.com/house/kv/memkv"`,
	}, []string{"kv/kv.go:1: imports kv/memkv: sideways on floor 1"}},
	{"internal folder is on its parent's floor", "layers", map[string]string{
		"kv/internal/occ/occ.go":  `package occ; import "example.com/house/kv"`,
		"kv/pebblekv/pebblekv.go": `package pebblekv; import "example.com/house/kv/internal/occ"`,
	}, nil},
	{"internal folder looks up", "layers", map[string]string{
		"kv/internal/occ/occ.go": `package occ; import "example.com/house/vfs"`,
	}, []string{"kv/internal/occ/occ.go:1: imports vfs: up"}},
	{"unknown package", "layers", map[string]string{
		"misc/misc.go": `package misc`,
	}, []string{"misc: has no floor"}},
	{"import of an unknown package", "layers", map[string]string{
		"vfs/vfs.go": `package vfs; import "example.com/house/misc"`,
	}, []string{"vfs/vfs.go:1: imports misc: it has no floor"}},
	{"the rules import the house", "layers", map[string]string{
		"internal/lint/x.go": `package lint; import "example.com/house/kv"`,
	}, []string{"internal/lint/x.go:1: imports kv: neither is part of the house"}},
	{"nested modules stand outside", "layers", map[string]string{
		"test/suite/go.mod":     "module example.com/house/test/suite",
		"test/suite/x_test.go":  `package suite; import "example.com/house/vfs"`,
		"test/suitcase/case.go": `package suitcase`,
	}, []string{"test/suitcase: has no floor"}},
}

const pebble, sqlite = `"github.com/cockroachdb/pebble/v2"`, `"github.com/ncruces/go-sqlite3"`

var importCases = []ruleCase{
	{"in its place", "restricted", map[string]string{
		"kv/pebblekv/a.go": `package pebblekv; import ` + pebble,
		"vfs/a.go":         `package vfs; import ` + sqlite,
		"queue/a_test.go":  `package queue_test; import ` + sqlite,
		"traces/a.go":      `package traces; import "log/slog"`,
		"host/a_test.go":   `package host; import "testing/synctest"`,
		"kv/memkv/a.go":    `package memkv; import "example.com/house/kv/memkv/internal/tree"`,
	}, nil},
	{"elsewhere", "restricted", map[string]string{
		"actorstore/a.go": `package actorstore; import ` + pebble,
		"queue/a.go":      `package queue; import ` + sqlite,
	}, []string{"actorstore/a.go:1: imports github.com/cockroachdb/pebble/v2", "queue/a.go:1: imports github.com/ncruces/go-sqlite3"}},
	{"in a test elsewhere", "restricted", map[string]string{
		"vfs/a_test.go": `package vfs; import ` + pebble,
	}, []string{"vfs/a_test.go:1: imports github.com/cockroachdb/pebble/v2"}},
	{"an engine above kv", "restricted", map[string]string{
		"actorstore/a.go":         `package actorstore; import "example.com/house/kv/memkv"`,
		"actorstore/a_test.go":    `package actorstore; import "example.com/house/kv/memkv"`,
		"internal/storeurl/a.go":  `package storeurl; import "example.com/house/kv/memkv"`,
		"kv/memkv/memkv_test.go":  `package memkv_test; import "example.com/house/kv/memkv"`,
		"kv/memkvlike/another.go": `package memkvlike`,
	}, []string{"actorstore/a.go:1: imports example.com/house/kv/memkv"}},
	{"test frameworks in programs", "restricted", map[string]string{
		"kv/kvtest/a.go": `package kvtest; import "testing"`,
		"host/a.go":      `package host; import "testing"`,
		"conn/a.go":      `package conn; import "pgregory.net/rapid"`,
	}, []string{"conn/a.go:1: imports pgregory.net/rapid", "host/a.go:1: imports testing"}},
	{"old log", "restricted", map[string]string{
		"host/a.go":      `package host; import "log"`,
		"host/a_test.go": `package host_test; import "log"`,
	}, []string{"host/a.go:1: imports log: logs go through"}},

	{"standard library", "floor0", map[string]string{
		"batch/a.go":      `package batch; import "slices"`,
		"batch/a_test.go": `package batch; import "pgregory.net/rapid"`,
		"kv/a.go":         `package kv; import "github.com/google/uuid"`,
	}, nil},
	{"third party", "floor0", map[string]string{
		"internal/bare/a.go": `package bare; import "github.com/google/uuid"`,
	}, []string{"internal/bare/a.go:1: imports github.com/google/uuid on floor 0"}},

	{"programs and tests", "blank", map[string]string{
		"cmd/greenroom/main.go": `package main; import _ "net/http/pprof"`,
		"vfs/a_test.go":         `package vfs; import _ "net/http/pprof"`,
		"vfs/a.go":              `package vfs; import _ "embed"`,
	}, nil},
	{"package", "blank", map[string]string{
		"vfs/a.go": `package vfs; import _ "github.com/ncruces/go-sqlite3/driver"`,
	}, []string{"vfs/a.go:1: imports github.com/ncruces/go-sqlite3/driver for its side effects"}},

	{"named", "sqlitevfs", map[string]string{
		"vfs/a.go": `package vfs; import sqlitevfs "github.com/ncruces/go-sqlite3/vfs"`,
	}, nil},
	{"unnamed", "sqlitevfs", map[string]string{
		"vfs/a.go": `package vfs; import "github.com/ncruces/go-sqlite3/vfs"`,
		"vfs/b.go": `package vfs; import svfs "github.com/ncruces/go-sqlite3/vfs"`,
	}, []string{"vfs/a.go:1: import go-sqlite3's vfs", "vfs/b.go:1: import go-sqlite3's vfs"}},

	{"import C", "cgo", map[string]string{
		"vfs/a.go": "package vfs\n\nimport \"C\"\n",
	}, []string{"vfs/a.go:3: uses cgo"}},
}

var sourceCases = []ruleCase{
	{"program and method", "init", map[string]string{
		"cmd/greenroom/main.go": `package main; func init() {}`,
		"vfs/a.go":              `package vfs; type T int; func (T) init() {}`,
	}, nil},
	{"package", "init", map[string]string{
		"vfs/a.go": "package vfs\n\nfunc init() {}\n",
	}, []string{"vfs/a.go:3: func init"}},

	{"present", "package-doc", map[string]string{
		"vfs/a.go":              "// Package vfs is.\npackage vfs\n",
		"vfs/a_test.go":         "package vfs_test\n",
		"cmd/greenroom/main.go": "// Command greenroom is.\npackage main\n",
		"test/x_test.go":        "// Package suite_test tests.\npackage suite_test\n",
	}, nil},
	{"absent, double, wrong", "package-doc", map[string]string{
		"conn/a.go":       "package conn\n",
		"queue/a.go":      "// Package queue is.\npackage queue\n",
		"queue/b.go":      "// Package queue is, too.\npackage queue\n",
		"traces/a.go":     "// Package tracesque is.\npackage traces\n",
		"bench/main.go":   "// Package main is.\npackage main\n",
		"vfs/a.go":        "package vfs\n",
		"vfs/vfs_test.go": "// Package vfs_test is no comment of vfs.\npackage vfs_test\n",
	}, []string{"bench/main.go:2: package comment doesn't start", "conn: package conn has no package comment",
		"queue/b.go:2: second package comment", "traces/a.go:2: package comment doesn't start", "vfs: package vfs has no"}},

	{"documented", "exported-doc", map[string]string{
		"vfs/a.go": `package vfs

// T is.
type T int

// M does.
func (*T) M() {}

type u int

func (u) M() {}

// Both are.
const (
	A = 1
	B = 2
)

var (
	// C is.
	C int
	D int // is as well
	e int
)
`,
		"vfs/a_test.go": "package vfs\n\nfunc TestX() {}\n",
		"bench/main.go": "package main\n\nfunc Exported() {}\n",
	}, nil},
	{"undocumented", "exported-doc", map[string]string{
		"vfs/a.go": `package vfs

type T[P any] struct{}

func (*T[P]) M() {}

func F() {}

const A, b = 1, 2

var (
	C int
)

// These are types, and each needs words of its own.
type (
	X int
)
`,
	}, []string{"vfs/a.go:3: exported T has", "vfs/a.go:5: exported M has", "vfs/a.go:7: exported F has",
		"vfs/a.go:9: exported A has", "vfs/a.go:12: exported C has", "vfs/a.go:17: exported X has"}},

	{"own types, and those of others that are seen", "hidden", map[string]string{
		"queue/a.go": `package queue

import (
	"example.com/house/actorstore"
	"example.com/house/queue/internal/row"
)

type (
	A = actorstore.Entry
	B row.Row
	c = row.Row
	D struct{ r row.Row }
)
`,
		"queue/a_test.go":            `package queue; import "example.com/house/queue/internal/row"; type A = row.Row`,
		"queue/internal/row/row.go":  `package row; import "example.com/house/internal/bare"; type A = bare.Reader`,
		"queue/internals/row/row.go": `package row; import "example.com/house/queue/internals/row"; type A = row.Reader`,
		"bench/main.go":              `package main; import "example.com/house/internal/bare"; type A = bare.Reader`,
	}, nil},
	{"internal ones", "hidden", map[string]string{
		"queue/a.go": `package queue

import (
	"example.com/house/internal/bare"
	cells "example.com/house/queue/internal/row"
)

type (
	A = cells.Row
	B = map[string]*cells.Row
)

type C[T any] = bare.Reader[T]
`,
	}, []string{"queue/a.go:9: exported A is an alias of a type of queue/internal/row",
		"queue/a.go:10: exported B is an alias of a type of queue/internal/row", "queue/a.go:13: exported C is an alias of a type of internal/bare"}},

	{"at the limit", "length", map[string]string{
		"vfs/a.go": "package vfs\n" + strings.Repeat("\n", 599),
		"vfs/b.go": "// Code generated by x. DO NOT EDIT.\n\npackage vfs\n" + strings.Repeat("\n", 600),
	}, nil},
	{"over it", "length", map[string]string{
		"vfs/a.go": "package vfs\n" + strings.Repeat("\n", 600),
	}, []string{"vfs/a.go:601: more than 600 lines"}},

	{"in a program, or another Sleep", "sleep", map[string]string{
		"vfs/a.go":      `package vfs; import "time"; func f() { time.Sleep(1) }`,
		"vfs/a_test.go": `package vfs; func f() { time.Sleep(1) }`,
	}, nil},
	{"where the time is made up", "sleep", map[string]string{
		"vfs/a_test.go": `package vfs; import ("time"; "testing/synctest"); func f() { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }`,
	}, nil},
	{"beside it", "sleep", map[string]string{
		"vfs/a_test.go": `package vfs; import ("time"; "testing/synctest"); func f() { synctest.Test(t, g); time.Sleep(1) }`,
	}, []string{"vfs/a_test.go:1: time.Sleep in a test"}},
	{"in a test", "sleep", map[string]string{
		"vfs/a_test.go": `package vfs; import "time"; func f() { time.Sleep(1) }`,
		"vfs/b_test.go": `package vfs; import clock "time"; var nap = clock.Sleep`,
	}, []string{"vfs/a_test.go:1: time.Sleep in a test", "vfs/b_test.go:1: time.Sleep in a test"}},
}

const comment = "package vfs\n\n// "

var textCases = []ruleCase{
	{"ordinary prose", "words", map[string]string{
		"vfs/a.go":       comment + "the issue is 3 bytes; a session of SQL works/tmp; the hack and the todo list\n",
		"README.md":      "WAL-index checks are " + "not " + "implemented. See https://example.com/x/issues/12 and docs/design.md.\n",
		"testdata/a.md":  "TO" + "DO\n",
		"x.json":         "/tm" + "p/x",
		".hidden/a.md":   "TO" + "DO\n",
		"docs/design.md": "a shared/exclusive lock\n",
	}, nil},
	{"left open", "words", map[string]string{
		"vfs/a.go":  comment + "TO" + "DO later\n",
		"vfs/b.go":  comment + "not " + "implemented\n",
		"README.md": "FIX" + "ME\n",
	}, []string{"README.md:1: says FIX" + "ME", "vfs/a.go:3: says TO" + "DO", "vfs/b.go:3: says not " + "implemented"}},
	{"places", "words", map[string]string{
		"vfs/a.go":  comment + "in /tm" + "p/x\n",
		"vfs/b.go":  comment + "in (/wor" + "k/x)\n",
		".ci/run":   "cat share" + "d/vectors/x\n",
		"README.md": "see referenc" + "e/sqlite.md\n",
	}, []string{".ci/run:1: says share" + "d/vectors", "README.md:1: says referenc" + "e/sqlite", "vfs/a.go:3: says /tm" + "p", "vfs/b.go:3: says (/wor" + "k"}},
	{"numbers and people", "words", map[string]string{
		"vfs/a.go":     comment + "fixes #" + "12\n",
		"CHANGELOG.md": "as issue" + " 7 wants\nin design" + " §4\n",
		"docs/x.md":    "written by a sub" + "agent\n",
	}, []string{"CHANGELOG.md:1: says issue" + " 7", "CHANGELOG.md:2: says design" + " §", "docs/x.md:1: says sub" + "agent", "vfs/a.go:3: says fixes #" + "12"}},

	{"held", "claims", map[string]string{
		"docs/a.md":           "`vfs.TestA` and `kv/memkv.FuzzB` hold it; run `-run TestC`, call `vfs.Open`.\n",
		"vfs/a_test.go":       "package vfs; func TestA() {}\n",
		"kv/memkv/b_test.go":  "package memkv_test; func FuzzB() {}\n",
		"kv/memkv/b.go":       "package memkv; func TestNot() {}\n",
		"kv/pebblekv/b.go":    "package pebblekv; type T int; func (T) TestM() {}\n",
		"actorstore/notes.go": comment + "`vfs.TestGone`\n",
	}, nil},
	{"not held", "claims", map[string]string{
		"docs/a.md":             "nothing\n`vfs.TestA`, `kv/memkv.TestNot`\n",
		"vfs/a_test.go":         "package vfs; type T int; func (T) TestA() {}\n",
		"kv/memkv/b.go":         "package memkv; func TestNot() {}\n",
		"kv/pebblekv/a_test.go": "package pebblekv; func TestA() {}\n",
	}, []string{"docs/a.md:2: names the test kv/memkv.TestNot", "docs/a.md:2: names the test vfs.TestA"}},

	{"found", "links", map[string]string{
		"docs/a.md": "[the b](b.md#part), [up](../LICENSE), [web](https://example.com/x), [here](#part) [dir](../vfs)\n```go\nf := g[T](x)\n```\n",
		"docs/b.md": "",
		"LICENSE":   "",
		"vfs/a.go":  "package vfs // [x](nowhere)\n",
	}, nil},
	{"lost", "links", map[string]string{
		"docs/a.md": "```\n```\n[b](b.md) and [c](c.md#part)\n",
		"b.md":      "",
	}, []string{"docs/a.md:3: links to b.md", "docs/a.md:3: links to c.md"}},

	{"explained", "requires", map[string]string{
		"bench/peers/go.mod": "module m\n\nrequire (\n\ta.com/b v1.0.0 // bench\n\n\ta.com/c v1.0.0 // indirect\n)\n\nreplace (\n\ta.com/d => ../d\n)\n\nrequire a.com/e v1.0.0 // vfs\n",
	}, nil},
	{"unexplained", "requires", map[string]string{
		"bench/peers/go.mod": "module m\n\nrequire (\n\ta.com/b v1.0.0\n)\n\nrequire a.com/e v1.0.0\n",
	}, []string{"bench/peers/go.mod:4: a.com/b has no comment", "bench/peers/go.mod:7: a.com/e has no comment"}},

	{"a table", "keys", map[string]string{
		"queue/keys.go": "package queue\n\n// Key layout:\n//\n//\t[5] id → message\n//\n// More.\n",
	}, nil},
	{"no table", "keys", map[string]string{
		"queue/keys.go": "package queue\n\n// Key layout:\n// [5] id → message\n",
		"conn/keys.go":  "package conn\n",
	}, []string{"conn/keys.go: has no comment", "queue/keys.go: has no comment"}},
}

// TestLists checks the lists themselves.
func TestLists(t *testing.T) {
	for _, r := range restricted {
		if r.Reason == "" {
			t.Errorf("%s has no reason", r.Import)
		}
	}
	for _, e := range edges {
		_, from, ok1 := family(e.From)
		_, to, ok2 := family(e.To)
		if !ok1 || !ok2 || from != to || e.Reason == "" {
			t.Errorf("edge %+v: not within a floor, or without a reason", e)
		}
	}
	seen := map[string]bool{}
	for _, l := range layers {
		for _, p := range l.Packages {
			if seen[p] {
				t.Errorf("%s has two places", p)
			}
			seen[p] = true
		}
	}
}

// TestWordParts finds each thing that no file may contain by its parts: a file
// without any of them isn't looked at.
func TestWordParts(t *testing.T) {
	for _, text := range []string{
		"TOD" + "O", "FIXM" + "E", "XX" + "X", "HAC" + "K", "Unimplemente" + "d", "/wor" + "k", "/tm" + "p/x",
		"share" + "d/design.md", "referenc" + "e/models.md", "Seed 00" + "1", "runtime.md" + " §2", "design " + "§1",
		"Issue " + "#7", "issues " + "7", "Fixes " + "7", "closes" + " 7", "Resolves" + " #7",
		"Subagen" + "ts", "workplac" + "e", "ChatGP" + "T", "Claud" + "e", "anthropi" + "c", "this sessio" + "n", "My brie" + "f",
	} {
		fs := checkWords(fake(t, map[string]string{"vfs/a.go": "package vfs // " + text + "\n"}))
		if len(fs) != 1 {
			t.Errorf("%q: got %v", text, fs)
		}
	}
}
