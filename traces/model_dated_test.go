package traces

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A datedSpan is what a span should be when the program dates what it records as it likes.
type datedSpan struct {
	name  string
	trace TraceID
	span  *Span // nil: it has ended
	n     string
	steps []datedStep
}

// A datedStep is something that happened to a span: it is known to begin ("base", with the
// value of n that it has then), an update of n, an event, or the end.
type datedStep struct {
	at   time.Time
	kind string
	text string
}

// before returns the span as it was before a time, "" if it had not begun.
func (m *datedSpan) before(end time.Time) string {
	var events []string
	begun, n, ended := false, "none", false
	steps := slices.Clone(m.steps)
	slices.SortStableFunc(steps, func(a, b datedStep) int { return a.at.Compare(b.at) })
	for _, s := range steps {
		switch {
		case !s.at.Before(end):
		case s.kind == "base":
			begun, n = true, s.text
		case s.kind == "n":
			n = s.text
		case s.kind == "event":
			events = append(events, s.text)
		case s.kind == "end":
			ended = true
		}
	}
	if !begun {
		return ""
	}
	return fmt.Sprint(m.name, " ", events, " n=", n, " ", ended)
}

// first returns the first step in [start, end).
func (m *datedSpan) first(start, end time.Time) (at time.Time) {
	for _, s := range m.steps {
		if !s.at.Before(start) && s.at.Before(end) && (at.IsZero() || s.at.Before(at)) {
			at = s.at
		}
	}
	return at
}

// A datedModel records in a rig, and remembers what should be there.
type datedModel struct {
	*rig
	w     *watch
	spans []*datedSpan
	lost  bool // the index was
}

// tick makes all times different.
func (d *datedModel) tick() time.Time {
	d.w.pass(1)
	return d.w.now()
}

// date draws a time: most often now.
func (d *datedModel) date(rt *rapid.T) time.Time {
	now := d.tick()
	switch rapid.IntRange(0, 3).Draw(rt, "date") {
	case 0:
		at := t0.Add(time.Duration(rapid.IntRange(0, int(now.Sub(t0)/time.Second)).Draw(rt, "back")) * time.Second)
		return at.Add(time.Duration(now.Nanosecond()))
	case 1:
		return now.Add(time.Duration(rapid.IntRange(1, 9000).Draw(rt, "ahead")) * time.Second)
	}
	return now
}

func (d *datedModel) pick(rt *rapid.T) *datedSpan {
	open := slices.DeleteFunc(slices.Clone(d.spans), func(m *datedSpan) bool { return m.span == nil })
	if len(open) == 0 {
		rt.Skip("no span runs")
	}
	return rapid.SampledFrom(open).Draw(rt, "span")
}

func (d *datedModel) begin(rt *rapid.T) {
	m := &datedSpan{name: fmt.Sprint("s", len(d.spans)), n: "none"}
	at := d.date(rt)
	base := at
	if now := d.w.now(); at.After(now) || at.Unix()/3600 != now.Unix()/3600 {
		base = now
	}
	o := &StartOptions{Time: at}
	if len(d.spans) > 0 && rapid.Bool().Draw(rt, "child") {
		o.TraceID = rapid.SampledFrom(d.spans).Draw(rt, "trace").trace
	}
	m.span = d.Begin(m.name, o)
	m.trace = m.span.TraceID()
	m.steps = append(m.steps, datedStep{base, "base", "none"})
	d.spans = append(d.spans, m)
}

// record does something to a span, and notes whether it was recorded whole as well.
func (d *datedModel) record(m *datedSpan, do func(*Span), steps ...datedStep) {
	whole := m.span.whole
	do(m.span)
	m.steps = append(m.steps, steps...)
	if m.span.whole != whole {
		m.steps = append(m.steps, datedStep{timeOf(m.span.whole), "base", m.n})
	}
}

// since is date, but not before the span began: what is dated so isn't looked for in
// another hour.
func (d *datedModel) since(rt *rapid.T, m *datedSpan) time.Time {
	if at := d.date(rt); at.UnixNano() > int64(m.span.began) {
		return at
	}
	now := d.tick()
	if began := timeOf(m.span.began); began.After(now) { // it was dated ahead
		return began.Truncate(time.Second).Add(time.Second + time.Duration(now.Nanosecond()))
	}
	return now
}

// early are the steps of what is dated back to before the span was known, into another
// hour: it is known then.
func early(at time.Time, home int64, n string) []datedStep {
	if at.Unix()/3600 < home/3600 {
		return []datedStep{{at, "base", n}}
	}
	return nil
}

func (d *datedModel) event(rt *rapid.T) {
	m := d.pick(rt)
	at := d.since(rt, m)
	name := fmt.Sprint("e", len(m.steps))
	steps := append(early(at, m.span.start.bucket.start, "none"), datedStep{at, "event", name})
	d.record(m, func(s *Span) { s.AddEvent(Event{Name: name, Time: at}) }, steps...)
}

