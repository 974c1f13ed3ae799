package host

import (
	"fmt"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// Raw is a value in CBOR, in the form that programs in JavaScript write it with cbor-x.
// nil is undefined. As a part of another value it is taken as it is, so that an action
// may take or return one and leave it to others to know what it means.
//
// Raw.Decode decodes it into what its argument points to; undefined and null leave that as
// it is. MarshalCBOR and UnmarshalCBOR are those of github.com/fxamacker/cbor.
type Raw = abi.Raw

// Encode returns v in CBOR. Structs are encoded with their tags `cbor`, or `json` where
// that is missing; a Raw is returned as it is.
func Encode(v any) (Raw, error) {
	r, err := abi.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	return r, nil
}

// undefined is the CBOR of it.
var undefined = Raw{0xf7}
