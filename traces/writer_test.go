package traces

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/metrics"
)

// later lets time pass, in a bubble.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestAge: what was recorded is written when it is old enough, whether or not more comes.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		defer r.close()
		s := r.Begin("s", nil)
		later(defaultChunkAge - time.Millisecond)
		want(t, "chunks before", r.Stats().Chunks, 0)
		later(time.Millisecond)
		want(t, "chunks after", r.Stats().Chunks, 1)
		s.End()
		later(defaultChunkAge)
		want(t, "chunks at last", r.Stats().Chunks, 2)
		later(time.Hour)
		want(t, "chunks of nothing", r.Stats().Chunks, 2)
	})
}

// TestCommits: a commit for each chunk, none for a span, and no read but one for a bucket.
func TestCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no bucket ends meanwhile
		r := newRig(t, quiet())
		r.Begin("warm", nil).End()
		r.flush()
		r.engine.Reset()
		for i := range 5000 {
			s := r.Begin("span", &StartOptions{Attributes: []Attr{Int("i", int64(i))}})
			s.End()
		}
		r.flush()
		c, chunks := r.engine.Counts(), r.Stats().Chunks-1
		if c.Commits != chunks || chunks < 3 || c.Gets+c.Scans+c.Snapshots != 0 || c.Durable > 0 || c.Syncs != 1 {
			t.Errorf("%d chunks: %+v", chunks, c)
		}
	})
}

// TestFailedWrite: a chunk that can't be written stays in its place, the Flush that waited
// says why, and the next one writes it. (In the reference no later write ever happened.)
func TestFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigFull(t, quiet())
		r.Begin("first", nil).End()
		r.full(true)
		wantErr(t, "flush of a full store", r.Flush(ctx), actorstore.ErrQuota)
		r.Begin("second", nil).End()
		wantErr(t, "the next flush", r.Flush(ctx), actorstore.ErrQuota)
		s := r.Stats()
		if s.Pending != 2 || s.Retries < 2 || !errors.Is(s.LastWriteError, actorstore.ErrQuota) {
			t.Errorf("%+v", s)
		}
		want(t, "spans meanwhile", names(r.read(Query{})), "first second")
		r.full(false)
		r.flush()
		if s := r.Stats(); s.Pending != 0 || s.Chunks != 2 || s.LastWriteError != nil || s.DroppedChunks != 0 {
			t.Errorf("%+v", s)
		}
		want(t, "spans", names(r.read(Query{})), "first second")
		r.verify("after failures")
	})
}

// TestBackoff tries again later and later, by itself.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{MaxBackoff: time.Second}
		r := newRigFull(t, opts)
		r.Begin("s", nil).End()
		r.full(true)
		begin := time.Now()
		later(defaultChunkAge)
		var tries []time.Duration
		for n := int64(0); len(tries) < 7; later(10 * time.Millisecond) {
			if m := r.Stats().Retries; m > n {
				tries, n = append(tries, time.Since(begin).Round(100*time.Millisecond)), m
			}
		}
		got := fmt.Sprint(tries)
		want(t, "attempts", got, "[5s 5.1s 5.3s 5.7s 6.5s 7.5s 8.5s]")
		r.full(false)
		later(time.Second)
		want(t, "chunks", r.Stats().Chunks, 1)
	})
}

// newRigFull is newRig of an actor that has little room.
func newRigFull(t testing.TB, opts Options) *rig {
	t.Helper()
	return newRigOn(t, memkv.New(), opts, batch.Limits{Storage: 100_000})
}

// full fills the actor's quota, or makes room again.
func (r *rig) full(full bool) {
	r.t.Helper()
	if full {
		err := actorstore.ErrQuota
		for errors.Is(err, actorstore.ErrQuota) { // a chunk may have landed since
			err = r.actor.Put(ctx, actorstore.UserKey(nil), make([]byte, 100_000-3-r.actor.Used()))
		}
		must(r.t, err)
	} else {
		must(r.t, r.actor.Delete(ctx, actorstore.UserKey(nil)))
	}
}

