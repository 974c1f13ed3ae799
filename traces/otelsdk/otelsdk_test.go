package otelsdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"reflect"
	"sort"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otlp"
	"github.com/greenroomdb/greenroom/traces/otlp/otlptest"
)

// A rig is an actor with traces, a Processor, and a provider of the SDK that gives it its
// spans.
type rig struct {
	t      *testing.T
	engine *faultkv.Engine
	store  *actorstore.Store
	actor  *actorstore.Actor
	traces *traces.Traces
	*Processor
	exporter *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
}

var shop = resource.NewWithAttributes("https://example.com/resource", attribute.String("service.name", "shop"))

// newRig has the options of traces write nothing by itself.
func newRig(t *testing.T, to traces.Options, po *Options, more ...sdktrace.TracerProviderOption) *rig {
	t.Helper()
	if to.ChunkAge == 0 {
		to.ChunkAge = time.Hour
	}
	r := &rig{t: t, engine: faultkv.New(memkv.New()), exporter: tracetest.NewInMemoryExporter()}
	var err error
	if r.store, err = actorstore.Open(t.Context(), r.engine, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.check(r.store.Close()) })
	r.open(to)
	r.Processor = New(r.traces, po)
	r.provider = sdktrace.NewTracerProvider(append([]sdktrace.TracerProviderOption{
		sdktrace.WithSpanProcessor(r.Processor), sdktrace.WithSyncer(r.exporter), sdktrace.WithResource(shop),
	}, more...)...)
	return r
}

func (r *rig) open(to traces.Options) {
	r.t.Helper()
	to.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	to.MaxAge = -1 // spans of tests may be years old
	var err error
	if r.actor, err = r.store.Named(context.Background(), "lobby", nil); err != nil {
		r.t.Fatal(err)
	}
	r.traces, err = traces.Open(context.Background(), r.actor, &to)
	if err != nil {
		r.t.Fatal(err)
	}
	actor, tr := r.actor, r.traces
	r.t.Cleanup(func() {
		r.check(tr.Close(context.Background()))
		r.check(actor.Close())
	})
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Error(err)
	}
}

// stored returns what is stored, by span.
func (r *rig) stored() map[traces.SpanID]traces.SpanData {
	r.t.Helper()
	view, err := r.store.View(context.Background(), r.actor.ID())
	if errors.Is(err, actorstore.ErrUnknownActor) { // nothing was ever written
		return nil
	}
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { r.check(view.Close()) }()
	res, err := traces.Read(context.Background(), view.Snapshot, traces.Query{}, 0)
	if err != nil || len(res.Damaged) > 0 {
		r.t.Fatal(res, err)
	}
	return byID(res.Spans)
}

func byID(spans []traces.SpanData) map[traces.SpanID]traces.SpanData {
	m := map[traces.SpanID]traces.SpanData{}
	for i := range spans {
		s := spans[i]
		sort.Slice(s.Attributes, func(i, j int) bool { return s.Attributes[i].Key < s.Attributes[j].Key })
		m[s.SpanID] = s
	}
	return m
}

// viaOTLP is what comes of spans on the way over OTLP.
func viaOTLP(t *testing.T, spans []traces.SpanData) []traces.SpanData {
	t.Helper()
	b, err := otlp.AppendJSON(nil, spans)
	if err != nil {
		t.Fatal(err)
	}
	if spans, err = otlptest.ParseJSON(b); err != nil {
		t.Fatal(err)
	}
	return spans
}

func id(s trace.Span) traces.SpanID { return traces.SpanID(s.SpanContext().SpanID()) }

