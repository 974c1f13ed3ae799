package queue

import (
	"cmp"
	"slices"
	"time"
)

// Stats is what a queue holds at one moment.
type Stats struct {
	Messages    int // of all names, with those that batches are about to settle
	Quarantined int
	Next        ID  // the id of the next message, unless a staged one takes it
	Keys        int // senders' keys that are remembered
	Names       []NameStats
}

// NameStats is what a queue holds under one name.
type NameStats struct {
	Name                   string
	Ready, Delayed, Leased int
	// Dying were handed out often enough, and wait to become dead letters: they are not
	// handed out. That takes a moment, or until the actor has room for them.
	Dying  int
	Oldest time.Time // when the oldest message was enqueued
	Bytes  int64     // of the stored values
}

// stats returns what the contents hold.
//
// +checklocks:c.mu
func (c *contents) stats() Stats {
	s := Stats{
		Messages: len(c.index.byID), Quarantined: len(c.bad), Next: c.numbers.next,
		Keys: len(c.keys.known) - c.keys.forgetting,
	}
	at := map[*line]*NameStats{}
	for _, it := range c.index.byID {
		n := at[it.line]
		if n == nil {
			n = &NameStats{Name: it.line.name, Oldest: time.UnixMilli(it.created)}
			at[it.line] = n
		}
		n.add(it, c.mustDie(it))
	}
	for _, n := range at {
		s.Names = append(s.Names, *n)
	}
	slices.SortFunc(s.Names, func(a, b NameStats) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

func (n *NameStats) add(it *item, mustDie bool) {
	switch {
	case it.state == delayed:
		n.Delayed++
	case it.state == leased:
		n.Leased++
	case mustDie:
		n.Dying++
	default:
		n.Ready++
	}
	if created := time.UnixMilli(it.created); created.Before(n.Oldest) {
		n.Oldest = created
	}
	n.Bytes += int64(it.size)
}
