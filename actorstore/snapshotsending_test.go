package actorstore_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// sending returns an actor whose commit of pages 0 and 1, of which memory has the
// second, is held at a point; what ends it returns what became of it.
func sending(t *testing.T, s *actorstore.Store, eng *faultkv.Engine, rule faultkv.Rule) (a *actorstore.Actor, end func() error) {
	t.Helper()
	a = openActor(t, s)
	writePages(t, a, 3)
	actorstore.Evict(a, chunk(0))
	p := eng.Pause(rule)
	done := make(chan error)
	go func() {
		var b batch.Batch
		b.PutPrior(chunk(0), pageOf(9), batch.Stored(4096))
		b.PutPrior(chunk(1), pageOf(9), batch.Stored(4096))
		done <- a.Commit(ctx, &b)
	}()
	<-p.Reached()
	return a, func() error {
		p.Release()
		return <-done
	}
}

// TestReadWhileSending: what may be of the state before a commit or after it isn't
// believed, and isn't kept.
func TestReadWhileSending(t *testing.T) {
	for _, tt := range []struct {
		what string
		rule faultkv.Rule
		want error // of the read
		page int
	}{
		{"before", faultkv.Rule{Point: faultkv.BeforeCommit}, nil, 9},
		{"after", faultkv.Rule{Point: faultkv.AfterApply}, nil, 9},
		{"failed", faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge}, nil, 0},
		{"lost", faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome}, actorstore.ErrPoisoned, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, eng := openFar(t, 0)
				a, end := sending(t, s, eng, tt.rule)
				readPage(t, a, 1) // memory has it, and it isn't replaced yet
				readPage(t, a, 2) // isn't touched
				asked := eng.Pause(faultkv.Rule{Point: faultkv.BeforeGet})
				got := make(chan error)
				var page []byte
				go func() {
					var err error
					page, err = a.Page(ctx, chunk(0), nil)
					got <- err
				}()
				<-asked.Reached()
				asked.Release()
				synctest.Wait() // the engine has answered
				late, cancel := context.WithCancel(ctx)
				cancel()
				if _, err := a.Page(late, chunk(0), nil); !errors.Is(err, context.Canceled) {
					t.Errorf("while the commit is being sent: %v", err)
				}
				if actorstore.Remembers(a, chunk(0)) {
					t.Error("an answer was kept")
				}
				if err := end(); (err != nil) != (tt.rule.Err != nil) {
					t.Errorf("the commit: %v", err)
				}
				if err := <-got; !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				} else if err == nil && string(page) != string(pageOf(tt.page)) {
					t.Errorf("page %.4q, want %d", page, tt.page)
				}
			})
		})
	}
}

// TestPanicWhileSending: no call waits for a commit whose engine panicked.
func TestPanicWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, eng := openFar(t, 0)
		a := openActor(t, s)
		writePages(t, a, 1)
		forget(t, a)
		p := eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
		eng.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeCommit {
				panic("as a test wants it")
			}
			return nil
		})
		panicked := make(chan any)
		go func() {
			defer func() { panicked <- recover() }()
			var b batch.Batch
			b.PutPrior(chunk(0), pageOf(9), batch.Stored(4096))
			_ = a.Commit(ctx, &b)
		}()
		<-p.Reached()
		got := make(chan error)
		asked := eng.Pause(faultkv.Rule{Point: faultkv.BeforeGet})
		go func() {
			_, err := a.Page(ctx, chunk(0), nil)
			got <- err
		}()
		<-asked.Reached()
		asked.Release()
		synctest.Wait() // the engine has answered
		p.Release()
		if <-panicked == nil {
			t.Error("nothing panicked")
		}
		if err := <-got; !errors.Is(err, actorstore.ErrPoisoned) {
			t.Errorf("got %v, want %v", err, actorstore.ErrPoisoned)
		}
		eng.Hook(nil)
	})
}

// TestSnapshotWhileSending: a snapshot opened then shows one state.
func TestSnapshotWhileSending(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply} {
		s, eng := openFar(t, 0)
		a, end := sending(t, s, eng, faultkv.Rule{Point: point})
		open := func(how func(context.Context) (*actorstore.Snapshot, error)) *actorstore.Snapshot {
			snap, err := how(ctx)
			must(t, err)
			return snap
		}
		snaps := []*actorstore.Snapshot{open(a.PageSnapshot), open(a.Snapshot)}
		if n := eng.Counts().Snapshots; n != 2 {
			t.Errorf("%d snapshots, want 2: nothing was prepared", n)
		}
		look := func() {
			for _, snap := range snaps {
				for i, want := range map[uint64][]int{1: {0, 1}, 2: {9, 9}}[snap.Seq()] {
					page, err := snap.Page(ctx, chunk(i), nil)
					must(t, err)
					if string(page) != string(pageOf(want)) {
						t.Errorf("state %d has page %.4q", snap.Seq(), page)
					}
				}
			}
		}
		look()
		must(t, end())
		look()
		must(t, errors.Join(snaps[0].Close(), snaps[1].Close()))
	}
	// When memory has what the commit replaces, opening one asks nothing then either.
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	writePages(t, a, 1)
	p := eng.Pause(faultkv.Rule{Point: faultkv.AfterApply})
	done := make(chan error)
	go func() { done <- a.Put(ctx, chunk(0), pageOf(9)) }()
	<-p.Reached()
	eng.Reset()
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	readPage(t, snap, 0)
	readPage(t, a, 0)
	if c := eng.Counts(); c != (faultkv.Counts{}) {
		t.Errorf("%+v", c)
	}
	p.Release()
	must(t, <-done)
	readPage(t, snap, 0)
	must(t, snap.Close())
}

// TestLateAnswer: an answer that comes after the handle was closed, or fenced, isn't
// kept for the next owner.
func TestLateAnswer(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		s, eng := openFar(t, 0)
		a := openActor(t, s)
		writePages(t, a, 2)
		actorstore.Evict(a, chunk(0))
		snap, err := a.PageSnapshot(ctx)
		must(t, err)
		p := eng.Pause(faultkv.Rule{Point: faultkv.BeforeGet, Times: 2})
		done := make(chan error)
		for _, r := range []actorstore.Reader{a, snap} {
			go func() {
				_, err := r.Page(ctx, chunk(0), nil)
				done <- err
			}()
		}
		<-p.Reached()
		for p.Hits() < 2 {
			runtime.Gosched()
		}
		if fenced {
			s = openStore(t, eng, batch.Limits{})
		} else {
			must(t, a.Close())
		}
		b := openActor(t, s)
		if eng.Reset(); !fenced {
			if readPage(t, b, 1); readCount(eng) > 0 {
				t.Error("what the handle knew is forgotten")
			}
		}
		p.Release()
		for range 2 {
			if err := <-done; fenced != errors.Is(err, actorstore.ErrFenced) {
				t.Errorf("fenced %v: %v", fenced, err)
			}
		}
		if actorstore.Remembers(a, chunk(0)) {
			t.Error("a late answer was kept")
		}
		must(t, b.Put(ctx, chunk(0), pageOf(1)))
		must(t, errors.Join(snap.Close(), a.Close()))
	}
}
