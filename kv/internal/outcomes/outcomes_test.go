package outcomes

import (
	"encoding/binary"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

func id(n int) (id kv.CommitID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func TestMemory(t *testing.T) {
	var m Memory
	if got := m.Outcome(id(1)); got != kv.OutcomeUnknown {
		t.Errorf("empty memory: got %v, want unknown", got)
	}
	const total = 3*remembered + 7
	for i := 1; i <= total; i++ {
		o := kv.OutcomeApplied
		if i%3 == 0 {
			o = kv.OutcomeNotApplied
		}
		m.Record(id(i), o)
	}
	for i := 1; i <= total; i++ {
		if (i-total+remembered+100)%remembered > 200 && i%97 != 0 {
			continue // all around the edges, and a few between
		}
		want := kv.OutcomeApplied
		switch {
		case i <= total-remembered:
			want = kv.OutcomeUnknown
		case i%3 == 0:
			want = kv.OutcomeNotApplied
		}
		if got := m.Outcome(id(i)); got != want {
			t.Fatalf("commit %d of %d: got %v, want %v", i, total, got, want)
		}
	}
}

func TestLastTryWins(t *testing.T) {
	var m Memory
	m.Record(id(1), kv.OutcomeNotApplied)
	m.Record(id(2), kv.OutcomeApplied)
	m.Record(id(1), kv.OutcomeApplied)
	if got := m.Outcome(id(1)); got != kv.OutcomeApplied {
		t.Errorf("got %v, want applied", got)
	}
}

func TestZeroID(t *testing.T) {
	var m Memory
	m.Record(id(1), kv.OutcomeApplied)
	m.Record(kv.CommitID{}, kv.OutcomeApplied)
	if got := m.Outcome(kv.CommitID{}); got != kv.OutcomeUnknown {
		t.Errorf("zero id: got %v, want unknown", got)
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	var m Memory
	n := 0
	if got := testing.AllocsPerRun(2*remembered, func() { n++; m.Record(id(n), kv.OutcomeApplied) }); got != 0 {
		t.Errorf("got %v allocations per Record, want 0", got)
	}
}
