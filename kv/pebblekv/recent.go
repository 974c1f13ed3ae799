package pebblekv

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/greenroomdb/greenroom/kv"
)

// recent are the newest values of rows that were written lately: those that a commit can say
// the difference to, which is all that it writes then. Pages of databases are such values: a
// transaction changes some bytes of each.
//
// Everything that is applied goes through landed, in its order and with the commit lock held,
// so that what is remembered is what a Get would return. Commits are encoded side by side, and
// reads are beside all of that, so the rows are in shards, by their keys.
type recent struct {
	limit    int // of bytes, in a shard; 0 if nothing is remembered
	seed     maphash.Seed
	shards   []recentShard
	applying atomic.Bool // a commit is being applied, which some see and others don't

	// ranges guards what was cleared. It isn't locked with a shard's mu held.
	ranges  sync.RWMutex
	cleared // its ops change with the commit lock held alone
}

type recentShard struct {
	mu    sync.Mutex
	rows  map[string]*recentRow // +checklocks:mu
	bytes int                   // that they take, about  +checklocks:mu
	spare [][]byte              // memory of values that are forgotten  +checklocks:mu
}

// A recentRow is guarded by its shard's mu.
type recentRow struct {
	key     string
	value   []byte
	op      atomic.Uint64 // that has set it, 0 for a row that isn't remembered any more; may be read without mu
	patches uint8         // how many are stored since it was written whole
}

// newRecent returns a memory of so many bytes.
func newRecent(limit int) *recent {
	n := 1
	if limit >= recentShards*minShard {
		n = recentShards
	}
	m := &recent{limit: limit / n, seed: maphash.MakeSeed(), shards: make([]recentShard, n)}
	for i := range m.shards {
		m.shards[i].rows = map[string]*recentRow{}
	}
	return m
}

// shard returns the shard of a key.
func (m *recent) shard(key []byte) *recentShard {
	return &m.shards[maphash.Bytes(m.seed, key)%uint64(len(m.shards))]
}

// gone reports whether a row that was set by an operation was cleared with a range. No shard's mu is
// held.
func (m *recent) gone(key string, op uint64) bool {
	m.ranges.RLock()
	defer m.ranges.RUnlock()
	return m.cleared.gone(key, op)
}

const (
	// maxRecentKey is the longest key of a value that may be patched.
	maxRecentKey = maxClearedKey
	// recentEntry is about what a row takes besides its key and value.
	recentEntry = 128
	// maxSpare is how many values' memory a shard keeps for others.
	maxSpare = 4
	// maxRemembered is how many operations a commit has at most whose rows are remembered, since those
	// of an import are written once, and how many of a commit are patched.
	maxRemembered = 128
	// recentShards is how many shards a memory has in which each has minShard bytes.
	recentShards = 16
	minShard     = 256 << 10
)

// An encoding is one encoding of a commit: what it supposes to be stored.
type encoding struct {
	patched []patchedOp
	buf     []byte
}

// A patchedOp is an operation that is encoded as a patch, of what a row was by op.
type patchedOp struct {
	index int // of the operation
	row   *recentRow
	op    uint64
}

var encodings = sync.Pool{New: func() any { return new(encoding) }}

// begin has e be one of a commit that is encoded from now on.
func (e *encoding) begin() {
	clear(e.patched)
	e.patched = e.patched[:0]
}

// patch returns what to write in place of the value of the last of ops, nil for the value itself.
// It is e's, until the next call. ops are those of a commit up to there, with no range among them.
func (m *recent) patch(e *encoding, ops []kv.Op) []byte {
	index := len(ops) - 1
	o := &ops[index]
	if m.limit == 0 || index >= maxRemembered || o.Kind != kv.OpSet || !patchable(o) {
		return nil
	}
	row, op := m.shard(o.Key).patch(e, o)
	if row == nil || m.gone(row.key, op) || touched(ops[:index], o.Key) {
		return nil
	}
	e.patched = append(e.patched, patchedOp{index, row, op})
	return e.buf
}

// touched reports whether one of ops is on key: what is below a later one is what that has written.
func touched(ops []kv.Op, key []byte) bool {
	for i := range ops {
		if bytes.Equal(ops[i].Key, key) {
			return true
		}
	}
	return false
}

