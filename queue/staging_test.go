package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

func (r *rig) stageEnqueue(b *batch.Batch, s Send) ID {
	r.t.Helper()
	id, err := r.q.In(b).Enqueue(s)
	must(r.t, err)
	return id
}

func (r *rig) stageReceive(b *batch.Batch, o ReceiveOptions) []*Message {
	r.t.Helper()
	msgs, err := r.q.In(b).Receive(ctx, &o)
	must(r.t, err)
	return msgs
}

// TestStagedEnqueues never share an id, whatever becomes of them, and in which order.
func TestStagedEnqueues(t *testing.T) {
	r := newRig(t, Options{})
	var a, b, c batch.Batch
	if x, y, z := r.stageEnqueue(&a, Send{Name: "a"}), r.stageEnqueue(&b, Send{Name: "b"}), r.stageEnqueue(&c, Send{Name: "c"}); x != 1 || y != 2 || z != 3 {
		t.Errorf("ids %s, %s, %s", x, y, z)
	}
	if len(r.try(ReceiveOptions{})) > 0 || r.q.Len() != 0 {
		t.Error("what is staged is visible")
	}
	must(t, r.actor.Commit(ctx, &b))
	a.Abort(errors.New("changed my mind"))
	if id := r.enqueue("d", nil); id != 4 {
		t.Errorf("id %s is given while 3 is staged", id)
	}
	must(t, r.actor.Commit(ctx, &c))
	wantIDs(t, "landed", ids(r.try(ReceiveOptions{Count: 9})), 2, 3, 4)
	r.verify("in the end")
	// Ids that a caller was told of are not given to others, if they were used or not.
	var d batch.Batch
	r.stageEnqueue(&d, Send{})
	r.stageEnqueue(&d, Send{})
	d.Abort(nil)
	if id := r.enqueue("e", nil); id != 7 {
		t.Errorf("id %s", id)
	}
	r.reopen()
	if id := r.enqueue("e", nil); id != 8 {
		t.Errorf("id %s after a restart", id)
	}
}

// TestStagedReceives never share a message, and give it back with the batch.
func TestStagedReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Visibility: time.Second})
		for range 3 {
			r.enqueue("a", nil)
		}
		var a, b batch.Batch
		first := r.stageReceive(&a, ReceiveOptions{Count: 2})
		second := r.stageReceive(&b, ReceiveOptions{Count: 2, AtMostOnce: true})
		wantIDs(t, "first", ids(first), 1, 2)
		wantIDs(t, "second", ids(second), 3)
		wantErr(t, "complete outside", r.q.Complete(ctx, first[0].Receipt(), nil), ErrBusy)
		later(time.Minute) // what is claimed doesn't come back
		if len(r.try(ReceiveOptions{})) > 0 {
			t.Error("a claimed message was handed out")
		}
		woken := make(chan error, 1)
		go func() { woken <- r.q.WaitFor(ctx) }()
		synctest.Wait()
		a.Abort(nil)
		must(t, <-woken)
		wantErr(t, "a void receipt", r.q.Complete(ctx, first[0].Receipt(), nil), ErrLeaseOver)
		must(t, r.actor.Commit(ctx, &b))
		got := r.try(ReceiveOptions{Count: 9})
		wantIDs(t, "given back", ids(got), 1, 2)
		if got[0].Deliveries != 1 {
			t.Errorf("delivery %d", got[0].Deliveries)
		}
		r.verify("in the end")
	})
}

