package host

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestTogetherReads: a turn that only reads some of its actors, whichever, waits for the fsync of what it writes to others, and one that writes nothing waits for
// what it has read.
func TestTogetherReads(t *testing.T) {
	note := func(of int) func(cs []*Context) error {
		return func(cs []*Context) error { return cs[of].Put([]byte("note"), []byte("x")) }
	}
	broken := errors.New("broken")
	both := []Address{accountOf("a"), accountOf("b")}
	for of := range both {
		r := newRig(t, Options{}, account())
		must(t, r.together(r.ctx, "a", payment{To: []string{"b"}, Amount: 1}))
		must(t, Together(r.ctx, r.Host, both, note(of)))
		r.engine.Reset()
		must(t, Together(r.ctx, r.Host, both, note(of)))
		if c := r.engine.Counts(); c.Commits != 1 || c.Syncs != 1 {
			t.Errorf("a turn that writes to number %d alone: %+v", of, c)
		}
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeSync, Err: broken})
		if err := Together(r.ctx, r.Host, both, note(of)); !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("a turn that writes to number %d alone, which isn't synced: %v", of, err)
		}
		r.engine.Heal()
		_ = r.Host.Close(r.ctx) // an actor is lost

		bubble(t, Options{}, func(r *rig) {
			must(t, r.together(r.ctx, "a", payment{To: []string{"b"}, Amount: 1}))
			fail := make(chan struct{})
			r.engine.Hook(func(op faultkv.Op) error {
				if op.Point == faultkv.BeforeSync {
					<-fail
					return broken
				}
				return nil
			})
			wrote, read := make(chan error, 1), make(chan error, 1)
			go func() { wrote <- Together(r.ctx, r.Host, both[of:of+1], note(0)) }()
			synctest.Wait()
			go func() {
				read <- Together(r.ctx, r.Host, both, func(cs []*Context) error { _, err := cs[of].Get([]byte("note")); return err })
			}()
			synctest.Wait()
			close(fail)
			if err := <-wrote; !errors.Is(err, ErrUnknownOutcome) {
				t.Errorf("a write that isn't synced: %v", err)
			}
			if err := <-read; err == nil {
				t.Errorf("what number %d had written isn't durable, and was told", of)
			}
			r.engine.Hook(nil)
		}, account())
	}
}

// TestTogetherBeside: a commit that the leader makes beside a turn in which it only reads, and which is durable, says nothing of what the turn writes to another.
func TestTogetherBeside(t *testing.T) {
	r := newRig(t, Options{}, account())
	both := []Address{accountOf("a"), accountOf("b")}
	must(t, Together(r.ctx, r.Host, both, func(cs []*Context) error {
		if cs[0].ID().Compare(cs[1].ID()) < 0 { // the commit lock of the leader is to be the later one
			both[0], both[1] = both[1], both[0]
		}
		return nil
	}))
	r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeSync, Err: errors.New("broken")})
	wantErr(t, Together(r.ctx, r.Host, both, func(cs []*Context) error {
		cs[1].Batch().Late(func(*batch.Batch) error {
			var b batch.Batch
			b.Put([]byte("beside"), []byte("x"))
			return cs[0].life.actor.Commit(r.ctx, &b)
		})
		return cs[1].Put([]byte("note"), []byte("x"))
	}), ErrUnknownOutcome)
	r.engine.Heal()
	_ = r.Host.Close(r.ctx) // an actor is lost
}
