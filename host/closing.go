package host

import "context"

// quiesce closes the parts that ask for turns, or save something.
func (l *course) quiesce() {
	ctx := context.WithoutCancel(l.ctx)
	if l.workflow != nil {
		l.report("close the workflow", l.workflow.close())
	}
	l.report("close the record", l.record.Close(ctx))
	l.report("close the connections", l.conns.close(ctx))
	if l.traces != nil {
		l.report("close the traces", l.traces.Close(ctx))
	}
}

// refuse ends turns without running them until its last user is gone.
func (l *course) refuse(stopped <-chan struct{}) {
	empty := l.empty
	for stopped != nil || empty != nil {
		select {
		case t := <-l.mailbox:
			t.finish(errAgain)
		case t := <-l.inner:
			t.finish(errAgain)
		case <-stopped:
			stopped = nil
		case <-empty:
			empty = nil
		}
	}
}

// shut closes what is open of the actor, in the reverse order of open. lost says that
// errors are to be expected.
func (l *course) shut(lost bool) {
	report := l.report
	if lost {
		report = func(string, error) {}
		l.shutLost()
	}
	if l.workflow != nil {
		l.workflow.held.keep()
	}
	if l.door != nil {
		report("close the actor", l.door.Close())
	}
	if c, ok := l.vars.(interface{ Close() error }); ok {
		l.report("close the variables", shield(c.Close))
	}
	l.cancel()
	l.end()
}

// shutLost closes the parts that quiesce closes, for an actor that didn't wake.
func (l *course) shutLost() {
	ctx := context.WithoutCancel(l.ctx)
	if l.workflow != nil {
		_ = l.workflow.close()
	}
	if l.record != nil {
		_ = l.record.Close(ctx)
	}
	if l.conns.Set != nil {
		_ = l.conns.Close(ctx)
	}
	if l.traces != nil {
		_ = l.traces.Close(ctx)
	}
}

// turnAway ends the turns that wait without running them, until the actor's last user is gone: they are for the actor as it is next.
func (l *course) turnAway() {
	line := l.host.elsewhere(l.addr)
	var last *place
	for {
		select {
		case t := <-l.mailbox:
			if line {
				last = last.next()
				t.place = last
			}
			t.finish(errAgain)
		case t := <-l.inner:
			l.exec(t)
		case <-l.empty:
			return
		}
	}
}
