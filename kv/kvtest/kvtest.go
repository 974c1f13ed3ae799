// Package kvtest is the conformance suite of kv.Engine: what it tests is what the
// packages above an engine rely on, and every engine of this module passes it.
//
// The oracle is a sorted map. The suite uses nothing but the contract, so it
// can't see what is specific to an engine (that a failing disk poisons): engines test
// that themselves. What outlives a crash is in RunCrashes, and what transactions do in
// package kv/txn/txntest.
package kvtest

// Files, from the top down:
//
//	kvtest.go bench.go clears.go commit.go concurrent.go crash.go life.go ranges.go read.go scan.go
//	helper.go random.go

import (
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// Run runs the suite, as subtests that each open an engine of their own. With names it runs
// the subtests with these names alone, as for an engine that has passed all of them and
// differs in one thing.
func Run(t *testing.T, open func(t testing.TB) kv.Engine, names ...string) {
	t.Helper()
	suite.RunParts(t, open, []suite.Part{
		{Name: "Get", Test: testGet},
		{Name: "EmptyKeysAndValues", Test: testEmpty},
		{Name: "BigValues", Test: testBig},
		{Name: "Ownership", Test: testOwnership},
		{Name: "Scan", Test: testScan},
		{Name: "ScanBounds", Test: testScanBounds},
		{Name: "ScanState", Test: testScanState},
		{Name: "ScanLoop", Test: testScanLoop},
		{Name: "ScanRanges", Test: testScanRanges},
		{Name: "ScanRangesEnds", Test: testScanRangesEnds},
		{Name: "OpOrder", Test: testOpOrder},
		{Name: "ClearMany", Test: testClearMany},
		{Name: "InvalidOps", Test: testInvalidOps},
		{Name: "Checks", Test: testChecks},
		{Name: "OnApply", Test: testOnApply},
		{Name: "Outcome", Test: testOutcome},
		{Name: "Incarnation", Test: testIncarnation},
		{Name: "Shared", Test: testShared},
		{Name: "Limits", Test: testLimits},
		{Name: "Snapshot", Test: testSnapshot},
		{Name: "Context", Test: testContext},
		{Name: "Closed", Test: testClosed},
		{Name: "CloseUnderLoad", Test: testCloseUnderLoad},
		{Name: "Counter", Test: testCounter},
		{Name: "Clears", Test: testClears},
		{Name: "CheckedClears", Test: testCheckedClears},
		{Name: "Atomicity", Test: testAtomicity},
		{Name: "Random", Test: testRandom},
	}, names)
}
