package actorotel

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
)

// newRecorder returns a Recorder, and the spans that it has ended.
func newRecorder(t *testing.T) (*Recorder, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	t.Cleanup(func() {
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return New(provider, Actor{ID: "a1", Name: "lobby", Region: "here"}), exporter
}

// words prints spans as people would write them down, in the order in which they ended.
func words(spans tracetest.SpanStubs) string {
	var b strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&b, "%s %v %v%s\n", s.Name, s.SpanKind, s.Status.Code, list(s.Attributes))
		for _, e := range s.Events {
			fmt.Fprintf(&b, "  %s%s\n", e.Name, list(e.Attributes))
		}
	}
	return b.String()
}

func list(attrs []attribute.KeyValue) string {
	var b strings.Builder
	for _, kv := range attrs {
		value := kv.Value.String()
		if kv.Key == "exception.stacktrace" {
			value = "…"
		}
		fmt.Fprintf(&b, " %s=%s", kv.Key, value)
	}
	return b.String()
}

const own = " rivet.actor.id=a1 rivet.actor.name=lobby rivet.actor.region=here"

func TestRun(t *testing.T) {
	rec, spans := newRecorder(t)
	broken := errors.New("broken")
	for _, c := range []struct {
		run  func(fn func(context.Context) error) error
		fn   func(ctx context.Context) error
		err  error
		want string
	}{
		{func(fn func(context.Context) error) error {
			return rec.Run(t.Context(), SpanOnWake, fn, attribute.Int("n", 1))
		}, func(ctx context.Context) error {
			Broadcast(ctx, "news")
			return nil
		}, nil, "actor.onWake internal Unset" + own + " n=1\n  message.broadcast rivet.event.name=news\n"},
		{func(fn func(context.Context) error) error { return rec.RunAction(t.Context(), "buy", fn) },
			func(context.Context) error { return broken }, broken,
			"actor.action.buy server Error" + own + " rivet.action.name=buy rivet.action.scheduled=false error.type=*errors.errorString\n" +
				"  exception exception.type=*errors.errorString exception.message=broken\n"},
		{func(fn func(context.Context) error) error { return rec.Run(t.Context(), SpanRun, fn) },
			func(ctx context.Context) error { Crash(ctx, broken); Crash(ctx, nil); return nil }, nil,
			"actor.run internal Error" + own + "\n  actor.crash error.type=*errors.errorString error.message=broken\n"},
	} {
		spans.Reset()
		if err := c.run(c.fn); err != c.err {
			t.Errorf("got %v, want %v", err, c.err)
		}
		if got := words(spans.GetSpans()); got != c.want {
			t.Errorf("got\n%swant\n%s", got, c.want)
		}
		if s := spans.GetSpans()[0].InstrumentationScope; s.Name != scopeName || s.SchemaURL != SchemaURL {
			t.Errorf("got %+v", s)
		}
	}
}

// TestPanic ends the span, with the stack, and lets the panic go on.
func TestPanic(t *testing.T) {
	rec, spans := newRecorder(t)
	func() {
		defer func() {
			if got := recover(); got != "oops" {
				t.Errorf("got %v", got)
			}
		}()
		if err := rec.Run(t.Context(), SpanOnCreate, func(context.Context) error { panic("oops") }); err != nil {
			t.Error(err)
		}
	}()
	want := "actor.onCreate internal Error" + own + " error.type=panic\n" +
		"  exception exception.type=panic exception.message=the function didn't return exception.stacktrace=…\n"
	got := spans.GetSpans()
	if words(got) != want {
		t.Errorf("got\n%swant\n%s", words(got), want)
	}
	if stack := got[0].Events[0].Attributes[2].Value.AsString(); !strings.Contains(stack, "TestPanic.func") {
		t.Errorf("got %s", stack)
	}
}

