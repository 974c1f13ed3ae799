package host

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A joint is where the turns of several actors meet that are one: each waits in its actor's goroutine for the others. The function runs in the turn of one of them, the
// leader, and the commits of the others lie within that of the leader: see actorstore.Joint.
type joint struct {
	names   []string      // of the actors; the leader is the first one
	all     chan struct{} // closed when every turn is taken, or none is any more
	refused error         // why not; written before all is closed
	ran     chan struct{} // closed when the function has returned
	failed  error         // what it returned; written before ran is closed
	over    chan struct{} // closed when the leader's turn has landed, or not
	outcome error         // of it; written before over is closed
	store   func() error  // waits for stable storage in the place of the leader; nil if that was written to, or nothing was. Written before over is closed
	synced  chan struct{} // closed when what has landed is durable, or may not be
	lost    error         // why not; written before synced is closed
	commit  *actorstore.Joint
	seats   []*seat
}

// A seat is that of a turn in a joint. The seat of a turn of one actor is nil.
type seat struct {
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
		j.seats = append(j.seats, &seat{joint: j, leads: i == 0, taken: make(chan struct{}), land: make(chan struct{}), landed: make(chan error, 1)})
	}
	j.commit = actorstore.NewJoint(len(names), func(i int) error {
		close(j.seats[i].land)
		return <-j.seats[i].landed
	})
	return j
}

// sit begins the turn, and returns when all are taken; an error says that they can't be.
func (s *seat) sit() error {
	close(s.taken)
	<-s.joint.all
	return s.joint.refused
}

// settle says what became of the commit of l's turn, and which gate is to wait for stable storage: that of an actor to which it wrote. The commits of the others
// end before that of the leader, one after the other.
func (s *seat) settle(l *life, err error) {
	if s == nil {
		return
	}
	if s.joint.commit.Wrote(l.actor) {
		if s.joint.store = l.gate.store; s.leads {
			s.joint.store = nil
		}
	}
	if !s.leads {
		s.landed <- err
		return
	}
	s.joint.outcome = err
	close(s.joint.over)
}

// follows says that the turn is one of several, and not the leader's.
func (s *seat) follows() bool { return s != nil && !s.leads }

// names returns those of all actors, nil if the turn is of one.
func (s *seat) names() []string {
	if s == nil {
		return nil
	}
	return s.joint.names
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
