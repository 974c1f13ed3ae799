// Package txntest is the conformance suite of transactions: every engine that offers them passes it, besides
// package kv/kvtest. The oracle is a sorted map for each state that a transaction may see.
package txntest

// Files, from the top down:
//
//	txntest.go watch.go anomaly.go life.go order.go search.go stamp.go atomic.go bench.go claim.go
//	conflict.go history.go random.go read.go select.go helper.go

import (
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// Run runs the suite, as subtests of "Transactions" that each open an engine of their own.
// With names it runs the subtests with these names alone, as for an engine that has passed
// all of them and differs in one thing.
//
// It skips what the engine says that it doesn't offer. Without txn.Exact it takes every
// conflict as it comes, and tests that what does commit is serializable.
func Run(t *testing.T, open func(t testing.TB) kv.Engine, names ...string) {
	t.Helper()
	t.Run("Transactions", func(t *testing.T) { suite.RunParts(t, open, parts(), names) })
}

func parts() []suite.Part {
	return []suite.Part{
		part("Basics", 0, testBasics),
		part("ReadOwnWrites", 0, testOwnWrites),
		part("OwnWritesInScans", 0, testOwnScans),
		part("Selectors", 0, testSelectors),
		part("SelectorsAndOwnWrites", 0, testOwnSelectors),
		part("ScanSelectors", 0, testScanSelectors),
		part("OneState", 0, testOneState),
		part("SnapshotReads", 0, testSnapshot),
		part("LoopsThatWrite", 0, testLoops),
		part("BinaryValues", 0, testBinary),
		part("Atomic", 0, testAtomic),
		part("AtomicOnOwnWrites", 0, testAtomicOwn),
		part("AtomicParallel", 0, testAtomicParallel),
		part("Conflicts", 0, testConflicts),
		part("DeclaredConflicts", txn.ConflictRanges, testDeclared),
		part("Claim", txn.ConflictRanges, testClaim),
		part("EngineCommits", 0, testEngineCommits),
		part("LongKeys", 0, testLongKeys),
		part("LostUpdate", 0, testLostUpdate),
		part("WriteSkew", 0, testWriteSkew),
		part("Phantom", 0, testPhantom),
		part("ReadOnlyAnomaly", 0, testReadOnlyAnomaly),
		part("Counter", 0, testCounter),
		part("Limits", 0, testLimits),
		part("Age", 0, testAge),
		part("Ended", 0, testEnded),
		part("EndedInLoop", 0, testEndedInLoop),
		part("Ownership", 0, testOwnership),
		part("Closed", 0, testClosed),
		part("Versionstamps", txn.Versionstamps, testStamps),
		part("VersionstampedKeys", txn.Versionstamps, testStampedKeys),
		part("VersionstampErrors", txn.Versionstamps, testStampErrors),
		part("VersionstampOrder", txn.Versionstamps, testStampOrder),
		part("Watch", txn.Watching, testWatch),
		part("WatchChannel", txn.Watching, testWatchChannel),
		part("WatchMissesNothing", txn.Watching, testWatchRace),
		part("EstimatedSize", txn.Sizes, testSize),
		part("Checkpoint", txn.Checkpoints, testCheckpoint),
		part("Unsupported", 0, testUnsupported),
		part("Random", 0, testRandom),
		part("Serializable", 0, testSerializable),
		part("Order", 0, testOrder),
	}
}

// part is a Part about transactions with these capabilities.
func part(name string, caps txn.Caps, test func(t *testing.T, db *txn.DB)) suite.Part {
	return suite.Part{Name: name, Test: func(t *testing.T, open suite.Opener) { test(t, start(t, open, caps, nil)) }}
}
