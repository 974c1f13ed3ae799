package persist

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A Codec turns Go values into stored bytes and back. It must be safe for concurrent
// use, and Unmarshal must accept what Marshal made of a value of the same type. Neither
// keeps what it is given.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// CBOR is the Codec that the formats stand for, and that programs in JavaScript read
// (package internal/cbor). Struct fields are named by the tags cbor or json. Values that
// can't be stored, such as NaN, are refused with the path to them.
type CBOR struct{}

// Marshal is cbor.Marshal of internal/cbor.
func (CBOR) Marshal(v any) ([]byte, error) { return cbor.Marshal(v) }

// Unmarshal is cbor.Unmarshal of internal/cbor: undefined and null leave v as it is.
func (CBOR) Unmarshal(data []byte, v any) error { return cbor.Unmarshal(data, v) }

// JSON is a Codec for those who want to read the bytes of a state without a tool. Other
// programs that know the format expect CBOR, and can't read it.
type JSON struct{}

// Marshal is json.Marshal.
func (JSON) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal is json.Unmarshal, and leaves v as it is for the undefined of CBOR, which an
// actor has that was never given a state.
func (JSON) Unmarshal(data []byte, v any) error {
	if string(data) == string(undefined) {
		return nil
	}
	return json.Unmarshal(data, v)
}

// errEmpty: no value is nothing at all, in neither Codec.
var errEmpty = errors.New("the codec made no bytes of it")

// encode returns what the codec makes of v, never nil or empty.
func encode(c Codec, what string, v any) ([]byte, error) {
	b, err := c.Marshal(v)
	if err == nil && len(b) == 0 {
		err = errEmpty
	}
	if err != nil {
		return nil, fmt.Errorf("persist: encode the %s: %w", what, err)
	}
	return b, nil
}
