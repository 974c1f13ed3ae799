package traces

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestStage: what was recorded lands with a caller's batch, in one commit.
func TestStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no bucket ends meanwhile
		r := newRig(t, quiet())
		r.Begin("warm", nil).End()
		r.flush()
		r.Begin("s", nil).End()
		var b batch.Batch
		b.PutPrior(actorstore.UserKey([]byte("k")), []byte("v"), batch.Absent)
		must(t, r.In(&b).Flush(ctx))
		want(t, "seen while it is staged", names(r.read(Query{})), "warm s")
		wantErr(t, "flush of what is staged", r.Flush(ctx), ErrBusy)
		r.Begin("later", nil).End()
		r.engine.Reset()
		must(t, r.actor.Commit(ctx, &b))
		if c := r.engine.Counts(); c.Commits != 1 || c.Gets+c.Scans+c.Snapshots != 0 {
			t.Errorf("%+v", c)
		}
		r.flush()
		want(t, "spans", names(r.read(Query{})), "warm s later")
		want(t, "chunks", r.Stats().Chunks, 3)
		r.verify("staged")
		r.reopen()
		want(t, "spans", names(r.read(Query{})), "warm s later")
	})
}

// TestStageRefused: the batch may be refused first.
func TestStageRefused(t *testing.T) {
	r := newRig(t, quiet())
	failed := errors.New("no")
	for i := range 5 {
		r.Begin("s", nil).End()
		var part batch.Batch
		must(t, r.In(&part).Flush(ctx))
		if i%2 == 1 {
			var spare batch.Batch
			part.Mark(&spare)
			part.Late(func(*batch.Batch) error { return failed })
			wantErr(t, "commit", r.actor.Commit(ctx, &part), failed)
		}
		must(t, r.actor.Commit(ctx, &part))
	}
	r.verify("landed")
	r.Begin("s", nil).End()
	r.flush()
	r.verify("and one beside them")
	want(t, "chunks", len(names(r.read(Query{}))), len("s s s s s s"))
}

// TestStageAborted: what doesn't land with a batch is written as usual.
func TestStageAborted(t *testing.T) {
	r := newRig(t, quiet())
	r.Begin("s", nil).End()
	for range 2 {
		var b batch.Batch
		must(t, r.In(&b).Flush(ctx))
		b.Abort(nil)
	}
	var b batch.Batch
	must(t, r.In(&b).Flush(ctx))
	failed := errors.New("no")
	b.Late(func(*batch.Batch) error { return failed }) // the notes are staged by then
	wantErr(t, "commit", r.actor.Commit(ctx, &b), failed)
	r.flush()
	want(t, "spans", names(r.read(Query{})), "s")
	want(t, "chunks", r.Stats().Chunks, 1)
	r.verify("aborted")
}

// TestStageTogether: two batches at once, landed in the other order, and a chunk that is
// written in between.
func TestStageTogether(t *testing.T) {
	r := newRig(t, quiet())
	var a, b batch.Batch
	r.Begin("one", nil).End()
	must(t, r.In(&a).Flush(ctx))
	r.Begin("two", nil).End()
	must(t, r.In(&b).Flush(ctx))
	r.Begin("three", nil).End()
	wantErr(t, "flush", r.Flush(ctx), ErrBusy)
	must(t, r.actor.Commit(ctx, &b))
	must(t, r.actor.Commit(ctx, &a))
	r.flush()
	want(t, "spans", names(r.read(Query{})), "one two three")
	r.verify("together")
	r.reopen()
	want(t, "spans", names(r.read(Query{})), "one two three")
	r.Begin("four", nil).End()
	r.flush()
	want(t, "spans", names(r.read(Query{})), "one two three four")
	r.verify("after a restart")
}

// TestStageOrdered: of a batch that landed in part, chunks that are there are written once
// more, as they were, and charged once.
func TestStageOrdered(t *testing.T) {
	r := newRigOn(t, memkv.New(), quiet(), batch.Limits{Entries: 1})
	pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit}) // the writer must not be faster
	r.Begin("zero", nil).End()
	done := make(chan error)
	go func() { done <- r.Flush(ctx) }()
	<-pause.Reached()
	for _, name := range []string{"one", "two"} {
		r.Begin(name, nil).End()
		r.Traces.store.mu.Lock()
		r.Traces.store.cutAll()
		r.Traces.store.unlock()
	}
	b := batch.Batch{Mode: batch.Ordered}
	must(t, r.In(&b).Flush(ctx))
	pause.Release()
	must(t, <-done)
	f := r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1, Err: kv.ErrTooLarge})
	err := r.actor.Commit(ctx, &b)
	var partly *batch.OrderedError
	if !errors.As(err, &partly) || f.Hits() != 1 {
		t.Fatalf("commit: %v", err)
	}
	want(t, "spans meanwhile", names(r.read(Query{})), "zero one two")
	r.flush()
	want(t, "spans", names(r.read(Query{})), "zero one two")
	want(t, "chunks", r.Stats().Chunks, 3)
	want(t, "bytes", r.Stats().Bytes, r.actor.Used())
	r.verify("ordered")
}

