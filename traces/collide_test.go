package traces

import (
	"fmt"
	"testing"
)

// collide records spans of two traces with one id, one in the other.
func collide(r *rig, w *watch, step func()) {
	begin := func(second, i int) *Span {
		w.set(at(second))
		return r.Begin(fmt.Sprint("t", i), &StartOptions{TraceID: TraceID{byte(i)}, SpanID: SpanID{9}, Attributes: []Attr{Int("i", int64(i))}})
	}
	a := begin(1, 1)
	step()
	b := begin(2, 2)
	step()
	w.set(at(5))
	r.Begin("other", nil).End()
	step()
	w.set(at(10))
	b.Event("in b")
	step()
	w.set(at(11))
	b.End()
	step()
	w.set(at(12))
	a.Event("in a")
	step()
	w.set(at(13))
	a.End()
}

// TestSameSpanIDBefore: two spans with one id began before the range, and ended in it.
func TestSameSpanIDBefore(t *testing.T) {
	everywhere(t, collide, func(t *testing.T, r *rig) {
		for _, c := range []struct {
			from, to int
			want     string
		}{
			{3, 9, "other[]false"}, {10, 11, "t2[in b]true"}, {10, 12, "t2[in b]false"}, {10, 20, "t2[in b]false t1[in a]false"},
			{4, 20, "other[]false t2[in b]false t1[in a]false"}, {0, 20, "t1[in a]false t2[in b]false other[]false"},
			{12, 13, "t1[in a]true"}, {13, 14, "t1[in a]false"},
		} {
			got := ""
			for _, d := range r.read(between(c.from, c.to)).Spans {
				if d.Name != "other" {
					want(t, "attribute of "+d.Name, "t"+attr(&d, "i"), d.Name)
				}
				got += fmt.Sprint(" ", d.Name, events(&d), d.Running())
			}
			want(t, fmt.Sprint(c.from, " to ", c.to), got, " "+c.want)
		}
	})
}

// TestSameSpanIDWire: of each of them a viewer gets what it began with.
func TestSameSpanIDWire(t *testing.T) {
	everywhere(t, collide, func(t *testing.T, r *rig) {
		b, err := r.ReadWire(ctx, at(10), at(20), 10)
		must(t, err)
		w, err := parseWireRange(b)
		must(t, err)
		got := ""
		for _, c := range w.base {
			got += fmt.Sprint(" ", c.strings[c.records[0].name], c.records[0].trace[0])
		}
		want(t, "bases", got, " t11 t22")
		records := 0
		for _, c := range w.chunks {
			records += len(c.records)
		}
		want(t, "records", records, 4)
	})
}

// TestSameSpanIDOpen: both of two spans with one id are left open, and end, or go on.
func TestSameSpanIDOpen(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		for _, flushed := range []bool{false, true} {
			r, w := newTimed(t)
			r.opts.Adopt = adopt
			for i := 1; i <= 2; i++ {
				w.set(at(i))
				r.Begin(fmt.Sprint("t", i), &StartOptions{TraceID: TraceID{byte(i)}, SpanID: SpanID{9}}).SetAttributes(Int("i", int64(i)))
				if flushed {
					r.flush()
				}
			}
			r.flush()
			r.crash()
			w.set(at(20))
			r.open()
			want(t, "adopted", len(r.Adopted()) == 2, adopt)
			for _, s := range r.Adopted() {
				d := s.data()
				want(t, "adopted", fmt.Sprint("t", attr(&d, "i"), d.TraceID), fmt.Sprint(d.Name, TraceID{d.Name[1] - '0'}))
			}
			for range 2 {
				for i := 1; i <= 2; i++ {
					d := r.one(Query{TraceID: TraceID{byte(i)}})
					if d.Running() != adopt || (d.Status.Code == StatusError) == adopt || attr(&d, "i") != fmt.Sprint(i) {
						t.Errorf("adopt %v, flushed %v: %+v", adopt, flushed, d)
					}
				}
				r.reopen()
			}
			for i := len(r.Adopted()) - 1; i >= 0; i-- { // the one that began last first
				w.set(at(30 - i))
				r.Adopted()[i].End()
			}
			r.reopen()
			want(t, "adopted at last", len(r.Adopted()), 0)
			for _, d := range r.read(Query{}).Spans {
				want(t, "runs", d.Running(), false)
			}
		}
	}
}
