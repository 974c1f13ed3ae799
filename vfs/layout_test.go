package vfs_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// layout is that of the keys of new actors.
var layout = actorstore.LayoutGreenroom

// TestRivetKitLayout runs other tests with RivetKit's layout: those of keys, and in the long form those of
// crashes and faults, which know no keys.
func TestRivetKitLayout(t *testing.T) {
	layout = actorstore.LayoutRivetKit
	t.Cleanup(func() { layout = actorstore.LayoutGreenroom }) // behind the tests that are parallel
	if testkit.Long() {
		t.Run("FaultMixed", TestFaultMixed)
		t.Run("Crash", TestCrash)
	}
	t.Run("FarOpen", TestFarOpen)
	t.Run("FarLeftovers", TestFarLeftovers)
	t.Run("WALTakenOver", TestWALTakenOver)
	t.Run("RecoverOnMount", TestRecoverOnMount)
	t.Run("ExportIsBackup", TestExportIsBackup)
	t.Run("ForkInUse", TestForkInUse)
}
