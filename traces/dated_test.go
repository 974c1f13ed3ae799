package traces

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDatedBack: what is dated back to before the range is there, in whatever chunk it is:
// one that was written long after the range, or before the span was known.
func TestDatedBack(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		s := r.Begin("s", nil)
		step()
		w.set(at(100))
		s.Event("hundred")
		step()
		w.set(at(1000))
		s.AddEvent(Event{Name: "back to ten", Time: at(10)})
		step()
		w.set(at(5000)) // another hour
		s.AddEvent(Event{Name: "back to twenty", Time: at(20)})
		step()
		late := r.Begin("late", &StartOptions{Time: at(30)})
		step()
		late.AddEvent(Event{Name: "back to forty", Time: at(40)})
		step()
		late.AddEvent(Event{Name: "back to fifty", Time: at(50)})
		step()
		w.set(at(5010))
		late.Event("now")
		late.End()
	}, func(t *testing.T, r *rig) {
		for _, c := range []struct {
			from, to int
			want     string
		}{
			{90, 200, "s[back to ten back to twenty hundred]"}, {15, 25, "s[back to ten back to twenty]"}, {5, 15, "s[back to ten]"},
			{45, 60, "late[back to forty back to fifty]"}, {5005, 6000, "late[back to forty back to fifty now]"}, {35, 45, "late[back to forty]"},
		} {
			d := r.one(between(c.from, c.to))
			want(t, fmt.Sprint(c.from, " to ", c.to), d.Name+events(&d), c.want)
			want(t, "partial", d.Partial, false)
		}
	})
}

// TestDatedBackAsItWas: what is dated back brings nothing of what the span became later
// with it.
func TestDatedBackAsItWas(t *testing.T) {
	for _, bytes := range []int{0, 1} { // recorded whole each time, too
		w := newWatch(t0)
		o := quiet()
		o.Now, o.MaxAge, o.SnapshotBytes = w.now, -1, bytes
		r := newRig(t, o)
		s := r.Begin("s", &StartOptions{Attributes: []Attr{Int("n", 0)}})
		late := (*Span)(nil)
		for i := 1; i <= 3; i++ { // hours
			w.set(at(3600*i + 100))
			s.SetAttributes(Int("n", int64(i)))
			if i == 2 {
				late = r.Begin("late", &StartOptions{Time: at(3650), Attributes: []Attr{Int("n", 0)}})
				late.SetAttributes(Int("n", 2))
			}
		}
		s.AddEvent(Event{Name: "back", Time: at(3650)})
		late.AddEvent(Event{Name: "back", Time: at(3660)})
		for range 2 {
			for end, n := range map[int]string{3640: "0", 3690: "0", 3710: "1", 7310: "2", 99999: "3"} {
				d := r.one(Query{End: at(end), Name: "s"})
				want(t, fmt.Sprint("n before ", end), attr(&d, "n"), n)
			}
			d := r.one(Query{End: at(3690), Name: "late"})
			want(t, "what it was before it was known", attr(&d, "n")+events(&d), "none[back]")
			d = r.one(Query{Name: "late"})
			want(t, "what it is", attr(&d, "n")+events(&d), "2[back]")
			r.flush()
		}
		late.EndWith(at(3670), nil)
		d := r.one(Query{End: at(3690), Name: "late"})
		want(t, "what it ended with", attr(&d, "n")+events(&d)+fmt.Sprint(d.Running()), "2[back]false")
	}
}

// TestStartAhead: a span whose start is dated ahead is there at once, and what is recorded
// of it until then holds.
func TestStartAhead(t *testing.T) {
	for _, ahead := range []int{100, 5000} {
		everywhere(t, func(r *rig, w *watch, step func()) {
			w.set(at(1))
			s := r.Begin("s", &StartOptions{Time: at(ahead), Attributes: []Attr{Int("n", 1)}})
			step()
			w.set(at(2))
			s.SetAttributes(Int("n", 2))
			s.SetStatus(StatusOK, "")
			s.Event("e")
			step()
			w.set(at(3))
			s.End()
		}, func(t *testing.T, r *rig) {
			for _, q := range []Query{{}, between(2, 3), between(1, 9), between(2, 9999)} {
				d := r.one(q)
				if attr(&d, "n") != "2" || events(&d) != "[e]" || d.Status.Code != StatusOK || !d.Start.Equal(at(ahead)) {
					t.Errorf("%v: %+v", q, d)
				}
			}
		})
	}
}

// TestEndBeforeStart: a span that ends before it begins, in another hour. A reader from its
// beginning on doesn't look there.
func TestEndBeforeStart(t *testing.T) {
	r, w := newTimed(t)
	w.set(at(3700))
	s := r.Begin("s", nil)
	s.EndWith(at(3500), nil)
	for range 2 {
		d := r.one(Query{})
		want(t, "end", d.End, at(3500))
		d = r.one(between(3400, 3600))
		want(t, "end", d.End, at(3500))
		d = r.one(Query{TraceID: s.TraceID(), Start: at(3650)})
		want(t, "end in its trace", d.End, at(3500))
		d = r.one(Query{Start: at(3650)})
		want(t, "runs", d.Running(), true)
		r.flush()
	}
	r.reopen()
	want(t, "ends", r.countEnds(), 1)
}

