package traces

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
)

// A crashModel records at any date, and has batches that land in any order, or don't.
type crashModel struct {
	*rig
	w       *watch
	running []*Span
	staged  []*batch.Batch
}

func (m *crashModel) date(rt *rapid.T) time.Time {
	m.w.pass(1)
	if rapid.IntRange(0, 2).Draw(rt, "date") > 0 {
		return time.Time{}
	}
	return t0.Add(time.Duration(rapid.IntRange(0, int(m.w.now().Sub(t0)/time.Second)).Draw(rt, "back")) * time.Second)
}

func (m *crashModel) begin(rt *rapid.T) {
	m.running = append(m.running, m.Begin("s", &StartOptions{Time: m.date(rt)}))
}

func (m *crashModel) pick(rt *rapid.T) int {
	if len(m.running) == 0 {
		rt.Skip("no span runs")
	}
	return rapid.IntRange(0, len(m.running)-1).Draw(rt, "span")
}

func (m *crashModel) event(rt *rapid.T) {
	m.running[m.pick(rt)].AddEvent(Event{Name: "e", Time: m.date(rt)})
}

func (m *crashModel) end(rt *rapid.T) {
	i := m.pick(rt)
	m.running[i].EndWith(m.date(rt), &Status{Code: StatusOK})
	m.running = slices.Delete(m.running, i, i+1)
}

func (m *crashModel) stage(*rapid.T) {
	b := new(batch.Batch)
	must(m.t, m.In(b).Flush(ctx))
	m.staged = append(m.staged, b)
}

func (m *crashModel) settle(rt *rapid.T) {
	if len(m.staged) == 0 {
		rt.Skip("nothing is staged")
	}
	i := rapid.IntRange(0, len(m.staged)-1).Draw(rt, "batch")
	b := m.staged[i]
	m.staged = slices.Delete(m.staged, i, i+1)
	if rapid.Bool().Draw(rt, "lands") {
		must(m.t, m.actor.Commit(ctx, b))
	} else {
		b.Abort(nil)
	}
}

// cutOne cuts one of the chunks that are being filled, as if it were full.
func (m *crashModel) cutOne(*rapid.T) {
	m.Traces.store.mu.Lock()
	if n := len(m.Traces.store.open); n > 0 {
		m.Traces.store.cut(m.Traces.store.open[0])
	}
	m.Traces.store.unlock()
	if err := m.awaitCut(); err != nil && !isBusy(err) {
		m.t.Fatal(err)
	}
}

// checkCrash opens what a crash has left. All spans have an end: their own, if it is stored,
// and else the one that Open records; and none has two.
func checkCrash(t *testing.T, rt *rapid.T, tp *engines.Tape, opts Options, n int) {
	r := newRigOn(t, tp.At(t, n), opts, batch.Limits{})
	defer r.close()
	chunks := 0
	for round := range 2 {
		for _, d := range r.read(Query{}).Spans {
			if d.Running() || d.Status == (Status{}) {
				rt.Fatalf("after %d commits: %+v", n, d)
			}
		}
		r.flush()
		ends := map[SpanID]int{}
		_, all, _ := r.chunks()
		for _, c := range all {
			for i := range c.records {
				if rec := &c.records[i]; rec.kind == kindEnd {
					ends[rec.span]++
				}
			}
		}
		for id, e := range ends {
			if e > 1 {
				rt.Fatalf("after %d commits: %s has %d ends", n, id, e)
			}
		}
		if round > 0 && len(all) != chunks {
			rt.Fatalf("after %d commits: Open has something to record twice", n)
		}
		chunks = len(all)
		r.verify(fmt.Sprint("after commit ", n))
		r.reopen()
	}
}

// TestModelCrash does anything in any order, has batches land late, in another order or not
// at all, and crashes after any commit.
func TestModelCrash(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWatch(t0)
		opts := quiet()
		opts.Now, opts.MaxAge = w.now, -1
		opts.ChunkBytes = rapid.SampledFrom([]int{0, 300, 1000}).Draw(rt, "chunk")
		tp := engines.NewTape()
		m := &crashModel{rig: newRigOn(t, tp, opts, batch.Limits{}), w: w}
		first := tp.Len()
		rt.Repeat(map[string]func(*rapid.T){
			"begin": m.begin, "event": m.event, "end": m.end, "stage": m.stage, "settle": m.settle, "cut": m.cutOne,
			"time": func(rt *rapid.T) {
				w.pass(time.Duration(rapid.SampledFrom([]int{1, 100, 4000}).Draw(rt, "seconds")) * time.Second)
			},
			"flush": func(*rapid.T) {
				if err := m.Flush(ctx); err != nil && !isBusy(err) {
					t.Fatal(err)
				}
			},
		})
		m.crash()
		for _, b := range m.staged {
			b.Abort(nil)
		}
		for range 4 {
			checkCrash(t, rt, tp, opts, rapid.IntRange(first, tp.Len()).Draw(rt, "commits"))
		}
	})
}
