package front

import (
	"fmt"

	"github.com/greenroomdb/greenroom/host"
)

// An Access is what a client wants to do, which Options.Authorize allows or refuses.
type Access struct {
	Kind AccessKind
	// Actor is the actor, of which the type may be one that there isn't.
	Actor host.Address
	// Action is the name of the action, "" unless it is a call.
	Action string
	// Event is the name of the events, "" unless it is a subscription.
	Event string
}

// An AccessKind is what kind of thing a client wants to do.
type AccessKind uint8

const (
	// AccessCall: a call of an action, over HTTP or through a socket.
	AccessCall AccessKind = iota
	// AccessConnect: a socket, with a new connection or with one that the client had; and again and again while it is open.
	AccessConnect
	// AccessSubscribe: to get the events of a name through a socket.
	AccessSubscribe
)

// String returns call, connect or subscribe.
func (k AccessKind) String() string {
	switch k {
	case AccessCall:
		return "call"
	case AccessConnect:
		return "connect"
	case AccessSubscribe:
		return "subscribe"
	}
	return fmt.Sprintf("AccessKind(%d)", uint8(k))
}
