package queue

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// ListOptions select messages; the zero value means all.
type ListOptions struct {
	// Names are those that the messages may have; none means any. What can't be read has
	// none, and is listed only without.
	Names []string
	// After begins behind a message.
	After ID
	// Limit is the largest number of messages; 0 means all.
	Limit int
	// Visibility is the length of leases that were stored without their ends; 0 means
	// 30 seconds.
	Visibility time.Duration
}

// A Stored is a message as it is stored, or, with Err, a key that can't be read as one.
// Body is its own.
type Stored struct {
	ID         ID // 0 when the key isn't a message's
	Name       string
	Body       Raw
	Created    time.Time
	State      string    // "ready", "delayed" or "leased", by what is stored
	Available  time.Time // when a delay or a lease ends; zero when it is ready
	Deliveries uint32
	From       string  // the actor that sent it, "" if that isn't stored
	Failure    Failure // of the attempts, also of one whose lease ran out
	Size       int     // of the value in bytes
	Key        []byte
	Err        error
}

// List yields the messages that snap shows, in the order of their ids: of any actor,
// owned or not (a View has a Snapshot). It reads them in pages. What is ready by now,
// since its lease or delay is over, is so; now is the time of day to go by. An error that
// is about one message comes in its Stored; any other is yielded once, and ends it.
func List(ctx context.Context, snap *actorstore.Snapshot, now time.Time, opts *ListOptions) iter.Seq2[Stored, error] {
	o := ListOptions{}
	if opts != nil {
		o = *opts
	}
	o.Visibility = cmp.Or(o.Visibility, defaultVisibility)
	return func(yield func(Stored, error) bool) {
		if o.After == math.MaxUint64 {
			return
		}
		n := 0
		for e, err := range entries(ctx, snap, appendMessageKey(snap.Layout(), nil, o.After+1)) {
			if err != nil {
				yield(Stored{}, fmt.Errorf("queue: list: %w", err))
				return
			}
			m := e.stored(snap.Layout(), now, o.Visibility)
			if len(o.Names) > 0 && (m.Err != nil || !slices.Contains(o.Names, m.Name)) {
				continue
			}
			if n++; !yield(m, nil) || n == o.Limit {
				return
			}
		}
	}
}

// stored says what an entry is.
func (e *entry) stored(l actorstore.Layout, now time.Time, visibility time.Duration) Stored {
	m := Stored{Key: e.key, Size: len(e.value), Err: e.err}
	id, ok := parseMessageKey(l, e.key)
	if m.ID = id; !ok && m.Err == nil {
		m.Err = fmt.Errorf("%w: the key is no message's", actorstore.ErrCorrupt)
	}
	if m.Err != nil {
		return m
	}
	r, err := parseRecord(e.value)
	if err != nil {
		m.Err = err
		return m
	}
	lease := r.lease(after(0, visibility))
	if lease.at <= now.UnixMilli() {
		if lease.state == leased && lease.since != 0 {
			r.past.fail(lease.since, leaseRanOut)
		}
		lease.state = ready
	}
	m.From, m.Failure = r.past.sender, r.past.failure()
	m.Name, m.Body, m.Created, m.Deliveries = r.name, r.body, time.UnixMilli(r.created), lease.deliveries
	if m.State = stateNames[lease.state]; lease.state != ready {
		m.Available = time.UnixMilli(lease.at)
	}
	return m
}

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

// Stats returns what the queue holds, names in order. It looks at every message in memory.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.usable() == nil {
		q.due()
	}
	s := Stats{
		Messages: len(q.index.byID), Quarantined: len(q.bad), Next: q.numbers.next,
		Keys: len(q.keys.known) - q.keys.forgetting,
	}
	at := map[*line]*NameStats{}
	for _, it := range q.index.byID {
		n := at[it.line]
		if n == nil {
			n = &NameStats{Name: it.line.name, Oldest: time.UnixMilli(it.created)}
			at[it.line] = n
		}
		n.add(it, q.mustDie(it))
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

// Len returns how many messages there are, visible or not.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.index.byID)
}

// Quarantined returns what is set aside, in the order in which it was found.
func (q *Queue) Quarantined() []Quarantined {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.bad)
}