func (d *datedModel) update(rt *rapid.T) {
	m, at := d.pick(rt), d.tick()
	m.n = fmt.Sprint(len(m.steps))
	d.record(m, func(s *Span) { s.SetAttributes(Int("n", int64(len(m.steps)))) }, datedStep{at, "n", m.n})
}

func (d *datedModel) end(rt *rapid.T) {
	m := d.pick(rt)
	at := d.since(rt, m)
	home := m.span.start.bucket.start
	if m.span.home.set {
		home = m.span.home.value
	}
	d.record(m, func(s *Span) { s.EndWith(at, nil) }, append(early(at, home, m.n), datedStep{at, "end", ""})...)
	m.span = nil
}

func (d *datedModel) restart(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "lose the index") == 0 {
		d.flush()
		d.dropIndex()
		d.lost = true
	}
	d.reopen()
	for _, m := range d.spans {
		if m.span == nil {
			continue
		}
		i := slices.IndexFunc(d.Adopted(), func(a *Span) bool { return a.SpanID() == m.span.SpanID() })
		if i < 0 {
			rt.Fatalf("%s was not adopted", m.name)
		}
		m.span = d.Adopted()[i]
	}
}

// check compares what q selects with what it should, in the order in which it should be.
func (d *datedModel) check(rt *rapid.T, q Query) {
	q.MaxChunks = 1 << 20
	res, err := d.Read(ctx, q)
	if err != nil {
		rt.Fatal(err)
	}
	var got, want []string
	for i := range res.Spans {
		s := &res.Spans[i]
		got = append(got, fmt.Sprint(s.Name, " ", events(s), " n=", attr(s, "n"), " ", !s.Running()))
		if s.Partial {
			rt.Fatalf("%s is partial", s.Name)
		}
	}
	end := q.End
	if end.IsZero() {
		end = time.Unix(1<<33, 0)
	}
	var spans []*datedSpan
	for _, m := range d.spans {
		if !m.first(q.Start, end).IsZero() && m.before(end) != "" && (q.TraceID.IsZero() || m.trace == q.TraceID) && (q.Name == "" || m.name == q.Name) {
			spans = append(spans, m)
		}
	}
	slices.SortFunc(spans, func(a, b *datedSpan) int {
		return cmp.Or(a.first(q.Start, end).Compare(b.first(q.Start, end)), cmp.Compare(a.name, b.name))
	})
	for i, m := range spans {
		if q.Limit == 0 || i < q.Limit {
			want = append(want, m.before(end))
		}
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("%v to %v, limit %d, trace %v, name %q: got\n%q, want\n%q", q.Start, q.End, q.Limit, q.TraceID, q.Name, got, want)
	}
	if q.Limit > 0 && len(spans) > q.Limit && !res.Clamped {
		rt.Fatalf("%d of %d spans, and not clamped", len(res.Spans), len(spans))
	}
}

// TestModelDated does anything in any order, at any date, with flushes and restarts in
// between, and compares what is read of any range with what happened in it.
func TestModelDated(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWatch(t0)
		opts := quiet()
		opts.Now, opts.MaxAge, opts.Adopt = w.now, -1, true
		opts.ChunkBytes = rapid.SampledFrom([]int{0, 300, 2000}).Draw(rt, "chunk")
		opts.SnapshotBytes = rapid.SampledFrom([]int{0, 200}).Draw(rt, "snapshots")
		d := &datedModel{newRig(t, opts), w, nil, false}
		defer d.close()
		rt.Repeat(map[string]func(*rapid.T){
			"begin":  d.begin,
			"event":  d.event,
			"update": d.update,
			"end":    d.end,
			"time": func(rt *rapid.T) {
				w.pass(time.Duration(rapid.SampledFrom([]int{1, 10, 100, 1000, 4000}).Draw(rt, "seconds")) * time.Second)
			},
			"flush":   func(*rapid.T) { d.flush() },
			"restart": d.restart,
			"": func(rt *rapid.T) {
				span := int(w.now().Sub(t0)/time.Second) + 9001
				q := Query{Start: at(rapid.IntRange(0, span).Draw(rt, "from")), Limit: rapid.IntRange(0, 3).Draw(rt, "limit")}
				q.End = q.Start.Add(time.Duration(rapid.IntRange(1, 9000).Draw(rt, "for")) * time.Second)
				d.check(rt, q)
				d.check(rt, Query{})
				if len(d.spans) == 0 {
					return
				}
				q.Limit = 0
				m := rapid.SampledFrom(d.spans).Draw(rt, "looked for")
				q.TraceID = m.trace
				d.check(rt, q)
				q.TraceID, q.Name = TraceID{}, m.name
				d.check(rt, q)
			},
		})
		d.flush()
		if !d.lost {
			d.verify("at last")
		}
	})
}
