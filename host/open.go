package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/traces"
)

// options returns those of the actor. The gate waits until what turns have written is on
// stable storage, so that its database doesn't.
func (l *life) options() *greenroom.ActorOptions {
	db := l.kind.DB
	db.Pragmas = append(slices.Clone(db.Pragmas), "synchronous=NORMAL")
	o := &greenroom.ActorOptions{
		MustExist: l.birth == nil, DB: &db, Queue: &l.kind.Queue, Traces: l.host.opts.Traces,
	}
	if l.birth != nil {
		o.Input = l.birth.input
	}
	return o
}

func (l *life) openTraces() (err error) {
	if l.host.opts.Traces == nil {
		return nil
	}
	l.describe()
	l.traces, err = l.door.Traces(l.ctx)
	return err
}

func (l *life) openConns() (err error) {
	l.conns, err = l.door.Connections(l.ctx)
	if err != nil {
		return err
	}
	for _, c := range l.conns.Conns() {
		if err := l.host.away.attach(l.name, c); err != nil {
			return err
		}
	}
	if l.host.opts.AwayTimeout > 0 {
		l.absence = l.clock.Lasting("host connections", l.missConns)
	}
	return nil
}

func (l *life) openQueue() (err error) {
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

func (l *life) openWorkflow() (err error) {
	if l.kind.Workflow == nil {
		return nil
	}
	l.workflow, err = l.kind.Workflow.open(l)
	return err
}

func (l *life) openVars() (err error) {
	if l.kind.Vars == nil {
		return nil
	}
	err = l.traced(spanCreateVars, func() (err error) {
		l.vars, err = l.kind.Vars(l.ctx, l.addr)
		return err
	})
	if err != nil {
		return fmt.Errorf("host: variables of %s: %w", l.name, err)
	}
	return nil
}

// start begins everything that asks for turns by itself.
func (l *life) start() {
	if err := l.record.Schedule().Start(l.ctx, l.alarmAction); err != nil {
		l.report("start the schedule", err)
	}
	if !l.out.empty() {
		l.sources.Go(l.resend)
	}
	if l.kind.Message != nil {
		l.sources.Go(l.takeMessages)
	}
	if l.workflow != nil {
		l.sources.Go(l.workflow.drive)
	}
	l.expect()
	if l.kind.Run != nil {
		l.sources.Go(l.run)
	}
}

// run is the goroutine of the type's Run.
func (l *life) run() {
	ctx := withLife(l.ctx, l)
	var span *traces.Span
	if l.traces != nil {
		ctx, span = l.traces.Start(ctx, spanRun, l.spanOf(nil))
	}
	err := shield(func() error { return l.kind.Run(ctx) })
	if l.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // it was to end
	}
	endSpan(span, err)
	if err != nil && l.ctx.Err() == nil {
		l.report("run", err)
	}
}
