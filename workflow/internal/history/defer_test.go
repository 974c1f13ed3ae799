package history

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// flush commits what was deferred.
func flush(h *History) error { return h.Begin().Commit(ctx) }

// What was deferred is in memory at once, and stored with the next commit.
func TestDefer(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	l := r.at("e")
	deferred := r.h.Begin()
	r.step(deferred, "1", "e")
	must(t, deferred.SetState(Running))
	must(t, deferred.SetInput([]byte("in")))
	c := r.counted(func() { must(t, deferred.Defer()) })
	if c.Commits != 0 {
		t.Errorf("%d commits", c.Commits)
	}
	r.wantPaths("deferred", "e")
	if s, _ := r.read(); len(s.Entries) != 0 || s.State != Pending || r.h.State() != Running {
		t.Errorf("stored %v with %d entries, in memory %v", s.State, len(s.Entries), r.h.State())
	}
	tx := r.h.Begin()
	must(t, tx.PutMetadata(l, Metadata{Status: StatusFailed})) // of the entry that isn't stored yet
	var b batch.Batch
	tx.Stage(&b)
	must(t, b.Seal())
	// Deferred again, while it is being written.
	later := r.h.Begin()
	must(t, later.Put(Entry{Location: l, Kind: Step{Output: []byte("2")}}))
	must(t, later.Defer())
	must(t, r.Actor.Commit(ctx, &b))
	if s, _ := r.read(); len(s.Entries) != 1 || string(s.Entries[0].Kind.(Step).Output) != "1" ||
		s.Entries[0].Metadata.Status != StatusFailed || s.State != Running || string(s.Input) != "in" {
		t.Errorf("stored %+v", s)
	}
	c = r.counted(func() { must(t, flush(r.h)) })
	if c.Commits != 1 || c.Gets+c.Scans != 0 {
		t.Errorf("%d commits, %d reads", c.Commits, c.Gets+c.Scans)
	}
	r.verify("written")
	c = r.counted(func() { must(t, flush(r.h)) })
	if c.Commits != 0 {
		t.Errorf("%d commits for nothing", c.Commits)
	}
	if e, _ := r.h.Get(l); string(e.Kind.(Step).Output) != "2" {
		t.Errorf("got %+v", e)
	}
}

// What was deferred and is deleted, or replaced, before it is written is not written.
func TestDeferOvertaken(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	for _, name := range []string{"a", "b", "c"} {
		tx := r.h.Begin()
		r.step(tx, "old", name)
		must(t, tx.Defer())
	}
	r.commit(func(tx *Tx) {
		tx.Delete(r.at("a"))
		must(t, tx.Put(Entry{ID: "other", Location: r.at("b"), Kind: Step{Output: []byte("new")}}))
		must(t, tx.Put(Entry{Location: r.at("c"), Kind: Step{Output: []byte("new")}}))
	})
	r.wantPaths("after", "b", "c")
	r.verify("after")
	if e, _ := r.h.Get(r.at("b")); e.Metadata != nil || e.ID != "other" {
		t.Errorf("got %+v", e)
	}
	if e, _ := r.h.Get(r.at("c")); e.Metadata == nil || string(e.Kind.(Step).Output) != "new" {
		t.Errorf("got %+v", e)
	}
	for _, fn := range []func(tx *Tx){
		func(tx *Tx) { tx.Delete(r.at("b")) },
		func(tx *Tx) { must(t, tx.Reset(false)) },
		func(tx *Tx) { must(t, tx.Put(Entry{ID: "third", Location: r.at("b"), Kind: Step{}})) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a deletion was deferred")
				}
			}()
			tx := r.h.Begin()
			fn(tx)
			must(t, tx.Defer())
		}()
	}
}

// Reload forgets what was deferred, and waits for what is being written.
func TestReload(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	r.commit(func(tx *Tx) { r.step(tx, "1", "a") })
	tx := r.h.Begin()
	r.step(tx, "2", "b")
	must(t, tx.SetState(Running))
	must(t, tx.Defer())
	i, ok := r.h.Lookup("b")
	must(t, r.h.Reload(ctx))
	r.wantPaths("reloaded", "a")
	r.verify("reloaded")
	if again, _ := r.h.Lookup("b"); !ok || again != i {
		t.Errorf("name b was %d and is %d", i, again)
	}
	c := r.counted(func() { must(t, flush(r.h)) })
	if c.Commits != 0 || r.h.State() != Pending {
		t.Errorf("%d commits, state %v", c.Commits, r.h.State())
	}

	tx = r.h.Begin()
	r.step(tx, "3", "c")
	var b batch.Batch
	tx.Stage(&b)
	must(t, b.Seal())
	done := make(chan error)
	go func() { done <- r.h.Reload(ctx) }()
	must(t, r.Actor.Commit(ctx, &b))
	must(t, <-done)
	r.wantPaths("reloaded", "a", "c")
	r.verify("reloaded")
}

