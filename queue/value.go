package queue

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

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
