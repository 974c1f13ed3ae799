package conn

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// Encode returns v in CBOR, as parameters and states are kept: in the form in which
// programs in JavaScript write them with cbor-x, so that both read what the other wrote.
// Structs are encoded with their tags `cbor`, or `json` where that is missing. What can't
// be stored is ErrValue, with the place in v: NaN, an infinity, a channel, a function.
func Encode(v any) ([]byte, error) {
	b, err := cbor.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrValue, err)
	}
	return b, nil
}

// decode reads value into v.
func decode(value []byte, v any) error {
	if err := cbor.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%w: %w", ErrValue, err)
	}
	return nil
}

// Parameters returns what the client gave when it connected, in CBOR. The slice must not
// be changed.
func (c *Conn) Parameters() []byte { return c.rec.Parameters }

// State returns what the actor keeps about the connection, in CBOR. The slice must not be
// changed, and doesn't change.
func (c *Conn) State() []byte {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	return c.rec.State
}

// DecodeState reads the state into what v points to; an undefined one leaves it as it is.
// What doesn't fit is ErrValue.
func (c *Conn) DecodeState(v any) error { return decode(c.State(), v) }

// Subscriptions returns the names of the events that the connection has subscribed to, in
// the order in which it did. The slice must not be changed, and doesn't change.
func (c *Conn) Subscriptions() []string {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	return c.rec.Subscriptions
}
