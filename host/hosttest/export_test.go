package hosttest

import "github.com/greenroomdb/greenroom/kv/faultkv"

// FailSyncs has every wait for stable storage fail.
func (e *Env) FailSyncs() {
	e.disk.Fail(faultkv.Rule{Point: faultkv.BeforeSync, Times: faultkv.Forever})
}