// shopping makes spans that have everything the API has, from a time on.
func shopping(t *testing.T, provider trace.TracerProvider, at time.Time) {
	t.Helper()
	lib := provider.Tracer("lib", trace.WithInstrumentationVersion("1.2"), trace.WithSchemaURL("https://example.com/lib"),
		trace.WithInstrumentationAttributes(attribute.Bool("beta", true)))
	other := provider.Tracer("other")

	state, err := trace.ParseTraceState("vendor=1,next=2")
	if err != nil {
		t.Fatal(err)
	}
	remote := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3, 4}, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: true,
	})
	ctx, root := lib.Start(trace.ContextWithSpanContext(context.Background(), remote), "GET /cart",
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(at), trace.WithLinks(trace.Link{SpanContext: remote, Attributes: []attribute.KeyValue{attribute.String("why", "cause")}}),
		trace.WithAttributes(
			attribute.Bool("bool", true), attribute.Int64("min", math.MinInt64), attribute.Float64("three", 3),
			attribute.Float64("nan", math.NaN()), attribute.Float64("big", 1<<40), attribute.String("text", "ü\x00"),
			attribute.StringSlice("texts", []string{"", "a"}), attribute.Int64Slice("ints", []int64{1, -1}),
			attribute.BoolSlice("bools", []bool{true, false}), attribute.Float64Slice("floats", []float64{1, math.Inf(-1)}),
			attribute.KeyValue{Key: "bytes", Value: attribute.ByteSliceValue([]byte{0, 255})},
			attribute.KeyValue{Key: "map", Value: attribute.MapValue(attribute.Int("b", 1), attribute.String("a", "x"))},
			attribute.KeyValue{Key: "slice", Value: attribute.SliceValue(attribute.IntValue(1), attribute.StringValue("x"))},
			attribute.KeyValue{Key: "empty"},
		))
	ctx, child := other.Start(ctx, "db.query", trace.WithTimestamp(at.Add(time.Millisecond)), trace.WithSpanKind(trace.SpanKindClient))
	child.SetAttributes(attribute.String("table", "cart"), attribute.Int("rows", 1))
	child.SetAttributes(attribute.Int("rows", 2))
	child.AddEvent("retry", trace.WithTimestamp(at.Add(2*time.Millisecond)), trace.WithAttributes(attribute.Int("n", 1)))
	child.RecordError(errors.New("no route"), trace.WithTimestamp(at.Add(3*time.Millisecond)), trace.WithStackTrace(true))
	child.SetStatus(codes.Error, "no route")
	_, late := other.Start(ctx, "another name", trace.WithTimestamp(at.Add(4*time.Millisecond)), trace.WithSpanKind(trace.SpanKindProducer))
	late.SetName("late")
	late.AddLink(trace.Link{SpanContext: child.SpanContext()})
	late.SetAttributes(attribute.Bool("late", true))
	late.SetStatus(codes.Ok, "")
	late.End(trace.WithTimestamp(at.Add(5 * time.Millisecond)))
	child.End(trace.WithTimestamp(at.Add(6 * time.Millisecond)))
	for i := range 200 { // more than the SDK's limits
		root.SetAttributes(attribute.Int(fmt.Sprint("attribute", i), i))
		root.AddEvent(fmt.Sprint("event", i), trace.WithTimestamp(at.Add(time.Duration(i)*time.Microsecond)))
	}
	root.End(trace.WithTimestamp(at.Add(time.Second)))
	_, now := provider.Tracer("").Start(context.Background(), "now")
	now.End()
}

// TestRoundTrip has the SDK's own exporter and the store agree about every span, also after
// a way over OTLP: of spans that end after now, as those do that don't say when, and of
// spans that are dated back.
func TestRoundTrip(t *testing.T) {
	for name, at := range map[string]time.Time{"now": time.Now().Add(time.Second), "back": time.Unix(1_700_000_000, 123_456_789)} {
		t.Run(name, func(t *testing.T) { testRoundTrip(t, at) })
	}
}

func testRoundTrip(t *testing.T, at time.Time) {
	r := newRig(t, traces.Options{}, nil)
	shopping(t, r.provider, at)
	var want []traces.SpanData
	for _, s := range r.exporter.GetSpans().Snapshots() {
		res := &traces.Resource{Attributes: attrsOf(s.Resource().Attributes()), SchemaURL: s.Resource().SchemaURL()}
		want = append(want, *spanData(s, res))
	}
	if len(want) != 4 || want[2].DroppedEvents != 72 || want[2].DroppedAttributes != 86 {
		t.Fatalf("the SDK exported %d spans, %+v", len(want), want)
	}
	if err := r.provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []traces.SpanData
	for _, s := range r.stored() {
		got = append(got, s)
	}
	exported, read := byID(viaOTLP(t, want)), byID(viaOTLP(t, got))
	for id, w := range exported {
		if g := read[id]; !reflect.DeepEqual(g, w) {
			t.Errorf("%s: got %.2000s\nwant %.2000s", w.Name, fmt.Sprintf("%+v", g), fmt.Sprintf("%+v", w))
		}
	}
	if len(read) != len(exported) {
		t.Errorf("got %d spans, want %d", len(read), len(exported))
	}
	if st := r.traces.Stats(); st.Ignored != 0 || st.DroppedAttributes != 0 || st.DroppedEvents != 0 || st.Truncated != 0 || st.Active != 0 {
		t.Errorf("got %+v", st)
	}
}

