package archive

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// cutShort is a bucket that changes some objects, and ends a context before it changes one more.
type cutShort struct {
	bucket.Bucket
	mu   sync.Mutex
	left int    // +checklocks:mu
	end  func() // ends the context
}

func (c *cutShort) spend(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		c.end()
		<-ctx.Done() // which another goroutine may tell
		return ctx.Err()
	}
	c.left--
	return nil
}

func (c *cutShort) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	if err := c.spend(ctx); err != nil {
		return err
	}
	return c.Bucket.Put(ctx, name, body, how)
}

func (c *cutShort) Delete(ctx context.Context, name string) error {
	if err := c.spend(ctx); err != nil {
		return err
	}
	return c.Bucket.Delete(ctx, name)
}

// untilWhole calls do until it isn't cut short, each time a little later, and returns how often it was.
func untilWhole(t *testing.T, b bucket.Bucket, do func(context.Context, bucket.Bucket) error) (cuts int) {
	t.Helper()
	for {
		ctx, end := context.WithCancel(t.Context())
		err := do(ctx, &cutShort{Bucket: b, left: 2 + cuts/2, end: end})
		end()
		if err == nil {
			return cuts
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after it was cut short %d times: %v", cuts, err)
		}
		cuts++
	}
}

// TestEraseCutShort tests that an Erase that was cut short, wherever, can be called again, and erases all there is then.
func TestEraseCutShort(t *testing.T) {
	p := newPopulation(t, 41, 2)
	p.opts.baseBytes, p.opts.mergeRuns = 1<<30, 1000
	p.start()
	p.sync()
	a, err := p.store.Named(t.Context(), "victim", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		var b batch.Batch
		b.Put(actorstore.UserKey([]byte("k")), []byte{byte(i)})
		if err := a.Apply(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		p.sync()
	}
	id := a.ID()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.w.Close(); err != nil {
		t.Fatal(err)
	}
	cuts := untilWhole(t, p.bucket, func(ctx context.Context, b bucket.Bucket) error {
		_, err := Erase(ctx, b, "victim", t.TempDir())
		if errors.Is(err, kv.ErrNotFound) { // the one before has done all but write the base anew, which has nothing of the actor
			return nil
		}
		return err
	})
	if cuts < 5 {
		t.Errorf("it was cut short %d times", cuts)
	}
	for _, what := range [][]byte{id.UUID[:], []byte("victim")} {
		if has := objectsWith(t, p.bucket, what); has != nil {
			t.Errorf("%q is in %q", what, has)
		}
	}
}

// TestCollectCutShort tests that a Collect that was cut short, wherever, leaves nothing behind that the next one does not remove.
func TestCollectCutShort(t *testing.T) {
	m := newModel(t, 42, folder(t))
	for range 2 {
		m.opts.TakeOver = true
		m.start()
		for range 5 {
			m.commit(5)
			m.sync()
		}
		m.stop()
		m.open()
		if err := m.db.Records().Hold(pebblekv.Held{}, true); err != nil {
			t.Fatal(err)
		}
	}
	cuts := untilWhole(t, m.bucket, func(ctx context.Context, b bucket.Bucket) error {
		_, err := Collect(ctx, b, time.Now().Add(time.Hour))
		return err
	})
	if cuts == 0 {
		t.Error("it wasn't cut short")
	}
	for o, err := range m.bucket.List(t.Context(), linesOf(1)) {
		t.Errorf("%s is left, %v", o.Name, err)
	}
}
