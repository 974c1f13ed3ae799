package host

import (
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// What an actor uses is counted in memory, and stored in a commit that is made anyway: that which notes that the actor sleeps, and for one that
// is awake for long that of a turn, now and then. What a crash loses is at most that long; and what an actor uses that neither
// writes nor is awake for a minute is told to the metrics alone.

// storeUsage is after how long a turn that writes stores what the actor has used.
const storeUsage = 5 * time.Minute

// A usage is what an actor uses during its stay in memory.
type usage struct {
	// Set by begin.
	actor *actorstore.Actor
	clock func() time.Time
	told  func(more *actorstore.Usage) // to the metrics; nil without any

	mu     sync.Mutex
	fresh  actorstore.Usage // turns and failures that aren't stored  +checklocks:mu
	stored mark             // up to where all else is stored; zero before the actor is awake  +checklocks:mu
	known  mark             // up to where told was told of it  +checklocks:mu
}

// A mark is a point of an actor's stay.
type mark struct {
	at            time.Time
	written, rows int64 // by the handle
}

// since returns what an actor has used from o to m, and nothing if m is the older mark: a turn may store more while Host.Usage looks, and a clock may be
// set back.
func (m *mark) since(o *mark) actorstore.Usage {
	return actorstore.Usage{
		Awake:   max(m.at.Sub(o.at), 0).Truncate(time.Millisecond),
		Written: max(m.written-o.written, 0),
		Rows:    max(m.rows-o.rows, 0),
	}
}

// mark returns where the actor is.
func (u *usage) mark() mark { return mark{u.clock(), u.actor.Written(), u.actor.Rows()} }

// begin begins to count, when the actor is taken over.
func (u *usage) begin(a *actorstore.Actor, clock func() time.Time, told func(more *actorstore.Usage)) {
	u.actor, u.clock, u.told = a, clock, told
	m := u.mark()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored, u.known = m, m
}

// turn counts a turn.
func (u *usage) turn() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fresh.Turns++
}

// failed counts that a turn of a name ended with err.
func (u *usage) failed(name string, err error) {
	f := actorstore.Failure{Code: Code(err), Place: name, Count: 1, Last: u.clock()}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fresh.Fail(f)
}

// unstored returns what isn't stored at m.
func (u *usage) unstored(m *mark) actorstore.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := m.since(&u.stored)
	all.Add(&u.fresh)
	return all
}

// landed says that what wasn't stored at m is. No turn has ended since.
func (u *usage) landed(m mark) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fresh, u.stored = actorstore.Usage{}, m
}

// due says whether a turn is to store what the actor has used.
func (u *usage) due(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return now.Sub(u.stored.at) >= storeUsage
}

// stage adds what the actor has used to b, to land with it; if alone is false, only if b writes something besides. It is for main, and turns.
func (u *usage) stage(b *batch.Batch, alone bool) {
	var m mark
	u.actor.StageUsage(b, func() (all actorstore.Usage) {
		if !alone && b.Len() == 0 {
			return all
		}
		m = u.mark()
		return u.unstored(&m)
	})
	b.OnCommit(func() {
		if !m.at.IsZero() {
			u.landed(m)
		}
	})
}

// tell tells the metrics what the actor has used since they were last told.
func (u *usage) tell() {
	if u.told == nil || u.actor == nil {
		return
	}
	m := u.mark()
	u.mu.Lock()
	more := m.since(&u.known)
	u.known = m
	u.mu.Unlock()
	u.told(&more)
}
