package traces

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestEndDatedBack: the status that a span ends with holds, also when the end is dated back
// to before what was recorded until then.
func TestEndDatedBack(t *testing.T) {
	for what, before := range map[string]func(*watch, *Span){
		"whole, for its size": func(w *watch, s *Span) { w.set(at(3700)); s.SetAttributes(Int("a", 1)) },
		"whole, for its age":  func(w *watch, s *Span) { w.set(at(3700)); s.Event("e") },
		"a status":            func(w *watch, s *Span) { w.set(at(3700)); s.SetStatus(StatusOK, "first") },
		"restated":            func(w *watch, s *Span) { w.set(at(3700)); d := s.data(); s.Restate(&d) },
	} {
		for _, end := range []int{3650, 3500} { // in the same bucket, and in the one before
			w := newWatch(t0)
			o := quiet()
			o.Now, o.MaxAge, o.SnapshotBytes, o.SnapshotInterval = w.now, -1, 1, time.Second
			r := newRig(t, o)
			s := r.Begin("s", nil)
			before(w, s)
			s.EndWith(at(end), &Status{StatusError, "boom"})
			for _, stored := range []bool{false, true} {
				if stored {
					r.flush()
				}
				d := r.one(Query{})
				want(t, fmt.Sprint(what, ", end at ", end), d.Status, Status{StatusError, "boom"})
				want(t, "end", d.End, at(end))
			}
		}
	}
}

// TestSnapshotDate: what is recorded whole because of something that is dated back, or
// ahead, has the date at which it was that.
func TestSnapshotDate(t *testing.T) {
	w := newWatch(t0)
	o := quiet()
	o.Now, o.MaxAge, o.SnapshotBytes = w.now, -1, 1
	r := newRig(t, o)
	s := r.Begin("s", nil)
	w.set(at(10))
	s.AddEvent(Event{Name: "back", Time: at(5)})
	s.AddEvent(Event{Name: "ahead", Time: at(20)})
	r.flush()
	_, chunks, _ := r.chunks()
	var got []uint64
	for i := range chunks[0].records {
		if r := &chunks[0].records[i]; r.kind == kindSnapshot {
			got = append(got, r.offset/1e9)
		}
	}
	want(t, "snapshots at", fmt.Sprint(got), "[10 10]")
}

// TestLostBeginningAtEnd: a span whose beginning was dropped is recorded whole when it
// ends, as it was before its end, and what is said of it then holds.
func TestLostBeginningAtEnd(t *testing.T) {
	w := newWatch(t0)
	o := quiet()
	o.Now, o.MaxAge, o.MaxPending = w.now, -1, 1
	r := newRig(t, o)
	pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	r.Begin("first", nil).End()
	done := make(chan error)
	go func() { done <- r.Flush(ctx) }()
	<-pause.Reached()
	s := r.Begin("start", nil)
	r.Traces.store.mu.Lock()
	r.Traces.store.cutAll() // one too many
	r.Traces.store.unlock()
	pause.Release()
	must(t, <-done)
	want(t, "dropped", r.Stats().DroppedChunks, 1)
	w.set(at(10))
	s.EndWith(at(9), nil)
	r.Record(&SpanData{TraceID: s.TraceID(), SpanID: s.SpanID(), Name: "end", Start: at(0), End: at(9), Status: Status{StatusError, "no"}})
	d := r.read(Query{Start: at(1)}).Spans[0]
	want(t, "span", fmt.Sprint(d.Name, d.Status, d.End), fmt.Sprint("end", Status{StatusError, "no"}, at(9)))
}

// TestRecordBehindEnd: an event behind the end of a span stays where it is.
func TestRecordBehindEnd(t *testing.T) {
	r, w := newTimed(t)
	w.set(at(100))
	r.Record(&SpanData{Name: "s", Start: at(1), End: at(10), Events: []Event{{Time: at(20), Name: "late"}}})
	d := r.one(Query{})
	want(t, "event", d.Events[0].Time, at(20))
	want(t, "end", d.End, at(10))
	want(t, "events before it", events(&r.read(Query{End: at(15)}).Spans[0]), "[]")
}

// TestDroppedEnd: the end of a span whose chunk was dropped is recorded again, and that of
// one whose beginning was dropped, too, is not.
func TestDroppedEnd(t *testing.T) {
	o := quiet()
	o.MaxPending = 2
	r := newRigFull(t, o)
	s := r.Begin("s", nil)
	r.flush()
	r.full(true)
	s.EndWith(time.Time{}, &Status{StatusError, "no"})
	for i := range 6 {
		lost := r.Begin("lost", nil)
		wantErr(t, "flush", r.Flush(ctx), actorstore.ErrQuota)
		lost.End()
		r.Begin(fmt.Sprint("x", i), nil).End()
		wantErr(t, "flush", r.Flush(ctx), actorstore.ErrQuota)
	}
	r.Traces.store.mu.Lock()
	ends := len(r.Traces.store.unended)
	for _, p := range r.Traces.store.queue {
		ends += len(p.ends)
	}
	r.Traces.store.unlock()
	if ends > 3 {
		t.Errorf("%d ends are kept", ends)
	}
	r.full(false)
	r.flush()
	for range 2 {
		d := r.read(Query{Name: "s"}).Spans[0]
		want(t, "runs", d.Running(), false)
		want(t, "status", d.Status, Status{StatusError, "no"})
		r.reopen()
	}
}
