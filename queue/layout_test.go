package queue

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
	t.Run("Model", TestModel)
	t.Run("QueueCrash", TestQueueCrash)
	t.Run("DeadLettersFit", TestDeadLettersFit)
	t.Run("FullActor", TestFullActor)
	t.Run("Discard", TestDiscard)
	t.Run("Keys", TestKeys)
}
