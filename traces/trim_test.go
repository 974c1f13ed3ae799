package traces

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestTrimAge removes whole buckets when the last of what they may have is too old, each
// with one range delete, and the notes about them.
func TestTrimAge(t *testing.T) {
	w := newWatch(t0)
	opts := quiet()
	opts.Now, opts.MaxAge = w.now, -1
	r := newRig(t, opts)
	var last TraceID
	for i := range 6 {
		w.set(at(3600 * i))
		s := r.Begin(fmt.Sprint("s", i), nil)
		last = s.TraceID()
		s.End()
		r.flush()
	}
	w.set(at(3600*6 - 1)) // the first has ended 5 hours ago, less a second
	var deletes []int
	r.engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			for _, o := range op.Commit.Ops {
				if o.Kind == kv.OpClearRange {
					deletes = append(deletes, len(op.Commit.Ops))
				}
			}
		}
		return nil
	})
	r.keep(3 * time.Hour)
	n, err := r.Trim(ctx)
	must(t, err)
	want(t, "buckets", n, 2)
	want(t, "range deletes", len(deletes), 2)
	want(t, "spans", names(r.read(Query{})), "s2 s3 s4 s5")
	want(t, "by trace", names(r.read(Query{TraceID: last})), "s5")
	r.verify("trimmed")
	n, err = r.Trim(ctx)
	if n != 0 || err != nil {
		t.Errorf("a second time: %d, %v", n, err)
	}
	snap, err := r.actor.Snapshot(ctx)
	must(t, err)
	c, err := loadCatalog(ctx, snap)
	must(t, err)
	must(t, snap.Close())
	if len(c.ledgers) != 4 || c.notes != 4 || r.Traces.store.index.notes != 4 || r.Stats().Bytes != r.actor.Used() {
		t.Errorf("%d ledgers, %d notes, %+v", len(c.ledgers), c.notes, r.Stats())
	}
	r.reopen()
	want(t, "spans", names(r.read(Query{})), "s2 s3 s4 s5")
	r.keep(3 * time.Hour)
	w.set(at(3600 * 100))
	n, err = r.Trim(ctx)
	if n != 4 || err != nil || r.actor.Used() != 0 {
		t.Errorf("%d, %v: %d bytes are left", n, err, r.actor.Used())
	}
	r.verify("empty")
}

// TestTrimRunning: a span that runs for longer than anything is kept is recorded whole
// again.
func TestTrimRunning(t *testing.T) {
	r, w := newTimed(t)
	s := r.Begin("s", &StartOptions{Attributes: []Attr{Int("a", 1)}})
	r.flush()
	r.keep(time.Hour)
	w.set(at(3600 * 10))
	n, err := r.Trim(ctx)
	if n != 1 || err != nil {
		t.Fatalf("%d buckets, %v", n, err)
	}
	s.End()
	d := r.one(Query{})
	if attr(&d, "a") != "1" || !d.Start.Equal(t0) || !d.End.Equal(at(3600*10)) {
		t.Errorf("%+v", d)
	}
	r.verify("running")
}

// TestTrimTimer: what is too old is removed in an actor that does nothing.
func TestTrimTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxAge: 10 * time.Hour})
		r.Begin("s", nil).End()
		later(9 * time.Hour)
		want(t, "before", len(r.read(Query{}).Spans), 1)
		later(3 * time.Hour)
		want(t, "after", len(r.read(Query{}).Spans), 0)
		want(t, "buckets", r.Stats().Trimmed, 1)
		// After a restart, too.
		r.Begin("t", nil).End()
		r.reopen()
		later(12 * time.Hour)
		want(t, "after a restart", len(r.read(Query{}).Spans), 0)
		r.close()
	})
}

// TestTrimBytes removes the oldest buckets when there are too many bytes, but never the
// newest.
func TestTrimBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(t0)
		opts := quiet()
		opts.Now, opts.MaxBytes = w.now, 5000
		r := newRig(t, opts)
		for i := range 10 {
			w.set(at(3600 * i))
			for range 10 {
				r.Begin(fmt.Sprint("s", i), nil).End()
			}
			r.flush()
			synctest.Wait()
		}
		if b := r.Stats().Bytes; b > 5000 || b < 3000 || r.actor.Used() != b {
			t.Errorf("%d bytes", b)
		}
		for range 100 {
			r.Begin("s9", nil).End()
		}
		r.flush()
		synctest.Wait()
		if b := r.Stats().Bytes; b < 5000 || len(r.read(Query{}).Spans) != 110 {
			t.Errorf("%d bytes, %d spans", b, len(r.read(Query{}).Spans))
		}
		r.engine.Reset()
		for range 5 {
			r.Begin("s9", nil).End()
			r.flush()
		}
		if c := r.engine.Counts(); c.Commits != 5 || c.Snapshots+c.Scans+c.Gets != 0 {
			t.Errorf("the newest bucket alone is too large, and is looked at all the time: %+v", c)
		}
		r.verify("bytes")
		r.close()
	})
}

// TestTrimStops: after any commit of trimming, what is left is sound, and the next one
// goes on.
func TestTrimStops(t *testing.T) {
	for fail := range 6 {
		w := newWatch(t0)
		opts := quiet()
		opts.Now, opts.MaxAge = w.now, -1
		r := newRig(t, opts)
		for i := range 3 {
			w.set(at(3600 * i))
			r.Begin(fmt.Sprint("s", i), nil).End()
			r.flush()
		}
		w.set(at(3600*3 + 1))
		f := r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: fail, Err: kv.ErrTooLarge})
		r.keep(time.Hour)
		_, err := r.Trim(ctx)
		if (err != nil) != (f.Hits() > 0) {
			t.Errorf("commit %d: %v", fail, err)
		}
		f.Remove()
		want(t, "spans meanwhile", len(r.read(between(7200, 99999)).Spans), 1)
		r.reopen()
		r.keep(time.Hour)
		_, err = r.Trim(ctx)
		must(t, err)
		want(t, "spans", names(r.read(Query{})), "s2")
		want(t, "notes", r.Traces.store.index.notes, 1)
		want(t, "ledgers", len(r.Traces.store.index.buckets), 1)
		r.verify(fmt.Sprint("commit ", fail))
		r.close()
	}
}
