package traces

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// countEnds returns how many ends of spans are stored.
func (r *rig) countEnds() (n int) {
	r.t.Helper()
	_, chunks, _ := r.chunks()
	for _, c := range chunks {
		for i := range c.records {
			if c.records[i].kind == kindEnd {
				n++
			}
		}
	}
	return n
}

// cutNow cuts what is being filled, and doesn't wait until it is written.
func (r *rig) cutNow() {
	r.Traces.store.mu.Lock()
	defer r.Traces.store.unlock()
	r.Traces.store.cutAll()
}

// awaitCut waits until all that was cut is written, and leaves what is being filled.
func (r *rig) awaitCut() error {
	r.Traces.store.mu.Lock()
	f := &flush{upto: r.Traces.store.seq, done: make(chan error, 1)}
	r.Traces.store.flushes = append(r.Traces.store.flushes, f)
	r.Traces.store.settleFlushes(0, nil)
	r.Traces.store.kick()
	r.Traces.store.unlock()
	return <-f.done
}

// stageEnd stages a flush, and returns a function that lands it.
func stageEnd(r *rig) (land func()) {
	r.t.Helper()
	var b batch.Batch
	must(r.t, r.In(&b).Flush(ctx))
	r.Begin("other", nil).End()
	wantErr(r.t, "flush", r.Flush(ctx), ErrBusy)
	return func() { r.t.Helper(); must(r.t, r.actor.Commit(ctx, &b)) }
}

// lostEnds are ways to end a span. Each returns a function that stores the end.
var lostEnds = []struct {
	what string
	run  func(r *rig, w *watch, s *Span) (land func())
}{
	{"staged", func(r *rig, w *watch, s *Span) func() {
		s.End()
		return stageEnd(r)
	}},
	{"staged, and others since", func(r *rig, w *watch, s *Span) func() {
		s.End()
		land := stageEnd(r)
		for i := range 5 {
			w.pass(time.Hour)
			r.Begin(fmt.Sprint("x", i), nil).End()
			wantErr(r.t, "flush", r.Flush(ctx), ErrBusy)
		}
		return land
	}},
	{"dated back beside the newest chunk", func(r *rig, w *watch, s *Span) func() {
		w.set(at(3700))
		r.Begin("other", nil).End()
		s.EndWith(at(3550), nil)
		r.Traces.store.mu.Lock()
		for _, b := range r.Traces.store.open {
			if b.bucket.start > t0.Unix() {
				r.Traces.store.cut(b)
				break
			}
		}
		r.Traces.store.unlock()
		must(r.t, r.awaitCut())
		return r.flush
	}},
}

// TestEndLost: a span whose end a crash lost is left open, also when chunks that were cut
// after its end, and don't list it, are stored.
func TestEndLost(t *testing.T) {
	for _, c := range lostEnds {
		for _, adopt := range []bool{false, true} {
			for _, landed := range []bool{false, true} {
				w := newWatch(at(3500))
				o := quiet()
				o.Now, o.MaxAge, o.Adopt = w.now, -1, adopt
				r := newRig(t, o)
				s := r.Begin("s", &StartOptions{Attributes: []Attr{Int("a", 1)}})
				r.flush()
				land := c.run(r, w, s)
				if landed {
					land()
				}
				ends := r.countEnds()
				r.crash()
				if !landed && !adopt {
					ends++ // Open ends it
				}
				where := fmt.Sprintf("%s, adopt %v, landed %v", c.what, adopt, landed)
				for range 2 {
					r.open()
					r.verifyEnd(where, adopt, landed)
					r.flush()
					want(t, where+": ends", r.countEnds(), ends)
					r.verify(where)
					r.crash()
				}
				r.endAdopted(where)
				r.close()
			}
		}
	}
}

