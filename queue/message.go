package queue

import (
	"context"
	"time"
)

// A Message is one that was received. It is its receiver's own.
type Message struct {
	ID      ID
	Name    string
	Body    Raw
	Created time.Time // when it was enqueued, to the millisecond
	// Deliveries is how often the message was handed out, this time included.
	Deliveries uint32
	// From is the actor that sent the message, for people to read, and "" if that isn't known: it is kept in memory, and stored with
	// the first attempt that fails.
	From string
	// Failure is what is known of the attempts before this one.
	Failure Failure
	// Until is the end of the lease; zero if the message was received at most once, and
	// is gone.
	Until time.Time

	q     *committer
	grant *grant
}

// Receipt returns what entitles to settle the message. It may be another one, as good,
// when the lease has come to stable storage.
func (m *Message) Receipt() Receipt {
	r := Receipt{ID: m.ID, Deliveries: m.Deliveries}
	if m.grant != nil && !m.grant.durable(m.q.durable.Load()) { // nil: a test made it up
		r.Nonce = m.grant.nonce
	}
	return r
}

// Decode decodes the body into what v points to: structs and maps for objects, with tags
// of `cbor` or `json`; null and undefined leave it as it is.
func (m *Message) Decode(v any) error { return m.Body.Decode(v) }

// Complete is Queue.Complete for this message.
func (m *Message) Complete(ctx context.Context, response any) error {
	return m.q.commit(ctx, func(tx *Tx) error { return tx.Complete(m.Receipt(), response) })
}

// Nack is Queue.Nack for this message.
func (m *Message) Nack(ctx context.Context, delay time.Duration, why error) error {
	return m.q.commit(ctx, func(tx *Tx) error { return tx.Nack(ctx, m.Receipt(), delay, why) })
}
