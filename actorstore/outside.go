package actorstore

import (
	"bytes"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// owned are the ranges in which stores of actors, and the packages above them, have their rows: the actors' own, and tuples whose
// first element is a string that begins with "greenroom".
var owned = [...][2][]byte{subtree(layout.AppendRoot(nil)), subtree([]byte("\x02greenroom"))}

func subtree(prefix []byte) [2][]byte { return [2][]byte{prefix, kv.PrefixEnd(prefix)} }

// Outside reports whether the physical keys [start, end), or start alone if end is nil, are none that a store of actors has, so that other
// models may write them in the same engine.
func Outside(start, end []byte) bool {
	if end == nil {
		end = append(bytes.Clone(start), 0)
	}
	for _, r := range owned {
		if bytes.Compare(start, r[1]) < 0 && bytes.Compare(r[0], end) < 0 {
			return false
		}
	}
	return true
}