// TestReceiveAndComplete in one batch is one write of the message.
func TestReceiveAndComplete(t *testing.T) {
	r := newRig(t, Options{MaxReceive: 1})
	for range 5 {
		r.enqueue("a", nil)
	}
	var b batch.Batch
	msgs := r.stageReceive(&b, ReceiveOptions{Count: 5})
	must(t, r.q.In(&b).Complete(msgs[0].Receipt(), nil))
	wantErr(t, "twice", r.q.In(&b).Complete(msgs[0].Receipt(), nil), ErrGone)
	must(t, r.q.In(&b).Nack(ctx, msgs[1].Receipt(), 0, nil)) // a dead letter
	wantErr(t, "a dead one", r.q.In(&b).Complete(msgs[1].Receipt(), nil), ErrGone)
	must(t, r.q.In(&b).Extend(ctx, msgs[2].Receipt(), time.Hour))
	must(t, r.q.In(&b).Delete(msgs[3].ID))
	wantErr(t, "deleted", r.q.In(&b).Delete(msgs[3].ID), ErrGone)
	must(t, r.q.In(&b).Complete(msgs[4].Receipt(), nil))
	r.wantCost("all of it", 1, 0, func() { must(t, r.actor.Commit(ctx, &b)) })
	if n := b.Len(); n != 7 {
		t.Errorf("%d writes, want the metadata, one for each message, and the dead letter", n)
	}
	r.verify("in the end")
	s := r.q.Stats()
	if s.Messages != 2 || s.Names[0].Leased != 1 || s.Names[1].Name != "a.dlq" {
		t.Errorf("stats %+v", s)
	}
}

// TestCosts counts engine commits and reads.
func TestCosts(t *testing.T) {
	for _, memory := range []int{0, -1} {
		r := newRigWith(t, Options{MemoryBytes: memory, MaxMessages: -1}, whole)
		read := int64(-memory) // of a body that isn't in memory
		r.enqueue("a", nil)
		var m *Message
		r.wantCost("enqueue", 1, 0, func() { r.enqueue("a", "text") })
		r.wantCost("enqueue with a key", 1, 0, func() {
			_, err := r.q.Enqueue(ctx, Send{Key: "k"})
			must(t, err)
		})
		r.wantCost("a duplicate", 0, 0, func() {
			_, err := r.q.Enqueue(ctx, Send{Key: "k"})
			must(t, err)
		})
		r.wantCost("enqueue 1000", 1, 0, func() {
			_, err := r.q.EnqueueAll(ctx, make([]Send, 1000))
			must(t, err)
		})
		r.wantCost("receive", 1, read, func() { m = r.one(ReceiveOptions{}) })
		r.wantCost("extend", 1, read, func() { must(t, r.q.Extend(ctx, m.Receipt(), time.Hour)) })
		r.wantCost("nack", 1, read, func() { must(t, m.Nack(ctx, 0, nil)) })
		r.wantCost("receive again", 1, read, func() { m = r.one(ReceiveOptions{}) })
		r.wantCost("complete", 1, 0, func() { must(t, m.Complete(ctx, nil)) })
		r.wantCost("receive 10", 1, 10*read, func() { r.try(ReceiveOptions{Count: 10}) })
		r.wantCost("receive at most once", 1, read, func() { r.one(ReceiveOptions{AtMostOnce: true}) })
		r.wantCost("delete", 1, 0, func() {
			_, err := r.q.Delete(ctx, 100)
			must(t, err)
		})
		r.wantCost("nothing", 0, 0, func() { r.try(ReceiveOptions{Names: []string{"nobody"}}) })
		r.verify("in the end")
	}
}

// TestBacklog receives from a long queue at the cost of a short one.
func TestBacklog(t *testing.T) {
	if testkit.Short() {
		t.Skip("it takes a while")
	}
	for _, n := range []int{10, 100_000} {
		r := newRigWith(t, Options{MaxMessages: -1, MemoryBytes: -1}, whole)
		fill(t, r, n)
		r.wantCost(fmt.Sprintf("receive and complete one of %d", n), 2, 1, func() {
			must(t, r.one(ReceiveOptions{}).Complete(ctx, nil))
		})
		r.reopen()
		c := r.counted(func() { must(t, r.q.Close()); r.open2() })
		if pages := int64(n/pageSize + 1); c.Scans > pages+3 || c.Commits > 0 {
			t.Errorf("opening a queue of %d messages: %+v", n, c)
		}
	}
}

