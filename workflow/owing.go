package workflow

import (
	"sync/atomic"
	"time"
)

// A when says when a change is written.
type when uint8

const (
	// atOnce is by a commit of its own, and of whatever was deferred.
	atOnce when = iota
	// withNext is by whatever is committed next.
	withNext
	// soon is withNext, or by a commit of its own if nothing is committed within resultWait.
	soon
)

// resultWait is how long the result of a step waits for the commit of the next attempt, with which it lands. A result doesn't wait for what the
// code does, which may take long: to end, to block, to compute.
const resultWait = time.Millisecond

// An owing is the results of a run that are in memory alone. Whatever is committed next takes them along, and neither does the work of a step begin before,
// nor is anything new recorded.
type owing struct {
	added atomic.Int64 // how many there were
	taken atomic.Int64 // how many of them, from the first one on, a commit took along that landed or is under way
	paid  atomic.Int64 // how many landed
	timer *time.Timer
	// paying is a lock: a token is in it while the timer pays, and while the run ends or notes that it sleeps, which takes the results along.
	paying chan struct{}
}

// begin makes commit what the timer calls.
func (o *owing) begin(commit func()) {
	o.paying = make(chan struct{}, 1)
	o.timer = time.AfterFunc(resultWait, func() {
		defer o.lock()()
		if o.any() {
			commit()
		}
	})
	o.timer.Stop()
}

// add notes a result. One that comes while others wait puts the timer off: the attempt behind it takes all of them along, or the timer does.
func (o *owing) add() {
	o.added.Add(1)
	o.timer.Reset(resultWait)
}

// any reports whether there are results that no commit took along yet.
func (o *owing) any() bool { return o.taken.Load() < o.added.Load() }

// stored reports whether all landed.
func (o *owing) stored() bool { return o.paid.Load() == o.added.Load() }

// take is called before a commit takes what was deferred, under the actor's commit lock or while nothing adds results, and landed when it lands.
func (o *owing) take()   { o.taken.Store(o.added.Load()) }
func (o *owing) landed() { o.paid.Store(o.taken.Load()) }

// lock keeps the timer from paying until the caller calls unlock.
func (o *owing) lock() (unlock func()) {
	o.paying <- struct{}{}
	return func() { <-o.paying }
}
