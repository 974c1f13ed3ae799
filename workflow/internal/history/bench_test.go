package history

import (
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

// BenchmarkStep records a step as a runner does: its attempt, and its result.
func BenchmarkStep(b *testing.B) {
	r := newRig(b, Options{}, batch.Limits{Storage: 1 << 40})
	loop := r.at("loop")
	index, _ := r.h.Lookup("loop")
	r.at("step")
	name, _ := r.h.Lookup("step")
	output := make([]byte, 100)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		l := loop.Iteration(index, uint32(i)).Name(name)
		for try := range 2 {
			tx := r.h.Begin()
			k := Step{}
			if try == 1 {
				k.Output = output
			}
			must(b, tx.Put(Entry{Location: l, Kind: k}))
			must(b, tx.PutMetadata(l, Metadata{Status: StatusRunning, Attempts: uint32(try)}))
			must(b, tx.Commit(ctx))
		}
	}
}
