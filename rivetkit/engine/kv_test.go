package engine

import (
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

// TestDeleteRange: a range deletes its keys, but for those that the program may not write, whichever bounds it has.
func TestDeleteRange(t *testing.T) {
	bounds := [][]byte{nil, []byte("a"), []byte("b1"), []byte("b12"), []byte("b2"), []byte("g"), []byte("h"), []byte("ha"), []byte("i"), []byte("j")}
	for _, keys := range []actorKeys{{"h"}, {"b1", "h"}} {
		for _, start := range bounds {
			for _, end := range bounds {
				var b batch.Batch
				keys.deleteRange(&b, start, end)
				for _, key := range []string{"", "a", "b", "b1", "b12", "b1z", "b2", "g", "gg", "h", "ha", "hz", "i", "ii", "j", "z"} {
					got := false
					for _, op := range b.Ops() {
						got = got || key >= string(op.Key) && (op.Value == nil || key < string(op.Value))
					}
					want := key >= string(start) && (end == nil || key < string(end)) && !keys.hides([]byte(key))
					if got != want {
						t.Errorf("%q: [%s, %s) deletes %q: %v", keys, start, end, key, got)
					}
				}
			}
		}
	}
}
