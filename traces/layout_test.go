package traces

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
	t.Run("ModelCrash", TestModelCrash)
	t.Run("ModelDated", TestModelDated)
	t.Run("IDsGoOn", TestIDsGoOn)
	t.Run("TrimBytes", TestTrimBytes)
	t.Run("Foreign", TestForeign)
	t.Run("Straddling", TestStraddling)
}
