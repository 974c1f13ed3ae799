package layout

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
)

// Usage is what an actor has used in its life. Its row lies beside the head; an actor of which nothing was counted has none.
type Usage struct {
	Turns    uint64
	Awake    uint64 // in ms
	Written  uint64 // bytes
	Rows     uint64 // that SQL has read
	Failures []Failure
}

// A Failure is turns that have failed in the same way: those of a Place with a Code. No two of an actor have the same of both.
type Failure struct {
	Code, Place string
	Count       uint64
	Last        int64 // when the last of them failed, in ms
}

// maxCount bounds a sum.
const maxCount = 1 << 62

// MaxAwake bounds Usage.Awake, so that it is a time which nanoseconds can say.
const MaxAwake = 1 << 42

// Append appends the row.
func (u *Usage) Append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, usageVersion)
	for _, n := range []uint64{u.Turns, u.Awake, u.Written, u.Rows, uint64(len(u.Failures))} {
		dst = bare.AppendUint(dst, n)
	}
	for _, f := range u.Failures {
		dst = bare.AppendString(bare.AppendString(dst, f.Code), f.Place)
		dst = bare.AppendI64(bare.AppendUint(dst, f.Count), f.Last)
	}
	return dst
}

// ParseUsage decodes the row; id is the actor's, for the errors.
func ParseUsage(id ID, row []byte) (u Usage, err error) {
	what := "usage of actor " + id.String()
	r, err := open(row, usageVersion, what)
	if err != nil {
		return Usage{}, err
	}
	u = Usage{Turns: r.Uint(), Awake: r.Uint(), Written: r.Uint(), Rows: r.Uint()}
	seen := map[[2]string]bool{}
	for range r.Len(len(row)) { // a failure takes eleven bytes or more
		f := Failure{Code: r.String(), Place: r.String(), Count: r.Uint(), Last: r.I64()}
		if f.Count > maxCount {
			r.Fail("a count that is too large")
		}
		if key := [2]string{f.Code, f.Place}; seen[key] {
			r.Fail("two failures %q of %q", f.Code, f.Place)
		} else {
			seen[key] = true
		}
		u.Failures = append(u.Failures, f)
	}
	if max(u.Turns, u.Written, u.Rows) > maxCount || u.Awake > MaxAwake {
		r.Fail("a count that is too large")
	}
	if err := r.Done(); err != nil {
		return Usage{}, fmt.Errorf("actorstore: %s: %w: %w", what, err, kv.ErrCorrupt)
	}
	return u, nil
}
