package persist

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// What is done about a state that the store has no room for: it must keep neither events
// nor connections from being stored.

// ahead says whether the state in memory needs more room than the one that is stored.
//
// +checklocks:r.mu
func (r *Record) ahead() bool {
	return r.gen != r.applied && r.kept != nil && len(r.state) > len(r.kept)
}

// noRoom says whether a batch was refused for its size, so that a smaller one may land,
// and nothing of it has landed.
func noRoom(err error) bool {
	var part *batch.OrderedError
	return !errors.As(err, &part) && (errors.Is(err, actorstore.ErrQuota) || errors.Is(err, batch.ErrTooLarge))
}

// writeApart is write after it failed with err: neither must the connections keep the
// state from being stored, nor a state that is too large them.
func (r *Record) writeApart(s *save, err error) error {
	s.conns = fmt.Errorf("%w: %w", ErrConnections, err)
	err = r.write(s)
	if err == nil {
		return s.conns
	}
	if !noRoom(err) || r.connections() == 0 {
		return err
	}
	r.mu.Lock()
	larger := r.kept == nil || r.ahead() // else there is another reason
	r.mu.Unlock()
	if !larger {
		return err
	}
	return errors.Join(err, r.writeConnections(s.durable))
}

// writeConnections commits what connections have changed, without the state.
func (r *Record) writeConnections(durable bool) error {
	b := &batch.Batch{Mode: batch.Ordered}
	b.Late(r.opts.Connections.Stage)
	b.OnCommit(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.landed = r.actor.Seq(); !durable {
			r.loose = r.landed
		}
	})
	if durable {
		return r.actor.Commit(context.Background(), b)
	}
	return r.actor.Apply(context.Background(), b)
}
