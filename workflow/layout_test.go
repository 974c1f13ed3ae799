package workflow

import (
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// layout is that of the keys of new actors.
var layout = actorstore.LayoutGreenroom

// TestRivetKitLayout runs other tests with RivetKit's layout: those of keys, and in a long run random workflows.
func TestRivetKitLayout(t *testing.T) {
	layout = actorstore.LayoutRivetKit
	defer func() { layout = actorstore.LayoutGreenroom }()
	if testkit.Long() {
		t.Run("Random", TestRandom)
	}
	t.Run("LoopCrash", TestLoopCrash)
	t.Run("ReplayFrom", TestReplayFrom)
	t.Run("Spans", TestSpans)
}
