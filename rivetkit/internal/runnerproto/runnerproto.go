// Package runnerproto encodes and decodes the messages of RivetKit's runner protocol, versions 5, 6 and 7:
// what a RivetKit program, the runner, and the engine that it is connected to say to each other over a WebSocket. The
// engine tells the runner which actors to start and stop, and passes clients' requests on to them; the runner
// says what becomes of its actors, and asks for their keys.
//
// A message is one binary frame, a BARE message (https://baremessages.org) without a version before it: it is of the
// version that the connection has. The package has both ends, so that tests can be either. It has
// no connection, and knows nothing of the order of messages.
//
// Decoding is strict. An unknown tag, a count over MaxCount, a key that occurs twice in a map, and
// bytes behind the message are errors, and memory is set aside for no more elements than the message has bytes. A map is a
// list of its pairs, in the order of the message, so that a message that was decoded encodes to the same bytes.
//
// Byte slices of a decoded message are parts of the bytes it was decoded from: the caller must leave those
// alone while it uses the message, and copies what it keeps. Strings are copies. The Append functions keep
// nothing of a message.
package runnerproto

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// ToEngine is a message from a runner to the engine: one of RunnerInit, Events, AckCommands, Stopping, Pong,
// KVRequest and FromActor.
type ToEngine interface{ toEngine(w *writer) }

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

// Stopping says that the runner ends soon: it takes no more actors, and wants those that it has to be stopped.
type Stopping struct{}

// Pong answers a Ping.
type Pong struct {
	At int64 // of the Ping
}

// ToRunner is a message from the engine to a runner: one of EngineInit, Commands, AckEvents, KVResponse, ToActor and
// Ping.
type ToRunner interface{ toRunner(w *writer) }

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

// AppendToEngine appends m, a message of version v, to dst and returns the extended slice. A message that
// DecodeToEngine would refuse is ErrMalformed: a string that isn't valid UTF-8, a list or a message that is too large, a name
// that occurs twice, or a body that is nil. One that v doesn't have is ErrVersion. With an error, the
// result is dst. m must not be nil.
func AppendToEngine(dst []byte, v Version, m ToEngine) ([]byte, error) {
	w := writer{b: dst, start: len(dst), names: toEngineNames[:], v: v, err: v.check()}
	if m.toEngine(&w); w.err != nil {
		return dst, w.err
	}
	return w.b, nil
}

// DecodeToEngine decodes a message of version v to the engine. Anything else is ErrMalformed, and an unknown version is
// ErrVersion.
func DecodeToEngine(v Version, b []byte) (ToEngine, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	var m ToEngine
	r := bare.NewReader(b)
	switch r.Tag(toEngineTags) {
	case tagRunnerInit:
		m = readRunnerInit(r)
	case tagEvents:
		m = Events(readList(r, readEvent))
	case tagAckCommands:
		m = AckCommands(readList(r, readCheckpoint))
	case tagStopping:
		m = Stopping{}
	case tagPong:
		m = Pong{r.I64()}
	case tagKVRequest:
		m = readKVRequest(r, v)
	case tagFromActor:
		m = readFromActor(r)
	}
	if err := r.Done(); err != nil {
		return nil, malformed(toEngineNames[:], b, err)
	}
	return m, nil
}

// AppendToRunner appends m, a message of version v, to dst and returns the extended slice. Its errors are
// those of AppendToEngine. m must not be nil.
func AppendToRunner(dst []byte, v Version, m ToRunner) ([]byte, error) {
	w := writer{b: dst, start: len(dst), names: toRunnerNames[:], v: v, err: v.check()}
	if m.toRunner(&w); w.err != nil {
		return dst, w.err
	}
	return w.b, nil
}

// DecodeToRunner decodes a message of version v to a runner. Anything else is ErrMalformed, and an unknown version is
// ErrVersion.
func DecodeToRunner(v Version, b []byte) (ToRunner, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	var m ToRunner
	r := bare.NewReader(b)
	switch r.Tag(toRunnerTags) {
	case tagEngineInit:
		m = readEngineInit(r, v)
	case tagCommands:
		m = Commands(readList(r, readCommand))
	case tagAckEvents:
		m = AckEvents(readList(r, readCheckpoint))
	case tagKVResponse:
		m = readKVResponse(r)
	case tagToActor:
		m = readToActor(r)
	case tagPing:
		m = Ping{r.I64()}
	}
	if err := r.Done(); err != nil {
		return nil, malformed(toRunnerNames[:], b, err)
	}
	return m, nil
}

// malformed returns an error that says which message b is, as far as it can be seen, and what is wrong with it.
func malformed(names []string, b []byte, err error) error {
	name := "message of no kind"
	if len(b) > 0 && int(b[0]) < len(names) {
		name = names[b[0]]
	}
	return fmt.Errorf("%w: %s: %w", ErrMalformed, name, err)
}

func (i RunnerInit) toEngine(w *writer) {
	w.tag(tagRunnerInit)
	w.str(i.Name)
	w.u32(i.Version)
	w.u32(i.TotalSlots)
	if w.bool(i.ActorNames != nil); i.ActorNames != nil {
		appendMap(w, i.ActorNames, ActorName.name, ActorName.append)
	}
	appendOptional(w, i.Metadata, (*writer).str)
}

func readRunnerInit(r *bare.Reader) RunnerInit {
	i := RunnerInit{Name: r.String(), Version: r.U32(), TotalSlots: r.U32()}
	if r.Bool() {
		if i.ActorNames = readMap(r, ActorName.name, readActorName); i.ActorNames == nil {
			i.ActorNames = []ActorName{}
		}
	}
	i.Metadata = readOptional(r, (*bare.Reader).String)
	return i
}

func (n ActorName) name() string { return n.Name }

func (n ActorName) append(w *writer) {
	w.str(n.Name)
	w.str(n.Metadata)
}

func readActorName(r *bare.Reader) ActorName { return ActorName{r.String(), r.String()} }

func (Stopping) toEngine(w *writer) { w.tag(tagStopping) }

func (p Pong) toEngine(w *writer) {
	w.tag(tagPong)
	w.i64(p.At)
}

func (i EngineInit) toRunner(w *writer) {
	w.tag(tagEngineInit)
	w.str(i.RunnerID)
	w.i64(i.LostThreshold)
	if w.v >= V6 {
		w.i64(i.StopThreshold)
		appendOptional(w, i.DrainGrace, (*writer).i64)
	}
}

func readEngineInit(r *bare.Reader, v Version) EngineInit {
	i := EngineInit{RunnerID: r.String(), LostThreshold: r.I64()}
	if v >= V6 {
		i.StopThreshold = r.I64()
		i.DrainGrace = readOptional(r, (*bare.Reader).I64)
	}
	return i
}

func (p Ping) toRunner(w *writer) {
	w.tag(tagPing)
	w.i64(p.At)
}