// TestCycleAllocates bounds what a message costs in memory that the collector has to clean up, from Enqueue to Complete, with the
// engine's own.
func TestCycleAllocates(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector's own memory is counted")
	}
	r := newRig(t, Options{})
	body := []byte("body")
	if n := testing.AllocsPerRun(200, func() {
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Body: body})
		must(t, err)
		msgs, err := r.q.TryReceive(ctx, nil)
		must(t, err)
		must(t, msgs[0].Complete(ctx, nil))
	}); n > 30 {
		t.Errorf("a cycle allocates %v times", n)
	}
}

// fill enqueues n messages of many names.
func fill(t testing.TB, r *rig, n int) {
	t.Helper()
	for i := 0; i < n; i += 1000 {
		sends := make([]Send, min(1000, n-i))
		for j := range sends {
			sends[j] = Send{Name: fmt.Sprint("name ", j%7), Body: i + j}
		}
		_, err := r.q.EnqueueAll(ctx, sends)
		must(t, err)
	}
}

// BenchmarkReceive is what the queue itself takes to hand out a message and to take it
// back, in a queue of many; BenchmarkCycle is one message received at most once and
// another enqueued, which is also a test of how the engine likes many keys.
func BenchmarkReceive(b *testing.B) {
	onBacklogs(b, func(b *testing.B, r *rig, o ReceiveOptions) {
		for b.Loop() {
			var batch batch.Batch
			if msgs := r.stageReceive(&batch, o); len(msgs) != 1 {
				b.Fatal("nothing was received")
			}
			batch.Abort(nil)
		}
	})
}

func BenchmarkCycle(b *testing.B) {
	onBacklogs(b, func(b *testing.B, r *rig, o ReceiveOptions) {
		for b.Loop() {
			r.one(o)
			r.enqueue("name 1", 1)
		}
	})
}

func onBacklogs(b *testing.B, run func(b *testing.B, r *rig, o ReceiveOptions)) {
	for _, n := range []int{10, 1000, 100_000} {
		for _, names := range [][]string{nil, {"name 1", "name 2"}} {
			b.Run(fmt.Sprintf("backlog=%d/names=%d", n, len(names)), func(b *testing.B) {
				r := newRig(b, Options{MaxMessages: -1, MemoryBytes: 64 << 20})
				fill(b, r, n)
				b.ReportAllocs()
				run(b, r, ReceiveOptions{Names: names, AtMostOnce: true})
			})
		}
	}
}

// TestFailedCommit gives everything back when a commit fails: the metadata in memory are
// not ahead of the store, and nothing is lost or doubled.
func TestFailedCommit(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", "x")
	leased := r.one(ReceiveOptions{})
	r.enqueue("a", "y")
	ops := map[string]func() error{
		"enqueue": func() error { _, err := r.q.Enqueue(ctx, Send{Name: "a", Key: "k"}); return err },
		"many":    func() error { _, err := r.q.EnqueueAll(ctx, make([]Send, 300)); return err },
		"receive": func() error { _, err := r.q.TryReceive(ctx, nil); return err },
		"at most once": func() error {
			_, err := r.q.Receive(ctx, &ReceiveOptions{AtMostOnce: true, Count: 2})
			return err
		},
		"complete": func() error { return leased.Complete(ctx, nil) },
		"nack":     func() error { return leased.Nack(ctx, 0, nil) },
		"extend":   func() error { return r.q.Extend(ctx, leased.Receipt(), time.Hour) },
		"delete":   func() error { _, err := r.q.Delete(ctx, 1, 2); return err },
		"ask":      func() error { _, err := r.q.EnqueueAndWait(ctx, Send{Name: "a"}, time.Hour); return err },
	}
	for what, op := range ops {
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
		wantErr(t, what, op(), batch.ErrTooLarge)
		r.engine.Heal()
		r.verify("after a failed " + what)
		if r.q.Stats().Next != 3 || len(r.q.answers) != 0 {
			t.Errorf("after a failed %s: next %s, %d answers", what, r.q.Stats().Next, len(r.q.answers))
		}
	}
	if id := r.enqueue("a", nil); id != 3 {
		t.Errorf("the next id is %s", id)
	}
	must(t, leased.Complete(ctx, nil))
	wantIDs(t, "left", ids(r.try(ReceiveOptions{Count: 9})), 2, 3)
}

