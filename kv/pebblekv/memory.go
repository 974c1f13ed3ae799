package pebblekv

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
)

// A memory has the newest values of rows that were written lately. It takes rows in by two rules:
//
// Rows that can be patched are those that a commit can say the difference to, which is all that it writes then. Pages of
// databases are such values: a transaction changes some bytes of each. Commits are encoded side by side, and
// reads are beside all of that, so these rows are in shards, by their keys.
//
// Rows that are checked are small ones that one commit after the other checks and rewrites, such as the head row of every actor.
// Checks are evaluated with the commit lock held, one at a time, and a Get in a memtable that is larger than the processor's caches
// was more than a third of what commits did there; this is a look into a map. It is used with the commit lock held.
//
// Everything that is applied goes through landed, in its order and with the commit lock held,
// so that what is remembered is what a Get would return.
type memory struct {
	limit    int // of bytes, in a shard; 0 if no row that can be patched is remembered
	seed     maphash.Seed
	shards   []shard
	applying atomic.Bool // a commit is being applied, which some reads see and others don't

	checked map[string]*row // changes with the commit lock held

	// ranges guards what was cleared, which changes with the commit lock held alone. It isn't locked with a shard's mu held.
	ranges sync.RWMutex
	cleared
}

type shard struct {
	mu    sync.Mutex
	rows  map[string]*row // +checklocks:mu
	bytes int             // that they take, about  +checklocks:mu
	spare [][]byte        // memory of values that are forgotten  +checklocks:mu
}

// A row is guarded by its shard's mu, or if it is checked by the commit lock.
type row struct {
	key     string
	value   []byte
	op      atomic.Uint64 // that has set it, 0 for a row that isn't remembered any more; may be read without mu
	patches uint8         // how many are stored since it was written whole
}

// newMemory returns a memory with so many bytes of rows that can be patched.
func newMemory(limit int) *memory {
	n := 1
	if limit >= memoryShards*minShard {
		n = memoryShards
	}
	m := &memory{checked: map[string]*row{}, limit: limit / n, seed: maphash.MakeSeed(), shards: make([]shard, n)}
	for i := range m.shards {
		m.shards[i].rows = map[string]*row{}
	}
	return m
}

// shard returns the shard of a key.
func (m *memory) shard(key []byte) *shard {
	return &m.shards[maphash.Bytes(m.seed, key)%uint64(len(m.shards))]
}

// gone reports whether a row that was set by an operation was cleared with a range. No shard's mu is
// held.
func (m *memory) gone(key string, op uint64) bool {
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
	// memoryShards is how many shards a memory has in which each has minShard bytes.
	memoryShards = 16
	minShard     = 256 << 10

	// So many rows that are checked are remembered at most, with keys and values of so many bytes. In all that is less than 2 MiB.
	maxChecked      = 4 << 10
	maxCheckedKey   = 128
	maxCheckedValue = 128
)

// An encoding is one encoding of a commit: what it supposes to be stored.
type encoding struct {
	patched []patchedOp
	buf     []byte
}

// A patchedOp is an operation that is encoded as a patch, of what a row was by op.
type patchedOp struct {
	index int // of the operation
	row   *row
	op    uint64
}

var encodings = sync.Pool{New: func() any { return new(encoding) }}

// begin empties e for the next commit.
func (e *encoding) begin() {
	clear(e.patched)
	e.patched = e.patched[:0]
}