// TestPendingBound drops the oldest chunk when too many wait, counts it, and records spans
// whole again whose beginning was in it.
func TestPendingBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := quiet()
		opts.MaxPending = 3
		r := newRigFull(t, opts)
		long := r.Begin("long", &StartOptions{Attributes: []Attr{Int("a", 1)}})
		r.full(true)
		for i := range 10 {
			r.Begin(fmt.Sprint("span", i), nil).End()
			wantErr(t, "flush", r.Flush(ctx), actorstore.ErrQuota)
		}
		s := r.Stats()
		if s.Pending != 3 || s.DroppedChunks != 7 || s.DroppedRecords < 15 {
			t.Errorf("%+v", s)
		}
		r.full(false)
		long.Event("late")
		long.End()
		r.flush()
		want(t, "spans", sorted(r.read(Query{})), "long span8 span9") // what says "long" was one chunk more
		if d := r.read(Query{Name: "long"}).Spans[0]; attr(&d, "a") != "1" || events(&d) != "[late]" || d.Running() {
			t.Errorf("%+v", d)
		}
		r.verify("after drops")
	})
}

// TestDroppedFlush: a call that waits for what is dropped is told.
func TestDroppedFlush(t *testing.T) {
	r := newRig(t, quiet())
	r.Begin("s", nil).End()
	pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	done := make(chan error)
	go func() { done <- r.Flush(ctx) }()
	<-pause.Reached()
	r.Begin("t", nil).End()
	r.Traces.store.mu.Lock()
	r.Traces.store.cutAll()
	f := &flush{upto: r.Traces.store.seq, done: make(chan error, 1)}
	r.Traces.store.flushes = append(r.Traces.store.flushes, f)
	if !r.Traces.store.dropOldest() || r.Traces.store.dropOldest() {
		t.Error("what is being written was dropped")
	}
	r.Traces.store.unlock()
	wantErr(t, "flush", <-f.done, ErrDropped)
	pause.Release()
	must(t, <-done)
	want(t, "spans", names(r.read(Query{})), "s")
}

// TestFlushContext: a context ends the wait and nothing else.
func TestFlushContext(t *testing.T) {
	r := newRig(t, quiet())
	r.Begin("s", nil).End()
	pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	c, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- r.Flush(c) }()
	<-pause.Reached()
	cancel()
	wantErr(t, "flush", <-done, context.Canceled)
	pause.Release()
	r.flush()
	want(t, "spans", names(r.read(Query{})), "s")
	want(t, "chunks", r.Stats().Chunks, 1)
}

// TestHopeless: a chunk that the engine never takes doesn't keep the others from it.
func TestHopeless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where nothing is tried again by itself meanwhile
		r := newRig(t, quiet())
		r.Begin("s", nil).End()
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: hopelessTries, Err: kv.ErrTooLarge})
		for i := range hopelessTries {
			wantErr(t, "flush", r.Flush(ctx), []error{batch.ErrTooLarge, ErrDropped}[i/(hopelessTries-1)])
		}
		r.Begin("t", nil).End()
		r.flush()
		want(t, "spans", names(r.read(Query{})), "t")
		want(t, "dropped", r.Stats().DroppedChunks, 1)
	})
}

// TestRecordingDoesNotWait: while a chunk is being written, spans are recorded and read.
func TestRecordingDoesNotWait(t *testing.T) {
	r := newRig(t, quiet())
	r.Begin("s", nil).End()
	pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	done := make(chan error)
	go func() { done <- r.Flush(ctx) }()
	<-pause.Reached()
	for range 10 {
		r.Begin("t", nil).End()
	}
	want(t, "spans meanwhile", len(r.read(Query{}).Spans), 11)
	pause.Release()
	must(t, <-done)
}

// TestReadRace: a chunk that is written during a read is met once. (In the reference
// one that was done between two looks was met never, or twice.)
func TestReadRace(t *testing.T) {
	for _, moment := range []string{"between the looks", "before the snapshot", "before the scan"} {
		r := newRig(t, quiet())
		r.Begin("before", nil).End()
		r.flush()
		s := r.Begin("s", nil)
		s.Event("e")
		s.End()
		flushed := false
		land := func() error {
			if flushed {
				return nil
			}
			flushed = true
			return r.Flush(ctx)
		}
		r.engine.Hook(func(op faultkv.Op) error {
			if moment == "before the snapshot" && op.Point == faultkv.BeforeSnapshot || moment == "before the scan" && op.Point == faultkv.BeforeScan {
				return land()
			}
			return nil
		})
		if moment == "between the looks" {
			r.betweenLooks = func() { must(t, land()) }
		}
		for range 2 {
			res := r.read(Query{})
			if names(res) != "before s" || events(&res.Spans[1]) != "[e]" {
				t.Errorf("%s: %+v", moment, res)
			}
		}
		if !flushed {
			t.Errorf("%s: nothing was written", moment)
		}
		r.engine.Hook(nil)
		r.close()
	}
}

