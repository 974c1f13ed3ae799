package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A Model is the oracle: what a store should hold.
type Model map[string]string

// Clone is the model of a snapshot.
func (m Model) Clone() Model { return maps.Clone(m) }

// holds reports whether the checks among steps hold.
func (m Model) holds(steps []*Step) bool {
	for _, s := range steps {
		v, ok := m[string(s.Key)]
		if s.Verb == "absent" && ok || s.Verb == "is" && (!ok || v != string(s.Value)) {
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

// read returns the keys of r, and how far they had to be read.
func (m Model) read(r kv.Range) ([]string, txn.Span) {
	keys := m.Keys(r)
	s := txn.Span{Start: r.Start, End: r.End}
	if r.Limit > 0 && len(keys) == r.Limit {
		if last := KeySpan([]byte(keys[len(keys)-1])); r.Reverse {
			s.Start = last.Start
		} else {
			s.End = last.End
		}
	}
	return keys, s
}

func (m Model) mutate(s *Step) {
	v, ok := m[string(s.Key)]
	if after, exists := s.Mutation.Apply([]byte(v), ok, s.Value); exists {
		m[string(s.Key)] = string(after)
	} else {
		delete(m, string(s.Key))
	}
}
