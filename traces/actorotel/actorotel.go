// Package actorotel records what an actor's runtime does as spans and events, through
// OpenTelemetry's API: it has their names, which tools of other runtimes know too, and
// their attributes, and wraps the functions that queue, conn and persist call.
//
//	rec := actorotel.New(provider, actorotel.Actor{ID: id, Name: "lobby"})
//	err := rec.Run(ctx, actorotel.SpanOnWake, wake)
//	err = record.Schedule().Start(ctx, rec.Actions(actions.Lookup))
//
// A provider of OpenTelemetry's SDK with the processor of traces/otelsdk has the spans land
// in the actor's own keys; any other takes them elsewhere.
//
// # Whose span an event belongs to
//
// Events are added to the span that the context has. Without one, or without a provider,
// nothing is recorded and next to nothing done.
//
// # What it is not
//
// It links no SDK, and starts nothing: what records, samples and exports is the program's
// choice. Nor does it know what an actor is: who runs actors calls it.
package actorotel

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scopeName is what the spans say recorded them.
const scopeName = "github.com/greenroomdb/greenroom/traces/actorotel"

// An Actor is whose spans they are. What is empty is left out.
type Actor struct {
	ID     string
	Name   string
	Key    string
	Region string
}

// A Recorder records the spans of one actor. It is safe for concurrent use.
type Recorder struct {
	tracer trace.Tracer
	actor  []attribute.KeyValue
}

// New returns a Recorder that records with a provider; nil means nowhere.
func New(provider trace.TracerProvider, a Actor) *Recorder {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	r := &Recorder{tracer: provider.Tracer(scopeName, trace.WithSchemaURL(SchemaURL))}
	for _, kv := range []attribute.KeyValue{
		KeyActorID.String(a.ID), KeyActorName.String(a.Name), KeyActorKey.String(a.Key), KeyActorRegion.String(a.Region),
	} {
		if kv.Value.AsString() != "" {
			r.actor = append(r.actor, kv)
		}
	}
	return r
}

// Start starts a span with the actor's attributes, and returns it with a context that has
// it. Finish ends it.
func (r *Recorder) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	return r.tracer.Start(ctx, name, append([]trace.SpanStartOption{trace.WithAttributes(r.actor...)}, opts...)...)
}

// Finish ends a span, and says that it went wrong unless err is nil: with an event of an
// exception, the status, and error.type.
func Finish(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		span.RecordError(err)
		span.SetAttributes(semconv.ErrorType(err))
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// Run has fn run in a span of its own, and returns what it does. A panic ends the span as
// an error does, with the stack, and goes on.
func (r *Recorder) Run(ctx context.Context, name string, fn func(context.Context) error, attrs ...attribute.KeyValue) error {
	return r.run(ctx, name, fn, trace.WithAttributes(attrs...))
}

func (r *Recorder) run(ctx context.Context, name string, fn func(context.Context) error, opts ...trace.SpanStartOption) (err error) {
	ctx, span := r.Start(ctx, name, opts...)
	returned := false
	defer func() {
		if returned {
			Finish(span, err)
			return
		}
		// A panic, which is not stopped here, or runtime.Goexit, which has no value.
		finishPanic(span)
	}()
	err = fn(ctx)
	returned = true
	return err
}

// finishPanic ends the span of a function that didn't return.
func finishPanic(span trace.Span) {
	const what = "panic"
	if span.IsRecording() {
		span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(
			semconv.ExceptionType(what), semconv.ExceptionMessage("the function didn't return"),
			semconv.ExceptionStacktrace(string(debug.Stack())),
		))
		span.SetAttributes(KeyErrorType.String(what))
		span.SetStatus(codes.Error, what)
	}
	span.End()
}

// RunAction is Run for an action that somebody has called. Scheduled actions run through
// Actions.
func (r *Recorder) RunAction(ctx context.Context, action string, fn func(context.Context) error) error {
	return r.run(ctx, ActionSpan(action), fn, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(KeyActionName.String(action), KeyActionScheduled.Bool(false)))
}

// StartRequest starts the span of an HTTP request (SpanOnRequest) or of a WebSocket
// (SpanOnWebSocket). A password in its URL is not recorded, nor are the values of its query
// that are known to be secrets.
func (r *Recorder) StartRequest(ctx context.Context, name string, req *http.Request) (context.Context, trace.Span) {
	attrs := append(method(req.Method), KeyURL.String(fullURL(req)))
	return r.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...))
}

// method returns the attributes of a method: one that isn't known would be a value of which
// tools can't know how many there are
// (https://opentelemetry.io/docs/specs/semconv/registry/attributes/http/).
func method(m string) []attribute.KeyValue {
	switch m {
	case "":
		return []attribute.KeyValue{KeyRequestMethod.String(http.MethodGet)} // as net/http has it
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace, "QUERY":
		return []attribute.KeyValue{KeyRequestMethod.String(m)}
	}
	return []attribute.KeyValue{KeyRequestMethod.String("_OTHER"), KeyRequestMethodAsGiven.String(m)}
}

// secrets are the parameters whose values the semantic conventions have replaced
// (https://opentelemetry.io/docs/specs/semconv/registry/attributes/url/).
var secrets = [...]string{"AWSAccessKeyId", "Signature", "sig", "X-Goog-Signature", "X-Amz-Signature", "token"}

// fullURL returns the URL that the client asked for. A request that a server got has only
// the path.
func fullURL(req *http.Request) string {
	if req.URL == nil {
		return ""
	}
	u := *req.URL
	if u.Host == "" {
		u.Host = req.Host
	}
	if u.Scheme == "" && u.Host != "" {
		u.Scheme = "http"
		if req.TLS != nil {
			u.Scheme = "https"
		}
	}
	if u.User != nil {
		u.User = url.UserPassword("REDACTED", "REDACTED")
	}
	if q := u.Query(); len(q) > 0 {
		hidden := false
		for _, name := range secrets {
			if q.Has(name) {
				q.Set(name, "REDACTED")
				hidden = true
			}
		}
		if hidden {
			u.RawQuery = q.Encode()
		}
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String()
}

// Crash records that the actor ends because of an error.
func Crash(ctx context.Context, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() || err == nil {
		return
	}
	span.AddEvent(EventCrash, trace.WithAttributes(semconv.ErrorType(err), KeyErrorMessage.String(err.Error())))
	span.SetStatus(codes.Error, fmt.Sprint("crash: ", err))
}