// TestUnknownOutcome claims nothing that can't be known, and finds out by opening anew.
func TestUnknownOutcome(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply, faultkv.AfterCommit} {
		landed := point != faultkv.BeforeCommit
		r := newRig(t, Options{})
		r.enqueue("a", nil)
		r.engine.Fail(faultkv.Rule{Point: point, Err: kv.ErrUnknownOutcome})
		_, err := r.q.TryReceive(ctx, &ReceiveOptions{AtMostOnce: true})
		wantErr(t, "receive", err, actorstore.ErrPoisoned)
		r.engine.Heal()
		_, err = r.q.TryReceive(ctx, nil)
		wantErr(t, "receive again", err, actorstore.ErrPoisoned)
		_, err = r.q.Enqueue(ctx, Send{})
		wantErr(t, "enqueue", err, actorstore.ErrPoisoned)
		r.reopen()
		if n := r.q.Len(); n != map[bool]int{true: 0, false: 1}[landed] {
			t.Errorf("point %d: %d messages", point, n)
		}
		if id := r.enqueue("a", nil); id != 2 {
			t.Errorf("point %d: id %s", point, id)
		}
		r.verify("in the end")
	}
}

// TestWaitersLearn has those that wait learn that the actor is lost.
func TestWaitersLearn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		id := r.enqueue("b", nil)
		answer, err := r.q.Expect(id)
		must(t, err)
		errs := make(chan error, 2)
		go func() { _, err := r.q.Receive(ctx, &ReceiveOptions{Names: []string{"a"}}); errs <- err }()
		go func() { _, err := answer.Wait(ctx); errs <- err }()
		synctest.Wait()
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrConflict})
		_, err = r.q.Enqueue(ctx, Send{})
		wantErr(t, "enqueue", err, actorstore.ErrFenced)
		for range 2 {
			wantErr(t, "who waits", <-errs, actorstore.ErrFenced)
		}
	})
}

// TestOrderedInPart: a batch that landed in part leaves the index in doubt, which is said;
// what is opened anew is right, since the metadata go first and are no more than a hint.
func TestOrderedInPart(t *testing.T) {
	for part := range 4 {
		r := newRigWith(t, Options{}, batch.Limits{Entries: 2, AtomicBatches: envlimits.Unlimited})
		r.enqueue("a", nil)
		b := batch.Batch{Mode: batch.Ordered}
		for range 5 {
			r.stageEnqueue(&b, Send{Name: "b"})
		}
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge, Skip: part})
		err := r.actor.Commit(ctx, &b)
		r.engine.Heal()
		var ordered *batch.OrderedError
		switch {
		case part == 3:
			must(t, err)
		case part == 0:
			wantErr(t, "the first", err, batch.ErrTooLarge)
		case !errors.As(err, &ordered):
			t.Errorf("part %d: %v", part, err)
		default:
			_, err = r.q.TryReceive(ctx, nil)
			wantErr(t, "receive", err, ErrStale)
			_, err = r.q.Enqueue(ctx, Send{})
			wantErr(t, "enqueue", err, ErrStale)
			must(t, r.q.Close())
			r.open2()
		}
		seen := map[ID]bool{}
		next := r.enqueue("c", nil)
		for _, m := range r.try(ReceiveOptions{Count: 99}) {
			seen[m.ID] = true
		}
		if !seen[next] || !seen[1] || len(seen) != r.q.Len() || slices.Contains(b.Ops()[0].Key, byte(next)) && part > 0 && part < 3 && next <= 6 {
			t.Errorf("part %d: messages %v, next %s", part, seen, next)
		}
		r.verify(fmt.Sprintf("part %d", part))
	}
}