// TestEndDatedBackFar: something is dated back to before its span was known, in the same hour,
// and the end to an hour before that: there the span is whole, however many chunks are between.
func TestEndDatedBackFar(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		w.set(at(8000))
		for range 2 * maxBack {
			r.Begin("other", nil).End()
			r.flush()
		}
		w.set(at(8300))
		s := r.Begin("s", &StartOptions{Time: at(5)})
		step()
		s.AddEvent(Event{Name: "back", Time: at(8200)})
		step()
		w.set(at(8400))
		s.EndWith(at(3900), nil)
	}, func(t *testing.T, r *rig) {
		d := r.one(between(8100, 8250))
		want(t, "span", d.Name+events(&d)+d.End.String(), "s[back]"+at(3900).String())
		want(t, "partial", d.Partial, false)
		want(t, "before it was known", names(r.read(between(8260, 8290))), "")
	})
}

// TestAheadWithoutIndex: what is dated ahead is in an earlier bucket than its time says, also
// if the index doesn't know it and the newest list of running spans lacks its span.
func TestAheadWithoutIndex(t *testing.T) {
	r, w := newTimed(t)
	w.set(at(1))
	s := r.Begin("s", &StartOptions{Time: at(3610)})
	s.AddEvent(Event{Name: "first", Time: at(3620)})
	r.flush()
	w.set(at(5000))
	other := r.Begin("other", nil)
	r.flush()
	w.set(at(9000))
	s.AddEvent(Event{Name: "second", Time: at(15000)})
	s.End()
	other.AddEvent(Event{Name: "back", Time: at(5100)}) // in a chunk that is cut last
	r.flush()
	for range 2 {
		d := r.one(between(14000, 16000))
		want(t, "span", d.Name+events(&d), "s[first second]")
		want(t, "partial", d.Partial, false)
		r.dropIndex()
	}
}

// TestLimitOrder: a limit keeps the spans whose first record in the range is the earliest,
// whole, in whatever order they are stored.
func TestLimitOrder(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		for i := range 6 {
			s := r.Begin(fmt.Sprint("s", i), nil)
			s.AddEvent(Event{Name: "first", Time: at(1000 - 10*i)})
			step()
		}
		for i := range 6 {
			w.pass(time.Second)
			s := r.Begin(fmt.Sprint("t", i), nil)
			s.AddEvent(Event{Name: "ahead", Time: at(2000 - i)})
			step()
		}
	}, func(t *testing.T, r *rig) {
		for limit := 1; limit <= 13; limit++ {
			q := between(900, 1990)
			if q.Limit = limit; limit == 13 {
				q.Limit = 0
			}
			res := r.read(q)
			all := strings.Fields("s5 s4 s3 s2 s1 s0")
			want(t, fmt.Sprint("limit ", limit), names(res), strings.Join(all[:min(limit, 6)], " "))
			want(t, "clamped", res.Clamped, limit < 6)
			for i := range res.Spans {
				want(t, "events", events(&res.Spans[i]), "[first]")
			}
			q = between(1999-limit, 3000)
			if q.Limit = 2; limit <= 4 {
				want(t, "from behind", names(r.read(q)), fmt.Sprintf("t%d t%d", limit+1, limit))
			}
		}
	})
}

// TestLimitMetLate: what was left out of a span because others seemed to be earlier is read
// again when it turns out to be.
func TestLimitMetLate(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		a := r.Begin("a", nil)
		b := r.Begin("b", nil)
		w.set(at(10))
		a.Event("a")
		step()
		w.set(at(20))
		b.Event("b") // one too many
		step()
		w.set(at(30))
		b.AddEvent(Event{Name: "back", Time: at(5)}) // and not
		step()
		w.set(at(40))
		b.End()
		a.End()
	}, func(t *testing.T, r *rig) {
		q := between(4, 99)
		q.Limit = 1
		res := r.read(q)
		want(t, "spans", names(res), "b")
		want(t, "events", events(&res.Spans[0]), "[back b]")
		want(t, "clamped", res.Clamped, true)
		want(t, "runs", res.Spans[0].Running(), false)
	})
}

// TestFilterLimitWhole: spans that matched and don't, because of what was recorded of them
// later, leave their place to those that do.
func TestFilterLimitWhole(t *testing.T) {
	r, w := newTimed(t)
	var first []*Span
	for range 3 {
		w.pass(time.Second)
		s := r.Begin("n", nil)
		first = append(first, s)
		s.End()
	}
	for i := range 40 {
		w.pass(time.Second)
		s := r.Begin("n", &StartOptions{Attributes: []Attr{Int("i", int64(i))}})
		s.End()
		r.flush()
	}
	for _, s := range first {
		w.pass(time.Second)
		r.Record(&SpanData{TraceID: s.TraceID(), SpanID: s.SpanID(), Name: "other", Start: at(0), End: w.now()})
	}
	r.flush()
	res := r.read(Query{Name: "n", Limit: 3})
	got := ""
	for i := range res.Spans {
		got += attr(&res.Spans[i], "i")
	}
	want(t, "spans", got, "012")
	want(t, "clamped", res.Clamped, true)
}

// TestFilterLimitOpen: spans that ended when many had matched are not taken for some that
// match.
func TestFilterLimitOpen(t *testing.T) {
	for ended := range 30 {
		r, w := newTimed(t)
		var long []*Span
		for range 3 {
			long = append(long, r.Begin("long", nil))
		}
		for i := range 32 {
			w.pass(time.Second)
			r.Begin("n", &StartOptions{Attributes: []Attr{Int("i", int64(i))}}).End()
			if i == ended {
				for _, s := range long {
					s.End()
				}
			}
			r.flush()
		}
		res := r.read(Query{Name: "n", Limit: 2})
		got := names(res)
		for i := range res.Spans {
			got += attr(&res.Spans[i], "i")
		}
		want(t, fmt.Sprint("ended with ", ended), got, "n n01")
		r.close()
	}
}
