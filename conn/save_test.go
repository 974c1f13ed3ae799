package conn

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// same fails the test unless what is stored is what the Set has in memory.
func (r *room) same() {
	r.t.Helper()
	stored := r.stored()
	for _, c := range r.set.Conns() {
		if c.Ephemeral() {
			continue
		}
		if got, ok := stored[c.ID()]; !ok || !reflect.DeepEqual(got, c.Record()) {
			r.t.Errorf("stored (%v): %+v, in memory: %+v", ok, got, c.Record())
		}
		delete(stored, c.ID())
	}
	for id := range stored {
		r.t.Errorf("%s is stored and not in memory", id)
	}
}

// A save is one engine commit and reads nothing; one of nothing is none.
func TestSaveCost(t *testing.T) {
	r := open(t, quiet())
	var conns []*Conn
	for i := range 100 {
		conns = append(conns, r.create(i))
	}
	for round := range 3 {
		r.eng.Reset()
		r.save()
		if n := r.eng.Counts(); n.Commits != 1 || n.Durable != 1 || n.Gets+n.Scans+n.Snapshots != 0 {
			t.Errorf("round %d: %+v, want one durable commit and no read", round, n)
		}
		r.same()
		r.eng.Reset()
		r.save()
		if n := r.eng.Counts(); n != (faultkv.Counts{}) {
			t.Errorf("round %d: a save of nothing: %+v", round, n)
		}
		for _, c := range conns[:50] {
			must(t, c.SetState(round))
		}
	}
	r.save()
	r.eng.Reset()
	must(t, r.set.Disconnect(ctx, conns[0], ""))
	if n := r.eng.Counts(); n.Commits != 1 || n.Gets+n.Scans+n.Snapshots != 0 {
		t.Errorf("Disconnect: %+v, want one commit and no read", n)
	}
	r.same()
	r.healthy()
}

// More connections than a sub-batch holds are split, also where only one sub-batch is
// atomic.
func TestSaveMany(t *testing.T) {
	for _, limits := range []batch.Limits{{}, {AtomicBatches: 1}, {Entries: 10, AtomicBatches: 1}, {Payload: 300 << 10}} {
		r := openLimited(t, quiet(), limits)
		const n = 300
		for i := range n {
			must(t, r.create(i).SetState(make([]byte, 1000)))
		}
		r.save()
		r.same()
		if len(r.stored()) != n {
			t.Errorf("%+v: %d are stored, want %d", limits, len(r.stored()), n)
		}
		got, err := r.set.Cleanup(ctx, "")
		if err != nil || got != n || len(r.stored()) != 0 {
			t.Errorf("%+v: cleaned up %d, %v, %d left", limits, got, err, len(r.stored()))
		}
		r.healthy()
	}
}

// A save that fails loses nothing: the next one has it all.
func TestSaveFailed(t *testing.T) {
	r := open(t, quiet())
	a, b := r.create(1), r.create(2)
	r.save()
	must(t, a.SetState("new"))
	must(t, b.Subscribe("tick"))
	if _, err := b.Received(7, 100); err != nil {
		t.Fatal(err)
	}
	r.acks.take()
	before := r.stored()
	for range 3 {
		r.refuse()
		if err := r.set.Save(ctx); !errors.Is(err, batch.ErrTooLarge) {
			t.Fatalf("Save: %v, want %v", err, batch.ErrTooLarge)
		}
		if got := r.stored(); !reflect.DeepEqual(got, before) {
			t.Fatalf("a save that failed stored %+v", got)
		}
		if got := r.acks.take(); got != nil {
			t.Fatalf("a save that failed is acknowledged: %v", got)
		}
	}
	// What changes between is in the next one, too.
	must(t, a.SetState("newer"))
	r.save()
	r.same()
	if got := r.acks.take(); len(got) != 1 || got[0] != (Ack{b, 7}) {
		t.Errorf("acknowledged %v, want 7 of the second", got)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	must(t, a.SetState("newest"))
	if err := r.set.Save(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("Save: %v, want %v", err, context.Canceled)
	}
	r.crash()
	r.same()
	r.healthy()
}

// A change made while a save is under way is not lost, and neither written by halves.
func TestChangeDuringSave(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	p := r.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	done := make(chan error)
	go func() { done <- r.set.Save(ctx) }()
	later(t, p.Reached())
	must(t, c.SetState("meanwhile"))
	p.Release()
	must(t, later(t, done))
	if got := r.stored()[c.ID()]; reflect.DeepEqual(got, c.Record()) {
		t.Fatal("the change was in the save before it")
	}
	r.save()
	r.same()
}

// An Ordered save of which a part has landed is taken up again, and charged right.
func TestSaveInPart(t *testing.T) {
	r := openLimited(t, quiet(), batch.Limits{Entries: 4})
	var conns []*Conn
	for i := range 12 {
		conns = append(conns, r.create(i))
	}
	r.save()
	for _, c := range conns[:6] {
		must(t, r.set.removeForTest(c))
	}
	for _, c := range conns[6:] {
		must(t, c.SetState(make([]byte, 500)))
	}
	r.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1, Err: kv.ErrTooLarge})
	var part *batch.OrderedError
	if err := r.set.Save(ctx); !errors.As(err, &part) || part.Landed != 1 {
		t.Fatalf("Save: %v, want an OrderedError", err)
	}
	for _, c := range conns[8:] {
		must(t, c.SetState(make([]byte, 900)))
	}
	r.save()
	r.same()
	r.healthy()
	r.crash()
	if r.set.Len() != 6 {
		t.Errorf("%d connections, want 6", r.set.Len())
	}
	r.same()
}

