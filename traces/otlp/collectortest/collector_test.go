package collectortest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otelsdk"
	"github.com/greenroomdb/greenroom/traces/otlp"
	"github.com/greenroomdb/greenroom/traces/otlp/otlptest"
)

// patience is how long an answer may take: an attempt that is given up on a busy machine is
// made again, and the collector has its spans twice.
const patience = time.Minute

// A collector is a receiver of OTLP over HTTP on loopback, and what it has received.
type collector struct {
	url string
	*consumertest.TracesSink
}

// newCollector starts a receiver on a port that the system chooses.
func newCollector(t *testing.T) *collector {
	t.Helper()
	return newCollectorTo(t, func(sink *consumertest.TracesSink) consumer.Traces { return sink })
}

// newCollectorTo is newCollector with something else that takes what was received.
func newCollectorTo(t *testing.T, next func(*consumertest.TracesSink) consumer.Traces) *collector {
	t.Helper()
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	cfg.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = "127.0.0.1:0"
	settings := receivertest.NewNopSettings(factory.Type())
	core, logs := observer.New(zap.InfoLevel)
	settings.Logger = zap.New(core)
	c := &collector{TracesSink: &consumertest.TracesSink{}}
	r, err := factory.CreateTraces(t.Context(), settings, cfg, next(c.TracesSink))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, entry := range logs.All() { // which port it is, only the log says
		if at, ok := entry.ContextMap()["endpoint"].(string); ok {
			c.url = "http://" + at
			return c
		}
	}
	t.Fatalf("the receiver doesn't say where it listens: %v", logs.All())
	return nil
}

// received returns all spans that came, as the official messages, by trace and id.
func (c *collector) received(t *testing.T) *tracepb.TracesData {
	t.Helper()
	all := &tracepb.TracesData{}
	for _, td := range c.AllTraces() {
		b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		if err != nil {
			t.Fatal(err)
		}
		part := &tracepb.TracesData{}
		if err := proto.Unmarshal(b, part); err != nil {
			t.Fatal(err)
		}
		all.ResourceSpans = append(all.ResourceSpans, part.ResourceSpans...)
	}
	return sorted(all)
}

// sorted gives each span a ResourceSpans of its own, in the order of ids, with attributes in
// the order of keys: what is the same whatever exporter grouped them.
func sorted(d *tracepb.TracesData) *tracepb.TracesData {
	out := &tracepb.TracesData{}
	for _, rs := range d.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				slices.SortFunc(s.Attributes, func(a, b *commonpb.KeyValue) int { return cmp.Compare(a.GetKey(), b.GetKey()) })
				one := proto.Clone(rs).(*tracepb.ResourceSpans)
				one.ScopeSpans = []*tracepb.ScopeSpans{{Scope: ss.Scope, SchemaUrl: ss.SchemaUrl, Spans: []*tracepb.Span{s}}}
				out.ResourceSpans = append(out.ResourceSpans, one)
			}
		}
	}
	slices.SortFunc(out.ResourceSpans, func(a, b *tracepb.ResourceSpans) int { return bytes.Compare(spanID(a), spanID(b)) })
	return out
}

func spanID(rs *tracepb.ResourceSpans) []byte { return rs.ScopeSpans[0].Spans[0].SpanId }

// wantSame compares span by span.
func wantSame(t *testing.T, got, want *tracepb.TracesData) {
	t.Helper()
	got, want = complete(got), complete(want)
	if len(got.ResourceSpans) != len(want.ResourceSpans) {
		t.Errorf("got %d spans, want %d", len(got.ResourceSpans), len(want.ResourceSpans))
		return
	}
	for i := range want.ResourceSpans {
		if g, w := got.ResourceSpans[i], want.ResourceSpans[i]; !proto.Equal(g, w) {
			t.Fatalf("got\n%s\nwant\n%s", prototext.Format(g), prototext.Format(w))
		}
	}
}

