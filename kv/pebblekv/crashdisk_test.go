package pebblekv

import (
	"math/rand/v2"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestCrashDisk crashes a disk while commits go on, and what it left in turn: what
// is durable is never lost, and what is not may be.
func TestCrashDisk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	d := NewCrashDisk()
	db, err := d.Open(tiny)
	if err != nil {
		t.Fatal(err)
	}
	const records = 300 // memtables fill up, and logs are used again
	durable := make(chan int)
	go func() {
		defer close(durable)
		for i := range records {
			if err := db.Commit(ctx, numbered(i)); err != nil {
				t.Error(err)
				return
			}
			durable <- i + 1
		}
	}()
	step := testkit.Pick(50, 1, 1)
	for n := range durable {
		if n%step != 0 {
			continue
		}
		left := d.Crash(rnd.IntN(101), rnd)
		wantPrefix(t, left.mem, n)
		wantPrefix(t, left.Crash(0, rnd).mem, n)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