// removeForTest is a Disconnect whose delete has not been tried yet.
func (s *Set) removeForTest(c *Conn) error { return s.remove(c) }

// Whoever saves the actor's own record has the changed connections land with it: the
// record first, then they in the order of their ids, in one commit.
func TestStage(t *testing.T) {
	r := open(t, quiet())
	for i := range 20 {
		r.create(i)
	}
	gone := r.create(20)
	r.save()
	for _, c := range r.set.Conns() {
		must(t, c.SetState("changed"))
	}
	must(t, r.set.remove(gone))
	var b batch.Batch
	b.Put(actorstore.AppendPersist(nil), []byte("record"))
	if n := r.set.Changed(); n < 21 {
		t.Errorf("Changed is %d, want at least 21", n)
	}
	must(t, r.set.Stage(&b))
	late := r.create(21) // staged already: what has changed is found out when b lands
	r.eng.Reset()
	must(t, r.actor.Commit(ctx, &b))
	if n := r.eng.Counts(); n.Commits != 1 {
		t.Errorf("%d commits, want 1", n.Commits)
	}
	if n := r.set.Changed(); n != 0 {
		t.Errorf("Changed is %d after a save", n)
	}
	r.same()
	if _, ok := r.stored()[late.ID()]; !ok {
		t.Error("what was created before b landed is not in it")
	}
	ops := b.Ops()
	if string(ops[0].Value) != "record" || len(ops) != 23 {
		t.Fatalf("%d writes, the first of %x; want 23, the record's first", len(ops), ops[0].Key)
	}
	for i := 2; i < len(ops); i++ {
		if string(ops[i-1].Key) >= string(ops[i].Key) {
			t.Errorf("%q comes before %q", ops[i-1].Key, ops[i].Key)
		}
	}
	r.healthy()
}

// A batch that is given up, or refused by whatever else is in it, leaves everything as
// changed as it was.
func TestStageAborted(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	var b batch.Batch
	must(t, r.set.Stage(&b))
	b.Abort(nil)
	b.Reset()
	must(t, r.set.Stage(&b))
	b.Put([]byte{4}, make([]byte, r.actor.Limits().ValueSize+1))
	if err := r.actor.Commit(ctx, &b); !errors.Is(err, batch.ErrValueTooLarge) {
		t.Fatal(err)
	}
	if len(r.stored()) != 0 {
		t.Fatal("it is stored")
	}
	must(t, c.Subscribe("tick"))
	r.save()
	r.same()
	r.healthy()
}

// A save that was staged before a connection went away doesn't bring its record back:
// neither when it lands after the delete, nor when the delete waits behind it.
func TestNoResurrection(t *testing.T) {
	t.Run("staged", func(t *testing.T) {
		r := open(t, quiet())
		c := r.create(1)
		r.save()
		must(t, c.SetState("changed"))
		var b batch.Batch
		must(t, r.set.Stage(&b))
		must(t, r.set.Disconnect(ctx, c, ""))
		must(t, r.actor.Commit(ctx, &b))
		if len(r.stored()) != 0 {
			t.Error("the connection is back")
		}
		r.healthy()
	})
	t.Run("in flight", func(t *testing.T) {
		r := open(t, quiet())
		c := r.create(1) // never stored: the delete must know of the save all the same
		p := r.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
		saved, gone := make(chan error), make(chan error)
		go func() { saved <- r.set.Save(ctx) }()
		later(t, p.Reached())
		hooked := make(chan struct{})
		r.set.opts.OnDisconnect = func(context.Context, *Conn, string) error {
			close(hooked)
			return nil
		}
		go func() { gone <- r.set.Disconnect(ctx, c, "") }()
		later(t, hooked)
		p.Release()
		must(t, later(t, saved))
		must(t, later(t, gone))
		if len(r.stored()) != 0 {
			t.Error("the connection is back")
		}
		r.healthy()
	})
}

// Connections land with SQL, in one engine commit, or not at all.
func TestStageWithSQL(t *testing.T) {
	r := open(t, quiet())
	db, err := vfs.Open(ctx, r.actor, nil)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE seen (id)"); err != nil {
		t.Fatal(err)
	}
	c, leaver := r.create(1), r.create(2)
	r.save()
	must(t, c.SetState("changed"))
	rolledBack := errors.New("rolled back")
	for _, want := range []error{rolledBack, nil} {
		r.eng.Reset()
		err := db.Update(ctx, func(tx *vfs.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO seen VALUES (1)"); err != nil {
				return err
			}
			must(t, r.set.Stage(tx.Batch()))
			must(t, r.set.StageDisconnect(tx.Batch(), leaver))
			return want
		})
		if !errors.Is(err, want) {
			t.Fatalf("Update: %v, want %v", err, want)
		}
		if want == nil {
			break
		}
		if leaver.Gone() || len(r.stored()) != 2 {
			t.Error("what was rolled back has landed")
		}
	}
	if n := r.eng.Counts(); n.Commits != 1 {
		t.Errorf("%d commits, want 1", n.Commits)
	}
	if !leaver.Gone() || len(r.stored()) != 1 {
		t.Error("the connection is not gone")
	}
	r.same()
	r.healthy()
}
