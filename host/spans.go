package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/traces"
)

// Every turn is a span in the actor's own traces, if the host records any. The hooks of a turn are
// spans below it, and what the turn does are its events. The names and attributes in spannames.go
// are those that tools of other runtimes know; turns that only this host knows are named alike.

// Names of this host alone.
const (
	spanTurn      = "actor.turn"      // of Turn
	spanTogether  = "actor.together"  // of Together, and of the other actors of a joint action
	spanMessage   = "actor.onMessage" // of Type.Message
	spanReturn    = "actor.returnMessage"
	spanWork      = "actor.work" // of Type.Work, which isn't a turn
	spanExtend    = "actor.extendLease"
	spanMigrate   = "actor.migrate"
	spanReconnect = "actor.reconnect"
	spanSubscribe = "actor.subscribe"
	eventSend     = "queue.message.send"
	eventTo       = "greenroom.actor.to" // attribute: the address of another actor
	exception     = "exception"          // https://opentelemetry.io/docs/specs/semconv/exceptions/exceptions-spans/
	exceptionType = "exception.type"
	exceptionText = "exception.message"
	exceptionAt   = "exception.stacktrace"
)

// A recorder makes the spans of an actor.
type recorder struct {
	traces    *traces.Traces // nil if nothing is recorded
	spanAttrs []traces.Attr  // of all spans; must not change
}

// describe sets the attributes with which the actor's spans name it.
func (l *recorder) describe(id actorstore.ID, a Address) {
	l.spanAttrs = []traces.Attr{
		traces.String(keyActorID, id.String()),
		traces.String(keyActorName, a.Type),
		traces.String(keyActorKey, a.Key),
	}
}

// spanOf returns what a span of the actor begins with.
func (l *recorder) spanOf(parent *traces.Span) *traces.StartOptions {
	return &traces.StartOptions{Kind: traces.KindInternal, Parent: parent, Attributes: l.spanAttrs}
}

// endSpan ends a span, and says what went wrong unless err is nil.
func endSpan(s *traces.Span, err error) {
	if s == nil {
		return
	}
	if err == nil {
		s.End()
		return
	}
	kind, attrs := errorType(err), []traces.Attr(nil)
	attrs = append(attrs, traces.String(exceptionType, kind), traces.String(exceptionText, err.Error()))
	var p *panicError
	if errors.As(err, &p) {
		attrs = append(attrs, traces.String(exceptionAt, string(p.stack)))
		s.Event(eventCrash, traces.String(keyErrorType, kind),
			traces.String(keyErrorMessage, err.Error()))
	}
	s.Event(exception, attrs...)
	s.SetAttributes(traces.String(keyErrorType, kind))
	s.EndWith(time.Time{}, &traces.Status{Code: traces.StatusError, Message: err.Error()})
}

// errorType is the word for an error, or else its type in Go.
func errorType(err error) string {
	if code := Code(err); code != codeInternal {
		return code
	}
	return fmt.Sprintf("%T", err)
}

// errHookPanic is how the span of a hook ends that panicked.
var errHookPanic = fmt.Errorf("%w in a hook", ErrPanic)

// traced calls fn, code of the type outside of any turn, in a span.
func (l *recorder) traced(name string, fn func() error) error {
	var s *traces.Span
	if l.traces != nil {
		s = l.traces.Begin(name, l.spanOf(nil))
	}
	err := shield(fn)
	endSpan(s, err)
	return err
}

// sentEvent records in s that a message to another actor was put into the outbox.
func sentEvent(s *traces.Span, name string, more traces.Attr) {
	if s == nil {
		return
	}
	s.Event(eventSend,
		traces.String(keyQueueName, name), more,
		traces.String(keyMessagingSystem, messagingSystem),
		traces.String(keyMessagingDestination, name),
		traces.String(keyMessagingOperation, "send"),
		traces.String(keyMessagingType, "send"))
}

// scheduleEvent records in s something about an event of the schedule.
func scheduleEvent(s *traces.Span, name string, e *persist.Event) {
	if s == nil {
		return
	}
	attrs := []traces.Attr{
		traces.String(keyScheduleEventID, e.ID),
		traces.String(keyScheduleAction, e.Action),
	}
	if !e.At.IsZero() { // else a rule says when
		attrs = append(attrs, traces.Int(keyScheduleTimestamp, e.At.UnixMilli()))
	}
	s.Event(name, attrs...)
}

// connEvent records in s something about a connection.
func connEvent(s *traces.Span, name string, n *conn.Conn, more ...traces.Attr) {
	if s == nil {
		return
	}
	attrs := append(make([]traces.Attr, 0, 3+len(more)),
		traces.String(keyConnID, string(n.ID())),
		traces.Bool(keyConnHibernatable, !n.Ephemeral()))
	if !n.Ephemeral() {
		attrs = append(attrs, traces.String(keyConnType, "websocket"))
	}
	s.Event(name, append(attrs, more...)...)
}

// A spanHandler records what is logged in a turn as events of its span, beside the log:
// level and message, and not the attributes, which may be more than a span should hold.
type spanHandler struct {
	slog.Handler
	span *traces.Span
}

// Handle implements slog.Handler.
func (h spanHandler) Handle(ctx context.Context, r slog.Record) error {
	h.span.AddEvent(traces.Event{Name: eventLog, Time: r.Time, Attributes: []traces.Attr{
		traces.String(keyLogLevel, strings.ToLower(r.Level.String())),
		traces.String(keyLogMessage, r.Message),
	}})
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h spanHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return spanHandler{h.Handler.WithAttrs(attrs), h.span}
}

// WithGroup implements slog.Handler.
func (h spanHandler) WithGroup(name string) slog.Handler {
	return spanHandler{h.Handler.WithGroup(name), h.span}
}
