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

	deadLetter string // Options.DeadLetter
}

// NameStats is what a queue holds under one name.
type NameStats struct {
	Name                   string
	Ready, Delayed, Leased int
	// Dying have failed for good, and wait to become dead letters: they are not
	// handed out. That takes a moment, or until the actor has room for them.
	Dying int
	// Dead are the dead letters that had this name before. They are messages under a name of their own, and counted there.
	Dead   int
	Oldest time.Time // when the oldest message was enqueued; zero for none
	Bytes  int64     // of the stored values
}

// Of returns what the queue holds under a name, also if that is nothing, or dead letters alone, for which Names doesn't have it.
func (s Stats) Of(name string) NameStats {
	n := NameStats{Name: name}
	if at, ok := s.find(name); ok {
		n = *at
	}
	if dead, ok := s.find(name + s.deadLetter); ok && s.deadLetter != "" {
		n.Dead = dead.Ready + dead.Delayed + dead.Leased + dead.Dying
	}
	return n
}

func (s Stats) find(name string) (*NameStats, bool) {
	i, ok := slices.BinarySearchFunc(s.Names, name, func(n NameStats, name string) int { return cmp.Compare(n.Name, name) })
	if !ok {
		return nil, false
	}
	return &s.Names[i], true
}

// Stats returns what the queue holds as the batch leaves it, names in order: what the batch adds is counted as it would be stored, and what it
// removes isn't counted. It stages nothing. Once the batch is settled it is Queue.Stats. It looks at every message in memory.
func (tx *Tx) Stats() Stats { return tx.q.statsIn(&tx.draft) }

// statsIn returns what the queue holds; as the draft leaves it, unless that is nil.
func (c *contents) statsIn(d *draft) Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usable() == nil {
		c.due()
	}
	s := Stats{Quarantined: len(c.bad), Next: c.numbers.next, Keys: len(c.keys.known) - c.keys.forgetting}
	s.deadLetter = c.opts.DeadLetter
	n := count{&s, &c.opts, map[string]*NameStats{}}
	for _, it := range c.index.byID {
		n.add(it, it.line.name, d)
	}
	if d != nil {
		for i := range d.adds {
			n.add(d.adds[i].it, d.adds[i].name, d)
		}
	}
	for _, n := range n.at {
		s.Names = append(s.Names, *n)
	}
	slices.SortFunc(s.Names, func(a, b NameStats) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Names {
		s.Names[i] = s.Of(s.Names[i].Name)
	}
	return s
}

// A count is Stats that are being counted.
type count struct {
	*Stats
	opts *Options
	at   map[string]*NameStats
}

// add counts a message, as the draft leaves it if that has claimed it.
func (n *count) add(it *item, name string, d *draft) {
	to, doomed, size := it.lease, it.doomed, it.size
	if c := it.claim; c != nil && c.by == d {
		if c.remove {
			return
		}
		to, doomed = c.to, doomed || c.doomed
		if c.rec != nil {
			size = len(c.rec)
		}
	}
	n.Messages++
	s := n.at[name]
	if s == nil {
		s = &NameStats{Name: name}
		n.at[name] = s
	}
	switch {
	case to.state == delayed:
		s.Delayed++
	case to.state == leased:
		s.Leased++
	case !it.stays && (doomed || n.opts.dying(name, to)):
		s.Dying++
	default:
		s.Ready++
	}
	if created := time.UnixMilli(it.created); s.Oldest.IsZero() || created.Before(s.Oldest) {
		s.Oldest = created
	}
	s.Bytes += int64(size)
}
