package lint

import (
	"go/types"
	"slices"
	"strings"
)

// A writer is a function by which something gets into the store, or is forgotten in memory because it has.
type writer struct {
	// Name is the folder, the type if it is a method, and the function.
	Name string
	// In lists the packages, besides its own, that call it. Their internal folders may, too.
	In []string
	// Reason says why no other does.
	Reason string
}

// writers are the only way to write: whatever changes in an actor is put into a batch, Actor.Commit cuts that, and
// the batch says what became of it.
var writers = []writer{
	{"kv.Engine.Commit", []string{"kv/faultkv", "kv/internal/suite", "kv/kvtest", "internal/testkit/engines", "kv/txn/txntest", "actorstore", "actorstore/internal/lease", "internal/limits", "internal/signed", "internal/wake", "rivetkit/engine", "host", "host/front", "cmd/greenroom", "internal/remotekv"}, "what an actor keeps is written by actorstore, which fences and counts it. A process that serves its engine to tools commits for them what belongs to none of the actors. Leases, limits of actors together, the takeover of rows of stores of before, types with migrations, fronts, the secrets of hosts and namespaces have rows of their own beside that, and a salvage copies rows to a store in which no actor is open"},
	{"kv/txn.New", []string{"docstore", "itemstore", "bench", "kv/internal/suite", "kv/txn/txntest"}, "a transaction over the bare engine knows no owner. Items and documents have none, and their measurements go beside them"},
	{"batch.Batch.Split", []string{"actorstore", "vfs"}, "there is one splitter, before one commit. SQL asks it what doesn't fit, and writes that through a journal"},
	{"batch.Batch.Seal", []string{"actorstore"}, "a batch takes no more when it is being committed"},
	{"batch.Batch.Settle", []string{"actorstore"}, "a batch has landed when its commit has"},
	{"batch.Dirty.Clear", []string{"conn", "workflow"}, "what was dirty is forgotten only when the batch has landed that carried it"},
}

// checkWriters holds the tree against writers.
func checkWriters(t *tree) []finding { return compareWriters(t, writers) }

// compareWriters holds every call in the root module, tests apart, against list, and list against the calls.
func compareWriters(t *tree, list []writer) []finding {
	byName := map[string]writer{}
	verbs := map[string]bool{} // the functions' own names
	for _, w := range list {
		byName[w.Name] = w
		verbs[w.Name[strings.LastIndexByte(w.Name, '.')+1:]] = true
	}
	// Each use must be in the list, and each line of the list must have a use.
	called := map[[2]string]bool{} // by name and family
	var fs []finding
	for _, p := range t.Packages {
		if p.Nested {
			continue
		}
		c, err := t.check(p)
		if err != nil {
			fs = append(fs, finding{p.Dir, 0, "doesn't type-check: " + err.Error()})
			continue
		}
		// A use is a call, or makes one possible: a method value counts, too.
		own, _, _ := family(p.Dir)
		for id, obj := range c.uses {
			fn, ok := obj.(*types.Func)
			if !ok || !verbs[fn.Name()] || fn.Pkg() == nil {
				continue
			}
			w, ok := byName[funcName(t, fn)]
			if !ok || fn.Pkg() == c.pkg {
				continue
			}
			called[[2]string{w.Name, own}] = true
			if !slices.Contains(w.In, own) {
				fs = append(fs, t.at(id.Pos(), "uses %s: %s", w.Name, w.Reason))
			}
		}
	}
	// A permission that nothing needs is one that the next writer finds.
	for _, w := range list {
		for _, dir := range w.In {
			if t.has(dir) && !called[[2]string{w.Name, dir}] {
				fs = append(fs, finding{dir, 0, "doesn't use " + w.Name + " any more: take it out of Writers"})
			}
		}
	}
	return fs
}

// funcName returns the name of a function of the tree as a writer has it, "" for any other.
func funcName(t *tree, fn *types.Func) string {
	dir, ok := t.inRoot(fn.Pkg().Path())
	if !ok {
		return ""
	}
	recv := fn.Signature().Recv()
	if recv == nil {
		return dir + "." + fn.Name()
	}
	// The methods of T and of *T are both T's, and those of an instance are the generic type's.
	typ := recv.Type()
	if p, ok := typ.(*types.Pointer); ok {
		typ = p.Elem()
	}
	if named, ok := typ.(*types.Named); ok {
		return dir + "." + named.Obj().Name() + "." + fn.Name()
	}
	return ""
}
