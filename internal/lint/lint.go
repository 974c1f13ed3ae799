// Package lint holds the rules of this tree that gofmt, vet and staticcheck
// don't know: which package may import which, where a third-party module may be
// used, what every file and every go.mod line must say about itself.
//
// The rules are data with a reason each, and their test is the linter: a break of the
// layering fails "go test ./..." on its author's machine. They look at parsed source, and
// see files of every platform. One of them resolves names; what imported packages export,
// its test asks the go command.
//
// A rule that the tree broke when the rule came has exceptions, in exceptions.txt,
// whose numbers only go down.
//
// lint is not a general tool: it knows this tree by name. It imports nothing of
// the tree, and nothing of the tree imports it.
package lint

// Files, from the top down:
//
//	rules.go exceptions.go gate.go methods.go upward.go claims.go errors.go functions.go imports.go
//	listed.go suites.go writers.go gomod.go keyspace.go layers.go markdown.go prose.go source.go
//	types.go words.go tree.go linked.go lint.go order.go

import (
	"cmp"
	"fmt"
	"slices"
)

// A rule is one property that the whole tree must have.
type rule struct {
	// Name is the rule's name in test output.
	Name string
	// Reason says what the rule is good for. It is printed with a break.
	Reason string
	// Check returns the breaks of the rule in t, in any order.
	Check func(t *tree) []finding
}

// A finding is one place that breaks a rule.
type finding struct {
	// Path is the file or folder, slash-separated and relative to the root.
	Path string
	// Line counts from 1; 0 means the file or folder as a whole.
	Line int
	// Text says what is wrong, without the place.
	Text string
}

// String returns "path:line: text", or "path: text" without a line.
func (f finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// sortFindings orders findings by place, so that output is stable.
func sortFindings(fs []finding) []finding {
	slices.SortFunc(fs, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return fs
}

// A measured is something that a rule with exceptions has counted.
type measured struct {
	// name is a package's folder, or a type's with the type behind a dot.
	name string
	// place is where a break is reported.
	place finding
	// counts are what an exception allows, or less.
	counts []int
	// over says that it needs an exception.
	over bool
	// says is the counts in words, more what helps to lower them.
	says, more string
}

// finding reports m. hint says what is excepted.
func (m measured) finding(hint string) finding {
	f := m.place
	f.Text = m.says + hint
	if m.more != "" {
		f.Text += ": " + m.more
	}
	return f
}
