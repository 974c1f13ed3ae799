package engine

import (
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// TestDeleteRange: a range deletes its keys, but for those of the engine, whichever bounds it has.
func TestDeleteRange(t *testing.T) {
	bounds := [][]byte{nil, []byte("a"), []byte("g"), []byte("h"), []byte("ha"), []byte("i"), []byte("j")}
	for _, start := range bounds {
		for _, end := range bounds {
			var b batch.Batch
			deleteRange(&b, start, end)
			for _, key := range []string{"", "a", "g", "gg", "h", "ha", "hz", "i", "ii", "j", "z"} {
				got := false
				for _, op := range b.Ops() {
					got = got || key >= string(op.Key) && (op.Value == nil || key < string(op.Value))
				}
				want := key >= string(start) && (end == nil || key < string(end)) && !rivetstore.Own([]byte(key))
				if got != want {
					t.Errorf("[%s, %s) deletes %q: %v", start, end, key, got)
				}
			}
		}
	}
}
