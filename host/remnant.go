package host

import (
	"errors"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/workflow"
)

// A remnant is what an actor leaves undone when it goes to sleep.
type remnant struct {
	life  *life
	ready bool // there is something that it would do if it were awake
	lined bool // there is something that it would do if it had a permit, for which it has a place in a line
	stuck bool // there is something that only another version of its type may do
	fresh bool // and some of it has come in this stay in memory
}

// find finds out what the actor leaves: messages that it wants or doesn't, what is to be sent,
// events whose action is missing, a workflow that its code can't go on with.
func (r *remnant) find() {
	l := r.life
	r.fresh = l.strange
	if l.queue.Len() > 0 {
		wants := r.wants()
		for _, s := range l.queue.Stats().Names {
			if s.Ready == 0 {
				continue
			}
			switch wants(s.Name) {
			case wanted:
				r.ready = true
			case wantedLater:
				r.lined = true
			default:
				r.stuck, r.fresh = true, r.fresh || s.Ready > l.found[s.Name]
			}
		}
	}
	owed := l.workflow != nil && l.workflow.owed()
	r.lined = r.lined || owed && l.inLine[partWorkflow].Load()
	r.ready = r.ready || l.out.unsent() || owed && !l.inLine[partWorkflow].Load()
	r.stuck = r.stuck || l.record.Schedule().Missing() || r.hasFlow()
}

// hasFlow says whether there is a workflow that another version of the type may go on with:
// it has no code here, or code that fails.
func (r *remnant) hasFlow() bool {
	l := r.life
	if l.workflow != nil {
		return l.workflow.stuck.Load()
	}
	if w := l.actor.Wake(); w.At.IsZero() && len(w.Tried) == 0 { // nothing is stored that it may do
		return false
	}
	snap, err := l.actor.Snapshot(l.steady)
	if err == nil {
		var left bool
		left, err = workflow.Unfinished(l.steady, snap)
		if err = errors.Join(err, snap.Close()); err == nil {
			return left
		}
	}
	l.report("look for a workflow", err)
	return true // it may be there
}

// Whether messages would give an actor something to do.
const (
	unwanted    = iota
	wanted      // at once
	wantedLater // when it has a permit
)

// wants returns whose messages would give the actor something to do: Type.Message, Type.Batch, Type.Work
// or the workflow.
func (r *remnant) wants() func(name string) int {
	l := r.life
	var s workflow.Status
	if l.workflow != nil {
		s = l.workflow.Status()
	}
	takers := l.kind.takers()
	return func(name string) int {
		if !finished(s.State) && (s.AnyName || slices.Contains(s.Names, name)) {
			return wanted
		}
		for _, t := range takers {
			switch {
			case len(t.names) > 0 && !slices.Contains(t.names, name):
			case l.inLine[t.part].Load():
				return wantedLater
			default:
				return wanted
			}
		}
		return unwanted
	}
}

// note notes in the store, in one commit that isn't waited for, what there is to say of an actor that is about to leave memory: when it must be woken,
// when it fell asleep, and what it has used. It must be woken at once if there
// is something for it to do. If there is something that its type can't do, another version of the type is to look.
func (r *remnant) note() {
	r.find()
	l := r.life
	now := l.host.clock()
	at := l.clock.Next()
	switch {
	case r.ready:
		at = now
	case !at.IsZero() && at.Before(now):
		at = now.Add(time.Second) // it was awake when that was due
	case r.lined && (at.IsZero() || at.After(now.Add(lineTime))):
		at = now.Add(lineTime)
	}
	w := actorstore.Wake{At: at}
	if r.stuck {
		l.kind.try(&w, &l.had, r.fresh, now)
	}
	var b batch.Batch
	err := l.actor.StageWake(&b, w)
	if seq := l.actor.Seq(); err == nil && seq > 0 && (seq != l.seq || now.Sub(l.woke) > briefly) {
		l.actor.StageAttributes(&b, func(at *actorstore.Attributes) error {
			at.Slept = now
			return nil
		})
		l.used.Stage(&b, true)
	}
	if err == nil {
		err = l.actor.Apply(l.steady, &b)
	}
	l.report("note that it sleeps", err) // else it is woken too early
}

// lineTime is after how long an actor that waits for a permit looks by itself whether it still has its place in the line: it is woken for that when its turn comes.
const lineTime = time.Hour

// briefly is how long an actor may have been awake of which nothing is noted that hasn't written: calls that only read cost no commit.
const briefly = time.Minute
