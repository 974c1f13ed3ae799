package vfs_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/vfs"
)

// roundTrip is what a read of a far engine costs in BenchmarkFar, besides what it costs
// here: half a millisecond is the next room, some are another town.
const roundTrip = time.Millisecond

// BenchmarkFar is work on a database of 50 MiB, cold except in the last case, with reading ahead
// and without a cache. The round trips take no time: the benchmark counts them.
func BenchmarkFar(b *testing.B) {
	for _, work := range []struct {
		name string
		cold bool
		do   func(db *vfs.DB, random *rand.Rand)
	}{
		{"open", true, func(db *vfs.DB, random *rand.Rand) {
			one[int](b, db, "select length(b) from t0 where id = ?", 1+random.Int64N(rowsIn(50<<20, 1)))
		}},
		{"scan", true, func(db *vfs.DB, _ *rand.Rand) { one[int](b, db, "select sum(length(b)) from t0") }},
		{"backward", true, func(db *vfs.DB, _ *rand.Rand) {
			one[int](b, db, "select sum(length(b)) from (select b from t0 order by id desc)")
		}},
		{"scattered", true, func(db *vfs.DB, random *rand.Rand) {
			for range 100 {
				one[int](b, db, "select length(b) from t0 where id = ?", 1+random.Int64N(rowsIn(50<<20, 1)))
			}
		}},
		{"update", false, func(db *vfs.DB, _ *rand.Rand) { exec(b, db, "update t0 set b = randomblob(940) where id = 1000") }},
	} {
		for _, cache := range []int64{0, -1} {
			b.Run(fmt.Sprintf("%s/%s", work.name, map[int64]string{0: "ahead", -1: "plain"}[cache]), func(b *testing.B) {
				r := newFarRig(b)
				r.fill(b, 1, 50<<20)
				r.cache = cache
				random := rand.New(rand.NewPCG(1, 2))
				reads, n := int64(0), 0
				if !work.cold {
					r.session(b, single, func(db *vfs.DB) {
						work.do(db, random)
						for r.reads(); b.Loop(); n++ {
							work.do(db, random)
						}
						reads += r.reads()
					})
				}
				for ; work.cold && b.Loop(); n++ {
					r.session(b, single, func(db *vfs.DB) {
						work.do(db, random)
						reads += r.reads()
					})
				}
				b.ReportMetric(float64(reads)/float64(n), "reads/op")
				b.ReportMetric(float64(reads)/float64(n)*roundTrip.Seconds()*1e3, "ms-of-round-trips/op")
			})
		}
	}
}
