package txntest

import (
	"fmt"
	"hash/maphash"
	"math"
	"strings"

	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// check returns an error unless some order explains the history: one in which each operation runs by itself, from an
// empty store on, at a moment between its beginning and its end, and sees what it saw.
//
// It looks for that order: from a state, whatever began before the first of those that are left ended can be next. A
// state of the store that was reached before, with as much done, isn't tried again (Wing, Gong: Testing and Verifying
// Concurrent Objects, 1993; Lowe: Testing for Linearizability, 2017).
func (h *history) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &search{did: h.did, next: make([]int, len(h.did)), seen: map[string]bool{}, seed: maphash.MakeSeed(), deepest: -1}
	if s.from(suite.Model{}, 0) {
		return nil
	}
	return fmt.Errorf("no order is possible: behind %d others none of these can be next:\n%s", s.deepest, strings.Join(s.stuck, "\n"))
}

// A search is one for an order.
type search struct {
	did  [][]*record
	next []int // of each worker
	seen map[string]bool
	seed maphash.Seed
	// deepest is how many could be put in an order, and stuck why there wasn't one more.
	deepest int
	stuck   []string
}

// from reports whether what is left has an order from this state, in which so many have been done.
func (s *search) from(state suite.Model, done int) bool {
	key := fmt.Sprint(s.next, s.fingerprint(state))
	if s.seen[key] {
		return false
	}
	s.seen[key] = true
	bound, left := int64(math.MaxInt64), false
	for w, records := range s.did {
		if i := s.next[w]; i < len(records) {
			bound, left = min(bound, records[i].ended), true
		}
	}
	if !left {
		return true
	}
	var stuck []string
	for w, records := range s.did {
		i := s.next[w]
		if i == len(records) || records[i].began > bound {
			continue
		}
		after, why := redo(state, records[i])
		if why != "" {
			stuck = append(stuck, fmt.Sprintf("%s\n\t%s", records[i], why))
			continue
		}
		s.next[w]++
		if s.from(after, done+1) {
			return true
		}
		s.next[w]--
		if !writes(records[i]) {
			return false // it could be next, and changes nothing for the others
		}
	}
	if done > s.deepest {
		s.deepest, s.stuck = done, stuck
	}
	return false
}

// redo does a record on a copy of the state, and says what it would see otherwise.
func redo(state suite.Model, r *record) (after suite.Model, why string) {
	if after = state; writes(r) {
		after = state.Clone()
	}
	for _, s := range r.steps {
		if sees, _ := s.Redo(after); sees != s.Saw {
			return nil, fmt.Sprintf("%s would see %s", s, sees)
		}
	}
	return after, ""
}

func writes(r *record) bool {
	for _, s := range r.steps {
		if s.Writes() {
			return true
		}
	}
	return false
}

// fingerprint tells states apart.
func (s *search) fingerprint(state suite.Model) (sum uint64) {
	for k, v := range state {
		sum += maphash.Comparable(s.seed, [2]string{k, v})
	}
	return sum
}
