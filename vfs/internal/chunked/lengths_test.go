package chunked

import (
	"math/rand/v2"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

// TestLengths compares the table with a map.
func TestLengths(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 400 {
		perBlock := perBlock
		if round%2 == 0 {
			perBlock = leastBlock // all of it in one block, which grows
		}
		bound := rng.Int64N(3 * perBlock)
		var l lengths
		l.reset(bound, rng.Int64N(4*perBlock))
		known := map[int64]int{} // −1: absent
		gone := bound
		for range 60 {
			i := rng.Int64N(5 * perBlock)
			switch rng.IntN(4) {
			case 0:
				n := rng.IntN(Size + 1)
				l.set(uint32(i), n)
				known[i] = n
			case 1: // a reader of a state in which the chunk was there
				l.learn(uint32(i), 7)
				if _, ok := known[i]; !ok && i < gone && l.at(i) != nil {
					known[i] = 7
				}
			case 2:
				l.truncate(i)
				gone = min(gone, i)
				for k := range known {
					if k >= i {
						delete(known, k)
					}
				}
			case 3:
				l.learn(uint32(i), -1)
			}
			k := rng.Int64N(5 * perBlock)
			want := batch.PriorUnknown
			if n, ok := known[k]; ok {
				want = batch.Stored(n)
			} else if k >= gone {
				want = batch.Absent
			}
			if got := l.prior(uint32(k)); got != want {
				t.Fatalf("seed %d: chunk %d: got %d, want %d", seed, k, got, want)
			}
		}
		total, all := int64(0), true
		from := rng.Int64N(5 * perBlock)
		for i := from; i < 5*perBlock; i++ {
			n, ok := known[i]
			if ok {
				total += int64(n) + 9
			}
			all = all && (ok || i >= gone)
		}
		if got, ok := l.stored(from, 5*perBlock, 9); ok != all || ok && got != total {
			t.Fatalf("seed %d: stored from %d: got %d, %v, want %d, %v", seed, from, got, ok, total, all)
		}
	}
}

// TestLengthsSmall: a small file has a small table, which grows with it and forgets nothing.
func TestLengthsSmall(t *testing.T) {
	var l lengths
	l.reset(3, maxLearned)
	if n := int64(len(l.block(0))); n != leastBlock {
		t.Errorf("there is room for %d lengths, want %d", n, leastBlock)
	}
	l.learn(1, 7)
	l.set(5000, 9)
	for i := range uint32(3000) {
		l.set(3+i, 11)
	}
	for i, want := range map[uint32]batch.Prior{0: batch.PriorUnknown, 1: batch.Stored(7), 2: batch.PriorUnknown, 3002: batch.Stored(11), 4095: batch.Absent, 5000: batch.Stored(9), 5001: batch.Absent} {
		if got := l.prior(i); got != want {
			t.Errorf("chunk %d: got %v, want %v", i, got, want)
		}
	}
}

// TestLengthsFarAway: a chunk at the far end costs a block and a list of them, and to
// add up what is before it takes no longer.
func TestLengthsFarAway(t *testing.T) {
	var l lengths
	l.reset(0, 0)
	l.set(^uint32(0), 5)
	if n := len(*l.blocks.Load()); int64(n) != MaxChunks/perBlock {
		t.Errorf("%d blocks", n)
	}
	if got, ok := l.stored(1, MaxChunks, 2); got != 7 || !ok {
		t.Errorf("got %d, %v", got, ok)
	}
}
