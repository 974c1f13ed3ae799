package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/kv"
)

// A Model is the oracle: what a store should hold.
type Model map[string]string

// Clone is the model of a snapshot.
func (m Model) Clone() Model { return maps.Clone(m) }

// Holds reports whether all checks hold.
func (m Model) Holds(checks []kv.Check) bool {
	for _, c := range checks {
		v, ok := m[string(c.Key)]
		if ok == c.Absent || ok && v != string(c.Value) {
			return false
		}
	}
	return true
}

// Apply applies ops in order.
func (m Model) Apply(ops []kv.Op) {
	for _, o := range ops {
		switch o.Kind {
		case kv.OpSet:
			m[string(o.Key)] = string(o.Value)
		case kv.OpClear:
			delete(m, string(o.Key))
		case kv.OpClearRange:
			maps.DeleteFunc(m, func(k, _ string) bool { return k >= string(o.Key) && k < string(o.Value) })
		}
	}
}

// Scan returns the entries of r as WantScan writes them.
func (m Model) Scan(r kv.Range) string {
	var out []string
	for _, k := range m.Keys(r) {
		out = append(out, fmt.Sprintf("%s=%s", k, m[k]))
	}
	return strings.Join(out, " ")
}

// Keys returns the keys of r, in r's order.
func (m Model) Keys(r kv.Range) []string {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(k string) bool {
		return k < string(r.Start) || r.End != nil && k >= string(r.End)
	})
	if r.Reverse {
		slices.Reverse(keys)
	}
	if r.Limit > 0 && len(keys) > r.Limit {
		keys = keys[:r.Limit]
	}
	return keys
}
