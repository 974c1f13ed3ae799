package tuple

import (
	"errors"
	"fmt"
)

var (
	// ErrMalformed: bytes are not a packed tuple. Unpack, Next and their kin
	// return errors that wrap it and say why.
	ErrMalformed = errors.New("tuple: malformed")
	// ErrUnsupported: an element can't be packed. Append and
	// PackWithVersionstamp return errors that wrap it and say which.
	ErrUnsupported = errors.New("tuple: element can't be packed")
	// ErrPrefix: a key doesn't begin with the prefix of the Subspace that was to
	// unpack it.
	ErrPrefix = errors.New("tuple: key is not in the subspace")
)

func malformed(why string) error { return fmt.Errorf("%w: %s", ErrMalformed, why) }

func unsupported(why string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(why, args...))
}