// TestRunning finds a span in the store before it has ended, and ended by the next Open if
// it never does.
func TestRunning(t *testing.T) {
	r := newRig(t, traces.Options{}, nil)
	_, s := r.provider.Tracer("lib").Start(t.Context(), "endless", trace.WithAttributes(attribute.Int("n", 1)))
	if err := r.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, ok := r.stored()[id(s)]
	if !ok || !got.Running() || got.Name != "endless" || got.Resource == nil || got.Scope.Name != "lib" {
		t.Fatalf("got %+v, %v", got, ok)
	}
	if want := []traces.Attr{traces.Int("n", 1)}; !reflect.DeepEqual(got.Attributes, want) {
		t.Errorf("got %v, want %v", got.Attributes, want)
	}
	if err := r.provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.End() // too late
	r.check(r.traces.Close(t.Context()))
	r.check(r.actor.Close())
	r.open(traces.Options{ChunkAge: time.Hour})
	r.check(r.traces.Flush(t.Context()))
	if got := r.stored()[id(s)]; got.Running() || got.Status.Code != traces.StatusError {
		t.Errorf("got %+v", got)
	}
}

// TestDoesNotBlock starts and ends spans while the store hangs, and has the context end the
// waiting of the rest.
func TestDoesNotBlock(t *testing.T) {
	r := newRig(t, traces.Options{ChunkBytes: 4096, MaxPending: 8}, nil)
	pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever})
	defer pause.Release()
	tracer := r.provider.Tracer("lib")
	var last trace.Span
	for range 2000 {
		_, last = tracer.Start(t.Context(), "work")
		last.AddEvent("e")
		last.End()
	}
	<-pause.Reached() // all that was while a commit was on its way, or about to be
	for _, wait := range []func(context.Context) error{r.ForceFlush, r.provider.ForceFlush, r.Shutdown} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- wait(ctx) }()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	if st := r.traces.Stats(); st.DroppedChunks == 0 {
		t.Errorf("nothing was dropped: %+v", st)
	}
	pause.Release()
	r.check(r.traces.Flush(t.Context()))
	if got, ok := r.stored()[id(last)]; !ok || got.Running() || len(got.Events) != 1 {
		t.Errorf("got %+v, %v", got, ok)
	}
}

// recordOnly is a sampler.
type recordOnly struct{}

func (recordOnly) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly}
}
func (recordOnly) Description() string { return "recordOnly" }

func TestSampling(t *testing.T) {
	for _, c := range []struct {
		sampler sdktrace.Sampler
		opts    *Options
		want    int
	}{
		{recordOnly{}, nil, 0}, {recordOnly{}, &Options{Unsampled: true}, 1},
		{sdktrace.NeverSample(), &Options{Unsampled: true}, 0}, {sdktrace.AlwaysSample(), nil, 1},
	} {
		r := newRig(t, traces.Options{}, c.opts, sdktrace.WithSampler(c.sampler))
		_, s := r.provider.Tracer("lib").Start(t.Context(), "work")
		s.End()
		r.check(r.provider.Shutdown(t.Context()))
		if got := len(r.stored()); got != c.want {
			t.Errorf("%s, %+v: got %d spans, want %d", c.sampler.Description(), c.opts, got, c.want)
		}
	}
}

// TestDropped runs more spans than are recorded at once: those that were dropped are
// recorded whole when they end.
func TestDropped(t *testing.T) {
	r := newRig(t, traces.Options{MaxActive: 3}, nil)
	ctx, spans := t.Context(), []trace.Span{}
	for i := range 10 {
		var s trace.Span
		ctx, s = r.provider.Tracer("lib").Start(ctx, fmt.Sprint("level", i))
		s.AddEvent("e")
		spans = append(spans, s)
	}
	if got := r.traces.Stats().DroppedSpans; got != 7 {
		t.Fatalf("%d were dropped", got)
	}
	if !r.running[keyOf(spans[2].SpanContext())].span.Active() {
		t.Error("the deepest one is not the one to go")
	}
	for _, s := range spans {
		s.End()
	}
	r.check(r.provider.Shutdown(t.Context()))
	got := r.stored()
	for i, s := range spans {
		d := got[id(s)]
		if d.Running() || d.Name != fmt.Sprint("level", i) || len(d.Events) != 1 || d.Scope.Name != "lib" || d.Resource == nil {
			t.Errorf("level %d: got %+v", i, d)
		}
	}
}

// TestForgotten starts spans that never end: the memory that they take is bounded.
func TestForgotten(t *testing.T) {
	r := newRig(t, traces.Options{MaxActive: 10}, nil)
	for range 3 * minSweep {
		r.provider.Tracer("lib").Start(t.Context(), "leak")
	}
	if n := len(r.running); n > minSweep {
		t.Errorf("%d spans are remembered", n)
	}
}

