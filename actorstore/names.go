package actorstore

import (
	"fmt"
	"unicode/utf8"
)

// MaxName is the length of the longest name of an actor, in bytes.
const MaxName = 255

// checkName says whether name may be the name of an actor: any UTF-8 text that is
// neither empty nor longer than MaxName.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: %d bytes, limit %d", ErrName, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %.80q is not UTF-8", ErrName, name)
	}
	return nil
}
