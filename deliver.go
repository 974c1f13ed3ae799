package greenroom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
)

// A Delivery is why a handler is called: a message of the queue, or an event of the schedule
// that is due.
type Delivery struct {
	Name    string
	Attempt int            // from 1
	Message *Message       // nil for an event
	Event   *persist.Event // nil for a message
	arg     []byte         // the body of the message, or the first argument of the event
}

// Decode decodes the body of the message, or the first argument of the event, into what v
// points to; without one v stays as it is.
func (d *Delivery) Decode(v any) error {
	if d.arg == nil {
		return nil
	}
	return cbor.Unmarshal(d.arg, v)
}

// A handler is called for what has its name.
type handler func(tx *Tx, d *Delivery) error

// deliveries call an actor's handlers.
type deliveries struct {
	actor *Actor

	mu       sync.Mutex
	handlers map[string]handler // +checklocks:mu
	// renew ends the waits that began with fewer handlers, and schedule is what looks again
	// for them; nil while nothing runs.
	renew    context.CancelFunc // +checklocks:mu
	schedule *persist.Schedule  // +checklocks:mu
	running  bool               // from the start of run until each function that it called has returned  +checklocks:mu
	closed   bool               // no handler is called any more  +checklocks:mu
	end      context.CancelFunc // ends run, nil while it doesn't call handlers  +checklocks:mu
	runs     sync.WaitGroup     // run, and the handlers that it has called
}

// handle sets the handler of a name.
func (d *deliveries) handle(name string, h handler) {
	d.mu.Lock()
	d.handlers[name] = h
	schedule := d.schedule
	if d.renew != nil {
		d.renew()
	}
	d.mu.Unlock()
	if schedule != nil {
		schedule.Reconsider()
	}
}

// handler returns what is called for a name, nil for nothing.
func (d *deliveries) handler(name string) handler {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.handlers[name]
}

// begin returns a context that ends with close, and with finish.
func (d *deliveries) begin(ctx context.Context, s *persist.Schedule) (context.Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, ErrClosed
	case d.running:
		return nil, fmt.Errorf("greenroom: run of %q: %w", d.actor.Name(), persist.ErrStarted)
	}
	d.running, d.schedule = true, s
	ctx, d.end = context.WithCancel(ctx)
	d.runs.Add(1)
	return ctx, nil
}

// finish ends what begin began: it lets no further handler be called, waits for those that
// are, and then lets the next run begin.
func (d *deliveries) finish() {
	d.mu.Lock()
	d.end()
	d.end = nil
	d.mu.Unlock()
	d.runs.Done()
	d.runs.Wait()
	d.mu.Lock()
	d.running, d.schedule = false, nil
	d.mu.Unlock()
}

// stop lets no further handler be called.
func (d *deliveries) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.end != nil {
		d.end()
	}
}

// close ends what run does, and waits for it.
func (d *deliveries) close() {
	d.stop()
	d.runs.Wait()
}

// run delivers until ctx is done.
func (d *deliveries) run(outer context.Context) error {
	a := d.actor
	if outer.Err() != nil {
		return a.check()
	}
	q, err := a.Queue(outer)
	if err != nil {
		return err
	}
	r, err := a.Record(outer)
	if err != nil {
		return err
	}
	ctx, err := d.begin(outer, r.Schedule())
	if err != nil {
		return err
	}
	defer d.finish()
	d.runs.Go(func() { d.reportOthers(ctx, q) })
	err = r.Schedule().Start(ctx, func(action string) persist.Action { return d.action(ctx, r, action) })
	if err == nil {
		err = d.takeMessages(ctx, q)
	}
	switch {
	case a.Err() != nil:
		return a.Err()
	case outer.Err() != nil:
		return nil
	case ctx.Err() != nil:
		return ErrClosed
	}
	return err
}

// action returns what an event calls, nil for nothing; close waits until it has returned.
func (d *deliveries) action(ctx context.Context, r *persist.Record, name string) persist.Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.handlers[name]
	if h == nil || ctx.Err() != nil {
		return nil
	}
	d.runs.Add(1)
	return func(_ context.Context, f *persist.Firing) error {
		defer d.runs.Done()
		return fire(context.WithoutCancel(ctx), r, d.actor, h, f)
	}
}

// fire calls the handler of an event.
func fire(ctx context.Context, r *persist.Record, a *Actor, h handler, f *persist.Firing) error {
	d := &Delivery{Name: f.Event.Action, Attempt: f.Attempt, Event: &f.Event}
	if err := f.Arg(0, (*rawArg)(&d.arg)); err != nil {
		return err
	}
	return a.Update(ctx, func(tx *Tx) error {
		if err := r.In(tx.Batch()).Done(f); err != nil {
			return err
		}
		return h(tx, d)
	})
}

// A rawArg is an argument that isn't decoded yet.
type rawArg []byte

