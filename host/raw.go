package host

import (
	"fmt"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// Raw is a value in CBOR, in the form that programs in JavaScript write it with cbor-x.
// nil is undefined. As a part of another value it is taken as it is, so that an action
// may take or return one and leave it to others to know what it means.
type Raw []byte

// MarshalCBOR implements cbor.Marshaler of github.com/fxamacker/cbor. The bytes are r itself,
// which must not be changed as long as they are used.
func (r Raw) MarshalCBOR() ([]byte, error) { return abi.Raw(r).MarshalCBOR() }

// UnmarshalCBOR implements cbor.Unmarshaler of github.com/fxamacker/cbor. It keeps nothing of b.
func (r *Raw) UnmarshalCBOR(b []byte) error { return (*abi.Raw)(r).UnmarshalCBOR(b) }

// Decode decodes r into what v points to, which keeps nothing of r; undefined and null leave it
// as it is. An error says what of r doesn't fit, or that r is not one value in CBOR.
func (r Raw) Decode(v any) error {
	if to, ok := v.(*Raw); ok {
		v = (*abi.Raw)(to)
	}
	return abi.Raw(r).Decode(v)
}

// Encode returns v in CBOR. Structs are encoded with their tags `cbor`, or `json` where
// that is missing; a Raw is returned as it is.
func Encode(v any) (Raw, error) {
	if r, ok := v.(Raw); ok {
		return r, nil
	}
	r, err := abi.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	return Raw(r), nil
}

// undefined is the CBOR of it.
var undefined = Raw{0xf7}
