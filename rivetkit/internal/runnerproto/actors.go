package runnerproto

// A Checkpoint is the place of an event or of a command in the life of an actor.
type Checkpoint struct {
	Actor      string // the actor's id
	Generation uint32 // how often the engine has started the actor
	// Index is 0 for the first event or command of a generation, then one more for each. The first command to an envoy has 1.
	Index int64
}

func (p *Checkpoint) fields(c *codec) {
	c.str(&p.Actor)
	c.u32(&p.Generation)
	c.i64(&p.Index)
}

// Events tell the engine what happened to actors. The runner keeps each until an AckEvents names it or a later
// one of its actor, and repeats the kept ones after it connects anew.
type Events []Event

// An Event is one thing that happened to one actor.
type Event struct {
	Checkpoint Checkpoint
	Body       EventBody
}

// An EventBody is one of Intent, Running, Stopped and SetAlarm.
type EventBody interface{ event() }

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

var eventBodies = union[EventBody]{
	of[EventBody]((*Intent).fields),
	{has: states.has, fields: func(b *EventBody, c *codec) { states.value(c, b, "") }},
	of[EventBody]((*SetAlarm).fields),
}

var states = union[EventBody]{of[EventBody](nothing[Running]), of[EventBody]((*Stopped).fields)}

func (Events) toEngine() {}
func (Intent) event()    {}
func (Running) event()   {}
func (Stopped) event()   {}
func (SetAlarm) event()  {}

func (es *Events) fields(c *codec) { list(c, (*[]Event)(es), (*Event).fields) }

func (e *Event) fields(c *codec) {
	e.Checkpoint.fields(c)
	eventBodies.value(c, &e.Body, "event without a body")
}

func (i *Intent) fields(c *codec) { c.enum((*uint8)(i), int(intents), "intent") }

func (s *Stopped) fields(c *codec) {
	c.enum((*uint8)(&s.Code), stopCodes, "stop code")
	optional(c, &s.Message, (*codec).str)
}

func (a *SetAlarm) fields(c *codec) { optional(c, &a.At, (*codec).i64) }

// Commands tell a runner what to do with actors. When the runner connects anew, the engine sends those again that
// the runner hasn't acknowledged.
type Commands []Command

// A Command is what a runner is to do with one actor.
type Command struct {
	Checkpoint Checkpoint
	Body       CommandBody
}

// A CommandBody is one of StartActor and StopActor.
type CommandBody interface{ command() }

// StartActor tells the runner to start the actor. Its Input aliases what it was decoded from.
type StartActor struct {
	Name      string // the type of the actor
	Key       Optional[string]
	CreatedAt int64  // Unix milliseconds
	Input     []byte // what the creator of the actor gave it; nil is left out, an empty one isn't
	// Hibernating are the sockets that stayed open while the actor slept. The actor's other sockets have ended.
	Hibernating []TunnelID
	Preloaded   Optional[PreloadedKV] // spares the envoy to ask for keys; since Envoy6
}

// PreloadedKV has keys of an actor.
type PreloadedKV struct {
	Entries  []KVEntry
	Keys     [][]byte // of these it has all that exist
	Prefixes [][]byte // of these it has all keys
}

// StopActor tells the runner to end the actor, and answer with Stopped.
type StopActor struct {
	Reason StopReason // since Envoy6: in older versions it isn't written, and read as 0
}

// A StopReason says why an actor ends.
type StopReason uint8

// The reasons.
const (
	StopToSleep   StopReason = iota // it had IntentSleep
	StopAsWished                    // it had IntentStop
	StopToDestroy                   // it is destroyed from outside
	StopGoingAway                   // its runner is Stopping
	StopLost                        // the engine has lost it
	stopReasons
)

var commandBodies = union[CommandBody]{of[CommandBody]((*StartActor).fields), of[CommandBody]((*StopActor).fields)}

func (Commands) toRunner()  {}
func (StartActor) command() {}
func (StopActor) command()  {}

func (cs *Commands) fields(c *codec) { list(c, (*[]Command)(cs), (*Command).fields) }

func (m *Command) fields(c *codec) {
	m.Checkpoint.fields(c)
	commandBodies.value(c, &m.Body, "command without a body")
}

func (s *StartActor) fields(c *codec) {
	c.str(&s.Name)
	optional(c, &s.Key, (*codec).str)
	c.i64(&s.CreatedAt)
	c.body(&s.Input)
	list(c, &s.Hibernating, (*TunnelID).fields)
	if c.has(Envoy6, "PreloadedKV", s.Preloaded.Set) {
		optional(c, &s.Preloaded, func(c *codec, p *PreloadedKV) { p.fields(c) })
	}
}

func (p *PreloadedKV) fields(c *codec) {
	list(c, &p.Entries, func(e *KVEntry, c *codec) {
		c.data(&e.Key)
		c.data(&e.Value)
		e.metadata(c)
	})
	c.datas(&p.Keys)
	c.datas(&p.Prefixes)
}

func (s *StopActor) fields(c *codec) {
	if c.v >= Envoy6 {
		c.enum((*uint8)(&s.Reason), int(stopReasons), "stop reason")
	}
}

// AckCommands tell the engine which commands the runner has seen: the last one of each actor.
type AckCommands []Checkpoint

// AckEvents tell the runner which events the engine has seen: the last one of each actor.
type AckEvents []Checkpoint

func (AckCommands) toEngine() {}
func (AckEvents) toRunner()   {}

func (a *AckCommands) fields(c *codec) { list(c, (*[]Checkpoint)(a), (*Checkpoint).fields) }
func (a *AckEvents) fields(c *codec)   { list(c, (*[]Checkpoint)(a), (*Checkpoint).fields) }
