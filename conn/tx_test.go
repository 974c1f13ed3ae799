package conn

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// However much a batch changes, it is one engine commit that reads nothing, and waits for
// the disk only if it is asked to.
func TestCost(t *testing.T) {
	r := open(t, Options{})
	c, gone := r.create(1), r.create(2)
	var b batch.Batch
	tx := r.set.In(&b)
	_, err := tx.Create(info(3))
	must(t, err)
	must(t, errors.Join(tx.SetState(c, []byte{1}), tx.Subscribe(c, "tick"), tx.Disconnect(gone)))
	r.eng.Reset()
	must(t, r.actor.Apply(ctx, &b))
	if n := r.eng.Counts(); n.Commits != 1 || n.Gets+n.Scans+n.Durable+n.Syncs != 0 {
		t.Errorf("%+v, want one commit", n)
	}
	r.same()
	r.healthy()
}

// More connections than a sub-batch holds land in several, each of them whole.
func TestMany(t *testing.T) {
	for _, limits := range []batch.Limits{{}, {AtomicBatches: 1}, {Entries: 10, AtomicBatches: 1}, {Payload: 300 << 10}} {
		r := openLimited(t, Options{}, limits)
		const n = 300
		b := batch.Batch{Mode: batch.Ordered}
		for i := range n {
			c, err := r.set.In(&b).Create(info(i))
			must(t, err)
			must(t, r.set.In(&b).SetState(c, large(1000)))
		}
		must(t, r.actor.Commit(ctx, &b))
		if r.same(); len(r.stored()) != n {
			t.Errorf("%+v: %d are stored, want %d", limits, len(r.stored()), n)
		}
		r.healthy()
	}
}

// What a batch does is seen by its Tx alone until it has landed, and never if it doesn't.
func TestStaged(t *testing.T) {
	r := open(t, Options{})
	c, gone := r.create(1), r.create(2)
	for _, land := range []bool{false, true} {
		var b batch.Batch
		tx := r.set.In(&b)
		made, err := tx.Create(info(3))
		must(t, err)
		must(t, errors.Join(tx.SetState(c, []byte{1}), tx.Subscribe(c, "tick"), tx.Disconnect(gone)))
		if _, err := tx.Create(info(3)); !errors.Is(err, ErrExists) {
			t.Errorf("created twice: %v", err)
		}
		if got, ok := tx.Get(made.ID()); !ok || got != made || len(tx.Conns()) != 2 || r.set.In(&b) != tx {
			t.Errorf("the batch doesn't show what it does: %v", tx.Conns())
		}
		if _, ok := r.set.Get(made.ID()); ok || gone.Gone() || len(c.Subscriptions()) != 0 || len(r.set.Conns()) != 2 {
			t.Error("others see what has not landed")
		}
		if land {
			must(t, r.actor.Commit(ctx, &b))
		} else {
			f := r.refuse()
			if err := r.actor.Commit(ctx, &b); !errors.Is(err, batch.ErrTooLarge) {
				t.Errorf("refused: %v", err)
			}
			f.Remove()
		}
		if _, ok := r.set.Get(made.ID()); ok != land || made.Gone() == land || gone.Gone() != land || len(r.set.Subscribers(nil, "tick")) != len(c.Subscriptions()) {
			t.Errorf("landed %v: made %v, disconnected %v, subscriptions %v", land, ok, gone.Gone(), c.Subscriptions())
		}
		if err := tx.SetState(c, nil); !errors.Is(err, batch.ErrSettled) {
			t.Errorf("a batch that is over: %v", err)
		}
		r.same()
	}
	r.healthy()
}

// A batch that is refused may be committed again, and loses nothing of what has landed meanwhile.
func TestRefused(t *testing.T) {
	r := open(t, Options{})
	c := r.create(1)
	var b, other, spare batch.Batch
	must(t, r.set.In(&b).SetState(c, []byte{1}))
	made, err := r.set.In(&b).Create(info(2))
	must(t, err)
	f := r.refuse()
	b.Mark(&spare)
	if err := r.actor.Commit(ctx, &b); !errors.Is(err, batch.ErrTooLarge) || made.Gone() {
		t.Errorf("refused: %v, gone %v", err, made.Gone())
	}
	f.Remove()
	must(t, r.set.In(&other).Subscribe(c, "tick"))
	must(t, r.actor.Commit(ctx, &other))
	must(t, r.actor.Commit(ctx, &b))
	if len(c.Subscriptions()) != 1 || c.State()[0] != 1 || len(r.set.Conns()) != 2 {
		t.Errorf("%+v, %d connections", c.Record(), len(r.set.Conns()))
	}
	r.same()
	r.healthy()
}

