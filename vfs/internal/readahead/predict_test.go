package readahead

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A reading is what a pattern costs with a cache of so many chunks that drops the
// oldest.
type reading struct {
	predictor
	room     int
	held     map[int64]bool
	order    []int64
	n, end   int64
	reads    int
	fetched  int64
	overlong bool
}

func newReading(n, end int64, room int) *reading {
	r := &reading{n: n, end: end, room: room, held: map[int64]bool{}}
	r.cached = r
	return r
}

func (r *reading) has(chunk int64) bool { return r.held[chunk] }

// page asks for a page, of n chunks.
func (r *reading) page(number int64) {
	i := number * r.n
	have := true
	for c := i; c < i+r.n; c++ {
		have = have && r.held[c]
	}
	if have {
		r.hit(i, r.n)
		return
	}
	from, to := r.miss(i, r.n, r.end)
	r.reads++
	r.fetched += to - from
	r.overlong = r.overlong || from > i || to < i+r.n || to-from > maxWindow || from < 0 || to > r.end
	for c := from; c < to; c++ {
		if !r.held[c] {
			r.held[c] = true
			r.order = append(r.order, c)
		}
	}
	for len(r.order) > r.room {
		delete(r.held, r.order[0])
		r.order = r.order[1:]
	}
}

// check fails the test if the pattern took more than the bounds say, or the counts don't
// add up.
func (r *reading) check(t *testing.T, reads int, fetched int64) {
	t.Helper()
	if r.reads > reads || r.fetched > fetched {
		t.Errorf("%d reads of %d chunks, want at most %d of %d", r.reads, r.fetched, reads, fetched)
	}
	if r.overlong {
		t.Error("a window that is too long, beyond the file, or without the page")
	}
	c := r.count
	open := int64(0)
	for k := range r.streams {
		open += r.streams[k].extra - r.streams[k].used
	}
	if c.pages != c.used+c.wasted+open || open < 0 {
		t.Errorf("%+v and %d not yet used", c, open)
	}
}

const unbounded = 1 << 30

func TestPredictSequence(t *testing.T) {
	const chunks = 12800 // 50 MiB
	for _, n := range []int64{1, 2, 4, 16} {
		for _, room := range []int{unbounded, 2048, 300} {
			t.Run(fmt.Sprintf("%d chunks a page, room for %d", n, room), func(t *testing.T) {
				r := newReading(n, chunks, room)
				for p := range chunks / n {
					r.page(p)
				}
				r.check(t, 55, chunks)
				r = newReading(n, chunks, room)
				for p := chunks/n - 1; p >= 0; p-- {
					r.page(p)
				}
				r.check(t, 55, chunks)
			})
		}
	}
}

// TestPredictInterleaved reads one of several tables whose pages alternate.
func TestPredictInterleaved(t *testing.T) {
	const chunks = 12800
	for _, of := range []int64{2, 3, 4} {
		for _, run := range []int64{1, 5, 40} {
			for _, backward := range []bool{false, true} {
				t.Run(fmt.Sprintf("every %d, runs of %d, backward %v", of, run, backward), func(t *testing.T) {
					var pages []int64
					for p := range int64(chunks) {
						if p/run%of == 0 {
							pages = append(pages, p)
						}
					}
					if backward {
						slices.Reverse(pages)
					}
					r := newReading(1, chunks, 2048)
					for _, p := range pages {
						r.page(p)
					}
					most := 58
					if of > 2 {
						most = 66
					}
					r.check(t, most, chunks)
				})
			}
		}
	}
}

// TestPredictStreams reads several sequences at once, and scattered pages between them,
// as an index does that leads to a table.
func TestPredictStreams(t *testing.T) {
	const chunks = 1 << 20
	random := rand.New(rand.NewPCG(1, 2))
	r := newReading(1, chunks, 4096)
	streams := []int64{0, 200_000, 400_000, 600_000}
	scattered := 0
	for step := range int64(5000) {
		for k, start := range streams {
			if k%2 == 0 {
				r.page(start + step)
			} else {
				r.page(start + 50_000 - step)
			}
		}
		if step%4 == 0 {
			r.page(700_000 + random.Int64N(300_000))
			scattered++
		}
	}
	r.check(t, scattered+len(streams)*25+20, int64(len(streams)*5300+scattered*3/2))
}

// TestPredictScattered reads pages in no order: each costs one read, and not twice its
// bytes.
func TestPredictScattered(t *testing.T) {
	for _, chunks := range []int64{200, 500, 2000, 12800, 1 << 20} {
		for _, n := range []int64{1, 2, 16} {
			t.Run(fmt.Sprintf("%d of %d", n, chunks), func(t *testing.T) {
				for seed := range uint64(200) {
					random := rand.New(rand.NewPCG(seed, 3))
					r := newReading(n, chunks/n*n, unbounded)
					pages := min(100, int(chunks/n))
					for asked := map[int64]bool{}; len(asked) < pages; {
						if p := random.Int64N(chunks / n); !asked[p] {
							asked[p] = true
							r.page(p)
						}
					}
					r.check(t, pages, 2*int64(pages)*n)
				}
			})
		}
	}
}

// TestPredictAdverse reads what looks like the beginning of a stream over and over, and
// never becomes one.
func TestPredictAdverse(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	r := newReading(1, 1<<20, unbounded)
	pages := int64(0)
	for range 500 {
		at := random.Int64N(1<<20 - 10)
		r.page(at)
		r.page(at + 2)
		pages += 2
	}
	r.check(t, int(pages), 2*pages)

	// A stream that ends right after it has proven itself.
	r = newReading(1, 1<<20, unbounded)
	pages = 0
	for range 500 {
		at := random.Int64N(1<<20 - 40)
		for k := range int64(16) {
			r.page(at + k)
			pages++
		}
	}
	r.check(t, int(pages), 4*pages)
}

// TestPredictSmallCache reads a sequence through a cache that keeps less than a window.
func TestPredictSmallCache(t *testing.T) {
	const chunks = 5000
	for _, room := range []int{1, 10, 100} {
		r := newReading(1, chunks, room)
		for p := range int64(chunks) {
			r.page(p)
		}
		r.check(t, chunks, 4*chunks)
		r = newReading(1, chunks, room)
		r.most = int64(room)
		for p := range int64(chunks) {
			r.page(p)
		}
		r.check(t, chunks/room+10, chunks)
	}
}

// TestPredictFailed forgets the stream whose window could not be read.
func TestPredictFailed(t *testing.T) {
	r := newReading(1, 1000, unbounded)
	for p := range int64(20) {
		r.page(p)
	}
	before := r.count
	last := int64(0)
	for p := int64(20); last == 0; p++ {
		if r.held[p] {
			r.hit(p, 1)
			continue
		}
		if from, to := r.miss(p, 1, 1000); to-from < 2 {
			t.Fatalf("the window is [%d, %d)", from, to)
		}
		r.failed(p)
		last = p
	}
	if got, want := r.count.pages, before.pages; got != want {
		t.Errorf("%d pages read ahead, want %d", got, want)
	}
	if from, to := r.miss(last+1, 1, 1000); to-from != 1 {
		t.Errorf("the window after a failure is [%d, %d)", from, to)
	}
}

func TestPredictAllocatesNothing(t *testing.T) {
	var p predictor
	i := int64(0)
	if n := testkit.FewestAllocs(func() {
		p.miss(i, 1, 1<<30)
		p.hit(i+1, 1)
		i += 7
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
