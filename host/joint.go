package host

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A joint is where the turns of several actors meet that are one: each waits in its actor's goroutine for the others. The function runs in the turn of one of them, the
// leader, and the commits of the others lie within that of the leader: see actorstore.Joint.
type joint struct {
	names        []string      // of the actors; the leader is the first one
	all          chan struct{} // closed when every turn is taken, or none is any more
	refused      error         // why not; written before all is closed
	ran          chan struct{} // closed when the function has returned
	failed       error         // what it returned; written before ran is closed
	over         chan struct{} // closed when the leader's turn has landed, or not
	outcome      error         // of it; written before over is closed
	store        func() error  // waits for stable storage in the place of the leader; nil if that was written to, or nothing was. Written before over is closed
	synced       chan struct{} // closed when what has landed is durable, or may not be
	lost         error         // why not; written before synced is closed
	commit       *actorstore.Joint
	participants []*participant
}

// A participant is one of the turns that meet in a joint. That of a turn of one actor alone is nil.
type participant struct {
	joint  *joint
	leads  bool
	taken  chan struct{} // closed when the turn has begun
	land   chan struct{} // closed when its commit is to begin
	landed chan error    // gets what became of the commit, once
}

// newJoint returns a joint of the actors of those names.
func newJoint(names []string) *joint {
	j := &joint{names: names, all: make(chan struct{}), ran: make(chan struct{}), over: make(chan struct{}), synced: make(chan struct{})}
	for i := range names {
		j.participants = append(j.participants, &participant{joint: j, leads: i == 0, taken: make(chan struct{}), land: make(chan struct{}), landed: make(chan error, 1)})
	}
	j.commit = actorstore.NewJoint(len(names), func(i int) error {
		close(j.participants[i].land)
		return <-j.participants[i].landed
	})
	return j
}

// begin begins the turn, and returns when all are taken; an error says that they can't be.
func (p *participant) begin() error {
	close(p.taken)
	<-p.joint.all
	return p.joint.refused
}

// settle says what became of the commit of l's turn, and which gate is to wait for stable storage: that of an actor to which it wrote. The commits of the others
// end before that of the leader, one after the other.
func (p *participant) settle(l *life, err error) {
	if p == nil {
		return
	}
	if p.joint.commit.Wrote(l.actor) {
		if p.joint.store = l.gate.store; p.leads {
			p.joint.store = nil
		}
	}
	if !p.leads {
		p.landed <- err
		return
	}
	p.joint.outcome = err
	close(p.joint.over)
}

// follows says that the turn is one of several, and not the leader'p.
func (p *participant) follows() bool { return p != nil && !p.leads }

// names returns those of all actors, nil if the turn is of one.
func (p *participant) names() []string {
	if p == nil {
		return nil
	}
	return p.joint.names
}

// sync says that what has landed is durable, or why that isn't known. The leader's gate calls it.
func (j *joint) sync(lost error) {
	j.lost = lost
	close(j.synced)
}

// durable returns nil when what has landed is durable.
func (j *joint) durable() error {
	if <-j.synced; j.lost != nil && !errors.Is(j.lost, ErrUnknownOutcome) {
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, j.lost)
	}
	return j.lost
}
