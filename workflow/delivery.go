package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// A delivery is a message that a run knows.
type delivery struct {
	at     history.Location
	id     queue.ID
	name   string // of the entry
	data   messageData
	strand *Context // that it was received in: the code itself or a branch
	called bool     // Complete was
}

// messageData is how a message is recorded.
type messageData struct {
	Marker     int     `cbor:"__rivetWorkflowQueueMessage"`
	ID         string  `cbor:"id"`
	Name       string  `cbor:"name"`
	Body       rawCBOR `cbor:"body"`
	CreatedAt  int64   `cbor:"createdAt"` // Unix ms
	Completed  bool    `cbor:"completed"` // nothing is left to be completed
	Deliveries uint32  `cbor:"deliveries,omitempty"`
}

// rawCBOR is a value that is encoded already.
type rawCBOR []byte

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (r rawCBOR) MarshalCBOR() ([]byte, error) {
	if r == nil {
		return []byte{0xf7}, nil // undefined
	}
	return r, nil
}

// UnmarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (r *rawCBOR) UnmarshalCBOR(b []byte) error {
	*r = cbor.Keep(b)
	return nil
}

// parse reads what is recorded. What has no marker is a message that was sent by other
// means, and is complete.
func (d *delivery) parse(k history.Message) error {
	if err := cbor.Unmarshal(k.Data, &d.data); err != nil || d.data.Marker != 1 {
		d.data = messageData{Name: k.Name, Body: rawCBOR(k.Data), Completed: true}
		return cbor.Wellformed(k.Data)
	}
	id, err := queue.ParseID(d.data.ID)
	d.id = id
	return err
}

// opened notes that a message must be completed: by this run, even if an earlier one received
// it, so that the code gets the same answers in between.
func (r *run) opened(ds ...*delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range ds {
		if !d.data.Completed || d.data.Deliveries > 0 {
			r.open = append(r.open, d)
		}
	}
}

// closed forgets it.
func (r *run) closed(ds ...*delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = slices.DeleteFunc(r.open, func(d *delivery) bool { return slices.Contains(ds, d) })
}

// put has tx record d at p.
func (d *delivery) put(p *place, tx *history.Tx) error {
	data, err := cbor.Wrap(&d.data)
	if err != nil {
		return fmt.Errorf("workflow: message %s: %w", d.id, err)
	}
	return p.put(tx, history.Message{Name: d.name, Data: data}, p.completed())
}

// complete is Message.Complete.
func (c *Context) complete(d *delivery, response any) error {
	c.leaveIfOver()
	if d.called || d.id == 0 {
		return ErrCompleted
	}
	if d.data.Completed { // in an earlier run, or with its reception
		if err := storable(response); err != nil {
			return err
		}
		d.called = true
		c.r.closed(d)
		return nil
	}
	if c.r.undoing != nil {
		c.stopCollecting()
	}
	tx := c.r.wf.h.Begin()
	done := *d
	done.data.Completed = true
	err := c.commit(tx, func(b *batch.Batch) error {
		q := c.r.wf.opts.Queue
		err := q.In(b).Complete(d.receipt(), response)
		if errors.Is(err, queue.ErrLeaseOver) { // memory alone knew the lease
			err = q.In(b).Delete(d.id)
		}
		var invalid *queue.InvalidError
		switch {
		case errors.As(err, &invalid):
			return err
		case err != nil && !errors.Is(err, queue.ErrGone):
			c.r.halt(storageError(err))
			leave()
		}
		e, ok := c.r.wf.h.Get(d.at)
		p := &place{c: c, at: d.at, entry: e, found: ok}
		return done.put(p, tx)
	})
	if err != nil {
		return err
	}
	d.data.Completed, d.called = true, true
	c.r.closed(d)
	return nil
}

// storable returns the error with which the queue refuses a response.
func storable(response any) error {
	err := error(nil)
	if raw, ok := response.(queue.Raw); ok && raw != nil {
		err = cbor.Valid(raw)
	} else if !ok {
		_, err = cbor.Marshal(response)
	}
	if err != nil {
		return &queue.InvalidError{What: "response", Err: err}
	}
	return nil
}

// receipt is what entitles to complete d.
func (d *delivery) receipt() queue.Receipt {
	return queue.Receipt{ID: d.id, Deliveries: d.data.Deliveries}
}

// giveBack stages that messages become visible again which were received in a scope and
// are not completed; why is the error by which the scope has failed, nil if it hasn't. It looks at what
// is recorded.
func (w *Workflow) giveBack(ctx context.Context, b *batch.Batch, scope history.Location, why error) error {
	return w.giveBackAll(ctx, b, w.h.In(scope), why)
}

func (w *Workflow) giveBackAll(ctx context.Context, b *batch.Batch, entries []history.Entry, why error) error {
	if w.opts.Queue == nil {
		return nil
	}
	for _, e := range entries {
		k, ok := e.Kind.(history.Message)
		d := &delivery{name: k.Name}
		if !ok || d.parse(k) != nil || d.data.Completed {
			continue
		}
		err := w.opts.Queue.In(b).Nack(ctx, d.receipt(), 0, why)
		if err != nil && !errors.Is(err, queue.ErrGone) && !errors.Is(err, queue.ErrLeaseOver) {
			return err
		}
	}
	return nil
}

// leaves forgets the messages that were received in a scope which is over, and reports
// whether there are any.
func (r *run) leaves(scope history.Location) (any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.open)
	r.open = slices.DeleteFunc(r.open, func(d *delivery) bool { return d.at.Within(scope) })
	return len(r.open) < n
}
