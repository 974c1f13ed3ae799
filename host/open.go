package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
)

// open takes the actor over, opens everything of it that may want to be woken, and runs
// its first turns. What it has opened when it fails is shut by main.
func (l *life) open() (err error) {
	l.actor, err = l.host.store.Named(l.ctx, l.name, &actorstore.ActorOptions{MustExist: l.birth == nil})
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return ErrNoActor
	}
	if err != nil {
		return err
	}
	l.existed = l.actor.Used() > 0
	l.known = l.host.alarms.waking(l)
	l.clock = alarm.New(nil)
	for _, part := range []func() error{l.openAccount, l.openTraces, l.openConns, l.openRecord, l.openQueue, l.openOutbox, l.openWorkflow, l.openVars} {
		if err := part(); err != nil {
			return err
		}
	}
	// A workflow that isn't over sets the clock by itself.
	going := l.workflow != nil && !finished(l.workflow.Status().State)
	if l.known || going || !l.clock.Next().IsZero() {
		if err := l.markDue(); err != nil {
			return err
		}
	}
	return l.firstTurns()
}

func (l *life) openTraces() (err error) {
	if l.host.opts.Traces == nil {
		return nil
	}
	l.describe()
	l.traces, err = traces.Open(l.ctx, l.actor, l.host.opts.Traces.options(l))
	return err
}

func (l *life) openConns() (err error) {
	l.conns, err = conn.Open(l.ctx, l.actor, &conn.Options{Logger: l.log, Metrics: l.host.meter})
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

func (l *life) openRecord() (err error) {
	o := &persist.Options{Create: true, Codec: rawCodec{}, Clock: l.clock, Logger: l.log, Metrics: l.host.meter}
	if l.birth != nil && l.birth.input != nil {
		o.Input = l.birth.input
	}
	if l.record, err = persist.Open(l.ctx, l.actor, o); err != nil {
		return err
	}
	l.state, err = persist.OpenState[Raw](l.ctx, l.record, nil)
	return err
}

func (l *life) openQueue() (err error) {
	l.queue, err = queue.Open(l.ctx, l.actor, l.kind.Queue.options(l))
	return err
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

// database opens the actor's database, for its first turn that asks for it.
func (l *life) database(ctx context.Context) (*vfs.DB, error) {
	if l.db != nil {
		return l.db, nil
	}
	db, err := vfs.Open(ctx, l.actor, l.kind.DB.options(l))
	if err != nil {
		return nil, err
	}
	l.db = db
	return db, nil
}

// noteCreated is the key of the note that says that Create has landed. Its first byte is
// ownSpace, which makes it the host's.
const noteCreated = "host created"

// firstTurns runs Create, in the first turn of the actor's life, and Wake.
func (l *life) firstTurns() error {
	if l.kind.Create != nil {
		created, err := l.created()
		if err != nil {
			return err
		}
		if !created {
			if err := l.first(spanOnCreate, l.createOnce); err != nil {
				return err
			}
		}
	}
	if l.kind.Wake != nil && !l.destroy {
		return l.first(spanOnWake, l.kind.Wake)
	}
	return nil
}

func (l *life) first(name string, fn func(c *Context) error) error {
	t := newTurn(name, fn)
	apart(func() { l.exec(t) })
	return <-t.done
}

// created looks for the note that says so.
func (l *life) created() (ok bool, err error) {
	snap, err := l.actor.Snapshot(l.ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	for _, err := range snap.Notes(l.ctx, []byte(noteCreated)) {
		return err == nil, err
	}
	return false, nil
}

// createOnce has the note land with what Create does.
func (l *life) createOnce(c *Context) error {
	if err := l.kind.Create(c); err != nil {
		return err
	}
	return l.actor.StageNote(c.Batch(), []byte(noteCreated), []byte{1})
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
