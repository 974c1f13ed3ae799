package lint

import (
	"go/types"
	"strings"
	"testing"
)

// store is a tree with the functions by which something is written, all called where they may be.
var store = map[string]string{
	"kv/kv.go":           "package kv\ntype Engine interface { Commit(); Get() }\n",
	"kv/txn/db.go":       "package txn\n" + `import "example.com/house/kv"; ` + "func New(e kv.Engine) {}\n",
	"kv/memkv/memkv.go":  "package memkv\ntype DB struct{}\nfunc (*DB) Commit() {}\n",
	"batch/batch.go":     "package batch\ntype Batch struct{}\nfunc (*Batch) Split() {}\nfunc (*Batch) Seal() {}\nfunc (b *Batch) Settle() { b.Seal() }\ntype Dirty[K any] struct{}\nfunc (*Dirty[K]) Clear() {}\nfunc (*Dirty[K]) Mark() {}\n",
	"actorstore/a.go":    "package actorstore\n" + imports + "func f(e kv.Engine, b *batch.Batch) { b.Seal(); b.Split(); e.Commit(); b.Settle() }\n",
	"workflow/run.go":    "package workflow\n" + imports + "var _ kv.Engine; var _ batch.Batch\n",
	"test/x/go.mod":      "module example.com/house/test/x",
	"test/x/x.go":        "package x\n" + imports + "func f(e kv.Engine) { e.Commit() }\n",
	"queue/a_test.go":    "package queue\n" + imports + "func f(e kv.Engine) { e.Commit() }\n",
	"traces/otherway.go": "package traces\ntype Batch struct{}\nfunc (Batch) Settle() {}\nfunc f(b Batch) { b.Settle() }\n",
}

const imports = `import ("example.com/house/kv"; "example.com/house/batch"); `

var writerCases = []ruleCase{
	{"in their places", "writers", with(store,
		"workflow/internal/history/a.go", "package history\n"+imports+"type h struct { d batch.Dirty[int]; e kv.Engine }\nfunc (h *h) f() { h.d.Mark(); h.d.Clear(); h.e.Get() }\n",
	), nil},
	{"elsewhere", "writers", with(store,
		"workflow/internal/history/a.go", "package history\n"+imports+`import "example.com/house/kv/txn"; `+"type d struct { batch.Dirty[int] }\nfunc f(d *d, e kv.Engine) { d.Clear(); txn.New(e) }\n",
		"queue/queue.go", "package queue\n"+imports+"type DB struct { kv.Engine }\nvar _ batch.Batch; func f(db *DB) { db.Commit() }\n",
		"persist/a.go", "package persist\n"+imports+"func f(e kv.Engine, d batch.Dirty[int]) {\nd.Clear()\nsettle := (*batch.Batch).Settle\n_ = settle }\n",
	), []string{"persist/a.go:3: uses batch.Dirty.Clear", "persist/a.go:4: uses batch.Batch.Settle", "queue/queue.go:3: uses kv.Engine.Commit",
		"workflow/internal/history/a.go:3: uses kv/txn.New"}},
	{"no longer", "writers", with(store,
		"vfs/a.go", "package vfs\n"+imports+"func f(e kv.Engine, b *batch.Batch) {}\n",
	), []string{"vfs: doesn't use batch.Batch.Split any more", "workflow: doesn't use batch.Dirty.Clear any more"}},
}

// TestWriters: each of them is there.
func TestWriters(t *testing.T) {
	tree := loadRoot(t)
	for _, w := range writers {
		dir, name, _ := strings.Cut(w.Name, ".")
		declared := false
		for _, p := range tree.Packages {
			if p.Dir != dir {
				continue
			}
			c, err := tree.check(p)
			if err != nil {
				t.Fatal(err)
			}
			typ, method, ok := strings.Cut(name, ".")
			obj := c.pkg.Scope().Lookup(typ)
			declared = obj != nil
			if ok && declared {
				m, _, _ := types.LookupFieldOrMethod(obj.Type(), true, c.pkg, method)
				declared = m != nil
			}
		}
		if !declared || w.Reason == "" {
			t.Errorf("%s is not declared, or has no reason", w.Name)
		}
	}
}
