package history

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
	t.Run("Reload", TestReload)
	t.Run("DeleteIterations", TestDeleteIterations)
	t.Run("Reset", TestReset)
	t.Run("OrphansGo", TestOrphansGo)
	t.Run("ByAge", TestByAge)
}
