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

// TestModel does anything in any order, with flushes, restarts and lost indexes in between,
// and compares what is read of any range with what happened in it.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWatch(t0)
		opts := quiet()
		opts.Now, opts.MaxAge, opts.Adopt = w.now, -1, true
		opts.ChunkBytes = rapid.SampledFrom([]int{0, 300, 2000}).Draw(rt, "chunk")
		r := newRig(t, opts)
		defer r.close()
		var model []*modelSpan
		running := map[*modelSpan]*Span{}
		pick := func(rt *rapid.T) (*modelSpan, *Span) {
			var open []*modelSpan
			for _, m := range model {
				if running[m] != nil {
					open = append(open, m)
				}
			}
			if len(open) == 0 {
				rt.Skip("no span runs")
			}
			m := rapid.SampledFrom(open).Draw(rt, "span")
			return m, running[m]
		}
		step := func(m *modelSpan, what string) { m.steps = append(m.steps, modelStep{w.now(), what}) }
		rt.Repeat(map[string]func(*rapid.T){
			"begin": func(rt *rapid.T) {
				m := &modelSpan{name: fmt.Sprint("s", len(model))}
				o := &StartOptions{}
				if len(model) > 0 && rapid.Bool().Draw(rt, "child") {
					if parent := running[rapid.SampledFrom(model).Draw(rt, "parent")]; parent != nil {
						o.Parent = parent
					}
				}
				running[m] = r.Begin(m.name, o)
				model = append(model, m)
				step(m, "start")
			},
			"event": func(rt *rapid.T) {
				m, s := pick(rt)
				what := fmt.Sprint("e", len(m.steps))
				s.Event(what)
				step(m, what)
			},
			"update": func(rt *rapid.T) {
				m, s := pick(rt)
				s.SetAttributes(Int("n", int64(len(m.steps))))
				step(m, fmt.Sprint("n=", len(m.steps)))
			},
			"end": func(rt *rapid.T) {
				m, s := pick(rt)
				s.End()
				delete(running, m)
				step(m, "end")
			},
			"time": func(rt *rapid.T) {
				w.pass(time.Duration(rapid.SampledFrom([]int{1, 10, 100, 1000, 4000}).Draw(rt, "seconds")) * time.Second)
			},
			"flush": func(*rapid.T) { r.flush() },
			"restart": func(*rapid.T) {
				r.reopen()
				for m, s := range running {
					i := slices.IndexFunc(r.Adopted(), func(a *Span) bool { return a.SpanID() == s.SpanID() })
					if i < 0 {
						rt.Fatalf("%s was not adopted", m.name)
					}
					running[m] = r.Adopted()[i]
				}
			},
			"lose the index": func(rt *rapid.T) {
				if rapid.IntRange(0, 5).Draw(rt, "rarely") == 0 {
					r.flush()
					r.dropIndex()
					r.reopen()
					for m, s := range running {
						i := slices.IndexFunc(r.Adopted(), func(a *Span) bool { return a.SpanID() == s.SpanID() })
						running[m] = r.Adopted()[i]
					}
				}
			},
			"": func(rt *rapid.T) {
				span := int(w.now().Sub(t0)/time.Second) + 1
				from := rapid.IntRange(0, span).Draw(rt, "from")
				to := rapid.IntRange(from, span).Draw(rt, "to")
				compare(rt, r, model, from, to)
				compare(rt, r, model, 0, span)
			},
		})
	})
}

func compare(t *rapid.T, r *rig, model []*modelSpan, from, to int) {
	q := between(from, to)
	q.MaxChunks = 1 << 20
	res, err := r.Read(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
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
