// Package suite has what the conformance suites of engines (package kv/kvtest) and of their transactions (package
// kv/txn/txntest) share: short forms, the oracle, the language of scripts.
package suite

// Files, from the top down:
//
//	player.go oracle.go do.go model.go pages.go want.go words.go generator.go ops.go step.go suite.go

import (
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// An Opener returns a new, empty engine. The suite closes it; what else must go
// (a directory, a server) open leaves to t.Cleanup.
type Opener func(t testing.TB) kv.Engine

// Start opens an engine that is closed when the test ends.
func Start(t testing.TB, open Opener) kv.Engine {
	t.Helper()
	eng := open(t)
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return eng
}

// A Part is one subtest of a suite.
type Part struct {
	Name string
	Test func(t *testing.T, open Opener)
}

// RunParts runs the parts with these names, or all parts if names is empty.
func RunParts(t *testing.T, open Opener, parts []Part, names []string) {
	t.Helper()
	left := slices.Clone(names)
	for _, p := range parts {
		if i := slices.Index(left, p.Name); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else if len(names) > 0 {
			continue
		}
		t.Run(p.Name, func(t *testing.T) { p.Test(t, open) })
	}
	if len(left) > 0 {
		t.Errorf("the suite has no parts %q", left)
	}
}