// TestLateProcessor ends a span whose start the processor hasn't seen.
func TestLateProcessor(t *testing.T) {
	r := newRig(t, traces.Options{}, nil)
	r.provider.UnregisterSpanProcessor(r.Processor) // which shuts it down
	_, s := r.provider.Tracer("lib").Start(t.Context(), "work", trace.WithAttributes(attribute.Int("n", 1)))
	r.provider.RegisterSpanProcessor(New(r.traces, nil))
	s.AddEvent("e")
	s.End()
	r.check(r.provider.Shutdown(t.Context()))
	if got := r.stored()[id(s)]; got.Running() || len(got.Events) != 1 || len(got.Attributes) != 1 || got.Resource == nil {
		t.Errorf("got %+v", got)
	}
}

// TestShutdown ignores what comes afterwards, and leaves the Traces open.
func TestShutdown(t *testing.T) {
	r := newRig(t, traces.Options{}, nil)
	_, s := r.provider.Tracer("lib").Start(t.Context(), "work")
	r.check(r.Shutdown(t.Context()))
	s.End()
	_, after := r.provider.Tracer("lib").Start(t.Context(), "after")
	after.End()
	r.check(r.Shutdown(t.Context()))
	r.check(r.ForceFlush(t.Context()))
	r.check(r.traces.Flush(t.Context()))
	if got := r.stored(); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
	if st := r.traces.Stats(); st.Ignored != 0 {
		t.Errorf("got %+v", st)
	}
	r.check(r.traces.Close(t.Context()))
	if err := New(r.traces, nil).ForceFlush(t.Context()); !errors.Is(err, traces.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestEventBehindTheEnd keeps the times of events as they are.
func TestEventBehindTheEnd(t *testing.T) {
	r := newRig(t, traces.Options{}, nil)
	at := time.Now().Add(time.Second)
	_, s := r.provider.Tracer("lib").Start(t.Context(), "work")
	s.SetName("done")
	s.AddEvent("before", trace.WithTimestamp(at.Add(-1)))
	s.AddEvent("behind", trace.WithTimestamp(at.Add(1)))
	s.End(trace.WithTimestamp(at))
	r.check(r.provider.Shutdown(t.Context()))
	got := r.stored()[id(s)]
	if got.Name != "done" || !got.End.Equal(at) || len(got.Events) != 2 || !got.Events[0].Time.Equal(at.Add(-1)) || !got.Events[1].Time.Equal(at.Add(1)) {
		t.Errorf("got %+v", got)
	}
}

// TestConcurrent has many goroutines record, and others flush.
func TestConcurrent(t *testing.T) {
	r := newRig(t, traces.Options{ChunkBytes: 4096}, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				ctx, s := r.provider.Tracer("lib").Start(context.Background(), "outer")
				_, c := r.provider.Tracer("lib").Start(ctx, "inner", trace.WithAttributes(attribute.Int("n", 1)))
				var both sync.WaitGroup
				both.Go(func() { c.SetAttributes(attribute.Int("m", 2)) })
				both.Go(func() { s.AddEvent("e") })
				both.Wait()
				c.End()
				s.End()
			}
		})
	}
	for range 10 {
		r.check(r.provider.ForceFlush(t.Context()))
	}
	wg.Wait()
	r.check(r.provider.Shutdown(t.Context()))
	got := r.stored()
	if len(got) != 800 {
		t.Errorf("got %d spans", len(got))
	}
	for _, s := range got {
		if s.Running() || s.Name == "outer" && len(s.Events) != 1 || s.Name == "inner" && len(s.Attributes) != 2 {
			t.Fatalf("got %+v", s)
		}
	}
}

// TestCut reads up to each moment around the end of a span: it runs, or it has ended and is
// whole.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes meanwhile
		r := newRig(t, traces.Options{}, nil)
		at := time.Now().Add(time.Second) // it ends when nothing is recorded any more
		_, s := r.provider.Tracer("lib").Start(t.Context(), "work")
		s.SetAttributes(attribute.Int("n", 1))
		s.AddEvent("e", trace.WithTimestamp(at.Add(-time.Microsecond)))
		s.SetName("done")
		s.SetStatus(codes.Error, "no")
		s.End(trace.WithTimestamp(at))
		want := *spanData(r.exporter.GetSpans().Snapshots()[0], nil)
		for _, after := range []time.Duration{-1, 0, 1, 10, time.Microsecond, 10 * time.Microsecond, time.Millisecond, time.Second} {
			res, err := r.traces.Read(t.Context(), traces.Query{End: want.End.Add(after)})
			if err != nil || len(res.Spans) != 1 {
				t.Fatal(res, err)
			}
			got := res.Spans[0]
			if after <= 0 && !got.Running() || after > 0 && got.Running() {
				t.Errorf("%v after its end: got %+v", after, got)
			}
			if !got.Running() && (got.Name != "done" || len(got.Attributes) != 1 || len(got.Events) != 1 || got.Status != want.Status) {
				t.Errorf("%v after its end: got %+v", after, got)
			}
		}
	})
}