func TestRequest(t *testing.T) {
	rec, spans := newRecorder(t)
	request := func(method, url string, change func(*http.Request)) *http.Request {
		r := httptest.NewRequest("GET", url, nil)
		r.Method = method
		if change != nil {
			change(r)
		}
		return r
	}
	for _, c := range []struct {
		req  *http.Request
		want string
	}{
		{request("GET", "/cart?a=1", nil), "http.request.method=GET url.full=http://example.com/cart?a=1"},
		{request("", "/", func(r *http.Request) { r.TLS = &tls.ConnectionState{} }), "http.request.method=GET url.full=https://example.com/"},
		{request("BREW", "http://host/pot", func(r *http.Request) { r.URL.Fragment = "x" }), "http.request.method=_OTHER http.request.method_original=BREW url.full=http://host/pot"},
		{request("POST", "https://me:secret@host/?token=secret&b=2", nil), "http.request.method=POST url.full=https://REDACTED:REDACTED@host/?b=2&token=REDACTED"},
		{request("GET", "/", func(r *http.Request) { r.URL = nil }), "http.request.method=GET url.full="},
	} {
		spans.Reset()
		ctx, span := rec.Start(t.Context(), SpanRun)
		_, inner := rec.StartRequest(ctx, SpanOnRequest, c.req)
		Finish(inner, nil)
		Finish(span, nil)
		got := spans.GetSpans()
		if want := "actor.onRequest server Unset" + own + " " + c.want + "\n"; words(got[:1]) != want {
			t.Errorf("got %swant %s", words(got[:1]), want)
		}
		if got[0].Parent.SpanID() != got[1].SpanContext.SpanID() {
			t.Error("the request is nobody's child")
		}
	}
}

