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
type checked map[string]*checkedRow

type checkedRow struct{ value []byte }

// holds evaluates ch; known is false if it takes a Get.
func (m checked) holds(ch *kv.Check) (holds, known bool) {
	row, known := m[string(ch.Key)]
	return known && !ch.Absent && bytes.Equal(row.value, ch.Value), known
}

// landed keeps m up with a commit that was applied, and remembers the rows that it
// checked and wrote.
func (m checked) landed(c *kv.Commit) {
	if hasRanges(c) {
		clear(m) // rare, and telling which are in a range would take as long as asking again
	}
	for i := range c.Ops {
		o := &c.Ops[i]
		row, there := m[string(o.Key)]
		switch {
		case !there:
		case o.Kind == kv.OpSet && len(o.Value) <= maxCheckedValue:
			row.value = append(row.value[:0], o.Value...)
		default:
			delete(m, string(o.Key))
		}
	}
	if hasRanges(c) {
		return
	}
	for i := range c.Checks {
		m.remember(c, c.Checks[i].Key)
	}
}

// remember adds the value that c has given key, if it has.
func (m checked) remember(c *kv.Commit, key []byte) {
	if _, there := m[string(key)]; there || len(key) > maxCheckedKey {
		return
	}
	for i := range slices.Backward(c.Ops) {
		o := &c.Ops[i]
		if !bytes.Equal(o.Key, key) {
			continue
		}
		if o.Kind == kv.OpSet && len(o.Value) <= maxCheckedValue {
			m.room()
			m[string(key)] = &checkedRow{bytes.Clone(o.Value)}
		}
		return
	}
}

// room forgets any one if there are too many.
func (m checked) room() {
	if len(m) < maxChecked {
		return
	}
	for key := range m {
		delete(m, key)
		return
	}
}
