package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
)

// newSaved returns a host with a backup.
func newSaved(t *testing.T, types ...*Type) *rig {
	t.Helper()
	to, err := bucket.Folder(filepath.Join(t.TempDir(), "backup"))
	must(t, err)
	r, end := savedIn(t, filepath.Join(t.TempDir(), "store"), to, types...)
	t.Cleanup(end)
	return r
}

// savedIn returns a host of the store in dir with its backup in a bucket.
func savedIn(t *testing.T, dir string, to bucket.Bucket, types ...*Type) (r *rig, end func()) {
	t.Helper()
	engine, err := pebblekv.Open(dir, nil)
	must(t, err)
	w, err := archive.Start(engine, to, &archive.Options{Every: time.Millisecond})
	must(t, err)
	r = newRigOn(t, engine, Options{Rescan: time.Hour}, types...) // what is to wake at once doesn't wait for it
	return r, func() { must(t, errors.Join(r.Host.Close(context.Background()), w.Close(), engine.Close())) }
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
			l := r.life(lobby.String())
			done, err := r.RestoreID(r.ctx, idOf(lobby), mark, nil)
			must(t, err)
			if l != nil && !l.restored || (l == nil) != asleep {
				t.Error("an alarm that waits for the end of its stay isn't told that it was restored")
			}
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
			_, err = r.RestoreID(r.ctx, idOf(lobby), done.Before, nil)
			must(t, err)
			if n := r.call(lobby, "numbered", nil); n != 3 {
				t.Errorf("its state is %d", n)
			}
			must(t, r.Destroy(r.ctx, lobby))
			_, err = r.RestoreID(r.ctx, idOf(lobby), mark, nil)
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
	_, err := r.RestoreID(r.ctx, idOf(lobby), wrong, nil)
	wantErr(t, err, greenroom.ErrNotFound)
	_, err = r.RestoreID(r.ctx, idOf(lobby), mark, &greenroom.RestoreOptions{MaxBytes: 1})
	wantErr(t, err, greenroom.ErrTooLarge)
	_, err = r.RestoreID(r.ctx, idOf(Address{"thing", "never"}), mark, nil)
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
	began, let, rung := make(chan struct{}, 100), make(chan struct{}), make(chan struct{}, 100)
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
	_, err := r.RestoreID(r.ctx, idOf(bell), mark, nil)
	must(t, err)
	for w, err := range r.Store().Lower().Wakes(r.ctx, time.Now().Add(time.Hour), true) {
		t.Errorf("%v, %v", w, err)
	}
	if visitorOf(r).serves(bell.String()) || len(rung) > 0 {
		t.Error("it was woken")
	}
	for n := range 20 { // first it sleeps, then it is mostly awake
		_, err = r.RestoreID(r.ctx, idOf(bell), mark, &greenroom.RestoreOptions{Wake: true})
		must(t, err)
		select {
		case <-rung:
		case <-time.After(testkit.Patience(30 * time.Second)):
			t.Fatalf("restore %d has not woken it", n)
		}
	}
}

// TestRestoreFromLater: letters arrive at an actor that comes from a state which is newer than the store, whose senders number theirs anew.
func TestRestoreFromLater(t *testing.T) {
	for _, fork := range []bool{false, true} {
		t.Run(fmt.Sprintf("fork %t", fork), func(t *testing.T) {
			dir := t.TempDir()
			to, err := bucket.Folder(filepath.Join(t.TempDir(), "backup"))
			must(t, err)
			r, end := savedIn(t, filepath.Join(dir, "one"), to, talkers()...)
			r.call(lobby, "number", nil)
			r.hears("1")
			must(t, r.Destroy(r.ctx, ear))
			early := r.mark(lobby)
			r.call(lobby, "number", nil)
			r.call(lobby, "number", nil)
			r.hears("2", "3")
			late := r.mark(ear)
			end()
			a, err := archive.Open(t.Context(), to)
			must(t, err)
			must(t, a.Restore(t.Context(), early, filepath.Join(dir, "two"), nil))
			r, end = savedIn(t, filepath.Join(dir, "two"), to, talkers()...)
			defer end()
			if fork {
				v, err := a.Actor(t.Context(), late, ear.String())
				must(t, err)
				_, err = r.Store().Lower().Fork(t.Context(), v.Snapshot, &actorstore.ForkOptions{Name: ear.String()})
				must(t, errors.Join(err, v.Close()))
			} else {
				_, err := r.RestoreID(t.Context(), idOf(ear), late, nil)
				must(t, err)
			}
			r.call(lobby, "number", nil)
			r.hears("2", "3", "2")
		})
	}
}

