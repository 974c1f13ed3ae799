package traces

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A modelSpan is what a span should be: everything that happened to it, with the time.
type modelSpan struct {
	name  string
	steps []modelStep
}

type modelStep struct {
	at   time.Time
	what string // "start", "end", an event, or "n=" and a value
}

// before returns the span as it was before a time: its events, the value of n, and whether
// it had ended.
func (m *modelSpan) before(end time.Time) string {
	var events []string
	n, ended := "none", false
	for _, s := range m.steps {
		switch {
		case !s.at.Before(end):
		case s.what == "end":
			ended = true
		case len(s.what) > 2 && s.what[:2] == "n=":
			n = s.what[2:]
		case s.what != "start":
			events = append(events, s.what)
		}
	}
	return fmt.Sprint(m.name, " ", events, " n=", n, " ", ended)
}

// in reports whether something happened to it in [start, end).
func (m *modelSpan) in(start, end time.Time) bool {
	return slices.ContainsFunc(m.steps, func(s modelStep) bool { return !s.at.Before(start) && s.at.Before(end) })
}

// A tracedModel is traces, and what they should hold.
type tracedModel struct {
	*rig
	w       *watch
	spans   []*modelSpan
	running map[*modelSpan]*Span
}

// TestModel does anything in any order, with flushes, restarts and lost indexes in between,
// and compares what is read of any range with what happened in it.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWatch(t0)
		opts := quiet()
		opts.Now, opts.MaxAge, opts.Adopt = w.now, -1, true
		opts.ChunkBytes = rapid.SampledFrom([]int{0, 300, 2000}).Draw(rt, "chunk")
		m := &tracedModel{rig: newRig(t, opts), w: w, running: map[*modelSpan]*Span{}}
		defer m.close()
		rt.Repeat(map[string]func(*rapid.T){
			"begin":          m.begin,
			"event":          m.event,
			"update":         m.update,
			"end":            m.endSpan,
			"time":           m.passTime,
			"flush":          func(*rapid.T) { m.flush() },
			"restart":        m.restart,
			"lose the index": m.loseIndex,
			"":               m.compareRanges,
		})
	})
}

// pick draws a span that runs.
func (m *tracedModel) pick(rt *rapid.T) (*modelSpan, *Span) {
	var open []*modelSpan
	for _, s := range m.spans {
		if m.running[s] != nil {
			open = append(open, s)
		}
	}
	if len(open) == 0 {
		rt.Skip("no span runs")
	}
	s := rapid.SampledFrom(open).Draw(rt, "span")
	return s, m.running[s]
}

// note says that what happens to a span now.
func (m *tracedModel) note(s *modelSpan, what string) {
	s.steps = append(s.steps, modelStep{m.w.now(), what})
}

func (m *tracedModel) begin(rt *rapid.T) {
	s := &modelSpan{name: fmt.Sprint("s", len(m.spans))}
	o := &StartOptions{}
	if len(m.spans) > 0 && rapid.Bool().Draw(rt, "child") {
		if parent := m.running[rapid.SampledFrom(m.spans).Draw(rt, "parent")]; parent != nil {
			o.Parent = parent
		}
	}
	m.running[s] = m.Begin(s.name, o)
	m.spans = append(m.spans, s)
	m.note(s, "start")
}

func (m *tracedModel) event(rt *rapid.T) {
	s, span := m.pick(rt)
	what := fmt.Sprint("e", len(s.steps))
	span.Event(what)
	m.note(s, what)
}

func (m *tracedModel) update(rt *rapid.T) {
	s, span := m.pick(rt)
	span.SetAttributes(Int("n", int64(len(s.steps))))
	m.note(s, fmt.Sprint("n=", len(s.steps)))
}

func (m *tracedModel) endSpan(rt *rapid.T) {
	s, span := m.pick(rt)
	span.End()
	delete(m.running, s)
	m.note(s, "end")
}

func (m *tracedModel) passTime(rt *rapid.T) {
	m.w.pass(time.Duration(rapid.SampledFrom([]int{1, 10, 100, 1000, 4000}).Draw(rt, "seconds")) * time.Second)
}

// restart opens the traces again, which adopt the spans that run.
func (m *tracedModel) restart(rt *rapid.T) {
	m.reopen()
	for s, span := range m.running {
		i := slices.IndexFunc(m.Adopted(), func(a *Span) bool { return a.SpanID() == span.SpanID() })
		if i < 0 {
			rt.Fatalf("%s was not adopted", s.name)
		}
		m.running[s] = m.Adopted()[i]
	}
}

func (m *tracedModel) loseIndex(rt *rapid.T) {
	if rapid.IntRange(0, 5).Draw(rt, "rarely") == 0 {
		m.flush()
		m.dropIndex()
		m.restart(rt)
	}
}

// compareRanges compares what is read of a range, and of all.
func (m *tracedModel) compareRanges(rt *rapid.T) {
	span := int(m.w.now().Sub(t0)/time.Second) + 1
	from := rapid.IntRange(0, span).Draw(rt, "from")
	to := rapid.IntRange(from, span).Draw(rt, "to")
	compare(rt, m.rig, m.spans, from, to)
	compare(rt, m.rig, m.spans, 0, span)
}

// paged reads what q selects in pages of three.
func paged(t *rapid.T, r *rig, q Query) (spans []SpanData) {
	q.Limit = 3
	for {
		res, err := r.Read(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if spans = append(spans, res.Spans...); !res.Clamped {
			return spans
		}
		if len(res.Spans) != q.Limit {
			t.Fatalf("a page of %d spans isn't the last one", len(res.Spans))
		}
		q.After = res.Last
	}
}

func compare(t *rapid.T, r *rig, model []*modelSpan, from, to int) {
	q := between(from, to)
	q.MaxChunks = 1 << 20
	res, err := r.Read(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for i, d := range paged(t, r, q) {
		if i >= len(res.Spans) || fmt.Sprint(d) != fmt.Sprint(res.Spans[i]) {
			t.Fatalf("%d to %d, in pages: span %d is %v", from, to, i, d)
		}
		got = append(got, d.Name)
	}
	if len(got) != len(res.Spans) {
		t.Fatalf("%d to %d: %d spans in pages, %d at once", from, to, len(got), len(res.Spans))
	}
	got = nil
	for _, d := range res.Spans {
		got = append(got, fmt.Sprint(d.Name, " ", events(&d), " n=", attr(&d, "n"), " ", !d.Running()))
	}
	for _, m := range model {
		if m.in(at(from), at(to)) {
			want = append(want, m.before(at(to)))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%d to %d: got\n%q, want\n%q", from, to, got, want)
	}
}
