package greenroom

import (
	"time"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
)

// Queue returns what the transaction does to the actor's queue, for what Tx has no method
// for: delays, leases, several messages at once.
func (tx *Tx) Queue() (*queue.Tx, error) {
	if err := tx.check(); err != nil {
		return nil, err
	}
	q, err := tx.actor.Queue(tx.ctx)
	if err != nil {
		return nil, err
	}
	if err := tx.open.due(""); err != nil {
		return nil, err
	}
	return q.In(tx.Batch()), nil
}

// Enqueue puts a message into the actor's queue and returns the ID that it has when the
// transaction lands. See queue.Tx.Enqueue.
func (tx *Tx) Enqueue(s queue.Send) (queue.ID, error) {
	q, err := tx.Queue()
	if err != nil {
		return 0, err
	}
	id, err := q.Enqueue(s)
	if err == nil {
		enqueued(tx.open.Span, s.Name, id)
	}
	return id, err
}

// Receive takes the first visible message, by priority and then by id, that has one of the names, or of any name
// without names. If the queue has none it returns nil, and doesn't wait. The message is the
// transaction's: it is leased when that lands, and comes again after the lease unless it is
// completed, now or later.
func (tx *Tx) Receive(names ...string) (*Message, error) {
	ms, err := tx.ReceiveWith(&queue.ReceiveOptions{Names: names})
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	return ms[0], nil
}

// ReceiveWith is Receive with options, of as many messages as they say.
func (tx *Tx) ReceiveWith(opts *queue.ReceiveOptions) ([]*Message, error) {
	q, err := tx.Queue()
	if err != nil {
		return nil, err
	}
	leased, err := q.Receive(tx.ctx, opts)
	ms := make([]*Message, len(leased))
	for i, m := range leased {
		ms[i] = &Message{m, tx, q}
		received(tx.open.Span, m, tx.actor.clock.Now())
	}
	return ms, err
}

// Complete removes a message that was received, by this transaction or before it, and gives
// response to the caller that waits for an answer; nil is null.
func (tx *Tx) Complete(r queue.Receipt, response any) error {
	q, err := tx.Queue()
	if err != nil {
		return err
	}
	return q.Complete(r, response)
}

// Nack gives a message that was received back, to be visible after the delay. why is the error that the attempt ended with,
// which a dead letter tells; nil is for a message that hasn't failed. See queue.Queue.Nack.
func (tx *Tx) Nack(r queue.Receipt, delay time.Duration, why error) error {
	q, err := tx.Queue()
	if err != nil {
		return err
	}
	return q.Nack(tx.ctx, r, delay, why)
}

// A Message is one that a transaction has received. Its methods are for that transaction;
// Receipt is for later ones.
type Message struct {
	*queue.Message
	tx *Tx
	in *queue.Tx
}

// Complete is Tx.Complete of the message.
func (m *Message) Complete(response any) error { return m.tx.Complete(m.Receipt(), response) }

// Settled reports whether the transaction has completed the message, given it back or
// deleted it.
func (m *Message) Settled() bool { return m.Until.IsZero() || m.in.Settled(m.ID) }

// Nack is Tx.Nack of the message.
func (m *Message) Nack(delay time.Duration, why error) error {
	return m.tx.Nack(m.Receipt(), delay, why)
}

// record returns what the transaction does to the state and to the schedule.
func (tx *Tx) record() (*persist.Tx, error) {
	if err := tx.check(); err != nil {
		return nil, err
	}
	r, err := tx.actor.Record(tx.ctx)
	if err != nil {
		return nil, err
	}
	return r.In(&tx.batch), nil
}

// Schedule has Actor.Run call the handler of the job's name when its time has come, and
// returns the id of the event. See persist.Job.
func (tx *Tx) Schedule(job persist.Job) (id string, err error) {
	r, err := tx.record()
	if err == nil {
		err = tx.open.due(job.Action)
	}
	if err != nil {
		return "", err
	}
	tx.wrote = true
	if id, err = r.Add(job); err == nil {
		scheduled(tx.open.Span, id, job)
	}
	return id, err
}

// At is Schedule of what is done once, at a time, with args.
func (tx *Tx) At(at time.Time, name string, args ...any) (id string, err error) {
	return tx.Schedule(persist.Job{Action: name, At: at, Args: args})
}

// After is At when d has passed from now on.
func (tx *Tx) After(d time.Duration, name string, args ...any) (id string, err error) {
	return tx.At(tx.actor.clock.Now().Add(d), name, args...)
}

// Cancel removes an event of the schedule, if there is one of that id.
func (tx *Tx) Cancel(id string) error {
	r, err := tx.record()
	if err != nil {
		return err
	}
	tx.wrote = true
	return r.Cancel(id)
}

// Events returns the schedule as the transaction leaves it, the next event first.
func (tx *Tx) Events() ([]persist.Event, error) {
	r, err := tx.record()
	if err != nil {
		return nil, err
	}
	return r.List()
}

// RawState returns the actor's state in CBOR as the transaction leaves it, the undefined of
// JavaScript if the actor has none. It must not be changed. See State.
func (tx *Tx) RawState() ([]byte, error) {
	r, err := tx.record()
	if err != nil {
		return nil, err
	}
	return r.RawState()
}

// SetRawState replaces the actor's state by one value in CBOR. A state that is what it was
// isn't written. See SetState.
func (tx *Tx) SetRawState(value []byte) error {
	r, err := tx.record()
	if err != nil {
		return err
	}
	tx.wrote = true
	return r.SetRawState(value)
}

// Input decodes what the actor was created with into what v points to, which stays as it is
// if that is nothing.
func (tx *Tx) Input(v any) error {
	if err := tx.check(); err != nil {
		return err
	}
	r, err := tx.actor.Record(tx.ctx)
	if err != nil || r.RawInput() == nil {
		return err
	}
	return cbor.Unmarshal(r.RawInput(), v)
}

// Connections returns what the transaction does to the actor's connections.
func (tx *Tx) Connections() (*conn.Tx, error) {
	if err := tx.check(); err != nil {
		return nil, err
	}
	s, err := tx.actor.Connections(tx.ctx)
	if err != nil {
		return nil, err
	}
	return s.In(tx.Batch()), nil
}

// Span returns the span of the transaction, whose methods may be called when it is nil: no
// spans are recorded then. What was recorded lands with the transaction, if that writes
// anything, and otherwise soon; what a transaction does that fails stays recorded, too.
func (tx *Tx) Span() *traces.Span { return tx.open.Span }
