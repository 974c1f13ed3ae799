// Package metering counts what an actor uses during its stay in memory: turns, failures, bytes written, rows read and the time itself.
//
// It counts in memory. The process that has the actor stores the counts with the commit that notes that the actor sleeps, and every storeEvery of one that
// stays awake and is used: a crash loses what was counted since.
package metering

import (
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// storeEvery is after how long Due says that it is time to store what the actor used.
const storeEvery = 5 * time.Minute

// A Stay is what an actor uses while a process has it. The zero value is one that hasn't begun. Its methods are safe for concurrent use after the first
// Begin.
type Stay struct {
	// Set by Begin.
	actor *actorstore.Actor
	clock func() time.Time
	told  func(more *actorstore.Usage) // to the metrics; nil without any

	mu     sync.Mutex
	since  time.Time        // when the actor awoke, zero while it sleeps  +checklocks:mu
	before time.Duration    // for how long it was awake before that  +checklocks:mu
	fresh  actorstore.Usage // turns and failures that no commit was given  +checklocks:mu
	given  actorstore.Usage // those that a commit was given, and that no landed one has  +checklocks:mu
	stored mark             // up to where all else is stored  +checklocks:mu
	known  mark             // up to where told was told of it  +checklocks:mu
}

// A mark is a point of an actor's stay.
type mark struct {
	awake         time.Duration
	written, rows int64 // by the handle
}

// from returns what an actor has used from o to m, and nothing if m is the older mark, as a clock may be set back.
func (m *mark) from(o *mark) actorstore.Usage {
	return actorstore.Usage{
		Awake:   max(m.awake-o.awake, 0).Truncate(time.Millisecond),
		Written: max(m.written-o.written, 0),
		Rows:    max(m.rows-o.rows, 0),
	}
}

// now returns where the actor is.
//
// +checklocks:u.mu
func (u *Stay) now() mark { return mark{u.awake(u.clock()), u.actor.Written(), u.actor.Rows()} }

// awake returns for how long the actor was awake until t.
//
// +checklocks:u.mu
func (u *Stay) awake(t time.Time) time.Duration {
	if u.since.IsZero() {
		return u.before
	}
	return u.before + t.Sub(u.since)
}

// Begin says that a is awake from now on, by the clock. Tell calls told with what a uses, unless told is nil. Begin may be called again after Sleep, with the
// same arguments.
func (u *Stay) Begin(a *actorstore.Actor, clock func() time.Time, told func(more *actorstore.Usage)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.actor == nil {
		u.actor, u.clock, u.told = a, clock, told
		u.stored = u.now()
		u.known = u.stored
	}
	now := clock()
	u.before, u.since = u.awake(now), now
}

// Sleep says that the actor isn't awake any more. What isn't stored then may be stored later.
func (u *Stay) Sleep() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.actor != nil {
		u.before, u.since = u.awake(u.clock()), time.Time{}
	}
}

// Turn counts a turn.
func (u *Stay) Turn() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fresh.Turns++
}

// Fail counts that something failed: code says how, and place where, as actorstore.Failure has them.
func (u *Stay) Fail(code, place string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fresh.Fail(actorstore.Failure{Code: code, Place: place, Count: 1, Last: u.clock()})
}

// Unstored returns what isn't stored by now.
func (u *Stay) Unstored() actorstore.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := u.now()
	all := m.from(&u.stored)
	all.Add(&u.given)
	all.Add(&u.fresh)
	return all
}

// Due says whether what the actor has used waits for long, at the time now.
func (u *Stay) Due(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.awake(now)-u.stored.awake >= storeEvery
}

// Stage adds what the actor has used to b, to land with it; if alone is false, only if b writes something besides. What it adds is of when b is committed. One
// batch at a time may have it.
func (u *Stay) Stage(b *batch.Batch, alone bool) {
	var m mark
	gave := false
	u.actor.StageUsage(b, func() (all actorstore.Usage) {
		if !alone && b.Len() == 0 {
			return all
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		m, gave = u.now(), true
		u.given.Add(&u.fresh)
		u.fresh = actorstore.Usage{}
		all = m.from(&u.stored)
		all.Add(&u.given)
		return all
	})
	b.OnCommit(func() {
		if gave {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.given, u.stored = actorstore.Usage{}, m
		}
	})
}

// Tell tells the metrics what the actor has used since they were last told, but for turns and failures.
func (u *Stay) Tell() {
	if u.told == nil {
		return
	}
	u.mu.Lock()
	m := u.now()
	more := m.from(&u.known)
	u.known = m
	u.mu.Unlock()
	u.told(&more)
}
