package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/persist"
)

// newSaved returns a host with a backup.
func newSaved(t *testing.T, types ...*Type) *rig {
	t.Helper()
	engine, err := pebblekv.Open(filepath.Join(t.TempDir(), "store"), nil)
	must(t, err)
	to, err := bucket.Folder(filepath.Join(t.TempDir(), "backup"))
	must(t, err)
	w, err := archive.Start(engine, to, &archive.Options{Every: time.Millisecond})
	must(t, err)
	r := newRigOn(t, engine, Options{}, types...)
	t.Cleanup(func() { must(t, errors.Join(r.Host.Close(context.Background()), w.Close(), engine.Close())) })
	return r
}

// mark returns a bookmark of what an actor has.
func (r *rig) mark(a Address) (mark archive.Bookmark) {
	r.Helper()
	must(r, r.Visit(r.ctx, idOf(a), func(ctx context.Context, a *greenroom.Actor) (err error) {
		mark, err = a.Bookmark(ctx)
		return err
	}))
	return mark
}

func idOf(a Address) actorstore.ID { return actorstore.IDFromName(a.String()) }

// hears waits until the ear has heard so much.
func (r *rig) hears(want ...string) {
	r.Helper()
	for end := time.Now().Add(testkit.Patience(30 * time.Second)); len(r.heard()) < len(want) && time.Now().Before(end); {
	}
	r.wantHeard(want...)
}

// TestRestore: an actor is what it was, awake or not, and what it sends from then on arrives, although its numbers were given; its
// connections end, and calls that come meanwhile are of the actor as it is then.
func TestRestore(t *testing.T) {
	for _, asleep := range []bool{false, true} {
		t.Run(fmt.Sprintf("asleep %t", asleep), func(t *testing.T) {
			r := newSaved(t, talkers()...)
			r.call(lobby, "number", nil)
			mark := r.mark(lobby)
			s := &sink{}
			_, err := r.Join(r.ctx, &Join{Actor: lobby, Transport: s, Hibernate: true})
			must(t, err)
			r.call(lobby, "number", nil)
			r.call(lobby, "number", nil)
			r.hears("1", "2", "3")
			if asleep {
				must(t, r.Sleep(r.ctx, idOf(lobby)))
			}
			done, err := r.Host.RestoreID(r.ctx, idOf(lobby), mark, nil)
			must(t, err)
			var left []string
			for _, l := range done.Left {
				left = append(left, l.To+" "+l.Name)
			}
			if want := []string{"ear/mine word", "ear/mine word"}; !slices.Equal(left, want) || done.More {
				t.Errorf("left %q, more %t; want %q", left, done.More, want)
			}
			if s.end() != restoredReason {
				t.Errorf("the connection ended because %q", s.end())
			}
			if visitorOf(r).serves(lobby.String()) {
				t.Error("it is awake")
			}
			if n := r.call(lobby, "numbered", nil); n != 1 {
				t.Errorf("its state is %d", n)
			}
			r.call(lobby, "number", nil)
			r.hears("1", "2", "3", "2")

			// Back to what it was before, and to where it is gone.
			_, err = r.Host.RestoreID(r.ctx, idOf(lobby), done.Before, nil)
			must(t, err)
			if n := r.call(lobby, "numbered", nil); n != 3 {
				t.Errorf("its state is %d", n)
			}
			must(t, r.Destroy(r.ctx, lobby))
			_, err = r.Host.RestoreID(r.ctx, idOf(lobby), mark, nil)
			must(t, err)
			r.call(lobby, "number", nil)
			r.hears("1", "2", "3", "2", "2")
		})
	}
}

func visitorOf(r *rig) visitor { return visitor{r.Host} }

// TestRestoreFails: an actor that can't be restored is what it is, and goes on.
func TestRestoreFails(t *testing.T) {
	r := newSaved(t, talkers()...)
	r.call(lobby, "number", nil)
	mark := r.mark(lobby)
	r.call(lobby, "number", nil)
	wrong := mark
	wrong.Line++
	_, err := r.Host.RestoreID(r.ctx, idOf(lobby), wrong, nil)
	wantErr(t, err, greenroom.ErrNotFound)
	_, err = r.Host.RestoreID(r.ctx, idOf(lobby), mark, &greenroom.RestoreOptions{MaxBytes: 1})
	wantErr(t, err, greenroom.ErrTooLarge)
	_, err = r.Host.RestoreID(r.ctx, idOf(Address{"thing", "never"}), mark, nil)
	wantErr(t, err, greenroom.ErrNotFound)
	if n := r.call(lobby, "numbered", nil); n != 2 {
		t.Errorf("its state is %d", n)
	}
	none := newRig(t, Options{}, talkers()...)
	defer none.close()
	none.call(lobby, "number", nil)
	_, err = none.Host.RestoreID(none.ctx, idOf(lobby), mark, nil)
	wantErr(t, err, greenroom.ErrUnsupported)
}

// TestRestoreDue: what is due by the state waits until the actor is called, or woken.
func TestRestoreDue(t *testing.T) {
	began, let, rung := make(chan struct{}, 10), make(chan struct{}), make(chan struct{}, 10)
	ring := &Type{Name: "bell", Actions: []AnyAction{NewAction("set", func(c *Context, _ struct{}) (int, error) {
		_, err := c.After(0, "ring")
		return 0, err
	})}, Alarm: func(c *Context, _ persist.Event) error {
		began <- struct{}{}
		<-let
		c.AfterCommit(func() { rung <- struct{}{} })
		return nil
	}}
	r := newSaved(t, ring)
	bell := Address{"bell", "b"}
	r.call(bell, "set", nil)
	<-began
	mark := r.mark(bell) // the event isn't done
	close(let)
	<-rung
	must(t, r.Sleep(r.ctx, idOf(bell)))
	_, err := r.Host.RestoreID(r.ctx, idOf(bell), mark, nil)
	must(t, err)
	for w, err := range r.Store().Lower().Wakes(r.ctx, time.Now().Add(time.Hour), true) {
		t.Errorf("%v, %v", w, err)
	}
	if visitorOf(r).serves(bell.String()) || len(rung) > 0 {
		t.Error("it was woken")
	}
	_, err = r.Host.RestoreID(r.ctx, idOf(bell), mark, &greenroom.RestoreOptions{Wake: true})
	must(t, err)
	<-rung
}
