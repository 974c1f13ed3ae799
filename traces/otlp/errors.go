package otlp

import (
	"errors"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of this package; errors.Is tells them apart.
var (
	// ErrOptions: a Push was asked for what makes no sense.
	ErrOptions = errors.New("otlp: bad options")
	// ErrTooMany: more spans ended in one nanosecond than one read returns.
	ErrTooMany = errkind.New("otlp: too many spans at once", errkind.ErrTooLarge)
)
