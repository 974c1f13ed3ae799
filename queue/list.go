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
	Priority   int     // see Send.Priority
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
	m.Priority = int(r.priority)
	if m.State = stateNames[lease.state]; lease.state != ready {
		m.Available = time.UnixMilli(lease.at)
	}
	return m
}
