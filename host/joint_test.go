package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
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
		r := newRig(t, whole(Options{}), account())
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

		bubble(t, whole(Options{}), func(r *rig) {
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
	r := newRig(t, whole(Options{}), account())
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

// TestTogetherAddresses: a function from arguments to addresses that panics, or fails with an error about another actor, fails the call alone.
func TestTogetherAddresses(t *testing.T) {
	elsewhere := &actorstore.InUseError{}
	r := newRig(t, whole(Options{}), thing(NewJointAction("join", func(_ Address, how string) ([]Address, error) {
		if how == "panic" {
			panic(how)
		}
		return nil, elsewhere
	}, func(*Context, []*Context, string) (int, error) { t.Error("it was run"); return 0, nil })))
	_, err := invoke[int](r.ctx, r.Host, lobby, "join", "panic")
	wantErr(t, err, ErrPanic)
	if _, err = invoke[int](r.ctx, r.Host, lobby, "join", ""); !errors.Is(err, elsewhere) || moved(err) {
		t.Errorf("got %v, which would be forwarded: %v", err, moved(err))
	}
	r.close()
}

// TestTogetherDestroysItself: an event of the schedule whose turn of several destroys its own actor.
func TestTogetherDestroysItself(t *testing.T) {
	end := NewJointAction("end", payees, func(c *Context, _ []*Context, _ payment) (int, error) { return 0, c.Destroy() })
	later := NewAction("endLater", func(c *Context, p payment) (string, error) { return c.After(time.Minute, "end", p) })
	typ := account()
	typ.Actions = append(typ.Actions, end, later)
	bubble(t, whole(Options{}), func(r *rig) {
		_, err := later.Call(r.ctx, r.Host, "a", payment{To: []string{"b"}})
		must(t, err)
		pass(2 * time.Minute)
		_, err = r.Do(r.ctx, &Call{Actor: accountOf("a"), Action: "balance", Existing: true})
		wantErr(t, err, ErrNoActor)
	}, typ)
}

// TestTogetherRoom: turns that wait for room, each with one actor awake, don't wait for each other.
func TestTogetherRoom(t *testing.T) {
	bubble(t, whole(Options{MaxAwake: 4}), func(r *rig) {
		began, done := time.Now(), make(chan error)
		for i := range 8 {
			go func() {
				done <- r.together(r.ctx, fmt.Sprint("a", i), payment{To: []string{fmt.Sprint("b", i)}, Amount: 1})
			}()
		}
		for range 8 {
			must(t, <-done)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	}, account())
}

// TestTogetherOldMemory: a turn fails whose actor another owner took over meanwhile: the caller is told that, and not what came of an old memory.
func TestTogetherOldMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := memkv.New()
		r := newRigOn(t, engines.Shared(base), whole(Options{}), account())
		thief, err := greenroom.New(r.ctx, engines.Shared(base), nil)
		must(t, err)
		err = Together(r.ctx, r.Host, []Address{accountOf("a"), accountOf("b")}, func([]*Context) error {
			b, err := thief.Actor(r.ctx, accountOf("b").String(), &greenroom.ActorOptions{Force: true})
			must(t, err)
			must(t, b.Close())
			return &Error{Code: "too_poor", Message: "It was."}
		})
		if !errors.Is(err, actorstore.ErrFenced) || moved(err) {
			t.Errorf("got %v", err)
		}
		must(t, thief.Close())
		_ = r.Host.Close(r.ctx) // an actor is lost
	})
}

// TestTogetherRecall: a call that landed before, as its idempotency key says, is answered where another of its actors can't be had any more.
func TestTogetherRecall(t *testing.T) {
	base := memkv.New()
	r := newRigOn(t, engines.Shared(base), whole(Options{}), account())
	p := payment{To: []string{"b"}, Amount: 10}
	_, _, err := again(r.ctx, r.Host, accountOf("a"), "pay", p, "once")
	must(t, err)
	b, err := r.Store().ID(r.ctx, accountOf("b").String())
	must(t, err)
	must(t, r.Sleep(r.ctx, b))
	other := newRigOn(t, engines.Shared(base), whole(Options{}), account())
	other.call(accountOf("b"), "balance", nil)
	got, replayed, err := again(r.ctx, r.Host, accountOf("a"), "pay", p, "once")
	must(t, err)
	var left int
	if must(t, got.Decode(&left)); left != 90 || !replayed {
		t.Errorf("it left %d, replayed: %v", left, replayed)
	}
	p.Amount++
	_, _, err = again(r.ctx, r.Host, accountOf("a"), "pay", p, "once")
	wantErr(t, err, ErrIdempotencyMismatch)
	_, _, err = again(r.ctx, r.Host, accountOf("a"), "pay", p, "another")
	wantErr(t, err, actorstore.ErrInUse)
	r.close()
	other.close()
}

// TestTogetherCaller: all actors of a turn know its caller, also that of a connection.
func TestTogetherCaller(t *testing.T) {
	r := newRig(t, whole(Options{}), thing(NewJointAction("ask", func(_ Address, key string) ([]Address, error) { return []Address{{"thing", key}}, nil },
		func(c *Context, others []*Context, _ string) (string, error) {
			return c.Caller().ID + others[0].Caller().ID, nil
		})))
	ctx := WithCaller(r.ctx, &Caller{ID: "ann"})
	n, err := r.Join(ctx, &Join{Actor: lobby, Transport: &sink{}})
	must(t, err)
	args, err := Encode("other")
	must(t, err)
	for id, ctx := range map[conn.ID]context.Context{"": ctx, n.ID: r.ctx} {
		got, err := r.Do(ctx, &Call{Actor: lobby, Action: "ask", Args: args, Conn: id})
		must(t, err)
		var callers string
		if must(t, got.Decode(&callers)); callers != "annann" {
			t.Errorf("of %q: %q", id, callers)
		}
	}
	r.close()
}