// everything is a span with a value of every kind, and one of which next to nothing is known.
func everything() []traces.SpanData {
	at := time.Unix(1_700_000_000, 123_456_789)
	huge := new(big.Int).Lsh(big.NewInt(1), 100)
	return []traces.SpanData{
		{
			TraceID: traces.TraceID{1}, SpanID: traces.SpanID{1}, Parent: traces.SpanID{9}, Name: "all <&> \xff", Kind: traces.KindConsumer,
			Start: at, End: at.Add(time.Second), TraceState: "vendor=1", Flags: 0x301,
			Status: traces.Status{Code: traces.StatusError, Message: "no"},
			Attributes: []traces.Attr{
				traces.Float("nan", math.NaN()), traces.Float("inf", math.Inf(1)), traces.Float("-inf", math.Inf(-1)), traces.Float("-0", math.Copysign(0, -1)),
				traces.Float("1e21", 1e21), traces.Float("3", 3), traces.Int("min", math.MinInt64), traces.Int("2^53+1", 1<<53+1),
				{Key: "2^100", Value: traces.BigValue(huge)}, {Key: "date", Value: traces.TimeValue(at)}, {Key: "bytes", Value: traces.BytesValue([]byte{0, 255, 62, 63})}, {Key: "null"},
				traces.Bool("bool", true), traces.String("", "no key"),
				{Key: "list", Value: traces.ArrayValue(traces.Value{}, traces.IntValue(1), traces.StringValue("x"), traces.ArrayValue(), traces.MapValue())},
				{Key: "map", Value: traces.MapValue(traces.Float("a", 1.5), traces.Attr{Key: "b"})},
			},
			Links:             []traces.Link{{TraceID: traces.TraceID{2}, SpanID: traces.SpanID{3}, TraceState: "a=b", Attributes: []traces.Attr{traces.Int("n", 1)}, DroppedAttributes: 1}},
			Events:            []traces.Event{{Time: at, Name: "exception", Attributes: []traces.Attr{traces.Int("n", 1)}, DroppedAttributes: 2}},
			DroppedAttributes: 3, DroppedLinks: 4, DroppedEvents: 5,
			Resource: &traces.Resource{Attributes: []traces.Attr{traces.String("service.name", "shop")}, SchemaURL: "https://example.com/r"},
			Scope:    traces.Scope{Name: "lib", Version: "1", SchemaURL: "https://example.com/s", Attributes: []traces.Attr{traces.Int("n", 1)}},
		},
		{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{2}, Start: at},
	}
}

// shelf reads spans out of a slice.
type shelf []traces.SpanData

func (s shelf) Read(context.Context, traces.Query) (*traces.Result, error) {
	return &traces.Result{Spans: s, Limit: len(s)}, nil
}

// client is OpenTelemetry's own of an endpoint, which gives up at the first refusal.
func client(t *testing.T, url string, opts ...otlptracehttp.Option) otlptrace.Client {
	t.Helper()
	c := otlptracehttp.NewClient(append(opts, otlptracehttp.WithEndpointURL(url+"/v1/traces"), otlptracehttp.WithTimeout(patience),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))...)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestReceived pushes spans of all shapes with OpenTelemetry's client, compressed and not:
// what the collector has of them is what was meant.
func TestReceived(t *testing.T) {
	want := sorted(otlp.Proto(everything()))
	for name, compression := range map[string]otlptracehttp.Compression{"plain": otlptracehttp.NoCompression, "gzip": otlptracehttp.GzipCompression} {
		t.Run(name, func(t *testing.T) {
			col := newCollector(t)
			done, err := otlp.Push(t.Context(), shelf(everything()).Read, traces.Query{}, client(t, col.url, otlptracehttp.WithCompression(compression)))
			if err != nil || done.Spans != 2 || done.Uploads != 1 {
				t.Fatalf("got %+v, %v", done, err)
			}
			wantSame(t, col.received(t), want)
		})
	}
}

// complete gives messages the parts that the collector always has, empty ones.
func complete(d *tracepb.TracesData) *tracepb.TracesData {
	b, err := proto.Marshal(d)
	if err != nil {
		panic(err)
	}
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
	if err != nil {
		panic(err)
	}
	if b, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(td); err != nil {
		panic(err)
	}
	out := &tracepb.TracesData{}
	if err := proto.Unmarshal(b, out); err != nil {
		panic(err)
	}
	return out
}

// TestCollectorsJSON has the collector's own decoder read our JSON, and ours read its JSON.
func TestCollectorsJSON(t *testing.T) {
	b, err := otlp.AppendJSON(nil, everything())
	if err != nil {
		t.Fatal(err)
	}
	req := ptraceotlp.NewExportRequest()
	if err := req.UnmarshalJSON(b); err != nil {
		t.Fatal(err)
	}
	if b, err = req.MarshalJSON(); err != nil {
		t.Fatal(err)
	}
	got, err := otlptest.ParseJSON(b)
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	wantSame(t, sorted(otlp.Proto(got)), sorted(otlp.Proto(everything())))
}

// TestRefused has the collector refuse spans, and Push say so.
func TestRefused(t *testing.T) {
	col := newCollectorTo(t, func(*consumertest.TracesSink) consumer.Traces { return consumertest.NewErr(errors.New("not today")) })
	for _, url := range []string{col.url, col.url + "/nowhere"} {
		if done, err := otlp.Push(t.Context(), shelf(everything()).Read, traces.Query{}, client(t, url)); err == nil || done.Spans != 0 {
			t.Errorf("%s: got %+v, %v", url, done, err)
		}
	}
}

