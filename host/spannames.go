package host

// Names of spans, the one table of them: other runtimes of actors, and tools, know them. Names
// of this host's own stand with what has them.
const (
	spanOnCreate     = "actor.onCreate"
	spanCreateVars   = "actor.createVars"
	spanOnWake       = "actor.onWake"
	spanOnSleep      = "actor.onSleep"
	spanOnDestroy    = "actor.onDestroy"
	spanRun          = "actor.run"
	spanOnConnect    = "actor.onConnect"
	spanOnDisconnect = "actor.onDisconnect"
	spanAction       = "actor.action." // and the name of the action
)

// Names of events.
const (
	eventQueueReceive      = "queue.message.receive"
	eventScheduleCreated   = "schedule.created"
	eventScheduleTriggered = "schedule.triggered"
	eventMessageSend       = "message.send"
	eventMessageBroadcast  = "message.broadcast"
	eventConnect           = "connection.connect"
	eventDisconnect        = "connection.disconnect"
	eventCrash             = "actor.crash"
	eventLog               = "log"
)

// Keys of attributes. Those of actors are the runtime's own, under a name that only it
// uses.
const (
	keyActorID           = "rivet.actor.id"
	keyActorName         = "rivet.actor.name"
	keyActorKey          = "rivet.actor.key"
	keyActionName        = "rivet.action.name"
	keyActionScheduled   = "rivet.action.scheduled" // bool
	keyConnID            = "rivet.conn.id"
	keyConnType          = "rivet.conn.type"
	keyConnHibernatable  = "rivet.conn.hibernatable" // bool
	keyQueueName         = "rivet.queue.name"
	keyQueueMessageID    = "rivet.queue.message_id"    // integer
	keyQueueCreated      = "rivet.queue.created_at_ms" // Unix milliseconds
	keyQueueLatency      = "rivet.queue.latency_ms"    // milliseconds
	keyScheduleEventID   = "rivet.schedule.event_id"
	keyScheduleAction    = "rivet.schedule.action"
	keyScheduleTimestamp = "rivet.schedule.timestamp_ms" // Unix milliseconds
	keyEventName         = "rivet.event.name"
	keyLogLevel          = "log.level"
	keyLogMessage        = "log.message"
	keyErrorMessage      = "error.message"
)

// Keys of OpenTelemetry's semantic conventions that are used beside them
// (https://opentelemetry.io/docs/specs/semconv/), and what the queue is called there as a
// messaging system.
const (
	keyErrorType            = "error.type"
	keyMessagingSystem      = "messaging.system"
	keyMessagingDestination = "messaging.destination.name"
	keyMessagingMessageID   = "messaging.message.id"
	keyMessagingOperation   = "messaging.operation.name"
	keyMessagingType        = "messaging.operation.type"
	messagingSystem         = "greenroom"
)
