package runnerproto

import "github.com/greenroomdb/greenroom/internal/bare"

// A Checkpoint is the place of an event or of a command in the life of an actor.
type Checkpoint struct {
	Actor      string // the actor's id
	Generation uint32 // how often the engine has started the actor
	Index      int64  // 0 for the first event or command of a generation, then one more for each
}

func (c Checkpoint) append(w *writer) {
	w.str(c.Actor)
	w.u32(c.Generation)
	w.i64(c.Index)
}

func readCheckpoint(r *bare.Reader) Checkpoint {
	return Checkpoint{r.String(), r.U32(), r.I64()}
}

// Events tell the engine what happened to actors. The runner keeps each until an AckEvents names it or a later one
// of its actor, and repeats those that it has after it has connected anew.
type Events []Event

// An Event is one thing that happened to one actor.
type Event struct {
	Checkpoint Checkpoint
	Body       EventBody
}

// An EventBody is one of Intent, Running, Stopped and SetAlarm.
type EventBody interface{ event(w *writer) }

// An Intent says what an actor wants to become. The engine answers with StopActor.
type Intent uint8

// The intents.
const (
	IntentSleep Intent = iota // the actor keeps its data and can be started again
	IntentStop                // the actor is to be destroyed with its data
	intents
)

// Running says that the actor has started.
type Running struct{}

// Stopped says that the actor has ended, for any reason.
type Stopped struct {
	Code    StopCode
	Message Optional[string] // says more, for the log
}

// A StopCode says why an actor ended. A code other than StopOK means that it ended by an error.
type StopCode uint8

// StopOK means that the actor ended as it was asked to.
const StopOK StopCode = 0

// stopCodes bounds the codes. The decoder takes every code of one byte, since the engine treats all errors alike.
const stopCodes = 128

// SetAlarm replaces the time at which the engine starts the actor if it sleeps.
type SetAlarm struct {
	At Optional[int64] // Unix milliseconds; without it the actor has no alarm
}

// Tags of events, and of the states that one of them has.
const (
	tagIntent = iota
	tagState
	tagSetAlarm
	eventTags
)
const (
	tagRunning = iota
	tagStopped
	stateTags
)

func (es Events) toEngine(w *writer) {
	w.tag(tagEvents)
	appendList(w, es, Event.append)
}

func (e Event) append(w *writer) {
	e.Checkpoint.append(w)
	if e.Body == nil {
		w.fail("event without a body")
		return
	}
	e.Body.event(w)
}

func (i Intent) event(w *writer) {
	if i >= intents {
		w.fail("intent %d of %d", i, intents)
	}
	w.tag(tagIntent)
	w.tag(uint8(i))
}

func (Running) event(w *writer) {
	w.tag(tagState)
	w.tag(tagRunning)
}

func (s Stopped) event(w *writer) {
	if s.Code >= stopCodes {
		w.fail("stop code %d of %d", s.Code, stopCodes)
	}
	w.tag(tagState)
	w.tag(tagStopped)
	w.tag(uint8(s.Code))
	appendOptional(w, s.Message, (*writer).str)
}

func (a SetAlarm) event(w *writer) {
	w.tag(tagSetAlarm)
	appendOptional(w, a.At, (*writer).i64)
}

func readEvent(r *bare.Reader) Event {
	e := Event{Checkpoint: readCheckpoint(r)}
	switch r.Tag(eventTags) {
	case tagIntent:
		e.Body = Intent(r.Tag(int(intents)))
	case tagState:
		e.Body = readState(r)
	case tagSetAlarm:
		e.Body = SetAlarm{readOptional(r, (*bare.Reader).I64)}
	}
	return e
}

func readState(r *bare.Reader) EventBody {
	if r.Tag(stateTags) == tagRunning {
		return Running{}
	}
	return Stopped{StopCode(r.Tag(stopCodes)), readOptional(r, (*bare.Reader).String)}
}

// Commands tell a runner what to do with actors. When the runner connects anew, the engine sends those again that
// the runner hasn't acknowledged.
type Commands []Command

// A Command is what a runner is to do with one actor.
type Command struct {
	Checkpoint Checkpoint
	Body       CommandBody
}

// A CommandBody is one of StartActor and StopActor.
type CommandBody interface{ command(w *writer) }

// StartActor tells the runner to start the actor. Its Input aliases what it was decoded from.
type StartActor struct {
	Name      string // the type of the actor
	Key       Optional[string]
	CreatedAt int64  // Unix milliseconds
	Input     []byte // what the creator of the actor gave it; nil is left out, an empty one isn't
	// Hibernating are the sockets that stayed open while the actor slept. The actor's other sockets have ended.
	Hibernating []TunnelID
}

// StopActor tells the runner to end the actor, and answer with Stopped.
type StopActor struct{}

// Tags of commands.
const (
	tagStartActor = iota
	tagStopActor
	commandTags
)

func (cs Commands) toRunner(w *writer) {
	w.tag(tagCommands)
	appendList(w, cs, Command.append)
}

func (c Command) append(w *writer) {
	c.Checkpoint.append(w)
	if c.Body == nil {
		w.fail("command without a body")
		return
	}
	c.Body.command(w)
}

func (s StartActor) command(w *writer) {
	w.tag(tagStartActor)
	w.str(s.Name)
	appendOptional(w, s.Key, (*writer).str)
	w.i64(s.CreatedAt)
	appendBody(w, s.Input)
	appendList(w, s.Hibernating, TunnelID.append)
}

func (StopActor) command(w *writer) { w.tag(tagStopActor) }

func readCommand(r *bare.Reader) Command {
	c := Command{Checkpoint: readCheckpoint(r)}
	switch r.Tag(commandTags) {
	case tagStartActor:
		c.Body = StartActor{
			Name:        r.String(),
			Key:         readOptional(r, (*bare.Reader).String),
			CreatedAt:   r.I64(),
			Input:       readBody(r),
			Hibernating: readList(r, readTunnelID),
		}
	case tagStopActor:
		c.Body = StopActor{}
	}
	return c
}

// AckCommands tell the engine which commands the runner has seen: the last one of each actor.
type AckCommands []Checkpoint

func (a AckCommands) toEngine(w *writer) {
	w.tag(tagAckCommands)
	appendList(w, a, Checkpoint.append)
}

// AckEvents tell the runner which events the engine has seen: the last one of each actor.
type AckEvents []Checkpoint

func (a AckEvents) toRunner(w *writer) {
	w.tag(tagAckEvents)
	appendList(w, a, Checkpoint.append)
}