// TestLateStaging stages from a Late function, as writers do that wait for what else lands.
func TestLateStaging(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	var b batch.Batch
	b.Late(func(b *batch.Batch) error {
		msgs, err := r.q.In(b).Receive(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := r.q.In(b).Enqueue(Send{Name: "b"}); err != nil {
			return err
		}
		return r.q.In(b).Complete(msgs[0].Receipt(), nil)
	})
	must(t, r.actor.Commit(ctx, &b))
	wantIDs(t, "left", ids(r.try(ReceiveOptions{Count: 9})), 2)
	r.verify("in the end")
}

// TestLateStagingAgain stages from a Late function behind what was staged before, whose
// writes are in the batch already.
func TestLateStagingAgain(t *testing.T) {
	for _, how := range []string{"by the batch", "kept"} {
		r := newRig(t, Options{})
		r.enqueue("a", nil)
		r.enqueue("a", nil)
		var o batch.Batch
		tx := r.q.In(&o)
		m := r.stageReceive(&o, ReceiveOptions{})[0]
		r.stageEnqueue(&o, Send{Name: "b", Key: "k"})
		b := &o
		late := func(b *batch.Batch) error {
			in := tx
			if how == "by the batch" {
				in = r.q.In(b)
			}
			if in != tx {
				t.Errorf("%s: another Tx", how)
			}
			msgs, err := in.Receive(ctx, nil)
			wantIDs(t, how, ids(msgs), 2)
			_, more := in.Enqueue(Send{Name: "b", Key: "l"})
			return errors.Join(err, more, in.Complete(m.Receipt(), nil))
		}
		b.Late(late)
		must(t, r.actor.Commit(ctx, b))
		r.verify(how)
		wantIDs(t, how, ids(r.try(ReceiveOptions{Count: 9})), 3, 4)
		r.reopen()
		if n := r.q.Len(); n != 3 {
			t.Errorf("%s: %d messages", how, n)
		}
	}
}

// TestTxOver: a Tx of a batch that is over stages nothing, also when the batch is used anew.
func TestTxOver(t *testing.T) {
	r := newRig(t, Options{})
	var b batch.Batch
	tx := r.q.In(&b)
	if r.q.In(&b) != tx {
		t.Error("a batch has two")
	}
	must(t, r.actor.Commit(ctx, &b))
	for range 2 {
		_, err := tx.Enqueue(Send{})
		wantErr(t, "enqueue", err, batch.ErrSettled)
		wantErr(t, "delete", tx.Delete(1), batch.ErrSettled)
		b.Reset()
	}
	r.stageEnqueue(&b, Send{})
	_, err := tx.Enqueue(Send{})
	wantErr(t, "enqueue", err, batch.ErrSettled)
	must(t, r.actor.Commit(ctx, &b))
	r.verify("in the end")
}

// TestRefused stages in a batch that is refused, and committed again.
func TestRefused(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	var o batch.Batch
	msgs := r.stageReceive(&o, ReceiveOptions{})
	must(t, r.q.In(&o).Complete(msgs[0].Receipt(), nil))
	r.stageEnqueue(&o, Send{Name: "b", Key: "k"})
	var spare batch.Batch
	o.Mark(&spare)
	r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	wantErr(t, "the first", r.actor.Commit(ctx, &o), batch.ErrTooLarge)
	r.enqueue("c", nil) // the metadata change meanwhile
	must(t, r.actor.Commit(ctx, &o))
	r.verify("in the end")
	wantIDs(t, "left", ids(r.try(ReceiveOptions{Count: 9})), 2, 3)
}

// TestRefusedLate: what is staged when the batch is sealed lands once, also after a refusal in which
// another message has come.
func TestRefusedLate(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	var b, spare batch.Batch
	must(t, r.q.In(&b).Complete(r.stageReceive(&b, ReceiveOptions{})[0].Receipt(), nil))
	r.stageEnqueue(&b, Send{Name: "a"})
	b.Mark(&spare)
	b.Late(func(*batch.Batch) error {
		_, err := r.q.In(&b).Enqueue(Send{Name: "late"})
		return err
	})
	r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	wantErr(t, "the first", r.actor.Commit(ctx, &b), batch.ErrTooLarge)
	r.enqueue("between", nil)
	must(t, r.actor.Commit(ctx, &b))
	r.verify("landed")
	if n := r.q.Len(); n != 3 {
		t.Errorf("%d messages", n)
	}
	next := r.enqueue("a", nil)
	r.reopen()
	if id := r.enqueue("a", nil); id != next+1 {
		t.Errorf("the next id is %s, behind %s", id, next)
	}
	r.verify("opened")
}

// TestReadErrors: a receiver is told that the store can't be read, and loses nothing.
func TestReadErrors(t *testing.T) {
	r := newRig(t, Options{MemoryBytes: -1})
	for range 3 {
		r.enqueue("a", nil)
	}
	m := r.one(ReceiveOptions{})
	broken := errors.New("broken")
	r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Err: broken, Skip: 1, Times: faultkv.Forever})
	_, err := r.q.TryReceive(ctx, &ReceiveOptions{Count: 2})
	wantErr(t, "receive", err, broken)
	wantErr(t, "nack", m.Nack(ctx, 0, nil), broken)
	wantErr(t, "extend", r.q.Extend(ctx, m.Receipt(), time.Hour), broken)
	r.engine.Heal()
	r.verify("healed")
	wantIDs(t, "received", ids(r.try(ReceiveOptions{Count: 9})), 2, 3)
	must(t, m.Nack(ctx, 0, nil))
	r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Err: broken, Skip: 1})
	must(t, r.q.Close())
	if _, err := Open(ctx, r.actor, nil); !errors.Is(err, broken) {
		t.Errorf("open: %v", err)
	}
	r.engine.Heal()
	r.open2()
	r.verify("opened")
}

