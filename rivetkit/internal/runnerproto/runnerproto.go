// Package runnerproto encodes and decodes the messages of RivetKit's runner protocol, versions 5, 6 and 7:
// what a RivetKit program, the runner, and the engine that it is connected to say to each other over a WebSocket. The
// engine tells the runner which actors to start and stop, and passes clients' requests on to them; the runner
// says what becomes of its actors, and asks for their keys.
//
// A message is one binary frame, a BARE message (https://baremessages.org) without a version before it: it is of the
// version that the connection has. The package has no connection, and knows nothing of the order of messages.
//
// Decoding is strict. An unknown tag, a list or a map of more than 65536 elements, a key that occurs twice in a map, and
// bytes behind the message are errors, and memory is set aside for no more elements than the message has bytes. A map is a
// list of its pairs, in the order of the message, so that a message that was decoded encodes to the same bytes.
//
// Byte slices of a decoded message are parts of the bytes it was decoded from: the caller must leave those
// alone while it uses the message, and copies what it keeps. Strings are copies. Append keeps nothing of a message.
package runnerproto

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// ToEngine is a message from a runner to the engine: one of RunnerInit, Events, AckCommands, Stopping, Pong,
// KVRequest and FromActor.
type ToEngine interface{ toEngine() }

// RunnerInit is the first message of a connection.
type RunnerInit struct {
	Name       string // the runners of one name run the same actors
	Version    uint32 // of the program
	TotalSlots uint32 // how many actors it would run at once
	// ActorNames are the types of actors that it has; nil is left out, an empty list isn't.
	ActorNames []ActorName
	Metadata   Optional[string] // JSON
}

// An ActorName is a type of actors. No two of a message have one name.
type ActorName struct {
	Name     string
	Metadata string // JSON
}

// Stopping says that the runner ends soon: it takes no more actors, and asks the engine to stop its own.
type Stopping struct{}

// Pong answers a Ping.
type Pong struct {
	At int64 // of the Ping
}

// ToRunner is a message from the engine to a runner: one of EngineInit, Commands, AckEvents, KVResponse, ToActor and
// Ping.
type ToRunner interface{ toRunner() }

// EngineInit answers RunnerInit. All times are in milliseconds.
type EngineInit struct {
	// RunnerID is the same after a runner has connected anew. A runner that gets another one stops its actors.
	RunnerID string
	// LostThreshold is how long the engine leaves the actors of a runner alone that has lost its connection.
	LostThreshold int64
	// StopThreshold is how long an actor may take to stop. V5 doesn't have it: it isn't written, and read as 0.
	StopThreshold int64
	// DrainGrace is how long a runner that is started for each request may take to end. V5 doesn't have it:
	// it isn't written, and read as left out.
	DrainGrace Optional[int64]
}

// Ping asks for a Pong.
type Ping struct {
	At int64 // Unix milliseconds
}

// A Direction encodes and decodes the messages of the type M, which all go the same way.
type Direction[M any] struct{ messages union[M] }

// EngineBound is the direction of the messages from a runner to the engine.
var EngineBound = Direction[ToEngine]{union[ToEngine]{
	of[ToEngine]((*RunnerInit).fields),
	of[ToEngine]((*Events).fields),
	of[ToEngine]((*AckCommands).fields),
	of[ToEngine](nothing[Stopping]),
	of[ToEngine]((*Pong).fields),
	of[ToEngine]((*KVRequest).fields),
	of[ToEngine]((*FromActor).fields),
}}

// RunnerBound is the direction of the messages from the engine to a runner.
var RunnerBound = Direction[ToRunner]{union[ToRunner]{
	of[ToRunner]((*EngineInit).fields),
	of[ToRunner]((*Commands).fields),
	of[ToRunner]((*AckEvents).fields),
	of[ToRunner]((*KVResponse).fields),
	of[ToRunner]((*ToActor).fields),
	of[ToRunner]((*Ping).fields),
}}

// Append appends m, a message of version v, to dst and returns the extended slice. A message that
// Decode would refuse is ErrMalformed: a string that isn't valid UTF-8, a list or a message that is too large, a name
// that occurs twice, or a message or a body that is nil. One that v doesn't have is ErrVersion. With an error, the
// result is dst.
func (d Direction[M]) Append(dst []byte, v Version, m M) ([]byte, error) {
	c := codec{v: v, name: noKind, b: dst, start: len(dst), err: v.check()}
	if d.messages.value(&c, &m, "it is nil"); c.err != nil {
		return dst, c.err
	}
	return c.b, nil
}

// Decode decodes a message of version v. Anything else is ErrMalformed, and an unknown version is ErrVersion.
func (d Direction[M]) Decode(v Version, b []byte) (m M, err error) {
	if err := v.check(); err != nil {
		return m, err
	}
	c := codec{v: v, r: bare.NewReader(b)}
	d.messages.value(&c, &m, "")
	if err := c.r.Done(); err != nil {
		name := noKind
		if len(b) > 0 && int(b[0]) < len(d.messages) {
			name = d.messages[b[0]].name
		}
		return *new(M), fmt.Errorf("%w: %s: %w", ErrMalformed, name, err)
	}
	return m, nil
}

func (RunnerInit) toEngine() {}
func (Stopping) toEngine()   {}
func (Pong) toEngine()       {}
func (EngineInit) toRunner() {}
func (Ping) toRunner()       {}

func (i *RunnerInit) fields(c *codec) {
	c.str(&i.Name)
	c.u32(&i.Version)
	c.u32(&i.TotalSlots)
	named := i.ActorNames != nil
	if c.bool(&named); named {
		pairs(c, &i.ActorNames, (*ActorName).name, (*ActorName).fields)
		if i.ActorNames == nil {
			i.ActorNames = []ActorName{}
		}
	}
	optional(c, &i.Metadata, (*codec).str)
}

func (n *ActorName) name() string { return n.Name }

func (n *ActorName) fields(c *codec) {
	c.str(&n.Name)
	c.str(&n.Metadata)
}

func (p *Pong) fields(c *codec) { c.i64(&p.At) }
func (p *Ping) fields(c *codec) { c.i64(&p.At) }

func (i *EngineInit) fields(c *codec) {
	c.str(&i.RunnerID)
	c.i64(&i.LostThreshold)
	if c.v >= V6 {
		c.i64(&i.StopThreshold)
		optional(c, &i.DrainGrace, (*codec).i64)
	}
}
