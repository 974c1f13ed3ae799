package engine

import (
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// maxMessage bounds a message of a runner, in bytes.
const maxMessage = 64 << 20

// initTimeout is how long a runner may take to introduce itself.
const initTimeout = 10 * time.Second

// events takes events of actors, and acknowledges them.
//
// +checklocks:r.e.mu
func (r *runner) events(list rp.Events) {
	last := map[string]rp.Checkpoint{}
	for _, ev := range list {
		if a := r.actor(ev.Checkpoint.Actor); a != nil {
			if !a.heard(r, ev) {
				continue
			}
		} else if id, err := actorstore.ParseID(ev.Checkpoint.Actor); err == nil {
			// It isn't open, or another runner's by now.
			_, stopped := ev.Body.(rp.Stopped)
			if !stopped {
				r.disown(ev.Checkpoint.Actor, ev.Checkpoint.Generation)
			}
			if end, ok := r.e.endings[id]; stopped && (!ok || end.generation <= ev.Checkpoint.Generation) {
				r.e.endings[id] = ending{generation: ev.Checkpoint.Generation, stopped: true}
				if a := r.e.actors[id]; a != nil {
					a.notify() // it may be started here
				}
			}
		}
		last[ev.Checkpoint.Actor] = ev.Checkpoint
	}
	for _, p := range last {
		r.send(rp.AckEvents{p})
	}
}

// actor returns the actor with an id if the runner has it.
//
// +checklocks:r.e.mu
func (r *runner) actor(text string) *actor {
	id, err := actorstore.ParseID(text)
	if a := r.e.actors[id]; err == nil && a != nil && a.runner == r {
		return a
	}
	return nil
}

// stop has all actors of a runner stopped, which takes no more.
//
// +checklocks:r.e.mu
func (r *runner) stop() {
	r.stopping = true
	r.e.pools.quit(r)
	r.e.fleet.poke()
	for a := range r.actors {
		if a.phase == starting || a.phase == running {
			a.halt()
		}
	}
}

// fromActor passes on what an actor says to a client.
//
// +checklocks:r.e.mu
func (r *runner) fromActor(m rp.FromActor) {
	t := r.e.tunnels[m.ID.Tunnel]
	if t == nil || t.a.runner != r {
		return // it has ended, or another runner has it
	}
	if ack, ok := m.Body.(rp.SocketAck); ok {
		t.acknowledged(ack.Index)
		return
	}
	if _, ok := m.Body.(rp.SocketAccept); ok && t.awaits {
		t.awaits = false
		t.flush()
		return
	}
	if t.client != nil {
		t.client.take(t, m)
	}
}

// disconnect ends what doesn't outlive the connection of the runner.
//
// +checklocks:r.e.mu
func (r *runner) disconnect() {
	r.conn = nil
	r.e.pools.quit(r)
	r.e.fleet.poke()
	for a := range r.actors {
		for _, t := range a.tunnels {
			if !t.hibernates {
				t.leave(errUnknownOutcome)
			}
		}
		if r.e.draining {
			a.notify() // it isn't waited for
		}
	}
}