// UnmarshalCBOR keeps the bytes.
func (r *rawArg) UnmarshalCBOR(b []byte) error {
	*r = cbor.Keep(b)
	return nil
}

// A messageLoop calls the handlers of messages.
type messageLoop struct {
	*deliveries
	ctx    context.Context
	queue  *queue.Queue
	called *Message   // the message whose handler was called last
	over   chan error // gets why the loop has ended, once
}

// takeMessages calls handlers for messages until ctx is done.
func (d *deliveries) takeMessages(ctx context.Context, q *queue.Queue) error {
	l := &messageLoop{deliveries: d, ctx: ctx, queue: q, over: make(chan error, 1)}
	go l.run(nil)
	return <-l.over
}

// run goes on after a handler has failed with that error, which may be nil. A handler may end the goroutine that it is called
// on, which rolls its transaction back: another goroutine goes on then.
func (l *messageLoop) run(failed error) {
	returned := false
	defer func() {
		if !returned {
			go l.run(errPanic)
		}
	}()
	var err error
	if failed != nil {
		err = l.giveBack(failed)
	}
	for err == nil {
		err = l.next()
	}
	returned = true
	l.over <- err
}

// next waits for a message, and calls its handler.
func (l *messageLoop) next() error {
	names, err := l.awaitMessage(l.ctx, l.queue)
	if err != nil {
		return err
	}
	l.called = nil
	err = l.takeMessage(l.ctx, names, func(tx *Tx, m *Message) error {
		l.called = m
		return l.deliver(tx, m)
	})
	if err == nil || l.called == nil {
		return err
	}
	return l.giveBack(err)
}

// giveBack gives the message back whose handler has failed. Nothing of the handler's transaction has landed, the receipt
// neither: the message comes again at once, unless an older one has become visible meanwhile.
func (l *messageLoop) giveBack(failed error) error {
	called := l.called
	if called == nil {
		return failed
	}
	l.actor.log.Error("greenroom: a message's handler failed",
		slog.String("handler", called.Name), slog.Any("message", called.ID), slog.Any("error", failed))
	err := l.takeMessage(l.ctx, []string{called.Name}, func(_ *Tx, m *Message) error {
		if m.ID != called.ID {
			return errOther
		}
		return m.Nack(pause(int(m.Deliveries)), failed)
	})
	if err == errOther {
		return nil
	}
	return err
}

// errOther: it is another message than the one that is to be given back.
var errOther = errors.New("greenroom: another message")

// pause is how long a message waits after attempts that failed.
func pause(attempts int) time.Duration {
	return min(time.Second<<min(max(attempts-1, 0), 10), 5*time.Minute)
}

// awaitMessage returns when there is a message that has a handler, with the names of those
// that have one.
func (d *deliveries) awaitMessage(ctx context.Context, q *queue.Queue) ([]string, error) {
	for {
		waiting, renew := context.WithCancel(ctx)
		d.mu.Lock()
		names := slices.Collect(maps.Keys(d.handlers))
		d.renew = renew
		d.mu.Unlock()
		var err error
		if len(names) > 0 {
			err = q.WaitFor(waiting, names...)
		} else {
			<-waiting.Done()
		}
		renewed := waiting.Err() != nil
		renew()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !renewed:
			return names, err
		}
	}
}

// reportOthers logs, once for each name, that a message has no handler.
func (d *deliveries) reportOthers(ctx context.Context, q *queue.Queue) {
	var known []string
	for {
		name, err := q.WaitForOther(ctx, known...)
		if err != nil {
			return // the queue, or the wait, is over
		}
		known = append(known, name)
		if d.handler(name) == nil && d.actor.workflow.Load() == nil { // which may receive it
			d.actor.log.Warn("greenroom: there is no handler of that name: its messages stay", slog.String("handler", name))
		}
	}
}

// takeMessage runs fn in a transaction that has received a message with one of the names,
// if there is one.
func (d *deliveries) takeMessage(ctx context.Context, names []string, fn func(tx *Tx, m *Message) error) error {
	return d.actor.Update(context.WithoutCancel(ctx), func(tx *Tx) error {
		m, err := tx.Receive(names...)
		if err != nil || m == nil {
			return err
		}
		return fn(tx, m)
	})
}

// deliver calls the handler of a message, and completes it.
func (d *deliveries) deliver(tx *Tx, m *Message) error {
	h := d.handler(m.Name)
	to := &Delivery{Name: m.Name, Attempt: int(m.Deliveries), Message: m, arg: m.Body}
	if err := guard(func() error { return h(tx, to) }); err != nil || m.Settled() {
		return err
	}
	return m.Complete(nil)
}

// guard calls fn, and makes an error of a panic.
func guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errkind.WithCode("panic", fmt.Errorf("greenroom: a handler panicked: %v\n%s", p, debug.Stack()))
		}
	}()
	return fn()
}