// TestStageReadErrors: what couldn't be staged leaves the message to others, though its
// batch is open.
func TestStageReadErrors(t *testing.T) {
	r := newRig(t, Options{MemoryBytes: -1})
	r.enqueue("a", nil)
	m := r.one(ReceiveOptions{})
	broken := errors.New("broken")
	for what, stage := range map[string]func(b *batch.Batch) error{
		"nack":   func(b *batch.Batch) error { return r.q.In(b).Nack(ctx, m.Receipt(), 0, nil) },
		"extend": func(b *batch.Batch) error { return r.q.In(b).Extend(ctx, m.Receipt(), time.Hour) },
	} {
		var b, other batch.Batch
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Err: broken})
		wantErr(t, what, stage(&b), broken)
		if err := stage(&other); err != nil {
			t.Errorf("%s in another batch: %v", what, err)
		}
		other.Abort(nil)
		must(t, r.actor.Commit(ctx, &b))
		r.verify(what)
	}
}

// TestDeadLettersRetried tries again when dead letters can't be stored for now.
func TestDeadLettersRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxReceive: 1, Visibility: time.Second, MemoryBytes: -1})
		r.enqueue("a", nil)
		r.one(ReceiveOptions{})
		fault := r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Err: errors.New("broken"), Times: 3})
		later(time.Second)
		synctest.Wait()
		if fault.Hits() != 1 || len(r.try(ReceiveOptions{})) > 0 {
			t.Errorf("%d attempts, or handed out once too often", fault.Hits())
		}
		later(time.Second + 2*time.Second)
		synctest.Wait()
		if fault.Hits() != 3 {
			t.Errorf("%d attempts", fault.Hits())
		}
		r.verify("still failing")
		later(4 * time.Second)
		synctest.Wait()
		if s := r.q.Stats(); len(s.Names) != 1 || !strings.HasSuffix(s.Names[0].Name, ".dlq") {
			t.Errorf("stats %+v", s)
		}
		r.verify("in the end")
	})
}