// TestStageOutlivesClose: a batch with chunks of Traces that are closed fails. Others may
// have their places since.
func TestStageOutlivesClose(t *testing.T) {
	r := newRig(t, quiet())
	r.Begin("zero", nil).End()
	r.flush()
	r.Begin("staged", nil).End()
	var b batch.Batch
	must(t, r.In(&b).Flush(ctx))
	wantErr(t, "close", r.Traces.Close(ctx), ErrBusy)
	traces, err := Open(ctx, r.actor, &r.opts)
	must(t, err)
	r.Traces = traces
	r.Begin("acknowledged", nil).End()
	r.flush()
	wantErr(t, "commit", r.actor.Commit(ctx, &b), ErrClosed)
	want(t, "spans", names(r.read(Query{})), "zero acknowledged")
	want(t, "bytes", r.Stats().Bytes, r.actor.Used())
	r.verify("after")
}

// TestStageLate stages in a batch that is being sealed, behind what was staged before.
func TestStageLate(t *testing.T) {
	for _, how := range []string{"by the batch", "kept"} {
		r := newRig(t, quiet())
		r.Begin("one", nil).End()
		b := new(batch.Batch)
		tx := r.In(b)
		must(t, tx.Flush(ctx))
		b.Late(func(b *batch.Batch) error {
			r.Begin("two", nil).End()
			in := tx
			if how != "kept" {
				in = r.In(b)
			}
			if in != tx {
				t.Errorf("%s: another Tx", how)
			}
			return in.Flush(ctx)
		})
		must(t, r.actor.Commit(ctx, b))
		want(t, how, b.Len(), 2) // each chunk once
		want(t, how, r.Stats().Chunks, 2)
		want(t, how, r.Stats().Bytes, r.actor.Used())
		r.verify(how)
		r.reopen()
		want(t, how, names(r.read(Query{})), "one two")
	}
}

// TestTxOver: a Tx of a batch that is over stages nothing, also when the batch is used anew.
func TestTxOver(t *testing.T) {
	r := newRig(t, quiet())
	var b batch.Batch
	tx := r.In(&b)
	if r.In(&b) != tx {
		t.Error("a batch has two")
	}
	must(t, r.actor.Commit(ctx, &b))
	r.Begin("s", nil).End()
	wantErr(t, "flush", tx.Flush(ctx), batch.ErrSettled)
	wantErr(t, "flush", r.In(&b).Flush(ctx), batch.ErrSettled)
	b.Reset()
	wantErr(t, "flush", tx.Flush(ctx), batch.ErrSettled)
	must(t, r.In(&b).Flush(ctx))
	wantErr(t, "flush", tx.Flush(ctx), batch.ErrSettled)
	must(t, r.actor.Commit(ctx, &b))
	want(t, "chunks", r.Stats().Chunks, 1)
	r.verify("in the end")
}

// TestCloseDoesNotWait for a batch that is not being committed: one that is open, or that was
// refused.
func TestCloseDoesNotWait(t *testing.T) {
	r := newRig(t, quiet())
	r.Begin("zero", nil).End()
	r.flush()
	var open, refused batch.Batch
	for _, b := range []*batch.Batch{&open, &refused} {
		r.Begin("s", nil).End()
		must(t, r.In(b).Flush(ctx))
	}
	no := errors.New("no")
	for range 2 {
		var spare batch.Batch
		refused.Mark(&spare)
		refused.Late(func(*batch.Batch) error { return no }) // the notes are staged by then
		wantErr(t, "commit", r.actor.Commit(ctx, &refused), no)
	}
	r.engine.Reset()
	wantErr(t, "close", r.Traces.Close(ctx), ErrBusy)
	if c := r.engine.Counts(); c.Commits+c.Gets+c.Scans+c.Snapshots > 0 {
		t.Errorf("Close asked the engine: %+v", c)
	}
	for _, b := range []*batch.Batch{&open, &refused} {
		wantErr(t, "commit", r.actor.Commit(ctx, b), ErrClosed)
	}
	r.open2()
	want(t, "spans", names(r.read(Query{})), "zero")
	r.verify("in the end")
}

// TestTrimClosed: Traces that are closed remove nothing any more. Others may be open.
func TestTrimClosed(t *testing.T) {
	w := newWatch(t0)
	opts := quiet()
	opts.Now, opts.MaxAge = w.now, -1
	r := newRig(t, opts)
	for i := range 2 {
		w.set(at(7200 * i))
		r.Begin("s", nil).End()
		r.flush()
	}
	r.keep(time.Hour)
	closed := r.Traces
	must(t, closed.Close(ctx))
	_, err := closed.Trim(ctx)
	wantErr(t, "trim", err, ErrClosed)
	r.open2()
	want(t, "spans", names(r.read(Query{})), "s s")
	r.verify("in the end")
}

// open2 opens the traces of the actor again.
func (r *rig) open2() {
	r.t.Helper()
	traces, err := Open(ctx, r.actor, &r.opts)
	must(r.t, err)
	r.Traces = traces
}