// patch has e.buf be the difference to the row that o sets, which it returns with the operation that
// has set it, nil if there is none to say.
func (s *recentShard) patch(e *encoding, o *kv.Op) (_ *recentRow, op uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.rows[string(o.Key)]
	if row == nil || row.patches >= workaround.MaxPatches {
		return nil, 0
	}
	var ok bool
	if e.buf, ok = workaround.AppendPatch(e.buf[:0], row.value, o.Value, len(o.Value)/4); !ok {
		return nil, 0
	}
	return row, row.op.Load()
}

// patchable says whether the value of an operation may be patched by a later one.
func patchable(o *kv.Op) bool {
	return len(o.Value) >= workaround.MinPatched && len(o.Value) <= workaround.MaxPatched && len(o.Key) <= maxRecentKey
}

// get appends the newest value of key to dst, if it is remembered. It isn't said while a commit
// is being applied: who has seen one row of it must not find another one as it was before.
func (m *recent) get(key, dst []byte) (_ []byte, ok bool) {
	if m.limit == 0 || m.applying.Load() {
		return dst, false
	}
	s := m.shard(key)
	s.mu.Lock()
	row := s.rows[string(key)]
	if row == nil {
		s.mu.Unlock()
		return dst, false
	}
	out, op := append(dst, row.value...), row.op.Load()
	s.mu.Unlock()
	if m.gone(row.key, op) {
		return dst, false
	}
	return out, true
}

// apply notes that a commit is about to be applied, of which landed tells, or gaveUp. The commit
// lock is held.
func (m *recent) apply() { m.applying.Store(true) }

// gaveUp notes that the commit wasn't applied of which apply was told.
func (m *recent) gaveUp() { m.applying.Store(false) }

// holds says whether everything is stored that e supposes. The commit lock is held.
func (m *recent) holds(e *encoding) bool {
	for i := range e.patched {
		if p := &e.patched[i]; p.row.op.Load() != p.op || m.gone(p.row.key, p.op) {
			return false
		}
	}
	return true
}

// landed keeps m up with a commit that was applied, as e says. The commit lock is held.
func (m *recent) landed(c *kv.Commit, e *encoding) {
	patched := e.patched
	for i := range c.Ops {
		o := &c.Ops[i]
		m.ops++
		if o.Kind == kv.OpClearRange {
			m.ranges.Lock()
			m.clear(o.Key, o.Value, m.sweep)
			m.ranges.Unlock()
			continue
		}
		by := len(patched) > 0 && patched[0].index == i
		if by {
			patched = patched[1:]
		}
		m.shard(o.Key).landed(o, m.ops, by, len(c.Ops) <= maxRemembered, m.limit)
	}
	m.applying.Store(false)
}

// landed keeps s up with an operation: patched says whether it was written as a patch, and add whether
// its row may be remembered from now on.
func (s *recentShard) landed(o *kv.Op, op uint64, patched, add bool, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.rows[string(o.Key)]
	if o.Kind != kv.OpSet || !patchable(o) {
		if row != nil {
			s.forget(row)
		}
		return
	}
	if row == nil {
		if !add || limit == 0 {
			return
		}
		row = s.add(o)
	}
	s.bytes += len(o.Value) - len(row.value)
	if cap(row.value) > 2*len(o.Value) {
		row.value = nil
	}
	row.value = append(row.value[:0], o.Value...)
	row.op.Store(op)
	if row.patches++; !patched {
		row.patches = 0
	}
	for _, row := range s.rows { // any, until the others are few enough
		if s.bytes <= limit {
			return
		}
		s.forget(row)
	}
}

// add remembers a row, yet without its value.
//
// +checklocks:s.mu
func (s *recentShard) add(o *kv.Op) *recentRow {
	row := &recentRow{key: string(o.Key)}
	if n := len(s.spare); n > 0 {
		row.value, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	s.rows[row.key] = row
	s.bytes += len(row.key) + recentEntry
	return row
}

// forget forgets a row, which encodings may have.
//
// +checklocks:s.mu
func (s *recentShard) forget(row *recentRow) {
	delete(s.rows, row.key)
	s.bytes -= len(row.key) + len(row.value) + recentEntry
	if len(s.spare) < maxSpare {
		s.spare = append(s.spare, row.value[:0])
	}
	row.value = nil
	row.op.Store(0)
}

// sweep forgets the rows that were cleared with ranges.
//
// +checklocks:m.ranges
func (m *recent) sweep() {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for key, row := range s.rows {
			if m.cleared.gone(key, row.op.Load()) {
				s.forget(row)
			}
		}
		s.mu.Unlock()
	}
}
