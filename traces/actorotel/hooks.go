package actorotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
)

// Received records that a message of the queue was received.
func Received(ctx context.Context, m *queue.Message) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.AddEvent(EventQueueReceive, trace.WithAttributes(
		KeyQueueName.String(m.Name), KeyQueueMessageID.Int64(int64(m.ID)),
		KeyQueueCreated.Int64(m.Created.UnixMilli()), KeyQueueLatency.Int64(max(time.Since(m.Created).Milliseconds(), 0)),
		KeyMessagingSystem.String(System), KeyMessagingDestination.String(m.Name), KeyMessagingMessageID.String(m.ID.String()),
		KeyMessagingOperation.String("receive"), KeyMessagingType.String("receive"),
	))
}

// Actions returns lookup, for persist's Schedule.Start, with each action in a span of its
// own that says which event it was called for.
func (r *Recorder) Actions(lookup func(action string) persist.Action) func(action string) persist.Action {
	return func(name string) persist.Action {
		action := lookup(name)
		if action == nil {
			return nil
		}
		return func(ctx context.Context, f *persist.Firing) error {
			return r.run(ctx, ActionSpan(name), func(ctx context.Context) error {
				trace.SpanFromContext(ctx).AddEvent(EventScheduleTriggered, trace.WithAttributes(eventAttrs(&f.Event)...))
				return action(ctx, f)
			}, trace.WithAttributes(KeyActionName.String(name), KeyActionScheduled.Bool(true)))
		}
	}
}

func eventAttrs(e *persist.Event) []attribute.KeyValue {
	return []attribute.KeyValue{
		KeyScheduleEventID.String(e.ID), KeyScheduleAction.String(e.Action), KeyScheduleTimestamp.Int64(e.At.UnixMilli()),
	}
}

// Scheduled records that an action was scheduled: id is what Schedule.Add returned, and at
// when the event runs.
func Scheduled(ctx context.Context, id, action string, at time.Time) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.AddEvent(EventScheduleCreated, trace.WithAttributes(eventAttrs(&persist.Event{ID: id, Action: action, At: at})...))
}

// OnChange returns fn, for persist's StateOptions.OnChange, in a span. It is a function
// because methods have no type parameters.
func OnChange[T any](r *Recorder, fn func(ctx context.Context, state T) error) func(ctx context.Context, state T) error {
	return func(ctx context.Context, state T) error {
		return r.Run(ctx, SpanOnStateChange, func(ctx context.Context) error { return fn(ctx, state) })
	}
}

// OnDisconnect returns fn, which is called for a connection that goes, in a span that says
// which connection it is. fn may be nil.
func (r *Recorder) OnDisconnect(fn func(ctx context.Context, c *conn.Conn, reason string) error) func(context.Context, *conn.Conn, string) error {
	return func(ctx context.Context, c *conn.Conn, reason string) error {
		attrs := connAttrs(c)
		return r.Run(ctx, SpanOnDisconnect, func(ctx context.Context) error {
			trace.SpanFromContext(ctx).AddEvent(EventDisconnect, trace.WithAttributes(attrs...))
			if fn == nil {
				return nil
			}
			return fn(ctx, c, reason)
		}, attrs...)
	}
}

// Connected records that there is a new connection.
func Connected(ctx context.Context, c *conn.Conn) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(EventConnect, trace.WithAttributes(connAttrs(c)...))
	}
}

// connAttrs are a connection's. Its type is what carries it, as far as that is known: those
// that hibernate are WebSockets at a gateway.
func connAttrs(c *conn.Conn) []attribute.KeyValue {
	attrs := []attribute.KeyValue{KeyConnID.String(string(c.ID())), KeyConnHibernatable.Bool(!c.Ephemeral())}
	if !c.Ephemeral() {
		attrs = append(attrs, KeyConnType.String("websocket"))
	}
	return attrs
}

// Sent records that a message of an event went to one connection.
func Sent(ctx context.Context, c *conn.Conn, event string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(EventMessageSend, trace.WithAttributes(append(connAttrs(c), KeyEventName.String(event))...))
	}
}

// Broadcast records that a message of an event went to all connections that want it.
func Broadcast(ctx context.Context, event string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(EventMessageBroadcast, trace.WithAttributes(KeyEventName.String(event)))
	}
}