// open gives a test an actor.
func open(t *testing.T) *actorstore.Actor {
	t.Helper()
	store, err := actorstore.Open(t.Context(), memkv.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	actor, err := store.Named(t.Context(), "lobby", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(actor.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return actor
}

// TestSchedule runs a scheduled action, and a change of the state, in spans.
func TestSchedule(t *testing.T) {
	rec, spans := newRecorder(t)
	r, err := persist.Open(t.Context(), open(t), &persist.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan int, 1)
	state, err := persist.OpenState(t.Context(), r, &persist.StateOptions[int]{
		OnChange: OnChange(rec, func(ctx context.Context, n int) error {
			if !trace.SpanFromContext(ctx).IsRecording() {
				t.Error("no span")
			}
			changed <- n
			return nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1_700_000_000_000) // has passed
	err = rec.Run(t.Context(), SpanOnCreate, func(ctx context.Context) error {
		id, err := r.Schedule().Add(ctx, persist.Job{ID: "e1", Action: "tick", At: at})
		Scheduled(ctx, id, "tick", at)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	lookup := rec.Actions(persist.Actions{"tick": func(ctx context.Context, f *persist.Firing) error {
		trace.SpanFromContext(ctx).SetAttributes(attribute.Int("attempt", f.Attempt))
		ran <- state.Mutate(ctx, func(n *int) error { *n++; return nil })
		return nil
	}}.Lookup)
	if lookup("nobody") != nil {
		t.Error("an action that isn't there is there")
	}
	if err := r.Schedule().Start(t.Context(), lookup); err != nil {
		t.Fatal(err)
	}
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if n := <-changed; n != 1 {
		t.Errorf("got %d", n)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	event := " rivet.schedule.event_id=e1 rivet.schedule.action=tick rivet.schedule.timestamp_ms=1700000000000\n"
	got := words(spans.GetSpans())
	for _, want := range []string{
		"actor.onCreate internal Unset" + own + "\n  schedule.created" + event,
		"actor.action.tick internal Unset" + own + " rivet.action.name=tick rivet.action.scheduled=true attempt=1\n  schedule.triggered" + event,
		"actor.onStateChange internal Unset" + own + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
}

// TestConnections records who comes and goes, and what they are sent.
func TestConnections(t *testing.T) {
	rec, spans := newRecorder(t)
	reasons := make(chan string, 2)
	disconnected := rec.OnDisconnect(func(_ context.Context, _ *conn.Conn, reason string) error {
		reasons <- reason
		return nil
	})
	set, err := conn.Open(t.Context(), open(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := set.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	var want string
	for _, info := range []conn.Info{{Path: "/"}, {Ephemeral: true}} {
		spans.Reset()
		var b batch.Batch
		c, err := set.In(&b).Create(info)
		if err != nil {
			t.Fatal(err)
		}
		ctx, span := rec.Start(t.Context(), SpanOnConnect)
		Connected(ctx, c)
		Sent(ctx, c, "news")
		Finish(span, nil)
		if err := disconnected(t.Context(), c, "bye"); err != nil {
			t.Fatal(err)
		}
		attrs := " rivet.conn.id=" + string(c.ID()) + " rivet.conn.hibernatable=true rivet.conn.type=websocket"
		if info.Ephemeral {
			attrs = " rivet.conn.id=" + string(c.ID()) + " rivet.conn.hibernatable=false"
		}
		want = "actor.onConnect internal Unset" + own + "\n  connection.connect" + attrs + "\n  message.send" + attrs + " rivet.event.name=news\n" +
			"actor.onDisconnect internal Unset" + own + attrs + "\n  connection.disconnect" + attrs + "\n"
		if got := words(spans.GetSpans()); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if got := <-reasons; got != "bye" {
			t.Errorf("got %q", got)
		}
	}
	if err := rec.OnDisconnect(nil)(t.Context(), &conn.Conn{}, ""); err != nil {
		t.Error(err)
	}
}

func TestReceived(t *testing.T) {
	rec, spans := newRecorder(t)
	q, err := queue.Open(t.Context(), open(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := q.Enqueue(t.Context(), queue.Send{Name: "job"}); err != nil {
		t.Fatal(err)
	}
	err = rec.Run(t.Context(), SpanRun, func(ctx context.Context) error {
		msgs, err := q.Receive(ctx, nil)
		if err == nil {
			Received(ctx, msgs[0])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	e := spans.GetSpans()[0].Events[0]
	got := map[attribute.Key]attribute.Value{}
	for _, kv := range e.Attributes {
		got[kv.Key] = kv.Value
	}
	if e.Name != "queue.message.receive" || got["rivet.queue.name"].AsString() != "job" || got["rivet.queue.message_id"].AsInt64() != 1 ||
		got["messaging.system"].AsString() != "greenroom" || got["messaging.destination.name"].AsString() != "job" ||
		got["messaging.message.id"].AsString() != "1" || got["messaging.operation.type"].AsString() != "receive" {
		t.Errorf("got %s %v", e.Name, got)
	}
	created, latency := got["rivet.queue.created_at_ms"].AsInt64(), got["rivet.queue.latency_ms"].AsInt64()
	if since := time.Now().UnixMilli() - created; since < 0 || latency < 0 || latency > since {
		t.Errorf("created %d ms ago, after %d ms", since, latency)
	}
}

// TestLog makes events of what is logged with a span, and logs everything all the same.
func TestLog(t *testing.T) {
	rec, spans := newRecorder(t)
	var out bytes.Buffer
	log := slog.New(LogHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	err := rec.Run(t.Context(), SpanRun, func(ctx context.Context) error {
		log.With("a", 1).WithGroup("g").WarnContext(ctx, "hello", "b", 2)
		log.DebugContext(ctx, "too much")
		log.Info("elsewhere")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := words(spans.GetSpans()), "actor.run internal Unset"+own+"\n  log log.level=warn log.message=hello\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "msg=hello a=1 g.b=2") || !strings.Contains(got, "msg=elsewhere") {
		t.Errorf("got %s", got)
	}
}

// TestNobody records nothing without a provider, and calls everything all the same.
func TestNobody(t *testing.T) {
	rec := New(nil, Actor{ID: "a1"})
	called := false
	if err := rec.RunAction(t.Context(), "x", func(ctx context.Context) error {
		called = true
		Connected(ctx, nil) // not looked at
		Sent(ctx, nil, "")
		Received(ctx, nil)
		Scheduled(ctx, "", "", time.Time{})
		Broadcast(ctx, "")
		Crash(ctx, errors.New("x"))
		return nil
	}); err != nil || !called {
		t.Errorf("got %v, %v", err, called)
	}
}

// TestNames holds the names: they are a format that others read.
func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		ActionSpan("x"): "actor.action.x", SpanBeforeActionResponse: "actor.onBeforeActionResponse", SpanOnWebSocket: "actor.onWebSocket",
		SpanCreateState: "actor.createState", SpanCreateVars: "actor.createVars", SpanOnSleep: "actor.onSleep", SpanOnDestroy: "actor.onDestroy",
		SpanOnBeforeConnect: "actor.onBeforeConnect", SpanCreateConnState: "actor.createConnState",
		string(KeyActorKey): "rivet.actor.key", string(KeyRequestMethod): "http.request.method", string(KeyURL): "url.full",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if codes.Error.String() != "Error" || SchemaURL != "https://opentelemetry.io/schemas/1.43.0" {
		t.Error("other conventions")
	}
}