// patch returns what to write in place of the value of the last of ops, nil for the value itself.
// It is e's, until the next call. ops are those of a commit up to there, with no range among them.
func (m *memory) patch(e *encoding, ops []kv.Op) []byte {
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

// patch encodes in e.buf the difference between the row's remembered value and the one that o sets.
// It returns the row and the operation that last set it, or nil if it can't encode a patch.
func (s *shard) patch(e *encoding, o *kv.Op) (_ *row, op uint64) {
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

// get appends the newest value of key to dst, if it is remembered. It returns false while a commit
// is being applied: a reader that has seen one of its rows must not find another as it was before.
func (m *memory) get(key, dst []byte) (_ []byte, ok bool) {
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
func (m *memory) apply() { m.applying.Store(true) }

// gaveUp notes that the commit wasn't applied of which apply was told.
func (m *memory) gaveUp() { m.applying.Store(false) }

// supposed says whether everything is stored that e supposes. The commit lock is held.
func (m *memory) supposed(e *encoding) bool {
	for i := range e.patched {
		if p := &e.patched[i]; p.row.op.Load() != p.op || m.gone(p.row.key, p.op) {
			return false
		}
	}
	return true
}

// landed keeps m up with a commit that was applied, as e says. The commit lock is held.
func (m *memory) landed(c *kv.Commit, e *encoding) {
	patched, many := e.patched, ranges(c) > maxCleared
	if many {
		// To look for each of them would take longer than to ask for the rows again.
		clear(m.checked)
	}
	for i := range c.Ops {
		o := &c.Ops[i]
		m.ops++
		if o.Kind == kv.OpClearRange {
			m.ranges.Lock()
			m.clear(o.Key, o.Value, m.sweep)
			m.ranges.Unlock()
			continue
		}
		m.rewrite(o)
		by := len(patched) > 0 && patched[0].index == i
		if by {
			patched = patched[1:]
		}
		m.shard(o.Key).landed(o, m.ops, by, len(c.Ops) <= maxRemembered, m.limit)
	}
	if !many {
		for i := range c.Checks {
			m.remember(c, c.Checks[i].Key)
		}
	}
	m.applying.Store(false)
}

// landed keeps s up with an operation: patched says whether it was written as a patch, and add whether
// its row may be remembered from now on.
func (s *shard) landed(o *kv.Op, op uint64, patched, add bool, limit int) {
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
func (s *shard) add(o *kv.Op) *row {
	row := &row{key: string(o.Key)}
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
func (s *shard) forget(row *row) {
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
func (m *memory) sweep() {
	for key, row := range m.checked {
		if m.cleared.gone(key, row.op.Load()) {
			delete(m.checked, key)
		}
	}
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

// checkedRow returns what is remembered of key for checks, nil for nothing.
func (m *memory) checkedRow(key []byte) *row {
	row := m.checked[string(key)]
	if row == nil || !m.cleared.gone(row.key, row.op.Load()) {
		return row
	}
	delete(m.checked, row.key)
	return nil
}

// holds evaluates ch; known is false if it takes a Get.
func (m *memory) holds(ch *kv.Check) (holds, known bool) {
	row := m.checkedRow(ch.Key)
	return row != nil && !ch.Absent && bytes.Equal(row.value, ch.Value), row != nil
}

// checkable says whether the value of an operation may be remembered for checks.
func checkable(o *kv.Op) bool { return o.Kind == kv.OpSet && len(o.Value) <= maxCheckedValue }

// rewrite keeps the row that is checked, if there is one, up with an operation.
func (m *memory) rewrite(o *kv.Op) {
	row := m.checked[string(o.Key)]
	switch {
	case row == nil:
	case checkable(o):
		row.value = append(row.value[:0], o.Value...)
		row.op.Store(m.ops)
	default:
		delete(m.checked, row.key)
	}
}

// remember adds the value that c has given key, if it has.
func (m *memory) remember(c *kv.Commit, key []byte) {
	if len(key) > maxCheckedKey || m.checkedRow(key) != nil {
		return
	}
	for i := range slices.Backward(c.Ops) {
		o := &c.Ops[i]
		if o.Kind == kv.OpClearRange {
			if bytes.Compare(o.Key, key) <= 0 && bytes.Compare(key, o.Value) < 0 {
				return
			}
			continue
		}
		if !bytes.Equal(o.Key, key) {
			continue
		}
		if checkable(o) {
			m.room()
			row := &row{key: string(key), value: bytes.Clone(o.Value)}
			row.op.Store(m.ops)
			m.checked[row.key] = row
		}
		return
	}
}

// room forgets any one if there are too many.
func (m *memory) room() {
	if len(m.checked) < maxChecked {
		return
	}
	for key := range m.checked {
		delete(m.checked, key)
		return
	}
}
