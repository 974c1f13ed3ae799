package host

import (
	"container/list"
	"time"

	"github.com/greenroomdb/greenroom/alarm"
)

// A phase is where in its stay in memory an actor is. See the package comment.
type phase int

const (
	waking  phase = iota // its parts are being opened
	awake                // it takes turns
	leaving              // it goes to sleep, or was lost
	gone                 // it is not in Host.lives any more
)

// A stay is the time that an actor spends in memory: its phase, and what keeps it there. The lock of the roster guards it.
type stay struct {
	roster *roster
	name   string

	woken chan struct{} // closed when it is awake, or failed to wake
	sleep chan struct{} // closed when it is to sleep
	empty chan struct{} // closed when it is leaving and has no users
	left  chan struct{} // closed when it is gone

	phase    phase         // +checklocks:roster.mu
	users    int           // callers with turns, or about to have some  +checklocks:roster.mu
	held     int           // connections that don't hibernate, which keep it awake besides  +checklocks:roster.mu
	kept     int           // what KeepAwake keeps it awake for  +checklocks:roster.mu
	place    *list.Element // in roster.idle; nil while it isn't idle  +checklocks:roster.mu
	since    time.Time     // when it became idle  +checklocks:roster.mu
	began    time.Time     // when it was awake  +checklocks:roster.mu
	timer    *time.Timer   // +checklocks:roster.mu
	sleepers sleepers      // +checklocks:roster.mu
	alone    bool          // empty is closed  +checklocks:roster.mu

	clock *alarm.Clock // of the actor, once it is open
}

// enterAwake counts a user of l if it is awake, and says whether it is.
func (l *stay) enterAwake() bool {
	l.roster.mu.Lock()
	defer l.roster.mu.Unlock()
	if l.phase != awake {
		return false
	}
	l.roster.use(l)
	return true
}

// leave ends what enter, or enterAwake, began.
func (l *stay) leave() {
	h := l.roster
	h.mu.Lock()
	defer h.mu.Unlock()
	l.users--
	l.settle()
}

// hold adds n to what keeps the actor awake beside its users, until the same is taken
// off: connections that don't hibernate.
func (l *stay) hold(n int) {
	h := l.roster
	h.mu.Lock()
	defer h.mu.Unlock()
	l.held += n
	l.settle()
}

// settle looks whether l has anything to do. It counts as idle from now on if it hasn't,
// and goes to sleep at once if the host is being closed.
//
// +checklocks:l.roster.mu
func (l *stay) settle() {
	h := l.roster
	if l.users > 0 {
		return
	}
	switch {
	case l.phase == leaving:
		l.unused()
	case l.phase != awake:
	case h.closed:
		l.rest()
	case l.overdue():
		l.nap(soon / 10)
	case l.held+l.kept > 0:
		if l.place != nil {
			h.idle.Remove(l.place)
			l.place = nil
		}
		l.sleepers.hold()
	case l.sleepers.callers > 0:
		l.rest()
	case l.place == nil:
		l.place = h.idle.PushBack(l)
		l.since = h.clock()
		if h.evict(); l.phase == awake {
			l.nap(max(h.rest, 0))
		}
	}
}

// overdue says that something is due that the actor hasn't got round to. What it doesn't
// get round to for long can't be done, and is not to keep it awake.
//
// +checklocks:l.roster.mu
func (l *stay) overdue() bool {
	next, now := l.clock.Next(), l.roster.clock()
	if next.IsZero() || next.After(now) {
		return false
	}
	if next.Before(l.began) {
		next = l.began
	}
	return now.Sub(next) < patience
}

// patience is how long an actor is kept awake for something that is due.
const patience = 10 * time.Second

// nap looks at l again after d.
//
// +checklocks:l.roster.mu
func (l *stay) nap(d time.Duration) {
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.drowse)
		return
	}
	l.timer.Reset(d)
}

// soon is how near a time must be for an actor to stay awake until then: to wake it again
// would cost more.
const soon = time.Second

// drowse puts l to sleep if it has been idle for long enough.
func (l *stay) drowse() {
	h := l.roster
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.phase != awake || l.users > 0 {
		return
	}
	if l.place == nil {
		l.settle()
		return
	}
	next := l.clock.Next()
	left := l.since.Add(max(h.rest, 0)).Sub(h.clock())
	if !next.IsZero() {
		if until := next.Sub(h.clock()); until > 0 && until <= soon || l.overdue() {
			left = max(left, until, soon/10)
		}
	}
	if left > 0 {
		l.nap(left)
		return
	}
	l.rest()
}

// rest begins to put l to sleep, if it is awake and has no users.
//
// +checklocks:l.roster.mu
func (l *stay) rest() {
	if l.phase != awake || l.users > 0 {
		return
	}
	l.depart()
	close(l.sleep)
}

// depart ends the time in which l takes turns.
//
// +checklocks:l.roster.mu
func (l *stay) depart() {
	l.phase = leaving
	l.roster.leaving++
	if l.place != nil {
		l.roster.idle.Remove(l.place)
		l.place = nil
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.users == 0 {
		l.unused()
	}
}

// unused tells that l has its last user behind it.
//
// +checklocks:l.roster.mu
func (l *stay) unused() {
	if !l.alone {
		l.alone = true
		close(l.empty)
	}
}

// sleepers are the callers of Host.Sleep that wait. Host.mu guards them.
type sleepers struct {
	callers int           // that wait until the actor has nothing to do
	kept    chan struct{} // closed when a connection holds the actor; nil unless a caller waits
}

// hold tells the callers that a connection holds the actor.
func (b *sleepers) hold() {
	if b.kept != nil {
		close(b.kept)
		b.kept = nil
	}
}
