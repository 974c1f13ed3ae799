package pebblekv

import (
	"bytes"
	"slices"

	"github.com/greenroomdb/greenroom/kv"
)

// What is remembered of rows that are checked: so many of them at most, with keys and
// values of so many bytes. In all that is less than 2 MiB.
const (
	maxChecked      = 4 << 10
	maxCheckedKey   = 128
	maxCheckedValue = 128
)

// checked are the newest values of rows that one commit after the other checks and
// rewrites, such as the head row of every actor. Checks are evaluated with the commit lock
// held, one at a time, and a Get in a memtable that is larger than the processor's caches
// was more than a third of what commits did there; this is a look into a map.
//
// It is used with the commit lock held. Everything that is applied goes through landed, so
// that what is remembered is what a Get would return.
type checked struct {
	rows map[string]*checkedRow
	cleared
}

type checkedRow struct {
	key   string
	value []byte
	op    uint64 // that has set it
}

// row returns what is remembered of key, nil for nothing.
func (m *checked) row(key []byte) *checkedRow {
	row := m.rows[string(key)]
	if row == nil || !m.gone(row.key, row.op) {
		return row
	}
	delete(m.rows, row.key)
	return nil
}

// holds evaluates ch; known is false if it takes a Get.
func (m *checked) holds(ch *kv.Check) (holds, known bool) {
	row := m.row(ch.Key)
	return row != nil && !ch.Absent && bytes.Equal(row.value, ch.Value), row != nil
}

// landed keeps m up with a commit that was applied, and remembers the rows that it
// checked and wrote.
func (m *checked) landed(c *kv.Commit) {
	if ranges(c) > maxCleared {
		// To look for each of them would take longer than to ask for the rows again.
		clear(m.rows)
		return
	}
	for i := range c.Ops {
		o := &c.Ops[i]
		m.ops++
		if o.Kind == kv.OpClearRange {
			m.clear(o.Key, o.Value, func() {
				for key, row := range m.rows {
					if m.gone(key, row.op) {
						delete(m.rows, key)
					}
				}
			})
			continue
		}
		row, there := m.rows[string(o.Key)]
		switch {
		case !there:
		case o.Kind == kv.OpSet && len(o.Value) <= maxCheckedValue:
			row.value, row.op = append(row.value[:0], o.Value...), m.ops
		default:
			delete(m.rows, string(o.Key))
		}
	}
	for i := range c.Checks {
		m.remember(c, c.Checks[i].Key)
	}
}

// remember adds the value that c has given key, if it has.
func (m *checked) remember(c *kv.Commit, key []byte) {
	if len(key) > maxCheckedKey || m.row(key) != nil {
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
		if o.Kind == kv.OpSet && len(o.Value) <= maxCheckedValue {
			m.room()
			row := &checkedRow{string(key), bytes.Clone(o.Value), m.ops}
			m.rows[row.key] = row
		}
		return
	}
}

// room forgets any one if there are too many.
func (m *checked) room() {
	if len(m.rows) < maxChecked {
		return
	}
	for key := range m.rows {
		delete(m.rows, key)
		return
	}
}
