package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/traces"
)

// Every turn is a span in the actor's own traces, if the host records any; hooks that a
// turn calls are spans below it, and what it does are its events. Names and attributes
// are those of spannames.go, which tools of other runtimes know, and turns that
// those don't have are called likewise.

// Names of this host alone.
const (
	spanTurn      = "actor.turn"      // of Turn
	spanMessage   = "actor.onMessage" // of Type.Message
	eventSend     = "queue.message.send"
	eventTo       = "greenroom.actor.to" // attribute: the address of another actor
	exception     = "exception"          // https://opentelemetry.io/docs/specs/semconv/exceptions/exceptions-spans/
	exceptionType = "exception.type"
	exceptionText = "exception.message"
	exceptionAt   = "exception.stacktrace"
)

// span starts the span of a turn, nil if nothing is recorded.
func (l *life) span(t *turn) *traces.Span {
	if l.traces == nil {
		return nil
	}
	attrs := append(make([]traces.Attr, 0, len(l.spanAttrs)+4), l.spanAttrs...)
	if t.action != "" {
		attrs = append(attrs, traces.String(keyActionName, t.action),
			traces.Bool(keyActionScheduled, t.scheduled))
	}
	if t.conn != "" {
		attrs = append(attrs, traces.String(keyConnID, string(t.conn)))
	}
	o := &traces.StartOptions{Kind: traces.KindInternal, Attributes: attrs, Parent: t.parent, TraceID: t.trace, ParentID: t.above}
	if t.action != "" && !t.scheduled {
		o.Kind = traces.KindServer
	}
	return l.traces.Begin(t.spanName(), o)
}

// describe has the actor's spans say whose they are.
func (l *life) describe() {
	l.spanAttrs = []traces.Attr{
		traces.String(keyActorID, l.actor.ID().String()),
		traces.String(keyActorName, l.addr.Type),
		traces.String(keyActorKey, l.addr.Key),
	}
}

// spanOf returns what a span of the actor begins with.
func (l *life) spanOf(parent *traces.Span) *traces.StartOptions {
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

// hook calls fn, a hook of the type, in a span below that of the turn, unless the turn is
// for nothing else.
func (c *Context) hook(name string, fn func() error) error {
	if c.Span() == nil || c.turn.name == name {
		return fn()
	}
	around := c.Span()
	c.open.SetSpan(c.life.traces.Begin(name, c.life.spanOf(around)))
	err := errHookPanic // which goes on, to the end of the turn
	defer func() {
		endSpan(c.Span(), err)
		c.open.SetSpan(around)
	}()
	err = fn()
	return err
}

// errHookPanic is how the span of a hook ends that panicked.
var errHookPanic = fmt.Errorf("%w in a hook", ErrPanic)

// traced calls fn, code of the type outside of any turn, in a span.
func (l *life) traced(name string, fn func() error) error {
	var s *traces.Span
	if l.traces != nil {
		s = l.traces.Begin(name, l.spanOf(nil))
	}
	err := shield(fn)
	endSpan(s, err)
	return err
}

// sent records that a message to another actor was put into the outbox.
func (c *Context) sent(name string, more traces.Attr) {
	if c.Span() == nil {
		return
	}
	c.Span().Event(eventSend,
		traces.String(keyQueueName, name), more,
		traces.String(keyMessagingSystem, messagingSystem),
		traces.String(keyMessagingDestination, name),
		traces.String(keyMessagingOperation, "send"),
		traces.String(keyMessagingType, "send"))
}

// scheduleEvent records something about an event of the schedule.
func (c *Context) scheduleEvent(name string, e *persist.Event) {
	if c.Span() == nil {
		return
	}
	attrs := []traces.Attr{
		traces.String(keyScheduleEventID, e.ID),
		traces.String(keyScheduleAction, e.Action),
	}
	if !e.At.IsZero() { // else a rule says when
		attrs = append(attrs, traces.Int(keyScheduleTimestamp, e.At.UnixMilli()))
	}
	c.Span().Event(name, attrs...)
}

// connEvent records something about a connection.
func (c *Context) connEvent(name string, n *conn.Conn, more ...traces.Attr) {
	if c.Span() == nil {
		return
	}
	attrs := append(make([]traces.Attr, 0, 3+len(more)),
		traces.String(keyConnID, string(n.ID())),
		traces.Bool(keyConnHibernatable, !n.Ephemeral()))
	if !n.Ephemeral() {
		attrs = append(attrs, traces.String(keyConnType, "websocket"))
	}
	c.Span().Event(name, append(attrs, more...)...)
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