// verifyEnd holds the spans after a crash: s is left open unless its end landed.
func (r *rig) verifyEnd(where string, adopt, landed bool) {
	r.t.Helper()
	open := 0
	for _, d := range r.read(Query{}).Spans {
		if d.Running() {
			open++
		}
		if d.Name == "s" && !adopt && (d.Status.Code == StatusError) == landed {
			r.t.Errorf("%s: %+v", where, d)
		}
	}
	if lost := adopt && !landed; open != len(r.Adopted()) || (open == 1) != lost {
		r.t.Errorf("%s: %d spans run, %d were adopted", where, open, len(r.Adopted()))
	}
}

// endAdopted opens the traces and ends what they adopt: no span runs then.
func (r *rig) endAdopted(where string) {
	r.t.Helper()
	r.open()
	for _, s := range r.Adopted() {
		s.End()
	}
	r.reopen()
	for _, d := range r.read(Query{}).Spans {
		want(r.t, where+": runs at last", d.Running(), false)
	}
}

// TestClosingLost: the end that Open records of a span may be lost in a crash, too.
func TestClosingLost(t *testing.T) {
	r := newRig(t, quiet())
	r.Begin("s", nil)
	r.flush()
	r.crash()
	r.open()
	var b batch.Batch
	must(t, r.In(&b).Flush(ctx))
	r.Begin("other", nil).End()
	wantErr(t, "flush", r.Flush(ctx), ErrBusy)
	r.reopen()
	want(t, "ended", r.read(Query{Name: "s"}).Spans[0].Status, Status{StatusError, crashMessage})
	r.reopen()
	want(t, "ends", r.countEnds(), 2)
}

// TestDroppedEndCrash: a crash before an end that was dropped is stored again.
func TestDroppedEndCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where nothing is tried again by itself meanwhile
		o := quiet()
		o.MaxPending = 2
		r := newRigFull(t, o)
		s := r.Begin("s", nil)
		r.flush()
		r.full(true)
		s.End()
		r.cutNow()
		synctest.Wait() // until the end isn't being written: it would not be dropped
		for range 2 {
			r.Begin("x", nil).End()
			r.cutNow()
		}
		want(t, "dropped", r.Stats().DroppedChunks, 1)
		// The end waits in what is being filled, and the two chunks before it land.
		r.full(false)
		must(t, r.awaitCut())
		want(t, "chunks", r.Stats().Chunks, 3)
		r.crash()
		r.open()
		want(t, "ended", r.read(Query{Name: "s"}).Spans[0].Status, Status{StatusError, crashMessage})
	})
}

// TestNewestDamaged: what the newest chunk can't say any more is found in those before.
func TestNewestDamaged(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		r, w := newTimed(t)
		r.opts.Adopt = adopt
		a := r.Begin("a", nil)
		r.Begin("b", nil)
		r.flush()
		w.set(at(10))
		a.End()
		r.flush()
		w.set(at(20))
		r.Begin("c", nil)
		r.flush()
		w.set(at(30))
		r.Begin("d", nil).End()
		r.flush()
		keys, _, _ := r.chunks()
		r.crash()
		breakRow(t, r.engine.Unwrap(), appendChunkKey(layout, nil, keys[len(keys)-1]))
		r.open()
		res := r.read(Query{})
		want(t, "spans", names(res), "a b c")
		for i, d := range res.Spans {
			if adopt {
				want(t, d.Name+" runs", d.Running(), i > 0)
			} else if want(t, d.Name+" runs", d.Running(), false); (d.Status.Code == StatusError) != (i > 0) {
				t.Errorf("%+v", d)
			}
		}
		want(t, "adopted", len(r.Adopted()) == 2, adopt)
	}
}

