package host

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/queue"
)

// A worker takes the messages of an actor's queue for Type.Work.
type worker struct{ *life }

// take is the goroutine that receives messages, and begins the work for each.
func (w worker) take() {
	work := w.kind.Work
	places := make(chan int, max(work.Concurrency, 1))
	for i := range cap(places) {
		places <- i
	}
	for {
		var place int
		select {
		case place = <-places:
		case <-w.ctx.Done():
			return
		}
		m, p, err := w.receive(place)
		if err == nil && m == nil { // another receiver was first
			places <- place
			continue
		}
		if err != nil {
			if w.ctx.Err() != nil || errors.Is(err, errAgain) || errors.Is(err, ErrNotAwake) {
				return
			}
			w.host.troubles.tell(w.log, w.host.clock(), "host: receive work", w.kind.Name, err)
			places <- place
			select {
			case <-time.After(backoff(1)):
			case <-w.ctx.Done():
				return
			}
			continue
		}
		w.sources.Go(func() {
			defer func() { places <- place }()
			defer p.release(false)
			w.do(m, p)
		})
	}
}

// receive waits for a message, and for the permits that working on it takes, and returns both, the message with a lease that has landed, while the actor is kept awake; nil
// if another receiver was first.
func (w worker) receive(place int) (m *queue.Message, p *permitSet, err error) {
	if err := w.queue.WaitFor(w.ctx, w.kind.Work.Names...); err != nil {
		return nil, nil, err
	}
	p, err = claimer(w).admit(w.ctx, w.kind.limits, partWork, place)
	if err != nil {
		return nil, nil, err
	}
	err = w.inward(w.ctx, newTurn(spanMessage, func(c *Context) error {
		got, err := c.Receive(w.kind.Work.Names...)
		if got == nil || err != nil {
			return err
		}
		if m = got.Message; !w.keep() {
			m = nil
			return ErrNotAwake
		}
		c.undo = append(c.undo, w.unkeep)
		return nil
	}))
	if err != nil || m == nil {
		p.release(m == nil)
		return nil, nil, err
	}
	return m, p, nil
}

// do works on a message, and ends its lease. Without the permits of p it is ended.
func (w worker) do(m *queue.Message, p *permitSet) {
	defer w.unkeep()
	land, err := w.work(m, p)
	ending := context.WithoutCancel(w.ctx)
	if err == nil {
		err = w.inward(ending, newTurn(spanMessage, func(c *Context) error {
			if land != nil {
				if err := land(c); err != nil {
					return err
				}
			}
			return c.Complete(m.Receipt(), nil)
		}))
		if err == nil || errors.Is(err, ErrNotAwake) || errors.Is(err, errAgain) || errors.Is(err, ErrUnknownOutcome) {
			return
		}
	}
	ended := w.ctx.Err() != nil && errors.Is(err, context.Canceled)
	if !ended {
		w.host.troubles.tell(w.log.With(slog.String("message", m.ID.String()), slog.String("name", m.Name)), w.host.clock(), "host: work", w.kind.Name, err)
		w.used.Fail(Code(err), spanWork)
	}
	if errors.Is(err, queue.ErrLeaseOver) {
		return // it comes again without being given back
	}
	err = w.inward(ending, newTurn(spanReturn, func(c *Context) error {
		if ended { // the actor does it in its next stay in memory
			return c.Nack(m.Receipt(), 0, nil)
		}
		return c.Nack(m.Receipt(), backoff(int(m.Deliveries)), errkind.WithCode(Code(err), err))
	}))
	if err != nil && !errors.Is(err, ErrNotAwake) && !errors.Is(err, errAgain) && !errors.Is(err, queue.ErrLeaseOver) {
		w.report("return a message", err)
	}
}

// work calls Type.Work while the lease is renewed.
func (w worker) work(m *queue.Message, p *permitSet) (land func(c *Context) error, err error) {
	permitted, free := p.within(withLife(w.ctx, w.life))
	defer free()
	ctx, cancel := context.WithCancelCause(permitted)
	defer cancel(nil)
	if w.traces != nil {
		inside, span := w.traces.Start(ctx, spanWork, w.spanOf(nil))
		ctx = inside
		defer func() { endSpan(span, err) }()
	}
	lease := m.Until.Sub(w.host.clock())
	renewed := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(renewed)
		for {
			select {
			case <-stop:
				return
			case <-time.After(lease / 3):
			}
			err := w.inward(ctx, newTurn(spanExtend, func(c *Context) error {
				q, err := c.Queue()
				if err != nil {
					return err
				}
				return q.Extend(c, m.Receipt(), lease)
			}))
			if errors.Is(err, queue.ErrLeaseOver) || errors.Is(err, greenroom.ErrNotFound) {
				cancel(err)
				return
			}
		}
	}()
	err = shield(func() (err error) {
		land, err = w.kind.Work.Do(ctx, m)
		return err
	})
	close(stop)
	<-renewed
	if cause := context.Cause(ctx); cause != nil && w.ctx.Err() == nil {
		return nil, cause
	}
	return land, err
}
