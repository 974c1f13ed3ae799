package actorotel

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Names of spans. The span of an action is named by ActionSpan.
const (
	SpanCreateState          = "actor.createState"
	SpanOnCreate             = "actor.onCreate"
	SpanCreateVars           = "actor.createVars"
	SpanOnWake               = "actor.onWake"
	SpanOnSleep              = "actor.onSleep"
	SpanOnDestroy            = "actor.onDestroy"
	SpanRun                  = "actor.run"
	SpanOnStateChange        = "actor.onStateChange"
	SpanOnBeforeConnect      = "actor.onBeforeConnect"
	SpanCreateConnState      = "actor.createConnState"
	SpanOnConnect            = "actor.onConnect"
	SpanOnDisconnect         = "actor.onDisconnect"
	SpanOnRequest            = "actor.onRequest"
	SpanOnWebSocket          = "actor.onWebSocket"
	SpanBeforeActionResponse = "actor.onBeforeActionResponse"
)

// ActionSpan returns the name of the span of an action: "actor.action." and the name.
func ActionSpan(action string) string { return "actor.action." + action }

// Names of events.
const (
	EventQueueReceive      = "queue.message.receive"
	EventScheduleCreated   = "schedule.created"
	EventScheduleTriggered = "schedule.triggered"
	EventMessageSend       = "message.send"
	EventMessageBroadcast  = "message.broadcast"
	EventConnect           = "connection.connect"
	EventDisconnect        = "connection.disconnect"
	EventCrash             = "actor.crash"
	EventLog               = "log"
)

// Keys of attributes. Those of actors are the runtime's own, under a name that only it
// uses.
const (
	KeyActorID           = attribute.Key("rivet.actor.id")
	KeyActorName         = attribute.Key("rivet.actor.name")
	KeyActorKey          = attribute.Key("rivet.actor.key")
	KeyActorRegion       = attribute.Key("rivet.actor.region")
	KeyActionName        = attribute.Key("rivet.action.name")
	KeyActionScheduled   = attribute.Key("rivet.action.scheduled") // bool
	KeyConnID            = attribute.Key("rivet.conn.id")
	KeyConnType          = attribute.Key("rivet.conn.type")
	KeyConnHibernatable  = attribute.Key("rivet.conn.hibernatable") // bool
	KeyQueueName         = attribute.Key("rivet.queue.name")
	KeyQueueMessageID    = attribute.Key("rivet.queue.message_id")    // integer
	KeyQueueCreated      = attribute.Key("rivet.queue.created_at_ms") // Unix milliseconds
	KeyQueueLatency      = attribute.Key("rivet.queue.latency_ms")    // milliseconds
	KeyScheduleEventID   = attribute.Key("rivet.schedule.event_id")
	KeyScheduleAction    = attribute.Key("rivet.schedule.action")
	KeyScheduleTimestamp = attribute.Key("rivet.schedule.timestamp_ms") // Unix milliseconds
	KeyEventName         = attribute.Key("rivet.event.name")
	KeyLogLevel          = attribute.Key("log.level")
	KeyLogMessage        = attribute.Key("log.message")
	KeyErrorMessage      = attribute.Key("error.message")
)

// Keys of the semantic conventions that are used beside them, of the version that SchemaURL
// names: what used to be http.method and http.url, and those of messaging, which tools know.
const (
	KeyErrorType            = semconv.ErrorTypeKey
	KeyRequestMethod        = semconv.HTTPRequestMethodKey
	KeyRequestMethodAsGiven = semconv.HTTPRequestMethodOriginalKey
	KeyURL                  = semconv.URLFullKey
	KeyMessagingSystem      = semconv.MessagingSystemKey
	KeyMessagingDestination = semconv.MessagingDestinationNameKey
	KeyMessagingMessageID   = semconv.MessagingMessageIDKey
	KeyMessagingOperation   = semconv.MessagingOperationNameKey
	KeyMessagingType        = semconv.MessagingOperationTypeKey
)

// SchemaURL names the version of the semantic conventions
// (https://opentelemetry.io/docs/specs/semconv/).
const SchemaURL = semconv.SchemaURL

// System is what the queue is called as a messaging system.
const System = "greenroom"
