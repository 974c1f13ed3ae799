package greenroom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
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

	mu        sync.Mutex
	handlers  map[string]handler // +checklocks:mu
	changed   chan struct{}      // closed when there is another handler, and replaced  +checklocks:mu
	unhandled map[string]bool    // names of which it was logged that they have no handler  +checklocks:mu
	begun     bool               // +checklocks:mu
	ended     bool               // nothing is run any more  +checklocks:mu
	end       context.CancelFunc // ends run, nil while it hasn't begun  +checklocks:mu
	runs      sync.WaitGroup
}

func newDeliveries(a *Actor) *deliveries {
	return &deliveries{actor: a, handlers: map[string]handler{}, changed: make(chan struct{}), unhandled: map[string]bool{}}
}

// handle sets the handler of a name.
func (d *deliveries) handle(name string, h handler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handlers[name] = h
	close(d.changed)
	d.changed = make(chan struct{})
}

// handler returns what is called for a name, nil for nothing, which is logged once.
func (d *deliveries) handler(name string) handler {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.handlers[name]
	if h == nil && !d.unhandled[name] {
		d.unhandled[name] = true
		d.actor.log.Warn("greenroom: there is no handler: what is for it stays", slog.String("handler", name))
	}
	return h
}

// names returns those that have handlers, and what tells that there are others.
func (d *deliveries) names() (names []string, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.handlers)), d.changed
}

// begin returns a context that ends with close.
func (d *deliveries) begin(ctx context.Context) (context.Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ended:
		return nil, ErrClosed
	case d.begun:
		return nil, fmt.Errorf("greenroom: run of %q: %w", d.actor.Name(), persist.ErrStarted)
	}
	d.begun = true
	ctx, d.end = context.WithCancel(ctx)
	d.runs.Add(1)
	return ctx, nil
}

// close ends what run does, and waits for it.
func (d *deliveries) close() {
	d.mu.Lock()
	d.ended = true
	if d.end != nil {
		d.end()
	}
	d.mu.Unlock()
	d.runs.Wait()
}

// run delivers until ctx is done.
func (d *deliveries) run(outer context.Context) error {
	a := d.actor
	q, err := a.Queue(outer)
	if err != nil {
		return err
	}
	r, err := a.Record(outer)
	if err != nil {
		return err
	}
	ctx, err := d.begin(outer)
	if err != nil {
		return err
	}
	defer d.runs.Done()
	defer d.end()
	for _, n := range q.Stats().Names {
		d.handler(n.Name)
	}
	var firing sync.WaitGroup
	defer firing.Wait()
	err = r.Schedule().Start(ctx, func(action string) persist.Action {
		h := d.handler(action)
		if h == nil {
			return nil
		}
		firing.Add(1)
		return func(_ context.Context, f *persist.Firing) error {
			defer firing.Done()
			return fire(context.WithoutCancel(ctx), r, a, h, f)
		}
	})
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

// takeMessages calls handlers for messages until ctx is done.
func (d *deliveries) takeMessages(ctx context.Context, q *queue.Queue) error {
	for {
		if err := d.awaitMessage(ctx, q); err != nil {
			return err
		}
		err := d.takeMessage(ctx, d.deliver)
		if err == nil || ctx.Err() != nil {
			continue
		}
		d.actor.log.Error("greenroom: message", slog.Any("error", err))
		// Nothing of the transaction has landed, the receipt neither: what is given back now
		// is the message that failed, the oldest one.
		if err := d.takeMessage(ctx, func(_ *Tx, m *Message) error { return m.Nack(pause(int(m.Deliveries))) }); err != nil {
			return err
		}
	}
}

// pause is how long a message waits after attempts that failed.
func pause(attempts int) time.Duration {
	return min(time.Second<<min(max(attempts-1, 0), 10), 5*time.Minute)
}

// awaitMessage returns nil when there is a message that has a handler.
func (d *deliveries) awaitMessage(ctx context.Context, q *queue.Queue) error {
	for {
		names, changed := d.names()
		if len(names) == 0 {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		waiting, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(ctx, cancel)
		done := make(chan struct{})
		go func() {
			defer close(done)
			select {
			case <-changed:
				cancel()
			case <-waiting.Done():
			}
		}()
		err := q.WaitFor(waiting, names...)
		cancel()
		stop()
		<-done
		if !errors.Is(err, context.Canceled) || ctx.Err() != nil {
			return err
		}
	}
}

// takeMessage runs fn in a transaction that has received a message which has a handler.
func (d *deliveries) takeMessage(ctx context.Context, fn func(tx *Tx, m *Message) error) error {
	names, _ := d.names()
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
			err = fmt.Errorf("greenroom: a handler panicked: %v", p)
		}
	}()
	return fn()
}
