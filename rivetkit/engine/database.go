package engine

import (
	"github.com/greenroomdb/greenroom/actorstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A databaseCall is a message of an envoy about the database of one of its actors.
type databaseCall struct {
	by   *runner
	m    rp.ToEngine
	size int
}

// run answers it, after what was asked of the actor before.
//
// +checklocks:c.by.e.mu
func (c databaseCall) run() {
	r, e := c.by, c.by.e
	q, text, generation := databaseRequest(c.m)
	id, err := actorstore.ParseID(text)
	a := e.actors[id]
	switch {
	case err != nil || a == nil || a.runner != r || !a.told || a.phase == asleep || a.phase == gone,
		generation.Set && generation.Value != uint64(a.rec.Generation):
		r.send(q.refuse(errNoSuchActor))
		return
	case len(a.jobs) >= maxJobs || a.jobBytes+c.size > maxJobBytes:
		r.send(q.refuse(errBusyDatabase))
		return
	}
	conn, started, life, log := r.conn, a.rec.Generation, a.span.of(e.ctx), e.log.With(a.attr())
	a.do(c.size, func() {
		if conn == nil {
			return
		}
		conn.drain(e.ctx, maxAnswers)
		conn.send(q.answer(e.ctx, a.pages.at(started, life, a.handle, e, log)))
		if !a.pages.cut {
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if a.phase == running && a.rec.Generation == started {
			a.again = true
			a.halt()
		}
	})
}
