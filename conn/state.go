package conn

import (
	"bytes"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

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

// DecodeParameters reads the parameters into what v points to; undefined ones leave it as
// it is. What doesn't fit is ErrValue.
func (c *Conn) DecodeParameters(v any) error { return decode(c.rec.Parameters, v) }

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

// SetState replaces the state by v, as Encode encodes it. It is saved soon, unless it is
// what it was. After an error the state is as it was: ErrValue, ErrTooLarge, ErrGone,
// ErrClosed, and the actor's.
func (c *Conn) SetState(v any) error {
	value, err := Encode(v)
	if err != nil {
		return err
	}
	c.stating.Lock()
	defer c.stating.Unlock()
	return c.replaceState(value)
}

// SetRawState is SetState for a value that is in CBOR already; nil means undefined. The
// slice is not retained.
func (c *Conn) SetRawState(value []byte) error {
	value = orUndefined(value)
	if err := cbor.Wellformed(value); err != nil {
		return fmt.Errorf("%w: %w", ErrValue, err)
	}
	c.stating.Lock()
	defer c.stating.Unlock()
	return c.replaceState(value)
}

// Mutate has fn change the state of c, which it is given decoded; the zero T if the state
// is undefined. Nobody else changes it meanwhile; fn must not change it in other ways
// than through its argument. An error of fn leaves it as it was. Errors are fn's and those
// of SetState.
func Mutate[T any](c *Conn, fn func(state *T) error) error {
	c.stating.Lock()
	defer c.stating.Unlock()
	var state T
	if err := c.DecodeState(&state); err != nil {
		return err
	}
	if err := fn(&state); err != nil {
		return err
	}
	value, err := Encode(state)
	if err != nil {
		return err
	}
	return c.replaceState(value)
}

// replaceState takes value over.
func (c *Conn) replaceState(value []byte) error {
	return c.change(func() error {
		if bytes.Equal(value, c.rec.State) {
			return nil
		}
		next := c.rec
		next.State = value
		return c.become(next, c.set.opts.Interval)
	})
}

// Subscriptions returns the names of the events that the connection has subscribed to, in
// the order in which it did. The slice must not be changed, and doesn't change.
func (c *Conn) Subscriptions() []string {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	return c.rec.Subscriptions
}

// Subscribe adds an event, and has that saved at once; if it is there already nothing
// happens. Errors: ErrInfo for a name that isn't UTF-8, ErrTooLarge, ErrGone, ErrClosed,
// and the actor's.
func (c *Conn) Subscribe(event string) error {
	return c.change(func() error {
		if slices.Contains(c.rec.Subscriptions, event) {
			return nil
		}
		if !utf8.ValidString(event) {
			return fmt.Errorf("%w: the event %.80q is not UTF-8", ErrInfo, event)
		}
		next := c.rec
		next.Subscriptions = append(slices.Clip(next.Subscriptions), event)
		if err := c.become(next, 0); err != nil {
			return err
		}
		c.set.events[event] = append(c.set.events[event], c)
		return nil
	})
}

// Unsubscribe undoes Subscribe, and has that saved at once.
func (c *Conn) Unsubscribe(event string) error {
	return c.change(func() error {
		i := slices.Index(c.rec.Subscriptions, event)
		if i < 0 {
			return nil
		}
		next := c.rec
		next.Subscriptions = append([]string(nil), next.Subscriptions[:i]...)
		next.Subscriptions = append(next.Subscriptions, c.rec.Subscriptions[i+1:]...)
		if err := c.become(next, 0); err != nil {
			return err
		}
		without(c.set.events, event, c)
		return nil
	})
}

// become gives c the state and the subscriptions of next, if that can be stored, and has
// them saved within wait.
//
// +checklocks:c.set.mu
func (c *Conn) become(next Record, wait time.Duration) error {
	if err := c.fits(&next); err != nil {
		return err
	}
	// The rest never changes, and is read without the lock.
	c.rec.State, c.rec.Subscriptions = next.State, next.Subscriptions
	c.mark(wait)
	return nil
}
