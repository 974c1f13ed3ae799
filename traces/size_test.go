package traces

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestChunkSizes records at random, in chunks of several limits, and holds that each is as
// large as was thought, and no larger than a value may be: strings and the list of the
// spans that run count too.
func TestChunkSizes(t *testing.T) {
	for _, limit := range []int{minChunk, 10_000, 128 << 10} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			opts := quiet()
			opts.MaxPending, opts.MaxPendingBytes = 1<<20, 1<<30
			w := newWatch(t0)
			opts.Now = w.now
			r := newRigOn(t, memkv.New(), opts, batch.Limits{ValueSize: limit})
			most := 0
			rounds := 3
			if testkit.Race {
				rounds = 1
			}
			for range rounds {
				anything(r.Traces, w, limit)
				r.Traces.store.mu.Lock()
				r.Traces.store.cutAll()
				for _, p := range r.Traces.store.queue {
					for k := range r.Traces.store.buckets {
						r.Traces.store.buckets[k].resolved = true
					}
					if got := len(p.encode()); got != p.size || got > limit {
						t.Errorf("a chunk of %d bytes, thought to have %d, limit %d", got, p.size, limit)
					} else {
						most = max(most, got)
					}
				}
				for _, k := range r.Traces.store.buckets {
					k.resolved = false
				}
				r.Traces.store.unlock()
				r.flush()
			}
			// Those that the writer had taken from the queue are among the values alone.
			_, _, sizes := r.chunks()
			for _, n := range sizes {
				most = max(most, n)
				if n > limit {
					t.Errorf("a value of %d bytes", n)
				}
			}
			if most < limit*7/10 && !testkit.Race {
				t.Errorf("no chunk has more than %d bytes of %d", most, limit)
			}
			if s := r.Stats(); s.DroppedRecords+s.DroppedChunks > 0 {
				t.Errorf("%+v", s)
			}
			r.verify("sizes")
		})
	}
}

// anything does all kinds of things at random, more and more of them at once.
func anything(t *Traces, w *watch, limit int) {
	rnd := rand.New(rand.NewPCG(1, uint64(limit)))
	var open []*Span
	text := func(n int) string { return strings.Repeat("x", rnd.IntN(n)) }
	for i := range 3000 {
		w.pass(time.Duration(rnd.IntN(100)) * time.Millisecond)
		if n := len(open); n == 0 || rnd.IntN(3) > 0 && n < 700 {
			o := &StartOptions{Attributes: []Attr{String(text(20), text(limit/40))}, Resource: &Resource{Attributes: []Attr{Int(text(5), int64(i))}}}
			if n > 0 {
				o.Parent = open[rnd.IntN(n)]
			}
			if rnd.IntN(10) == 0 {
				o.Time = w.now().Add(-time.Duration(rnd.IntN(5000)) * time.Second)
			}
			open = append(open, t.Begin(fmt.Sprint("span ", rnd.IntN(100), text(limit/100)), o))
			continue
		}
		k := rnd.IntN(len(open))
		switch s := open[k]; rnd.IntN(6) {
		case 0, 1:
			s.Event(text(30), String("k", text(300)))
		case 2:
			s.SetAttributes(Int(fmt.Sprint("key ", i), int64(i)))
		case 3:
			d := s.data()
			s.Restate(&d)
		case 4:
			s.AddEvent(Event{Name: "dated back", Time: w.now().Add(-time.Duration(rnd.IntN(5000)) * time.Second)})
		default:
			s.End()
			open = append(open[:k], open[k+1:]...)
		}
	}
}

// TestOpenSpansCount: a target of 1,000 bytes with many open spans isn't a reason for values
// that are larger than a value may be. (The reference wrote 15,923 bytes.)
func TestOpenSpansCount(t *testing.T) {
	opts := quiet()
	opts.ChunkBytes, opts.MaxPending = 1000, 1<<20
	opts.MaxPendingBytes = 1 << 30
	r := newRigOn(t, memkv.New(), opts, batch.Limits{ValueSize: 16_000})
	for range 10_000 {
		r.Begin("span", nil)
	}
	r.flush()
	_, chunks, sizes := r.chunks()
	for i, n := range sizes {
		if refs := len(chunks[i].active); n > 16_000 || refs*activeSize > 4000 {
			t.Errorf("a value of %d bytes with %d open spans", n, refs)
		}
	}
	if s := r.Stats(); s.Active != 80 || s.DroppedSpans != 10_000-80 {
		t.Errorf("%d active, %d dropped", s.Active, s.DroppedSpans)
	}
}

// TestDefaultChunk: what the reference put into one value of 200,163 bytes.
func TestDefaultChunk(t *testing.T) {
	r := newRig(t, quiet())
	for i := range 2000 {
		s := r.Begin("span", &StartOptions{Attributes: []Attr{String("k", strings.Repeat("v", 100)), Int("i", int64(i))}})
		s.End()
	}
	r.flush()
	_, _, sizes := r.chunks()
	for i, n := range sizes {
		if n > 128<<10 || i < len(sizes)-1 && n < 127<<10 {
			t.Errorf("chunk %d has %d bytes", i, n)
		}
	}
	want(t, "chunks", r.Stats().Chunks, int64(len(sizes)))
	want(t, "spans", len(r.read(Query{}).Spans), 2000)
}

// TestMaxActive drops the deepest span, and of those the newest; it gets no end, and its
// handle does nothing any more.
func TestMaxActive(t *testing.T) {
	opts := quiet()
	opts.MaxActive = 3
	r := newRig(t, opts)
	root := r.Begin("root", nil)
	a := r.Begin("a", &StartOptions{Parent: root})
	deep := r.Begin("deep", &StartOptions{Parent: a})
	b := r.Begin("b", &StartOptions{Parent: root})
	if deep.Active() || !b.Active() || !a.Active() {
		t.Error("not the deepest one was dropped")
	}
	c := r.Begin("c", &StartOptions{Parent: root})
	if c.Active() || !b.Active() {
		t.Error("not the newest of the deepest was dropped")
	}
	for _, s := range []*Span{deep, c} {
		s.Event("e")
		s.SetAttributes(Int("a", 1))
		s.End()
	}
	if child := r.Begin("child", &StartOptions{Parent: deep}); child.TraceID() != root.TraceID() {
		t.Error("the child of a dropped span is in another trace")
	}
	s := r.Stats()
	if s.DroppedSpans != 3 || s.Ignored != 6 || s.Active != 3 {
		t.Errorf("%+v", s)
	}
	want(t, "spans", names(r.read(Query{})), "root a deep b")
	if d := r.read(Query{Name: "deep"}).Spans[0]; !d.Running() || len(d.Events) > 0 {
		t.Errorf("%+v", d)
	}
}
