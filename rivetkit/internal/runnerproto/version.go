package runnerproto

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A Version is a version of the protocol. A runner chooses it for the whole connection, in the
// query parameter protocol_version of the address that it connects to: no message has it. A later version is greater.
type Version uint8

// The versions that this package knows.
const (
	V5 Version = 5
	V6 Version = 6 // EngineInit has StopThreshold and DrainGrace
	V7 Version = 7 // KVDeleteRange exists

	// Envoy6 is version 6 of the envoy protocol, of RivetKit 2.3.5 to 2.3.11. The first messages lose what the address of the
	// connection has, actors stop for a reason, and databases exist.
	Envoy6 = envoy + 6
	// Envoy8 is version 8 of the envoy protocol, of RivetKit 2.3.17 to 2.3.19. Stages, windows, and reasons of aborts exist, and
	// messages name the generation of an actor.
	Envoy8 = envoy + 8
)

// envoy is what the versions of the envoy protocol have more than their numbers.
const envoy Version = 100

const (
	// maxSize bounds the length of a message in bytes, 32 MiB.
	maxSize = bare.MaxSize
	// maxCount bounds the number of elements of each list and each map of a message, but for rows of a database.
	maxCount = 1 << 16
)

// ParseVersion parses what String returns of a version of the runner protocol. A number that isn't one of them is
// ErrVersion, and so is any other text.
func ParseVersion(s string) (Version, error) { return parseVersion(s, V5, V6, V7) }

// ParseEnvoyVersion does the same with the envoy protocol.
func ParseEnvoyVersion(s string) (Version, error) { return parseVersion(s, Envoy6, Envoy8) }

func parseVersion(s string, known ...Version) (Version, error) {
	for _, v := range known {
		if s == v.String() {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%w: %q, known are %v", ErrVersion, s, known)
}

// String returns the number of v, in decimal. Versions of both protocols can have the same.
func (v Version) String() string {
	if v > envoy {
		v -= envoy
	}
	return strconv.Itoa(int(v))
}

// protocol says in an error what v is.
func (v Version) protocol() string {
	if v > envoy {
		return "envoy protocol " + v.String()
	}
	return "runner protocol " + v.String()
}

// check returns an error if v is unknown.
func (v Version) check() error {
	if !slices.Contains([]Version{V5, V6, V7, Envoy6, Envoy8}, v) {
		return fmt.Errorf("%w: %d", ErrVersion, v)
	}
	return nil
}
