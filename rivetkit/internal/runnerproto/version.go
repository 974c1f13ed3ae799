package runnerproto

import (
	"fmt"
	"strconv"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A Version is a version of the protocol. A runner chooses it for the whole connection, in the
// query parameter protocol_version of the address that it connects to: no message has it.
type Version uint8

// The versions that this package knows.
const (
	V5 Version = 5
	V6 Version = 6 // EngineInit has StopThreshold and DrainGrace
	V7 Version = 7 // KVDeleteRange exists
)

const (
	// maxSize bounds the length of a message in bytes, 32 MiB.
	maxSize = bare.MaxSize
	// maxCount bounds the number of elements of each list and each map of a message.
	maxCount = 1 << 16
)

// ParseVersion parses what String returns. A number that isn't one of the versions above is ErrVersion,
// and so is any other text.
func ParseVersion(s string) (Version, error) {
	for v := V5; v <= V7; v++ {
		if s == v.String() {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%w: %q, known are %d to %d", ErrVersion, s, V5, V7)
}

// String returns v as a decimal number.
func (v Version) String() string { return strconv.Itoa(int(v)) }

// check returns an error if v is unknown.
func (v Version) check() error {
	if v < V5 || v > V7 {
		return fmt.Errorf("%w: %d, known are %d to %d", ErrVersion, v, V5, V7)
	}
	return nil
}
