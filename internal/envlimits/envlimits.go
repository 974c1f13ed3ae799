// Package envlimits lets the environment lower a limit that depends on the engine,
// so that the paths which only a lesser engine makes necessary can be tried on every
// engine: by the program (internal/storeurl), and by the tests that open stores
// themselves.
//
// It is not a configuration of the library: no package that a program imports
// looks at the environment.
package envlimits

import (
	"fmt"
	"os"
	"strconv"

	"github.com/greenroomdb/greenroom/batch"
)

// AtomicBatches is the name of the variable that bounds how many sub-batches one
// atomic commit may take. With 1 a transaction of SQLite that needs more goes
// through its rollback journal. Empty, unset and 0 mean as many as the engine takes.
const AtomicBatches = "GREENROOM_ATOMIC_BATCHES"

// Unlimited is an AtomicBatches of as many as the engine takes, whatever the
// environment says.
const Unlimited = 1 << 30

// Apply returns l with what the environment says for a limit that l leaves open.
func Apply(l batch.Limits) (batch.Limits, error) {
	text := os.Getenv(AtomicBatches)
	if text == "" {
		return l, nil
	}
	n, err := strconv.ParseUint(text, 10, 30)
	if err != nil {
		return l, fmt.Errorf("envlimits: %s is %q, and should be a number of sub-batches: %w", AtomicBatches, text, err)
	}
	if l.AtomicBatches == 0 {
		l.AtomicBatches = int(n)
	}
	return l, nil
}
