package host

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// Raw is a value in CBOR, in the form that programs in JavaScript write it with cbor-x.
// nil is undefined. As a part of another value it is taken as it is, so that an action
// may take or return one and leave it to others to know what it means.
type Raw []byte

// Encode returns v in CBOR. Structs are encoded with their tags `cbor`, or `json` where
// that is missing; a Raw is returned as it is.
func Encode(v any) (Raw, error) {
	if r, ok := v.(Raw); ok {
		return r, nil
	}
	b, err := cbor.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	return b, nil
}

// Decode decodes r into what v points to; undefined and null leave it as it is.
func (r Raw) Decode(v any) error {
	if len(r) == 0 {
		return nil
	}
	if to, ok := v.(*Raw); ok {
		*to = append(Raw{}, r...)
		return cbor.Wellformed(r)
	}
	return cbor.Unmarshal(r, v)
}

// undefined is the CBOR of it.
var undefined = []byte{0xf7}

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (r Raw) MarshalCBOR() ([]byte, error) {
	if len(r) == 0 {
		return undefined, nil
	}
	return r, nil
}

// UnmarshalCBOR implements the interface of github.com/fxamacker/cbor. It keeps nothing
// of b.
func (r *Raw) UnmarshalCBOR(b []byte) error {
	*r = cbor.Keep(b)
	return nil
}

// rawCodec is persist's Codec of a state that is a Raw: what it means is for who reads it.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) {
	if r, ok := v.(Raw); ok {
		return r.MarshalCBOR()
	}
	return cbor.Marshal(v) // the input
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	if r, ok := v.(*Raw); ok {
		*r = append(Raw{}, data...)
		return nil
	}
	return cbor.Unmarshal(data, v)
}
