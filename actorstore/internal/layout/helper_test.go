package layout_test

import (
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// testID is the id that the golden bytes are about.
var testID = layout.ID{
	UUID:  [16]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
	Label: 7,
}

// must fails the test if err is not nil.
var must = testkit.Must