// TestRestoreLetterUnderWay: an actor whose letter arrives after it was restored hears of it without being woken.
func TestRestoreLetterUnderWay(t *testing.T) {
	for _, asleep := range []bool{false, true} {
		kinds := talkers()
		var woken atomic.Int64
		kinds[0].Wake = func(*Context) error { woken.Add(1); return nil }
		entered, let := make(chan struct{}), make(chan struct{})
		kinds[1].Actions = append(kinds[1].Actions, NewAction("block", func(*Context, struct{}) (int, error) {
			close(entered)
			<-let
			return 0, nil
		}))
		r := newSaved(t, kinds...)
		r.call(lobby, "numbered", nil)
		mark := r.mark(lobby)
		blocked := make(chan error, 1)
		go func() {
			_, err := invoke[int](r.ctx, r.Host, ear, "block", nil)
			blocked <- err
		}()
		<-entered
		r.call(lobby, "say", "x")
		if asleep {
			must(t, r.Sleep(r.ctx, idOf(lobby)))
		}
		before := woken.Load()
		_, err := r.RestoreID(r.ctx, idOf(lobby), mark, nil)
		must(t, err)
		close(let)
		must(t, <-blocked)
		r.hears("x")
		for end := time.Now().Add(testkit.Patience(30 * time.Second)); len(r.lettersOf(idOf(lobby))) > 0 && time.Now().Before(end); {
			runtime.Gosched()
		}
		if n := len(r.lettersOf(idOf(lobby))); n > 0 || woken.Load() != before {
			t.Errorf("asleep %t: it has %d letters, and was woken %d times", asleep, n, woken.Load()-before)
		}
	}
}

// TestRestoreAway: an actor isn't woken for a client that is away, whose connection ended with the restore.
func TestRestoreAway(t *testing.T) {
	r := newSaved(t, talkers()...)
	r.call(lobby, "number", nil)
	mark := r.mark(lobby)
	s := &sink{}
	j, err := r.Join(r.ctx, &Join{Actor: lobby, Transport: s, Hibernate: true})
	must(t, err)
	must(t, r.Sleep(r.ctx, idOf(lobby)))
	r.Away(lobby, j.ID, s)
	_, err = r.RestoreID(r.ctx, idOf(lobby), mark, nil)
	must(t, err)
	if n := r.alarms.Len(); n > 0 {
		t.Errorf("%d actors are to be woken", n)
	}
}

// TestRestoreWhileDue: an alarm that is due while the actor is restored doesn't wake it afterwards; another that only waited for a visit does.
func TestRestoreWhileDue(t *testing.T) {
	for _, restored := range []bool{false, true} {
		bubble(t, Options{}, func(r *rig) {
			r.call(lobby, "add", 1)
			must(t, r.Sleep(r.ctx, idOf(lobby)))
			l, isAwake, err := visitorOf(r).place(r.ctx, lobby, lobby.String(), byUser)
			must(t, err)
			if isAwake {
				t.Fatal("it is awake")
			}
			done := make(chan time.Duration, 1)
			go func() { done <- r.alarms.wake(r.ctx, &actorstore.Waking{Name: lobby.String()}, 0) }()
			synctest.Wait()
			l.restored = restored
			visitorOf(r).release(l)
			if again := <-done; again >= 0 || visitorOf(r).serves(lobby.String()) == restored {
				t.Errorf("restored %t: it is awake: %t, tried again after %v", restored, visitorOf(r).serves(lobby.String()), again)
			}
		}, thing(add))
	}
}

// TestRestoreIDs: the queue of an actor that was dropped gives no id twice.
func TestRestoreIDs(t *testing.T) {
	r := newSaved(t, thing(NewAction("put", func(c *Context, n int) (int, error) {
		var last queue.ID
		for range n {
			var err error
			if last, err = c.Enqueue(queue.Send{Name: "m", Delay: time.Hour}); err != nil {
				return 0, err
			}
		}
		return int(last), nil
	})))
	r.call(lobby, "put", 2)
	mark := r.mark(lobby)
	r.call(lobby, "put", 5)
	must(t, r.Destroy(r.ctx, lobby))
	_, err := r.RestoreID(r.ctx, idOf(lobby), mark, nil)
	must(t, err)
	if last := r.call(lobby, "put", 1); last != 8 {
		t.Errorf("the next id is %d", last)
	}
}

// A watched bucket calls a function before each object that is read.
type watched struct {
	bucket.Bucket
	read atomic.Pointer[func()]
}

func (w *watched) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	if fn := w.read.Load(); fn != nil {
		(*fn)()
	}
	return w.Bucket.Get(ctx, name, offset, length)
}

// TestRestoreDroppedWaits: calls for an actor that was dropped, and is being restored, wait for the end of that.
func TestRestoreDroppedWaits(t *testing.T) {
	to, err := bucket.Folder(filepath.Join(t.TempDir(), "backup"))
	must(t, err)
	b := &watched{Bucket: to}
	r, end := savedIn(t, filepath.Join(t.TempDir(), "store"), b, talkers()...)
	defer end()
	r.call(lobby, "number", nil)
	mark := r.mark(lobby)
	must(t, r.Destroy(r.ctx, lobby))
	held := make(chan *life, 1)
	look := func() {
		if l := r.life(lobby.String()); l != nil {
			select {
			case held <- l:
			default:
			}
		}
	}
	b.read.Store(&look)
	called := make(chan int, 1)
	go func() {
		l := <-held
		called <- r.call(lobby, "numbered", nil)
		if <-l.left; !l.restored {
			t.Error("an alarm that waits for the end of it isn't told that the actor was restored")
		}
		close(called)
	}()
	_, err = r.RestoreID(r.ctx, idOf(lobby), mark, nil)
	must(t, err)
	if n := <-called; n != 1 {
		t.Errorf("a call that came meanwhile finds %d", n)
	}
	<-called
}