// Something lands while Reload reads: it is in memory all the same.
func TestReloadOvertaken(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	r.commit(func(tx *Tx) { r.step(tx, "1", "a") })
	landed := false
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeEntry && !landed {
			landed = true
			r.commit(func(tx *Tx) { r.step(tx, "2", "b") })
		}
		return nil
	})
	must(t, r.h.Reload(ctx))
	r.Engine.Hook(nil)
	if !landed {
		t.Error("nothing landed meanwhile")
	}
	r.wantPaths("reloaded", "a", "b")
	r.verify("reloaded")
}

// TestCloseWaits: Close waits for a commit that is under way, so that a History opened after it has what lands.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, batch.Limits{})
		r.commit(func(tx *Tx) { r.step(tx, "1", "a") })
		gate := make(chan struct{})
		r.Engine.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeCommit {
				<-gate
			}
			return nil
		})
		tx, committed, closed := r.h.Begin(), make(chan error, 1), make(chan struct{}, 2)
		r.step(tx, "2", "b")
		go func() { committed <- tx.Commit(ctx) }()
		synctest.Wait()
		for range cap(closed) { // the second one waits as well
			go func() {
				r.h.Close()
				closed <- struct{}{}
			}()
			synctest.Wait()
		}
		if n := len(closed); n > 0 {
			t.Errorf("%d Closes didn't wait", n)
		}
		if _, err := Open(ctx, r.Actor, nil); !errors.Is(err, actorstore.ErrKept) {
			t.Errorf("opened while a commit of the one before is under way: %v", err)
		}
		late := r.h.Begin()
		must(t, late.SetState(Running))
		var b batch.Batch
		late.Stage(&b)
		wantErr(t, "a commit after Close has begun", b.Seal(), ErrClosed)
		close(gate)
		must(t, <-committed)
		<-closed
		<-closed
		r.Engine.Hook(nil)
		var err error
		r.h, err = Open(ctx, r.Actor, nil)
		must(t, err)
		r.wantPaths("opened again", "a", "b")
		r.verify("opened again")
	})
}

// An entry that is deferred while another value of it is being written: that one stays.
func TestDeferLate(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	tx := r.h.Begin()
	r.step(tx, "lands", "a")
	must(t, tx.Put(Entry{ID: noID, Location: r.at("a"), Kind: Step{Output: []byte("lands")}}))
	var b batch.Batch
	tx.Stage(&b)
	must(t, b.Seal())
	deferred := r.h.Begin()
	must(t, deferred.Put(Entry{ID: noID, Location: r.at("a"), Kind: Step{Output: []byte("deferred")}}))
	must(t, deferred.Defer())
	must(t, r.Actor.Commit(ctx, &b))
	must(t, flush(r.h))
	r.verify("after")
	if e, _ := r.h.Get(r.at("a")); string(e.Kind.(Step).Output) != "lands" {
		t.Errorf("got %+v", e)
	}
}

// What was deferred and is not written yet isn't touched by the next user of its
// transaction's memory.
func TestFree(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	for i := range 20 { // a pool may have other plans
		kept, other := r.at("kept"), r.at("other")
		tx := r.h.Begin()
		must(t, tx.Put(Entry{Location: kept, Kind: Step{Output: []byte{byte(i)}}}))
		must(t, tx.PutMetadata(kept, Metadata{Attempts: uint32(i)}))
		must(t, tx.Defer())
		tx.Free()
		tx = r.h.Begin()
		must(t, tx.Put(Entry{Location: other, Kind: Message{Name: "message", Data: []byte("data")}}))
		must(t, tx.PutMetadata(other, Metadata{Status: StatusFailed}))
		must(t, tx.Commit(ctx))
		tx.Free()
		r.verify("written")
		if err := r.h.Begin().PutMetadata(r.at("nothing"), Metadata{}); err == nil {
			t.Error("a transaction remembers another one")
		}
	}
}

// What was deferred stays so when the commit that was to write it fails.
func TestDeferFails(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	tx := r.h.Begin()
	r.step(tx, "1", "e")
	must(t, tx.SetState(Running))
	must(t, tx.Defer())
	fault := r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	wantErr(t, "flush", flush(r.h), batch.ErrTooLarge)
	fault.Remove()
	if c := r.counted(func() { must(t, flush(r.h)) }); c.Commits != 1 {
		t.Errorf("%d commits", c.Commits)
	}
	r.verify("written")
	r.reopen()
	r.wantPaths("after a restart", "e")
}
