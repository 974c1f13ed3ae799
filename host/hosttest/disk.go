package hosttest

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A disk is an engine in memory that fails where it is told to, and knows what of it is on
// stable storage.
type disk struct {
	*faultkv.Engine
	mu     sync.Mutex
	synced kv.Engine // as of the newest wait for stable storage  +checklocks:mu
}

// newDisk returns a disk with what an engine of memkv has, which is the disk's.
func newDisk(below kv.Engine) (*disk, error) {
	d := &disk{Engine: faultkv.New(below)}
	d.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeSync || op.Point == faultkv.AfterCommit && op.Commit.Durability == kv.Durable {
			return d.sync()
		}
		return nil
	})
	return d, d.sync()
}

// sync puts everything on stable storage that was applied before.
func (d *disk) sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, err := memkv.Clone(d.Unwrap())
	if err != nil {
		return err
	}
	old := d.synced
	d.synced = now
	if old == nil {
		return nil
	}
	return old.Close()
}

// left returns an engine with what a failure of power leaves; all is what was applied, whether
// it is on stable storage or not.
func (d *disk) left(all bool) (kv.Engine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if all {
		return memkv.Clone(d.Unwrap())
	}
	return memkv.Clone(d.synced)
}

// eject closes everything.
func (d *disk) eject() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.Close(), d.synced.Close())
}

// A process is what a host runs in.
type process struct{ gone atomic.Bool }

// errGone ends turns of a process that has crashed.
var errGone = errors.New("hosttest: the host has crashed")

// types returns what a host has of types: without what a crash doesn't run.
func (p *process) types(all []*host.Type) []*host.Type {
	var list []*host.Type
	for _, t := range all {
		k := *t
		if fn := t.Sleep; fn != nil {
			k.Sleep = func(c *host.Context) error {
				if p.gone.Load() {
					return errGone
				}
				return fn(c)
			}
		}
		if fn := t.Disconnect; fn != nil {
			k.Disconnect = func(c *host.Context, n *host.Conn, reason string) error {
				if p.gone.Load() {
					return errGone
				}
				return fn(c, n, reason)
			}
		}
		list = append(list, &k)
	}
	return list
}
