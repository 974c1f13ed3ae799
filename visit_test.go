package greenroom_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/workflow"
)

// visited returns a store with an actor that has a key, and its id.
func visited(t *testing.T) (*greenroom.Store, func(fn func(ctx context.Context, _ *greenroom.Actor) error) error) {
	t.Helper()
	s, err := greenroom.New(t.Context(), memkv.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Actor(t.Context(), "room", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Update(t.Context(), put("k", "0")), a.Close()); err != nil {
		t.Fatal(err)
	}
	id, err := s.ID(t.Context(), "room")
	if err != nil {
		t.Fatal(err)
	}
	return s, func(fn func(ctx context.Context, _ *greenroom.Actor) error) error {
		return s.Visit(t.Context(), id, fn)
	}
}

func put(key, value string) func(*greenroom.Tx) error {
	return func(tx *greenroom.Tx) error { return tx.Put([]byte(key), []byte(value)) }
}

// TestVisitOpen: an actor that is open is visited with its handle; one that doesn't exist isn't visited.
func TestVisitOpen(t *testing.T) {
	s, visit := visited(t)
	ctx := t.Context()
	a, err := s.Actor(ctx, "room", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = visit(func(ctx context.Context, v *greenroom.Actor) error {
		if v != a {
			t.Error("the visit has another handle")
		}
		return v.Update(ctx, put("k", "1"))
	})
	if err := errors.Join(err, a.Close()); err != nil {
		t.Fatal(err)
	}
	id, err := s.ID(ctx, "new")
	if err != nil {
		t.Fatal(err)
	}
	never := func(ctx context.Context, _ *greenroom.Actor) error { t.Error("fn is called"); return nil }
	if err := s.Visit(ctx, id, never); !errors.Is(err, greenroom.ErrNotFound) {
		t.Errorf("an actor that doesn't exist: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestVisit: while an actor that isn't open is visited, the program waits for the end of that, and so do other visits.
func TestVisit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, visit := visited(t)
		ctx := t.Context()
		boom := errors.New("boom")
		inside, leave := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			err := visit(func(ctx context.Context, v *greenroom.Actor) error {
				if v.Name() != "room" {
					t.Errorf("it has the name %q", v.Name())
				}
				close(inside)
				<-leave
				return errors.Join(v.Update(ctx, put("k", "2")), boom)
			})
			if !errors.Is(err, boom) {
				t.Errorf("the visit returns %v", err)
			}
		})
		<-inside
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := s.Actor(ended, "room", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Actor whose context has ended: %v", err)
		}
		late := false
		for range 3 {
			all.Go(func() {
				a, err := s.Actor(ctx, "room", &greenroom.ActorOptions{Wait: true})
				if err != nil {
					t.Error(err)
					return
				}
				if !late {
					t.Error("Actor doesn't wait for the visit")
				}
				if err := errors.Join(a.Update(ctx, put("k", "3")), a.Close()); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if err := visit(func(ctx context.Context, _ *greenroom.Actor) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		late = true
		close(leave)
		all.Wait()
		err := s.View(ctx, "room", func(v *greenroom.View) error {
			value, err := v.Get([]byte("k"))
			if string(value) != "3" {
				t.Errorf("k is %q", value)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestVisitClosed: Close ends the visits of its handle, and waits for them.
func TestVisitClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, visit := visited(t)
		ctx := t.Context()
		a, err := s.Actor(ctx, "room", nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			ended <- visit(func(ctx context.Context, v *greenroom.Actor) error {
				<-ctx.Done()
				return v.Update(context.WithoutCancel(ctx), put("k", "late")) // the handle is good until the visit returns
			})
		}()
		synctest.Wait()
		if err := errors.Join(a.Close(), <-ended, a.Close()); err != nil {
			t.Fatal(err)
		}
		if err := visit(func(ctx context.Context, v *greenroom.Actor) error { return v.Update(ctx, put("l", "")) }); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestControlWorkflow: a workflow is controlled with its code beside it, and without.
func TestControlWorkflow(t *testing.T) {
	s, visit := visited(t)
	ctx := t.Context()
	a, err := s.Actor(ctx, "room", nil)
	if err != nil {
		t.Fatal(err)
	}
	fails := func(c *workflow.Context, in int) (int, error) {
		return workflow.StepWith(c, "charge", &workflow.StepOptions{MaxAttempts: 1}, func(context.Context) (int, error) { return 0, errors.New("declined") })
	}
	w, err := greenroom.OpenWorkflow(ctx, a, fails, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Live(ctx); err == nil {
		t.Fatal("it doesn't fail")
	}
	control := func(name string, want workflow.State, fn func(*workflow.Workflow) error) {
		t.Helper()
		err := visit(func(ctx context.Context, a *greenroom.Actor) error {
			return a.ControlWorkflow(ctx, func(w *workflow.Workflow) error {
				if got := w.Status().State; got != want {
					t.Errorf("%s: it is %v, want %v", name, got, want)
				}
				return fn(w)
			})
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	control("open", workflow.Failed, func(got *workflow.Workflow) error {
		if got != w.Workflow {
			t.Error("it is another Workflow")
		}
		return nil
	})
	if err := errors.Join(w.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	control("closed", workflow.Failed, func(w *workflow.Workflow) error { return w.Recover(ctx) })
	control("again", workflow.Sleeping, func(w *workflow.Workflow) error { return w.Cancel(ctx) })
	control("at last", workflow.Cancelled, func(*workflow.Workflow) error { return nil })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestViewID: an actor is looked at by its id, and one that doesn't exist isn't.
func TestViewID(t *testing.T) {
	s, _ := visited(t)
	id, err := s.ID(t.Context(), "room")
	if err != nil {
		t.Fatal(err)
	}
	err = s.ViewID(t.Context(), id, func(v *greenroom.View) error {
		value, err := v.Get([]byte("k"))
		if string(value) != "0" || v.Info().Name != "room" {
			t.Errorf("the value %q of %s", value, v.Info().Name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if id, err = s.ID(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	if err = s.ViewID(t.Context(), id, func(*greenroom.View) error { return nil }); !errors.Is(err, greenroom.ErrNotFound) {
		t.Errorf("an actor that doesn't exist: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
