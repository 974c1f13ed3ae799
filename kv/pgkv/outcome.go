package pgkv

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// Whether a transaction whose COMMIT got no answer was committed is told by a row that
// it writes into the table of outcomes:
//
//	host, slot → number, applied
//
// Each DB has slots, of which a commit holds one until its outcome is known, and counts
// numbers; the transaction puts its number there, unless a higher one is there already.
// A caller that asks for the outcome puts the number there as well, as not applied, unless
// it is there: that waits for the transaction if it is under way, and if it didn't get that
// far yet it never will. So the answer is final, whatever the old connection still does. A
// slot is overwritten again and again, so the table stays small without a cleanup.

// A place is where the outcome of one transaction is found.
type place struct {
	ids    []kv.CommitID // of its commits; none if it can't be looked up
	slot   int32
	number int64
}

// slots are those of one DB.
type slots struct {
	mu     sync.Mutex
	free   []int32 // +checklocks:mu
	made   int32   // +checklocks:mu
	number int64   // the last one  +checklocks:mu
	// fenced says that a commit was given up: its row is what keeps it out, should it
	// still be on its way.
	fenced bool // +checklocks:mu
	// doubts are the commits whose outcome isn't known, oldest first.
	doubts []doubt // +checklocks:mu
}

// A doubt is a transaction whose commits returned kv.ErrUnknownOutcome.
type doubt struct {
	place
	since time.Time
}

const (
	// maxDoubts is how many of them are kept; the outcome of one that was dropped is unknown.
	maxDoubts = 4096
	// maxDoubt is how long the row of one is sure to be there.
	maxDoubt = 12 * time.Hour
	// keepRows is how long rows of hosts that are gone are kept.
	keepRows = "2 days"
)

// take returns a place for a transaction, whose commits have the ids; give or doubt must
// follow. If one of them is zero the transaction isn't to be looked up.
func (s *slots) take(ids []kv.CommitID) place {
	if slices.Contains(ids, kv.CommitID{}) {
		ids = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	at := place{ids: ids, number: s.number}
	if n := len(s.free); n > 0 {
		at.slot, s.free = s.free[n-1], s.free[:n-1]
	} else {
		at.slot = s.made
		s.made++
	}
	return at
}

// renumber returns a new number, for another try of a commit.
func (s *slots) renumber() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	return s.number
}

// give takes back the slot of a transaction whose outcome is known.
func (s *slots) give(at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, at.slot)
}

// doubt keeps the slot of a transaction whose outcome isn't.
func (s *slots) doubt(at place) {
	if len(at.ids) == 0 {
		s.give(at)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.doubts) >= maxDoubts {
		s.free = append(s.free, s.doubts[0].slot)
		s.doubts = append(s.doubts[:0], s.doubts[1:]...)
	}
	s.doubts = append(s.doubts, doubt{at, time.Now()})
}

// find returns the last doubt about a commit.
func (s *slots) find(id kv.CommitID) (doubt, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.doubts) - 1; i >= 0; i-- {
		if slices.Contains(s.doubts[i].ids, id) {
			return s.doubts[i], true
		}
	}
	return doubt{}, false
}

// resolve ends a doubt once record has been called for each of its commits, and returns
// false if it has ended already.
func (s *slots) resolve(d doubt, record func(kv.CommitID)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.doubts {
		if s.doubts[i].number == d.number {
			for _, id := range d.ids {
				record(id)
			}
			s.doubts = append(s.doubts[:i], s.doubts[i+1:]...)
			s.free = append(s.free, d.slot)
			return true
		}
	}
	return false
}

// fence notes that the row of a commit keeps it out.
func (s *slots) fence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fenced = true
}

// needed reports whether rows must outlive the DB.
func (s *slots) needed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fenced
}

// Outcome tells what became of a commit of this DB; of one that is in doubt it asks
// the server, and the answer is final. See kv.Engine.
func (db *DB) Outcome(ctx context.Context, id kv.CommitID) (kv.Outcome, error) {
	if err := db.begin(ctx); err != nil {
		return kv.OutcomeUnknown, err
	}
	defer db.life.leave()
	d, found := db.slots.find(id)
	if !found || time.Since(d.since) > maxDoubt {
		return db.commits.Outcome(id), nil
	}
	r := db.retry()
	for {
		applied, err := db.lookUp(ctx, d.place)
		if err == nil {
			o := kv.OutcomeNotApplied
			if applied {
				o = kv.OutcomeApplied
			}
			// Another caller may have got the answer meanwhile, and another commit the place:
			// then what is there now says nothing about this one.
			if !db.slots.resolve(d, func(id kv.CommitID) { db.commits.Record(id, o) }) {
				return db.commits.Outcome(id), nil
			}
			return o, nil
		}
		if worth(ctx, err) {
			err = r.again(ctx, err)
		}
		if err != nil {
			return kv.OutcomeUnknown, wrap("outcome", err)
		}
	}
}

// lookUp says whether the commit at a place was applied, and sees to it that it never
// will be if not. When it was, it is on stable storage.
func (db *DB) lookUp(ctx context.Context, at place) (applied bool, err error) {
	err = db.callOnce(ctx, db.writes, func(ctx context.Context, c *conn) error {
		rows := 0
		err := c.query(ctx, db.sql.fence, [][]byte{db.host[:], int4Param(at.slot), int8Param(at.number)}, func(col [][]byte) {
			if len(col) == 2 && len(col[0]) == 8 && len(col[1]) == 1 {
				rows++
				applied = col[1][0] != 0 && int64(binary.BigEndian.Uint64(col[0])) == at.number
			}
		})
		if err == nil && c.warned {
			// It was told not to wait for the standbys.
			c.bad = true
			return &lostError{orUnknown(nil)}
		}
		if err == nil && rows != 1 {
			err = errors.New("the server did not return the outcome")
		}
		return err
	})
	if err == nil && !applied {
		db.slots.fence()
	}
	return applied && err == nil, err
}

// forget removes the rows of this DB: the outcomes of all its commits are known, or won't be
// asked for. If it fails, the rows go when they are old enough. If a commit that was given up
// may still arrive, all rows stay, also those of later commits, because a slot that was used
// again keeps out every commit that held it before.
func (db *DB) forget() {
	if db.opts.ReadOnly || db.slots.needed() {
		return
	}
	c := db.writes.pop()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), db.closeTimeout)
	defer cancel()
	if err := c.exec(ctx, db.sql.forget, db.host[:]); err != nil {
		c.kill()
		return
	}
	c.close()
}
