package workaround

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// Newest is the newest state of a Pebble, to which batches are applied, one at a time. All other methods are safe for
// concurrent use with each other and with that.
//
// Why: Pebble doesn't copy a batch of more than about half a memtable into one, but
// flushes it from where it is, and the flush may begin before the batch is visible. It
// keeps of every key what open snapshots see, and the newest value. A snapshot that is
// taken after that, and before the batch is visible, is of the state before the batch,
// whose values the flush leaves out: it shows older ones. So does an iterator or a Get
// that finds the flush done and the batch not visible yet. See docs/upstream/large-batch.md.
//
// So a snapshot is taken before such a batch, which the flush then knows of, and what is read
// while the batch is being applied is read from that, without waiting.
type Newest struct {
	db       *pebble.DB
	memtable int64 // what large is relative to, in bytes
	// turns is odd while a large batch is being applied. A read of Pebble's newest state that finds it even
	// and the same before and after was alone.
	turns atomic.Uint64
	spare spare

	mu    sync.Mutex
	state *before // +checklocks:mu
}

// before is the state before a large batch.
type before struct {
	snap Pin
	refs int // the writer and the readers; guarded by the mu of Newest
}

// NewNewest returns the newest state of db, whose memtables have a size in bytes. It must be closed before db.
func NewNewest(db *pebble.DB, fault *Fault, memtable int64) *Newest {
	return &Newest{db: db, memtable: memtable, spare: spare{guard: fault.Guard, keep: spareTime}}
}

// Close lets go of what was kept of closed snapshots; from now on Unpin closes them.
func (n *Newest) Close() { n.spare.close() }

// large tells whether Pebble may take b for large. The bound is half of its own, with
// room for what a memtable takes for an entry besides key and value.
func (n *Newest) large(b *pebble.Batch) bool {
	const entry = 256
	return int64(b.Len())+entry*int64(b.Count()) >= n.memtable/4
}

// Apply applies b, which isn't durable then. Calls must not be concurrent.
func (n *Newest) Apply(b *pebble.Batch) error {
	if n.large(b) {
		n.begin()
		defer n.end()
	}
	return n.db.Apply(b, pebble.NoSync)
}

// begin and end enclose the application of a large batch.
func (n *Newest) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = &before{snap: n.spare.take(n.db), refs: 1}
	n.turns.Add(1)
}

func (n *Newest) end() {
	n.mu.Lock()
	s := n.state
	n.state = nil
	n.turns.Add(1)
	n.mu.Unlock()
	// An error of a snapshot's Close can't be: it frees memory.
	_ = n.drop(s)
}

// take returns the state before the batch that is being applied, nil if none is.
// It is the caller's until drop.
func (n *Newest) take() *before {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != nil {
		n.state.refs++
	}
	return n.state
}

func (n *Newest) drop(s *before) error {
	n.mu.Lock()
	s.refs--
	last := s.refs == 0
	n.mu.Unlock()
	if !last {
		return nil
	}
	return n.spare.give(s.snap)
}

// Get returns the value of key, until the closer is closed, as Pebble's Get does.
func (n *Newest) Get(key []byte) ([]byte, io.Closer, error) {
	for {
		turn := n.turns.Load()
		if turn%2 == 0 {
			v, closer, err := n.db.Get(key)
			if n.turns.Load() == turn {
				return v, closer, err
			}
			if err == nil {
				if err := closer.Close(); err != nil {
					return nil, nil, err
				}
			}
		} else if s := n.take(); s != nil {
			// What is read stays when the snapshot is closed.
			v, closer, err := s.snap.Get(key)
			if derr := n.drop(s); derr != nil {
				if err == nil {
					derr = errors.Join(derr, closer.Close())
				}
				return nil, nil, derr
			}
			return v, closer, err
		}
	}
}

// NewIterWithContext returns an iterator, as Pebble's NewIterWithContext does.
func (n *Newest) NewIterWithContext(ctx context.Context, o *pebble.IterOptions) (*pebble.Iterator, error) {
	for {
		turn := n.turns.Load()
		if turn%2 == 0 {
			it, err := n.db.NewIterWithContext(ctx, o)
			if err != nil || n.turns.Load() == turn {
				return it, err
			}
			if err := it.Close(); err != nil {
				return nil, err
			}
		} else if s := n.take(); s != nil {
			// The iterator stays what it is when the snapshot is closed.
			it, err := s.snap.NewIterWithContext(ctx, o)
			if derr := n.drop(s); derr != nil && err == nil {
				return nil, errors.Join(derr, it.Close())
			}
			return it, err
		}
	}
}

// Pin takes a snapshot, for Unpin: it must not be closed.
func (n *Newest) Pin() Pin {
	for {
		turn := n.turns.Load()
		if turn%2 == 1 {
			if s := n.take(); s != nil {
				p := s.snap
				p.shared = s
				return p
			}
			continue
		}
		p := n.spare.take(n.db)
		if n.turns.Load() == turn {
			return p
		}
		_ = n.spare.give(p) // as in end
	}
}

// Unpin gives p back, which is used no more.
func (n *Newest) Unpin(p Pin) error {
	if p.shared != nil {
		return n.drop(p.shared)
	}
	return n.spare.give(p)
}
