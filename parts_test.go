package greenroom_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/workflow"
)

// A gated engine lets the next read wait until that is ended by its context, once it is armed.
type gated struct {
	kv.Engine
	armed atomic.Bool
	end   func() // what the read does instead; nil for nothing
}

func (g *gated) wait(ctx context.Context) error {
	if !g.armed.CompareAndSwap(true, false) {
		return nil
	}
	if g.end != nil {
		g.end()
	}
	<-ctx.Done()
	return ctx.Err()
}

func (g *gated) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := g.wait(ctx); err != nil {
		return dst, err
	}
	return g.Engine.Get(ctx, key, dst)
}

func (g *gated) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	if err := g.wait(ctx); err != nil {
		return nil, err
	}
	return g.Engine.Snapshot(ctx)
}

// TestOpenPartPanics: an opening that panics or ends its goroutine holds up no other call, and no Close.
func TestOpenPartPanics(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) { // which knows a deadlock
			g := &gated{Engine: memkv.New(), end: end}
			store, err := greenroom.New(ctx, g, nil)
			must(t, err)
			a, err := store.Actor(ctx, name, nil)
			must(t, err)
			must(t, a.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) }))
			g.armed.Store(true)
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				_, _ = a.Record(ctx)
			}()
			<-done
			if g.armed.Load() {
				t.Errorf("%s: the record is opened without a read", name)
			}
			brief, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if err := second(a.Record(brief)); errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: a second call waits", name)
			}
			must(t, a.Close())
			must(t, store.Close())
		})
	}
}

// TestOpenPart: while a part is opened, which may take as long as the engine does, the actor is of use, every wait ends with
// its context, and Close ends the opening.
func TestOpenPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{Engine: memkv.New()}
		store, err := greenroom.New(ctx, g, nil)
		must(t, err)
		a, err := store.Actor(ctx, "a", nil)
		must(t, err)
		must(t, a.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte("v")) }))
		must(t, a.Close())
		a, err = store.Actor(ctx, "a", nil)
		must(t, err)

		g.armed.Store(true)
		opening := make(chan error)
		go func() {
			_, err := a.Record(ctx)
			opening <- err
		}()
		synctest.Wait()
		if g.armed.Load() {
			t.Fatal("the record is opened without a read")
		}
		must(t, a.View(ctx, func(v *greenroom.View) error { return second(v.Get([]byte("k"))) }))
		must(t, second(a.Queue(ctx)))
		brief, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		wantErr(t, "a second call", second(a.Record(brief)), context.DeadlineExceeded)
		must(t, a.Close())
		wantErr(t, "the first call", <-opening, greenroom.ErrClosed)
		must(t, store.Close())
	})
}

// TestOpenWorkflowEnds: Close ends the opening of a workflow.
func TestOpenWorkflowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{Engine: memkv.New()}
		store, err := greenroom.New(ctx, g, nil)
		must(t, err)
		a, err := store.Actor(ctx, "a", nil)
		must(t, err)
		must(t, second(a.Queue(ctx)))
		g.armed.Store(true)
		opening := make(chan error)
		go func() {
			opening <- second(greenroom.OpenWorkflow(ctx, a, func(*workflow.Context, int) (int, error) { return 0, nil }, nil))
		}()
		synctest.Wait()
		if g.armed.Load() {
			t.Fatal("the workflow is opened without a read")
		}
		must(t, a.Close())
		wantErr(t, "the opening", <-opening, greenroom.ErrClosed)
		must(t, store.Close())
	})
}
