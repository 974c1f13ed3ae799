package pebblekv

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// A passage is the time in which a large batch is being applied.
//
// Why: Pebble doesn't copy a batch of more than about half a memtable into one, but has
// it flushed from where it is, and the flush may begin before the batch is visible. It
// keeps of every key what open snapshots see, and the newest value. A snapshot that is
// taken after that, and before the batch is visible, is of the state before the batch,
// whose values the flush leaves out: it shows older ones. So does an iterator or a Get
// that finds the flush done and the batch not visible yet. See docs/upstream/large-batch.md.
//
// So a snapshot is taken before such a batch, which the flush then knows of, and whoever
// reads while it is being applied reads that, without waiting.
type passage struct {
	// turns is odd while a large batch is being applied. Who finds it even and the same
	// before and after a read of Pebble's newest state was alone.
	turns atomic.Uint64
	spare *spare // of which state's snapshot is

	mu    sync.Mutex
	state *before // +checklocks:mu
}

// before is the state before a large batch.
type before struct {
	snap pin
	refs int // the writer and the readers; guarded by the passage's mu
}

// large tells whether Pebble may take b for large. The bound is half of its own, with
// room for what a memtable takes for an entry besides key and value.
func (d *DB) large(b *pebble.Batch) bool {
	const entry = 256
	return int64(b.Len())+entry*int64(b.Count()) >= d.memtable/4
}

// begin and end enclose the application of a large batch.
func (p *passage) begin(db *pebble.DB) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = &before{snap: p.spare.take(db), refs: 1}
	p.turns.Add(1)
}

func (p *passage) end() {
	p.mu.Lock()
	s := p.state
	p.state = nil
	p.turns.Add(1)
	p.mu.Unlock()
	// An error of a snapshot's Close can't be: it frees memory.
	_ = p.drop(s)
}

// take returns the state before the batch that is being applied, nil if there is none.
// It is the caller's until drop.
func (p *passage) take() *before {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != nil {
		p.state.refs++
	}
	return p.state
}

func (p *passage) drop(s *before) error {
	p.mu.Lock()
	s.refs--
	last := s.refs == 0
	p.mu.Unlock()
	if !last {
		return nil
	}
	return p.spare.give(s.snap)
}

// pinned returns a snapshot of the newest state, and what it must be given back with if
// it is shared.
func (d *DB) pinned() (pin, *before) {
	for {
		turn := d.passage.turns.Load()
		if turn%2 == 1 {
			if s := d.passage.take(); s != nil {
				return s.snap, s
			}
			continue
		}
		snap := d.spare.take(d.db)
		if d.passage.turns.Load() == turn {
			return snap, nil
		}
		_ = d.spare.give(snap) // as in end
	}
}
