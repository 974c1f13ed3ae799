package workflow

import (
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
)

// layout is that of the keys of new actors.
var layout = actorstore.LayoutGreenroom

// TestRivetKitLayout runs other tests with RivetKit's layout.
func TestRivetKitLayout(t *testing.T) {
	layout = actorstore.LayoutRivetKit
	defer func() { layout = actorstore.LayoutGreenroom }()
	t.Run("Random", TestRandom)
	t.Run("LoopCrash", TestLoopCrash)
	t.Run("ReplayFrom", TestReplayFrom)
	t.Run("Spans", TestSpans)
}
