package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// An ID is the place of a message in its queue. Ids count from 1, and none is ever given
// twice. That is so for one that was reserved for a batch that didn't land, too, as long
// as the queue is open, and for good once another message was enqueued.
type ID uint64

// lastID is the last that is given; after that, at a thousand million a second in three
// hundred years, there are none. What is stored with a higher one was not given by
// counting.
const lastID = ID(math.MaxInt64)

// String is the number in decimal.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 10) }

// ParseID returns the ID that has the text; ErrID if none has.
func ParseID(text string) (ID, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || ID(n).String() != text {
		return 0, fmt.Errorf("%w: %.80q", ErrID, text)
	}
	return ID(n), nil
}

// Raw is a value as it is stored, in CBOR. As the body of a message or a response it is
// taken as it is. The nil Raw is JavaScript's undefined.
type Raw []byte

// Decode decodes the value into what v points to, as Message.Decode does.
func (r Raw) Decode(v any) error {
	if r == nil {
		r = undefined
	}
	if err := cbor.Unmarshal(r, v); err != nil {
		return fmt.Errorf("queue: decode: %w", err)
	}
	return nil
}

var undefined = Raw{0xf7}

// A Message is one that was received. It is its receiver's own.
type Message struct {
	ID      ID
	Name    string
	Body    Raw
	Created time.Time // when it was enqueued, to the millisecond
	// Deliveries is how often the message was handed out, this time included.
	Deliveries uint32
	// Until is the end of the lease; zero if the message was received at most once, and
	// is gone.
	Until time.Time

	q     *Queue
	grant *grant
}

// Receipt returns what entitles to settle the message. It may be another one, as good,
// when the lease has come to stable storage.
func (m *Message) Receipt() Receipt {
	r := Receipt{ID: m.ID, Deliveries: m.Deliveries}
	if m.grant != nil && !m.grant.durable(m.q) { // nil: a test made it up
		r.Nonce = m.grant.nonce
	}
	return r
}

// Decode decodes the body into what v points to: structs and maps for objects, with tags
// of `cbor` or `json`; null and undefined leave it as it is.
func (m *Message) Decode(v any) error { return m.Body.Decode(v) }

// Complete is Queue.Complete for this message.
func (m *Message) Complete(ctx context.Context, response any) error {
	return m.q.Complete(ctx, m.Receipt(), response)
}

// Nack is Queue.Nack for this message.
func (m *Message) Nack(ctx context.Context, delay time.Duration) error {
	return m.q.Nack(ctx, m.Receipt(), delay)
}

// encodeValue returns v in CBOR; what says what it is, for an error.
func encodeValue(v any, what string) (Raw, error) {
	if raw, ok := v.(Raw); ok {
		if raw == nil {
			return undefined, nil
		}
		if err := cbor.Valid(raw); err != nil {
			return nil, &InvalidError{What: what, Err: err}
		}
		return raw, nil
	}
	b, err := cbor.Marshal(v)
	if err != nil {
		invalid := &InvalidError{What: what, Err: err}
		var at *cbor.ValueError
		if errors.As(err, &at) {
			invalid.Path = at.Path
		}
		return nil, invalid
	}
	return b, nil
}
