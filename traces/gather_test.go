package traces

import (
	"fmt"
	"testing"
	"time"
)

// TestFilterWhole: a filter sees all that was recorded of a span, also when what it looks
// for stands behind the end, in the same chunk or in a later one.
func TestFilterWhole(t *testing.T) {
	for chunks := range 4 {
		r, w := newTimed(t)
		s := r.Begin("start", nil)
		s.Event("e")
		w.set(at(5))
		s.EndWith(at(2), nil)
		for range chunks {
			r.flush()
			r.Begin("other", nil).End()
		}
		r.Record(&SpanData{
			TraceID: s.TraceID(), SpanID: s.SpanID(), Name: "end", Start: at(0), End: at(2), Status: Status{StatusError, "no"},
			Attributes: []Attr{Int("n", 1)},
		})
		r.Begin("last", nil).End()
		for what, q := range map[string]Query{
			"name": {Name: "end"}, "status": {Status: []StatusCode{StatusError}},
			"attribute": {Match: func(d *SpanData) bool { return attr(d, "n") == "1" }},
		} {
			d := r.one(q)
			want(t, fmt.Sprint(what, ", chunks between: ", chunks), fmt.Sprint(d.Name, events(&d), attr(&d, "n"), d.Running()), "end[e]1false")
		}
		want(t, "the name that it had", names(r.read(Query{Name: "start"})), "")
	}
}

// TestSameSpanID: ids of spans are unique in a trace, and no further.
func TestSameSpanID(t *testing.T) {
	for _, nested := range []bool{false, true} {
		r, w := newTimed(t)
		begin := func(i int) *Span {
			w.pass(time.Second)
			return r.Begin(fmt.Sprint("t", i), &StartOptions{TraceID: TraceID{byte(i)}, SpanID: SpanID{9}})
		}
		end := func(i int, s *Span) {
			w.pass(time.Second)
			s.Event(fmt.Sprint("e", i))
			s.End()
		}
		one := begin(1)
		if !nested {
			end(1, one)
		}
		end(2, begin(2))
		if nested {
			end(1, one)
		}
		for range 2 {
			want(t, "spans", names(r.read(Query{})), "t1 t2")
			for i := 1; i <= 2; i++ {
				for what, q := range map[string]Query{"trace": {TraceID: TraceID{byte(i)}}, "name": {Name: fmt.Sprint("t", i)}} {
					d := r.one(q)
					want(t, what, fmt.Sprint(d.Name, events(&d), d.Running()), fmt.Sprintf("t%d[e%d]false", i, i))
				}
			}
			r.flush()
		}
	}
}
