package persist

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A disk is an engine that remembers its commits, and which of them are on stable
// storage, so that it can be made anew as a crash of the machine may leave it.
type disk struct {
	kv.Engine
	mu      sync.Mutex
	commits []kv.Commit
	stable  int // so many of them survive every crash
}

func newDisk() *disk { return &disk{Engine: memkv.New()} }

// Shared says that one process has the store.
func (d *disk) Shared() *sync.Map { return kv.Shared(d.Engine) }

// Commit notes a commit in its order.
func (d *disk) Commit(ctx context.Context, c *kv.Commit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	noted := kv.Commit{ID: c.ID, Durability: c.Durability}
	for _, op := range c.Ops {
		op.Key, op.Value = bytes.Clone(op.Key), bytes.Clone(op.Value)
		noted.Ops = append(noted.Ops, op)
	}
	if err := d.Engine.Commit(ctx, c); err != nil {
		return err
	}
	if d.commits = append(d.commits, noted); c.Durability == kv.Durable {
		d.stable = len(d.commits)
	}
	return nil
}

// Sync makes all commits stable.
func (d *disk) Sync(ctx context.Context, in kv.Incarnation) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.Engine.Sync(ctx, in); err != nil {
		return err
	}
	d.stable = len(d.commits)
	return nil
}

// crash returns what is left after a crash that takes so many commits away, or all that
// are not stable.
func (d *disk) crash(t testing.TB, lost int) *disk {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	left := newDisk()
	for i := range d.commits[:max(len(d.commits)-lost, d.stable)] {
		must(t, left.Commit(ctx, &d.commits[i]))
	}
	left.stable = len(left.commits)
	return left
}