// A change that is made while a batch is being sealed is a part of it.
func TestLate(t *testing.T) {
	r := open(t, Options{})
	c := r.create(1)
	var b batch.Batch
	must(t, r.set.In(&b).SetState(c, []byte{1}))
	b.Late(func(b *batch.Batch) error { return r.set.In(b).Subscribe(c, "late") })
	must(t, r.actor.Commit(ctx, &b))
	if len(c.Subscriptions()) != 1 || c.State()[0] != 1 {
		t.Errorf("%+v", c.Record())
	}
	r.same()
	r.healthy()
}

// No order of a change and a disconnect leaves a record behind.
func TestNoResurrection(t *testing.T) {
	r := open(t, Options{})
	c := r.create(1)
	var change, end batch.Batch
	must(t, r.set.In(&change).SetState(c, []byte{1}))
	must(t, r.set.In(&end).Disconnect(c))
	r.disconnect(c)
	if err := r.actor.Commit(ctx, &change); !errors.Is(err, ErrGone) {
		t.Errorf("a change of what is gone: %v", err)
	}
	must(t, r.actor.Commit(ctx, &end)) // another batch was faster
	if len(r.stored()) != 0 || len(r.set.Conns()) != 0 {
		t.Error("the connection is back")
	}
	r.healthy()
}

// Two batches that make a connection for one client: the second one fails.
func TestCreateTogether(t *testing.T) {
	r := open(t, Options{})
	var a, b batch.Batch
	_, err := r.set.In(&a).Create(info(1))
	must(t, err)
	second, err := r.set.In(&b).Create(info(1))
	must(t, err)
	must(t, r.actor.Commit(ctx, &a))
	if err := r.actor.Commit(ctx, &b); !errors.Is(err, ErrExists) || !second.Gone() || len(r.set.Conns()) != 1 {
		t.Errorf("%v, gone %v, %d connections", err, second.Gone(), len(r.set.Conns()))
	}
	r.same()
}

// What a batch leaves of which a part has landed is put right by the next one.
func TestPartLanded(t *testing.T) {
	r := openLimited(t, Options{}, batch.Limits{Entries: 1})
	c, gone := r.create(1), r.create(2)
	b := batch.Batch{Mode: batch.Ordered}
	tx := r.set.In(&b)
	must(t, tx.SetState(c, []byte{1}))
	must(t, tx.Disconnect(gone))
	_, err := tx.Create(info(3))
	must(t, err)
	b.Late(func(b *batch.Batch) error { b.Put(actorstore.UserKey([]byte("k")), nil); return nil })
	f := r.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 3, Err: kv.ErrTooLarge})
	var part *batch.OrderedError
	if err := r.actor.Commit(ctx, &b); !errors.As(err, &part) || part.Landed != 3 {
		t.Fatalf("got %v", err)
	}
	f.Remove()
	if gone.Gone() || len(r.set.Conns()) != 2 || c.State()[0] == 1 {
		t.Error("memory has what has failed")
	}
	if stored := r.stored(); len(stored) != 2 || stored[c.ID()].State[0] != 1 {
		t.Errorf("stored %+v", stored) // the change and the new connection, not the one that was to go
	}
	next := batch.Batch{Mode: batch.Ordered}
	r.set.In(&next)
	must(t, r.actor.Commit(ctx, &next))
	r.same()
	r.setState(c, 2)
	r.disconnect(gone)
	r.same()
	r.healthy()
}

// Connections land with SQL, in one engine commit, or not at all.
func TestWithSQL(t *testing.T) {
	r := open(t, Options{})
	db, err := vfs.Open(ctx, r.actor, nil)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE seen (id)"); err != nil {
		t.Fatal(err)
	}
	c, leaver := r.create(1), r.create(2)
	rolledBack := errors.New("rolled back")
	for _, want := range []error{rolledBack, nil} {
		r.eng.Reset()
		err := db.Update(ctx, func(tx *vfs.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO seen VALUES (1)"); err != nil {
				return err
			}
			must(t, r.set.In(tx.Batch()).SetState(c, []byte{1}))
			must(t, r.set.In(tx.Batch()).Disconnect(leaver))
			return want
		})
		if !errors.Is(err, want) {
			t.Fatalf("Update: %v, want %v", err, want)
		}
		if want != nil && (leaver.Gone() || len(r.stored()) != 2) {
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
