package conn

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/batch"
)

// Disconnect removes the connection: from memory, whatever else happens; OnDisconnect is
// called; then its record is deleted, and that is on stable storage when Disconnect returns
// nil. No save that was staged before brings the record back.
//
// A delete that fails is a *DeleteError, and is tried again with every save; Undeleted
// lists those that are left. A second Disconnect is ErrGone.
func (s *Set) Disconnect(ctx context.Context, c *Conn, reason string) error {
	if err := s.remove(c); err != nil {
		return err
	}
	s.goodbye(ctx, c, reason)
	if c.ephemeral {
		return nil
	}
	err := s.save(ctx, c)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.deleteErr == nil {
		c.deleteErr = err // the context's
	}
	s.opts.Logger.Warn("the record of a connection could not be deleted, and will be with the next save",
		"actor", s.actor.ID().String(), "connection", string(c.rec.ID), "error", c.deleteErr)
	s.arm(s.opts.Interval)
	return &DeleteError{c.rec.ID, c.tries, c.deleteErr}
}

// remove takes c out of memory, and has its record deleted by the next that writes.
func (s *Set) remove(c *Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removeLocked(c)
}

// +checklocks:s.mu
func (s *Set) removeLocked(c *Conn) error {
	switch {
	case s.closed:
		return ErrClosed
	case c.gone:
		return fmt.Errorf("%w: %s", ErrGone, c.rec.ID)
	}
	s.leave(c)
	if !c.ephemeral {
		// Even if nothing is stored: a save that is being committed may have it.
		s.deletes[c.rec.ID] = c
	}
	return nil
}

// goodbye calls OnDisconnect.
func (s *Set) goodbye(ctx context.Context, c *Conn, reason string) {
	if s.opts.OnDisconnect == nil {
		return
	}
	if err := s.opts.OnDisconnect(ctx, c, reason); err != nil {
		s.opts.Logger.Error("what was to be done about a connection that is gone went wrong",
			"actor", s.actor.ID().String(), "connection", string(c.rec.ID), "error", err)
	}
}

// part says goodbye to connections that are gone because the Set is closed, all at once,
// and waits for that as long as Options.PartingTime.
func (s *Set) part(ctx context.Context, conns []*Conn) {
	if s.opts.OnDisconnect == nil || len(conns) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.PartingTime)
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() { s.goodbye(ctx, c, "actor stopped") })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
		cancel()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// StageDisconnect has b remove the connection: from memory and from the store when b
// lands, not at all if it doesn't. OnDisconnect is not called, since what there is to be
// done can be staged as well. Until b is settled, a second StageDisconnect is ErrLeaving;
// a Disconnect removes the connection at once.
//
// Errors: ErrGone, ErrLeaving, ErrClosed, and the actor's; nothing is staged then.
func (s *Set) StageDisconnect(b *batch.Batch, c *Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkLocked(); err != nil {
		return err
	}
	switch {
	case c.gone:
		return fmt.Errorf("%w: %s", ErrGone, c.rec.ID)
	case c.leaving:
		return fmt.Errorf("%w: %s", ErrLeaving, c.rec.ID)
	}
	c.leaving = true
	b.Late(func(b *batch.Batch) error { return s.stageDelete(b, c) })
	b.OnAbort(func(error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.leaving = false
	})
	return nil
}

// stageDelete is called by b when it is sealed.
func (s *Set) stageDelete(b *batch.Batch, c *Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	c.deleting = true
	b.OnAbort(func(reason error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.deleting = false
		if isPart(reason) {
			c.prior = batch.PriorUnknown
			if !c.gone {
				c.mark(s.opts.Interval) // its record may be gone, and it isn't
			}
		}
	})
	b.OnCommit(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.prior = batch.Absent
		s.lastLanded = s.actor.Seq()
		delete(s.deletes, c.rec.ID)
		if !c.gone {
			s.leave(c)
		}
	})
	if !c.ephemeral {
		// Where nothing is stored there may be a record before it in this very batch.
		b.DeletePrior(key(c.rec.ID), c.prior)
	}
	return nil
}

// Cleanup disconnects the connections that hibernate and have no transport, and returns
// how many those were: when an actor has woken and gateways have reported who is still
// there, the others are gone. If their records could not be deleted the error says why,
// and they will be with the next save.
func (s *Set) Cleanup(ctx context.Context, reason string) (n int, err error) {
	s.mu.Lock()
	list := s.sorted(func(c *Conn) bool { return !c.ephemeral && c.transport == nil })
	for _, c := range list {
		if err := s.removeLocked(c); err != nil {
			s.mu.Unlock()
			return 0, err
		}
	}
	s.mu.Unlock()
	for _, c := range list {
		s.goodbye(ctx, c, reason)
	}
	if len(list) == 0 {
		return 0, nil
	}
	if err := s.save(ctx, nil); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.arm(s.opts.Interval)
		return len(list), fmt.Errorf("%w: %w", ErrDelete, err)
	}
	return len(list), nil
}

// Undeleted returns what is known of the connections that are gone and whose records could
// not be deleted so far, in the order of their ids.
func (s *Set) Undeleted() []*DeleteError {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*DeleteError
	for _, c := range s.deletes {
		if c.deleteErr != nil {
			list = append(list, &DeleteError{c.rec.ID, c.tries, c.deleteErr})
		}
	}
	slices.SortFunc(list, func(a, b *DeleteError) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
