// Package runnerproto encodes and decodes the messages of RivetKit's runner protocol, versions 5, 6 and 7, and of the
// envoy protocol that RivetKit 2.3 has in its place, versions 6 and 8:
// what a RivetKit program, the runner, and the engine that it is connected to say to each other over a WebSocket. The
// engine tells the runner which actors to start and stop, and passes clients' requests on to them; the runner
// says what becomes of its actors, and asks for their keys. An envoy is a runner whose actors' databases are in the engine: it
// reads and writes their pages, or sends SQL to be run on them.
//
// Each message is described once, for all versions of both protocols. Encoding a message, or a value of a field, that the
// version lacks is an error, unless the documentation of the field says that it isn't written.
//
// A message is one binary frame, a BARE message (https://baremessages.org) without a version before it: it is of the
// version that the connection has. The package has no connection, and knows nothing of the order of messages.
//
// Decoding is strict. An unknown tag, a list or a map of more than 65536 elements (but for rows of a database), a key that occurs twice in a map, and
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
// KVRequest and FromActor; and from an envoy also GetPages, Commit, BeginStage, StageSegment, FinishStage, Exec, Execute
// and ExecuteBatch.
type ToEngine interface{ toEngine() }

// RunnerInit is the first message of a runner. An envoy sends it without Name, Version and TotalSlots, which aren't written, and
// read as zero: its address has the first two.
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
// Ping; and to an envoy also Reply.
type ToRunner interface{ toRunner() }

// EngineInit answers RunnerInit. An envoy gets it unasked. All times are in milliseconds.
type EngineInit struct {
	// RunnerID is the same after a runner has connected anew. A runner that gets another one stops its actors.
	// An envoy has chosen its own: it isn't written, and read as empty.
	RunnerID string
	// LostThreshold is how long the engine leaves the actors of a runner alone that has lost its connection.
	LostThreshold int64
	// StopThreshold is how long an actor may take to stop. V5 doesn't have it: it isn't written, and read as 0.
	StopThreshold int64
	// DrainGrace is how long a runner that is started for each request may take to end. V5 and envoys don't have it:
	// it isn't written, and read as left out.
	DrainGrace Optional[int64]
	// MaxResponse bounds the body of a response, in bytes. Only envoys have it: else it isn't written, and read as 0.
	MaxResponse uint64
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
	of[ToEngine]((*GetPages).fields).from(Envoy6),
	of[ToEngine]((*Commit).fields).from(Envoy6),
	of[ToEngine]((*BeginStage).fields).from(Envoy8),
	of[ToEngine]((*StageSegment).fields).from(Envoy8),
	of[ToEngine]((*FinishStage).fields).from(Envoy8),
	of[ToEngine]((*Exec).fields).from(Envoy6),
	of[ToEngine]((*Execute).fields).from(Envoy6),
	of[ToEngine]((*ExecuteBatch).fields).from(Envoy6),
}}

// RunnerBound is the direction of the messages from the engine to a runner.
var RunnerBound = Direction[ToRunner]{union[ToRunner]{
	of[ToRunner]((*EngineInit).fields),
	of[ToRunner]((*Commands).fields),
	of[ToRunner]((*AckEvents).fields),
	of[ToRunner]((*KVResponse).fields),
	of[ToRunner]((*ToActor).fields),
	of[ToRunner]((*Ping).fields),
	reply((*Pages).fields).from(Envoy6),
	reply((*Committed).fields).from(Envoy6),
	reply((*StageBegun).fields).from(Envoy8),
	reply((*SegmentStaged).fields).from(Envoy8),
	reply((*StageFinished).fields).from(Envoy8),
	reply((*Table).fields).from(Envoy6),
	reply((*Result).fields).from(Envoy6),
	reply((*Results).fields).from(Envoy6),
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
	c := codec{v: v, name: noKind, r: bare.NewReader(b)}
	d.messages.value(&c, &m, "")
	if err := c.r.Done(); err != nil {
		return *new(M), fmt.Errorf("%w: %s: %w", ErrMalformed, c.name, err)
	}
	return m, nil
}

func (RunnerInit) toEngine() {}
func (Stopping) toEngine()   {}
func (Pong) toEngine()       {}
func (EngineInit) toRunner() {}
func (Ping) toRunner()       {}

func (i *RunnerInit) fields(c *codec) {
	if c.v < Envoy6 {
		c.str(&i.Name)
		c.u32(&i.Version)
		c.u32(&i.TotalSlots)
	}
	maybe(c, &i.ActorNames, func(p *[]ActorName, c *codec) { pairs(c, p, (*ActorName).name, (*ActorName).fields) })
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
	if c.v < Envoy6 {
		c.str(&i.RunnerID)
	}
	c.i64(&i.LostThreshold)
	if c.v >= V6 {
		c.i64(&i.StopThreshold)
	}
	switch {
	case c.v >= Envoy6:
		c.u64(&i.MaxResponse)
	case c.v >= V6:
		optional(c, &i.DrainGrace, (*codec).i64)
	}
}
