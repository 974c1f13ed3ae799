package traces

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of this package; errors.Is tells them apart. What actorstore returns comes
// through as it is. Recording returns no errors: see Stats.
var (
	// ErrOptions: Open was given options that make no sense.
	ErrOptions = errors.New("traces: bad options")
	// ErrID: a text isn't a TraceID, a SpanID, or a Position.
	ErrID = errors.New("traces: bad id")
	// ErrClosed: the Traces are closed.
	ErrClosed = errkind.New("traces: closed", errkind.ErrClosed)
	// ErrDropped: what a Flush waited for was given up because too much was waiting.
	ErrDropped = errors.New("traces: dropped before it was written")
	// ErrBusy: what was recorded before is staged in a batch that isn't settled yet.
	ErrBusy = errkind.New("traces: another batch has it", errkind.ErrConflict)

	errKey = fmt.Errorf("it is the key of no chunk: %w", actorstore.ErrCorrupt)
)
