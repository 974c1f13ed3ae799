// Package outcomes remembers what became of the most recent commits of an
// engine, for kv.Engine.Outcome. It exists because every near engine needs the
// same bounded memory; it is not durable and not a log.
package outcomes

import (
	"sync"

	"github.com/greenroomdb/greenroom/kv"
)

// remembered is how many commits a Memory remembers: four times what the
// contract of kv.Engine asks for, so that a burst of other commits between a
// failure and the question does not push the answer out.
const remembered = 4096

// A Memory holds the outcomes of the last remembered commits. The zero value is
// ready, a Memory must not be copied, and all methods are safe for concurrent
// use. Nothing is allocated after the first Record.
//
// It is a ring that is searched from its newest entry: writing costs a few
// nanoseconds on every commit, and reading, which only happens after a failure,
// costs a few microseconds at worst.
type Memory struct {
	mu   sync.Mutex
	ring []record // +checklocks:mu
	// next is the place in ring of the next record.
	next int // +checklocks:mu
}

type record struct {
	id      kv.CommitID
	outcome kv.Outcome
}

// Record remembers the outcome of the commit id, forgetting the oldest one when
// the memory is full. The zero id is not recorded.
func (m *Memory) Record(id kv.CommitID, o kv.Outcome) {
	if id == (kv.CommitID{}) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ring == nil {
		m.ring = make([]record, remembered)
	}
	m.ring[m.next] = record{id, o}
	m.next = (m.next + 1) % len(m.ring)
}

// Outcome returns what was last recorded for id, and kv.OutcomeUnknown when
// nothing was or when it has been forgotten.
func (m *Memory) Outcome(id kv.CommitID) kv.Outcome {
	if id == (kv.CommitID{}) {
		return kv.OutcomeUnknown
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// From the newest to the oldest: an id that was tried again has the outcome
	// of its last try, and the question is usually about a recent commit.
	for i := range m.ring {
		r := &m.ring[(m.next-1-i+2*len(m.ring))%len(m.ring)]
		if r.id == id {
			return r.outcome
		}
	}
	return kv.OutcomeUnknown
}
