package traces

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var _ batch.Stager = (*Traces)(nil)

// TestStage has what was recorded land with a batch of somebody else's, in one commit.
func TestStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no bucket ends meanwhile
		r := newRig(t, quiet())
		r.Begin("warm", nil).End()
		r.flush()
		r.Begin("s", nil).End()
		var b batch.Batch
		b.PutPrior(actorstore.UserKey([]byte("k")), []byte("v"), batch.Absent)
		must(t, r.Stage(&b))
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

// TestStageJoined: the batch may be joined to another one, which may be refused first.
func TestStageJoined(t *testing.T) {
	r := newRig(t, quiet())
	failed := errors.New("no")
	for i := range 5 {
		r.Begin("s", nil).End()
		var part batch.Batch
		must(t, r.Stage(&part))
		if i%2 == 1 {
			var refused batch.Batch
			refused.Join(&part)
			refused.Late(func(*batch.Batch) error { return failed })
			wantErr(t, "commit", r.actor.Commit(ctx, &refused), failed)
		}
		var inner, outer batch.Batch
		inner.Join(&part)
		outer.Join(&inner)
		must(t, r.actor.Commit(ctx, &outer))
	}
	r.verify("joined")
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
		must(t, r.Stage(&b))
		b.Abort(nil)
	}
	var b batch.Batch
	must(t, r.Stage(&b))
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
	must(t, r.Stage(&a))
	r.Begin("two", nil).End()
	must(t, r.Stage(&b))
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
		r.Traces.mu.Lock()
		r.cutAll()
		r.Traces.unlock()
	}
	b := batch.Batch{Mode: batch.Ordered}
	must(t, r.Stage(&b))
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
	must(t, r.Stage(&b))
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