// newTraces opens the traces of an actor in memory.
func newTraces(t *testing.T) *traces.Traces {
	t.Helper()
	store, err := actorstore.Open(t.Context(), memkv.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	actor, err := store.Named(t.Context(), "lobby", nil)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := traces.Open(t.Context(), actor, &traces.Options{MaxAge: -1, MaxRead: 10, Env: part.Env{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tr.Close(context.Background()), actor.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// TestSDK sends the spans of one program on two ways to one collector each: with
// OpenTelemetry's own exporter, and through an actor's store with Push. Both get the same.
func TestSDK(t *testing.T) {
	theirs, ours := newCollector(t), newCollector(t)
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(theirs.url+"/v1/traces"), otlptracehttp.WithTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	tr := newTraces(t)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithExportTimeout(patience)), sdktrace.WithSpanProcessor(otelsdk.New(tr, nil)),
		sdktrace.WithResource(resource.NewWithAttributes("https://example.com/r", attribute.String("service.name", "shop"), attribute.Int64("pid", 1))))
	n, last := program(t, provider)
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	pushed, err := otlp.Push(t.Context(), tr.Read, traces.Query{End: last}, client(t, ours.url))
	if err != nil || pushed.Spans != n || pushed.Partial != 0 || len(pushed.Damaged) != 0 {
		t.Fatalf("got %+v, %v", pushed, err)
	}
	want := theirs.received(t)
	if len(want.ResourceSpans) != n {
		t.Fatalf("the exporter sent %d spans of %d", len(want.ResourceSpans), n)
	}
	for _, rs := range want.ResourceSpans {
		for _, l := range rs.ScopeSpans[0].Spans[0].Links {
			l.Flags = 0 // of links, the stored format has none
			if l.TraceState != "" {
				t.Error("the exporter sends the states of links: compare them")
			}
			l.TraceState = "vendor=1" // it leaves out what all of these have
		}
	}
	wantSame(t, ours.received(t), want)
}

// program makes spans as programs do, and returns how many, and a time when all have ended.
// Each says when it was: of the SDK's own clocks, that of events may be ahead of that of
// ends.
func program(t *testing.T, provider trace.TracerProvider) (n int, last time.Time) {
	t.Helper()
	state, err := trace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	remote := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{7}, SpanID: trace.SpanID{8}, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: true,
	})
	lib := provider.Tracer("lib", trace.WithInstrumentationVersion("2"), trace.WithSchemaURL("https://example.com/s"),
		trace.WithInstrumentationAttributes(attribute.String("a", "b")))
	last = time.Now().Add(time.Second)
	now := func() trace.SpanEventOption {
		last = last.Add(time.Millisecond)
		return trace.WithTimestamp(last)
	}
	for i := range 20 {
		ctx, root := lib.Start(trace.ContextWithRemoteSpanContext(context.Background(), remote), fmt.Sprint("request ", i),
			now(), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
				attribute.Float64("nan", math.NaN()), attribute.Float64("whole", 3), attribute.Float64("large", 1<<40), attribute.Int64("max", math.MaxInt64),
				attribute.StringSlice("texts", []string{"a", ""}), attribute.BoolSlice("bools", []bool{true}),
				attribute.Int64Slice("ints", []int64{math.MinInt64}), attribute.Float64Slice("floats", []float64{1, math.Inf(1)}),
				attribute.KeyValue{Key: "bytes", Value: attribute.ByteSliceValue([]byte{0, 255})},
				attribute.KeyValue{Key: "map", Value: attribute.MapValue(attribute.Int("b", 1), attribute.Bool("a", true))},
				attribute.KeyValue{Key: "slice", Value: attribute.SliceValue(attribute.IntValue(1), attribute.StringValue("x"))},
			))
		_, child := provider.Tracer("other").Start(ctx, "query", now(), trace.WithSpanKind(trace.SpanKindClient),
			trace.WithLinks(trace.Link{SpanContext: remote, Attributes: []attribute.KeyValue{attribute.Int("n", i)}}))
		child.SetAttributes(attribute.Int("rows", i))
		child.SetAttributes(attribute.Int("rows", i+1), attribute.String("table", "t"))
		child.RecordError(errors.New("no route"), now())
		child.SetStatus(codes.Error, "no route")
		child.SetName("query 2")
		child.AddLink(trace.Link{SpanContext: root.SpanContext()})
		child.End(now())
		for j := range 140 { // more than there may be
			root.AddEvent(fmt.Sprint("event ", j), now(), trace.WithAttributes(attribute.Int("j", j)))
		}
		root.SetStatus(codes.Ok, "")
		root.End(now())
		n += 2
	}
	return n, last.Add(time.Millisecond)
}