// TestRecordTorn: a span that is recorded all at once may be in two chunks, of which a crash
// leaves the first.
func TestRecordTorn(t *testing.T) {
	for _, full := range []bool{false, true} {
		o := quiet()
		o.ChunkBytes = 1000
		if full {
			o.MaxActive = 1
		}
		tp := engines.NewTape()
		r := newRigOn(t, tp, o, batch.Limits{})
		if full {
			r.Begin("long", nil)
		}
		begin := tp.Len()
		now := r.opts.Now()
		r.Record(&SpanData{Name: "s", Start: now, End: now.Add(1), Events: []Event{
			{Time: now, Name: strings.Repeat("x", 500)}, {Time: now, Name: strings.Repeat("y", 500)}, {Time: now, Name: strings.Repeat("z", 500)},
		}})
		want(t, "active", r.Stats().Active, map[bool]int{true: 1}[full])
		r.flush()
		r.crash()
		if n := tp.Len() - begin; n < 3 {
			t.Fatalf("%d commits", n)
		}
		for n := begin; n <= tp.Len(); n++ {
			again := newRigOn(t, tp.At(t, n), o, batch.Limits{})
			for _, d := range again.read(Query{}).Spans {
				want(t, fmt.Sprintf("after %d commits, full %v: %s runs", n-begin, full, d.Name), d.Running(), false)
			}
		}
	}
}

// TestAdoptTooMany: spans that have no room any more end.
func TestAdoptTooMany(t *testing.T) {
	o := quiet()
	o.Adopt = true
	r := newRig(t, o)
	for i := range 5 {
		r.Begin(fmt.Sprint("s", i), nil)
	}
	r.flush()
	r.crash()
	r.opts.MaxActive = 2
	r.open()
	want(t, "adopted", len(r.Adopted()), 2)
	running := 0
	for _, d := range r.read(Query{}).Spans {
		if d.Running() {
			running++
		} else {
			want(t, d.Name, d.Status, Status{StatusError, crashMessage})
		}
	}
	want(t, "running", running, 2)
	want(t, "dropped", r.Stats().DroppedSpans, 3)
}

// TestStagedClose: a batch with chunks of Traces that are closed may be on its way into the
// engine. The next opening doesn't take their places.
func TestStagedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quiet())
		r.Begin("zero", nil).End()
		r.flush()
		r.Begin("staged", nil).End()
		var b batch.Batch
		must(t, r.In(&b).Flush(ctx))
		pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
		committed, next := make(chan error), make(chan error)
		go func() { committed <- r.actor.Commit(ctx, &b) }()
		<-pause.Reached()
		first := r.Traces
		closing := make(chan error, 1)
		go func() {
			if err := first.Close(ctx); !isBusy(err) {
				t.Errorf("close: %v", err)
			}
			traces, err := Open(ctx, r.actor, &r.opts)
			if err == nil {
				r.Traces = traces
				traces.Begin("acknowledged", nil).End()
				err = traces.Flush(ctx)
			}
			next <- err
		}()
		synctest.Wait() // as far as it gets
		go func() { closing <- first.Close(ctx) }()
		synctest.Wait()
		if len(closing) > 0 {
			t.Error("a second Close didn't wait")
		}
		pause.Release()
		must(t, <-committed)
		must(t, <-next)
		must(t, <-closing)
		want(t, "spans", names(r.read(Query{})), "zero staged acknowledged")
		r.verify("staged")
		r.close()
	})
}

// TestRefusedInARow: a chunk is given up when it is refused as too large several times in a
// row, and not when other attempts failed before.
func TestRefusedInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where nothing is tried again by itself meanwhile
		r := newRigOn(t, memkv.New(), quiet(), batch.Limits{})
		r.Begin("s", nil).End()
		for _, err := range []error{errDisk, batch.ErrTooLarge, batch.ErrTooLarge, errDisk, batch.ErrTooLarge, batch.ErrTooLarge} {
			r.Traces.store.mu.Lock()
			r.Traces.store.cutAll()
			r.Traces.writer.failedAttempt(r.Traces.store.queue[0], err)
			r.Traces.store.unlock()
		}
		want(t, "waiting", r.Stats().Pending, 1)
		for range hopelessTries {
			var b batch.Batch // of another caller's that doesn't land
			must(t, r.In(&b).Flush(ctx))
			b.Abort(batch.ErrTooLarge)
		}
		r.flush()
		want(t, "spans", names(r.read(Query{})), "s")
		want(t, "dropped", r.Stats().DroppedChunks, 0)
	})
}
