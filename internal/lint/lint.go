// Package lint holds the rules of this tree that gofmt, vet and staticcheck
// don't know: which package may import which, where a third-party module may be
// used, what every file and every go.mod line must say about itself.
//
// The rules are data with a reason each, and their test is the linter: a break
// of the layering fails "go test ./..." on the machine of whoever made it. They
// look at parsed source only and run neither the go command nor the network, so
// that they take a moment and see files of every platform.
//
// lint is no general tool: it knows this tree by name. It imports nothing of
// the tree, and nothing of the tree imports it.
package lint

import (
	"cmp"
	"fmt"
	"slices"
)

// A Rule is one property that the whole tree must have.
type Rule struct {
	// Name is the rule's name in test output.
	Name string
	// Reason says what the rule is good for. It is printed with a break.
	Reason string
	// Check returns the breaks of the rule in t, in any order.
	Check func(t *Tree) []Finding
}

// A Finding is one place that breaks a rule.
type Finding struct {
	// Path is the file or folder, slash-separated and relative to the root.
	Path string
	// Line counts from 1; 0 means the file or folder as a whole.
	Line int
	// Text says what is wrong, without the place.
	Text string
}

// String returns "path:line: text", or "path: text" without a line.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// Rules returns every rule, in the order in which they are reported.
func Rules() []Rule {
	return []Rule{
		{"layers", "a package can be understood knowing only what lies below it", checkLayers},
		{"restricted", "a dependency that is used in one place can be replaced there", checkRestricted},
		{"floor0", "formats and limits must not move with somebody else's release", checkFloorZero},
		{"init", "importing a package must change nothing", checkInit},
		{"blank", "importing a package for its side effects is the program's decision", checkBlank},
		{"sqlitevfs", "two packages are named vfs, and a reader must see which one is meant", checkAlias},
		{"cgo", "one static binary for every platform", checkCgo},
		{"package-doc", "a package that can't be said in one sentence is not one package", checkPackageDoc},
		{"exported-doc", "what others call, they call knowing its contract", checkExportedDoc},
		{"length", "a file of more than 600 lines holds a second noun", checkLength},
		{"sleep", "a test that sleeps is slow when it passes and flaky when it fails", checkSleep},
		{"words", "the tree speaks for itself, and has nothing left open", checkWords},
		{"links", "a page that leads nowhere is out of date", checkLinks},
		{"claims", "what a page says that a test holds must be held by one", checkClaims},
		{"requires", "a dependency that nobody can explain can't be removed", checkRequires},
		{"keys", "no key is stored that its package doesn't list", checkKeys},
	}
}

// sortFindings orders findings by place, so that output is stable.
func sortFindings(fs []Finding) []Finding {
	slices.SortFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return fs
}