// TestClose writes what there is; afterwards nothing is recorded, and nothing panics.
func TestClose(t *testing.T) {
	r := newRig(t, quiet())
	s := r.Begin("s", nil)
	u := r.Begin("u", nil)
	u.End()
	must(t, r.Close(ctx))
	must(t, r.Close(ctx))
	s.End()
	r.Begin("late", nil).End()
	r.Record(&SpanData{})
	want(t, "ignored", r.Stats().Ignored, 4)
	wantErr(t, "flush", r.Flush(ctx), ErrClosed)
	wantErr(t, "stage", r.In(new(batch.Batch)).Flush(ctx), ErrClosed)
	_, err := r.Read(ctx, Query{})
	wantErr(t, "read", err, ErrClosed)
	r.reopen()
	want(t, "spans", names(r.read(Query{})), "s u")
}

// TestKept: an actor has one Traces at a time.
func TestKept(t *testing.T) {
	r := newRig(t, quiet())
	_, err := Open(ctx, r.actor, nil)
	wantErr(t, "a second one", err, actorstore.ErrKept)
}

// TestFenced: when another owner has the actor, recording ends, and says so.
func TestFenced(t *testing.T) {
	r := newRig(t, quiet())
	r.Begin("s", nil).End()
	other, err := actorstore.Open(ctx, r.engine, nil)
	must(t, err)
	defer func() { must(t, other.Close()) }()
	a, err := other.Named(ctx, "lobby", nil)
	must(t, err)
	defer func() { must(t, a.Close()) }()
	must(t, a.Put(ctx, actorstore.UserKey(nil), nil))
	wantErr(t, "flush", r.Flush(ctx), actorstore.ErrFenced)
	r.Begin("t", nil).End()
	s := r.Stats()
	if s.DroppedChunks != 1 || s.Pending != 0 || s.Ignored == 0 || !errors.Is(s.LastWriteError, actorstore.ErrFenced) {
		t.Errorf("%+v", s)
	}
}

// TestOptions refuses what makes no sense.
func TestOptions(t *testing.T) {
	r := newRig(t, quiet())
	must(t, r.Close(ctx))
	for what, o := range map[string]Options{
		"bucket":  {BucketSize: time.Millisecond},
		"chunk":   {ChunkBytes: 1 << 20},
		"active":  {MaxActive: 1000},
		"age":     {ChunkAge: -1},
		"pending": {MaxPending: -1},
	} {
		_, err := Open(ctx, r.actor, &o)
		wantErr(t, what, err, ErrOptions)
	}
}

// TestMetrics: everything that happens is told under a name that is known.
func TestMetrics(t *testing.T) {
	sink := &sink{counts: map[*metrics.Metric]int64{}}
	opts := quiet()
	opts.Metrics, opts.MaxActive = sink, 1
	r := newRig(t, opts)
	s := r.Begin("s", nil)
	r.Begin("t", nil).End()
	s.End()
	r.flush()
	must(t, r.Close(ctx))
	known := map[*metrics.Metric]bool{}
	for _, m := range Metrics() {
		known[m] = true
	}
	for m := range sink.counts {
		if !known[m] {
			t.Errorf("%s is not among Metrics", m.Name)
		}
	}
	if sink.counts[metricChunks] != 1 || sink.counts[metricDroppedSpans] != 1 || sink.counts[metricIgnored] != 1 || sink.counts[metricWrite] != 1 {
		t.Errorf("%v", sink.counts)
	}
}

type sink struct{ counts map[*metrics.Metric]int64 }

func (s *sink) Add(m *metrics.Metric, n int64)             { s.counts[m] += n }
func (s *sink) Observe(m *metrics.Metric, _ time.Duration) { s.counts[m]++ }
