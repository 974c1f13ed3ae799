package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/queue"
)

// visit is Visit of an actor by its address.
func (r *rig) visit(a Address, fn func(ctx context.Context, _ *greenroom.Actor) error) error {
	r.Helper()
	return r.Visit(r.ctx, actorstore.IDFromName(a.String()), fn)
}

func sendTo(ctx context.Context, text string) func(ctx context.Context, _ *greenroom.Actor) error {
	return func(ctx context.Context, a *greenroom.Actor) error {
		return a.Update(ctx, func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: "note", Body: text})
			return err
		})
	}
}

func TestVisit(t *testing.T) {
	var d diary
	kind := thing(add)
	kind.Wake, kind.Sleep = d.note("wake"), d.note("sleep")
	kind.Message = func(c *Context, m *greenroom.Message) error {
		var text string
		err := m.Decode(&text)
		d.write(text)
		return errors.Join(err, m.Complete(nil))
	}
	bubble(t, Options{IdleTimeout: time.Minute, Rescan: time.Hour}, func(r *rig) {
		never := func(ctx context.Context, _ *greenroom.Actor) error { t.Error("fn is called"); return nil }
		wantErr(t, r.visit(lobby, never), greenroom.ErrNotFound)
		r.call(lobby, "add", 1)
		must(t, r.visit(lobby, sendTo(r.ctx, "awake")))
		pass(time.Second)
		d.want(t, "wake", "awake")
		pass(2 * time.Minute)
		d.want(t, "wake", "awake", "sleep")
		// Asleep: no code runs, calls wait, and what was stored wakes it.
		inside, end := make(chan struct{}), make(chan struct{})
		visited, called := make(chan error, 1), make(chan int, 1)
		go func() {
			visited <- r.visit(lobby, func(ctx context.Context, a *greenroom.Actor) error {
				close(inside)
				<-end
				return sendTo(r.ctx, "asleep")(r.ctx, a)
			})
		}()
		<-inside
		go func() { called <- r.call(lobby, "add", 1) }()
		pass(time.Second)
		d.want(t, "wake", "awake", "sleep")
		if len(called) > 0 {
			t.Error("a call doesn't wait for the visit")
		}
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		wantErr(t, r.Visit(ctx, actorstore.IDFromName(lobby.String()), never), context.DeadlineExceeded)
		cancel()
		close(end)
		must(t, <-visited)
		if n := <-called; n != 2 {
			t.Errorf("the call returns %d, want 2", n)
		}
		pass(time.Second)
		d.want(t, "wake", "awake", "sleep", "wake", "asleep")
		pass(2 * time.Minute)
		must(t, r.visit(lobby, sendTo(r.ctx, "alone"))) // with no call that would wake it
		pass(time.Second)
		d.want(t, "wake", "awake", "sleep", "wake", "asleep", "sleep", "wake", "alone")
		if s := r.Stats(); s.Awake != 1 {
			t.Errorf("%+v", s)
		}
		// An actor whose type the host doesn't have.
		a, err := r.Store().Actor(r.ctx, "other", nil)
		must(t, err)
		must(t, errors.Join(sendTo(r.ctx, "x")(r.ctx, a), a.Close()))
		must(t, r.Visit(r.ctx, actorstore.IDFromName("other"), sendTo(r.ctx, "y")))
	}, kind)
}

// TestVisitConnected: a visit leaves the connections of an actor open, of either kind.
func TestVisitConnected(t *testing.T) {
	var d diary
	bubble(t, Options{}, func(r *rig) {
		ann, _ := r.enterRoom("ann", true)
		bob, _ := r.enterRoom("bob", false)
		must(t, r.visit(lobby, sendTo(r.ctx, "x")))
		if n := r.call(lobby, "say", "hello"); n != 2 || ann.end()+bob.end() != "" {
			t.Errorf("%d connections, and they end with %q %q", n, ann.end(), bob.end())
		}
	}, room(&d))
}

// TestVisitNested: a visit of the actor whose turn waits for it would wait for itself.
func TestVisitNested(t *testing.T) {
	var r *rig
	visit := NewAction("visit", func(c *Context, other string) (int, error) {
		err := r.Visit(c, actorstore.IDFromName(Address{"thing", other}.String()), func(ctx context.Context, a *greenroom.Actor) error {
			return a.Update(c, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte("v")) })
		})
		return 1, err
	})
	bubble(t, Options{}, func(at *rig) {
		r = at
		other := Address{"thing", "other"}
		r.call(lobby, "add", 1)
		r.call(other, "add", 1)
		r.call(lobby, "visit", "other")
		_, err := invoke[int](r.ctx, r.Host, other, "visit", "other")
		wantErr(t, err, greenroom.ErrNested)
	}, thing(add, visit))
}

// TestVisitBroken: an actor that can't wake can be visited.
func TestVisitBroken(t *testing.T) {
	broken := true
	kind := thing(add)
	kind.Wake = func(*Context) error {
		if broken {
			return errors.New("broken")
		}
		return nil
	}
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		broken = false
		r.call(lobby, "add", 1)
		pass(time.Minute)
		broken = true
		if _, err := invoke[int](r.ctx, r.Host, lobby, "add", 1); err == nil {
			t.Fatal("it wakes")
		}
		must(t, r.visit(lobby, func(ctx context.Context, a *greenroom.Actor) error {
			broken = false
			return a.Update(r.ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) })
		}))
		r.call(lobby, "add", 1)
	}, kind)
}

// TestVisitEnds: a visit ends when its actor is removed, and doesn't keep that from happening.
func TestVisitEnds(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "add", 1)
		visited := make(chan error, 1)
		go func() {
			visited <- r.visit(lobby, func(ctx context.Context, _ *greenroom.Actor) error {
				<-ctx.Done()
				return nil
			})
		}()
		pass(time.Second)
		must(t, r.Destroy(r.ctx, lobby))
		must(t, <-visited)
	}, thing(add))
}

// TestDropID: an actor is removed whether it is awake, sleeps, or is of no type of the host, and its code isn't asked.
func TestDropID(t *testing.T) {
	kind := thing(add)
	kind.Destroy = func(*Context) error { return errors.New("never") }
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		id := actorstore.IDFromName(lobby.String())
		wantErr(t, r.DropID(r.ctx, id), greenroom.ErrNotFound)
		for _, sleep := range []time.Duration{0, 2 * time.Minute} {
			if n := r.call(lobby, "add", 1); n != 1 {
				t.Errorf("it is %d", n)
			}
			pass(sleep)
			must(t, r.DropID(r.ctx, id))
			wantErr(t, r.visit(lobby, nil), greenroom.ErrNotFound)
		}
		a, err := r.Store().Actor(r.ctx, "other", nil)
		must(t, err)
		must(t, sendTo(r.ctx, "x")(r.ctx, a))
		wantErr(t, r.DropID(r.ctx, actorstore.IDFromName("other")), greenroom.ErrInUse)
		must(t, a.Close())
		must(t, r.DropID(r.ctx, actorstore.IDFromName("other")))
	}, kind)
}
