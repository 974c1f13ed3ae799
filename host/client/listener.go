package client

import (
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// A listener hears the events of a name.
type listener struct {
	name   string
	events chan host.Raw
	missed chan struct{} // has room for one: events may be missing
}

// hear takes an event, or notes that it is missing.
func (l *listener) hear(r *wire.Response) {
	if r.Event != l.name {
		return
	}
	select {
	case l.events <- host.Raw(r.Body):
	default:
		l.miss()
	}
}

// miss notes that events may be missing.
func (l *listener) miss() {
	select {
	case l.missed <- struct{}{}:
	default:
	}
}
