package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/traces"
)

func (l *course) openTraces() (err error) {
	if l.host.opts.Traces == nil {
		return nil
	}
	l.describe(l.actor.ID(), l.addr)
	l.traces, err = l.door.Traces(l.ctx)
	return err
}

func (l *course) openQueue() (err error) {
	l.queue, err = l.door.Queue(l.ctx)
	if err != nil || len(l.had.Tried) == 0 {
		return err
	}
	l.found = map[string]int{}
	for _, s := range l.queue.Stats().Names {
		l.found[s.Name] = s.Ready
	}
	return nil
}

func (l *course) openWorkflow() (err error) {
	if l.kind.Workflow == nil {
		return nil
	}
	l.workflow, err = l.kind.Workflow.open(l.life)
	return err
}

func (l *course) openVars() (err error) {
	if l.kind.Vars == nil {
		return nil
	}
	err = l.traced(spanCreateVars, func() (err error) {
		l.vars, err = l.kind.Vars(l.ctx, l.addr)
		return ran(err)
	})
	if err != nil {
		return fmt.Errorf("host: variables of %s: %w", l.name, err)
	}
	return nil
}

// start begins everything that asks for turns by itself.
func (l *course) start() {
	if err := l.record.Schedule().Start(l.ctx, events{l.life}.action); err != nil {
		l.report("start the schedule", err)
	}
	if !l.out.empty() {
		l.sources.Go(l.out.resend)
	}
	for _, in := range l.kind.intakes() {
		l.sources.Go(consumer{l.life, in}.take)
	}
	if l.kind.Work != nil {
		l.sources.Go(worker{l.life}.take)
	}
	if l.workflow != nil {
		l.sources.Go(l.workflow.drive)
	}
	l.conns.expect()
	if l.conns.missing() {
		l.sources.Go(func() { l.host.gather(l.addr) })
	}
	if l.kind.Run != nil {
		l.sources.Go(l.run)
	}
}

// run is the goroutine of the type's Run, which is begun again after a failure.
func (l *course) run() {
	for failures := 1; ; failures++ {
		began := l.host.clock()
		err := l.runOnce()
		if err == nil || l.ctx.Err() != nil {
			return
		}
		l.used.Fail(Code(err), spanRun)
		l.report("run", err)
		if l.host.clock().Sub(began) > maxBackoff {
			failures = 1
		}
		select {
		case <-time.After(backoff(failures)):
		case <-l.ctx.Done():
			return
		}
	}
}

// runOnce calls the type's Run.
func (l *course) runOnce() error {
	ctx := withLife(l.ctx, l.life)
	var span *traces.Span
	if l.traces != nil {
		ctx, span = l.traces.Start(ctx, spanRun, l.spanOf(nil))
	}
	err := shield(func() error { return l.kind.Run(ctx) })
	if l.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // it was to end
	}
	endSpan(span, err)
	return err
}
