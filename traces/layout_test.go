package traces

import (
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// layout is that of the keys of new actors.
var layout = actorstore.LayoutGreenroom

// TestRivetKitLayout runs other tests with RivetKit's layout: those of keys, and in a long run the models.
func TestRivetKitLayout(t *testing.T) {
	layout = actorstore.LayoutRivetKit
	defer func() { layout = actorstore.LayoutGreenroom }()
	if testkit.Long() {
		t.Run("Model", TestModel)
		t.Run("ModelCrash", TestModelCrash)
		t.Run("ModelDated", TestModelDated)
	}
	t.Run("IDsGoOn", TestIDsGoOn)
	t.Run("TrimBytes", TestTrimBytes)
	t.Run("Foreign", TestForeign)
	t.Run("Straddling", TestStraddling)
}
