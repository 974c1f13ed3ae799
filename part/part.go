// Package part is what the parts of an actor (queue, traces, workflow and the others) have in common.
package part

import (
	"log/slog"

	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/metrics"
)

// An Env is what the code that opens an actor's parts gives to each of them. The zero Env is fine for a part alone. Package
// greenroom gives its own, whatever its options say.
type Env struct {
	// Clock is the actor's alarm clock, of which queue, schedule and workflow become sources. Its OnChange may be called
	// under the actor's commit lock, and so must not commit. nil means a clock of the part's own.
	Clock *alarm.Clock
	// Logger gets what no caller is told, such as a stored record that can't be read. nil means slog.Default().
	Logger *slog.Logger
	// Metrics is told what the part's function Metrics lists; nil means that nothing is counted.
	Metrics metrics.Sink
}
