// Package otelsdk is a span processor for programs that use OpenTelemetry's SDK for Go: the
// spans of whatever is instrumented land in the traces of an actor, while they run and
// after a crash, too.
//
//	p := otelsdk.New(t, nil)
//	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
//	…
//	err := provider.Shutdown(ctx) // flushes
//	err = t.Close(ctx)
//
// # What is recorded when
//
// A span is recorded when it starts, with what it has then, and when it ends, whole once
// more if anything has happened to it: the SDK tells processors nothing between. Recording
// never waits for the store. What the SDK's limits dropped is counted in the span, and what
// package traces drops beyond that in traces.Stats.
//
// A link's flags are not kept: the stored format has no place for them.
//
// # What it is not
//
// No exporter: it needs no batching, and nothing leaves the process. It is the only package
// here that links the SDK. Programs without it record with package traces itself.
package otelsdk

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroomdb/greenroom/traces"
)

// Options change what New does. The zero value is fine.
type Options struct {
	// Unsampled also records spans that the SDK's sampler wants recorded, but not sampled
	// (sdktrace.RecordOnly). Otherwise only sampled ones are.
	Unsampled bool
}

// A Processor is a sdktrace.SpanProcessor that records in the traces of one actor. It is
// safe for concurrent use.
type Processor struct {
	t         *traces.Traces
	unsampled bool

	mu        sync.Mutex
	down      bool                                    // +checklocks:mu
	running   map[spanKey]*running                    // +checklocks:mu
	sweep     int                                     // how many make it worth looking for those that don't run  +checklocks:mu
	resources map[*resource.Resource]*traces.Resource // +checklocks:mu
}

var _ sdktrace.SpanProcessor = (*Processor)(nil)

// A spanKey tells spans apart: ids of spans are unique only in their traces.
type spanKey struct {
	trace trace.TraceID
	span  trace.SpanID
}

func keyOf(c trace.SpanContext) spanKey { return spanKey{c.TraceID(), c.SpanID()} }

// running is a span as it was when it started.
type running struct {
	span    *traces.Span
	name    string
	links   int
	attrs   []attribute.KeyValue // the SDK doesn't change it any more
	dropped int                  // attributes
	lost    int                  // links
	began   time.Time            // when that was recorded
}

// minSweep is more than the spans that traces.Traces records at once.
const minSweep = 2048

// New returns a Processor that records in t, which must stay open for as long as the
// provider isn't shut down; nil opts are the zero Options.
func New(t *traces.Traces, opts *Options) *Processor {
	p := &Processor{
		t: t, running: map[spanKey]*running{}, sweep: minSweep, resources: map[*resource.Resource]*traces.Resource{},
	}
	if opts != nil {
		p.unsampled = opts.Unsampled
	}
	return p
}

// OnStart records the start of a span. It doesn't block.
func (p *Processor) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	sc, parent := s.SpanContext(), s.Parent()
	if !sc.IsSampled() && !p.unsampled {
		return
	}
	links := s.Links()
	r := &running{
		name: s.Name(), links: len(links), attrs: s.Attributes(),
		dropped: s.DroppedAttributes(), lost: s.DroppedLinks(),
	}
	opts := traces.StartOptions{
		TraceID: traces.TraceID(sc.TraceID()), SpanID: traces.SpanID(sc.SpanID()),
		ParentID: traces.SpanID(parent.SpanID()),
		Kind:     kindOf(s.SpanKind()), Time: s.StartTime(),
		TraceState: sc.TraceState().String(), Flags: flagsOf(sc, parent),
		Attributes: attrsOf(r.attrs), DroppedAttributes: uint32(r.dropped),
		Links: linksOf(links), DroppedLinks: uint32(r.lost),
		Scope: scopeOf(s.InstrumentationScope()),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return
	}
	if around := p.running[keyOf(parent)]; around != nil {
		opts.Parent = around.span // which knows how deep it is
	}
	opts.Resource = p.resource(s.Resource())
	r.span = p.t.Begin(r.name, &opts)
	r.began = time.Now()
	p.forget()
	p.running[keyOf(sc)] = r
}

// forget removes spans that are not recorded any more, but still run, as their callers may
// never end them.
//
// +checklocks:p.mu
func (p *Processor) forget() {
	if len(p.running) < p.sweep {
		return
	}
	for key, r := range p.running {
		if !r.span.Active() {
			delete(p.running, key)
		}
	}
	p.sweep = max(2*len(p.running), minSweep)
}

// resource returns one Resource for each of the SDK's.
//
// +checklocks:p.mu
func (p *Processor) resource(r *resource.Resource) *traces.Resource {
	if r == nil || r.Len() == 0 && r.SchemaURL() == "" {
		return nil
	}
	known := p.resources[r]
	if known == nil {
		known = &traces.Resource{Attributes: attrsOf(r.Attributes()), SchemaURL: r.SchemaURL()}
		p.resources[r] = known
	}
	return known
}

// OnEnd records the end of a span, and what happened since its start. It doesn't block.
func (p *Processor) OnEnd(s sdktrace.ReadOnlySpan) {
	sc := s.SpanContext()
	if !sc.IsSampled() && !p.unsampled {
		return
	}
	p.mu.Lock()
	down, r, res := p.down, p.running[keyOf(sc)], (*traces.Resource)(nil)
	delete(p.running, keyOf(sc))
	if !down {
		res = p.resource(s.Resource())
	}
	p.mu.Unlock()
	switch {
	case down:
	case r == nil || !r.span.Active():
		// It started before the processor was there, or so many ran that it was dropped.
		p.t.Record(spanData(s, res))
	default:
		r.end(p.t, s, res)
	}
}

// end records what is new in s, and its end.
func (r *running) end(t *traces.Traces, s sdktrace.ReadOnlySpan, res *traces.Resource) {
	switch at := s.EndTime(); {
	case !r.changed(s):
		r.span.EndWith(at, nil)
	case at.Before(r.began) || after(s.Events(), at):
		// The program dates its spans back: what it began with may be recorded at a later
		// time than its end, and the last one counts. Or an event is dated behind the end,
		// which may be the doing of the SDK's clocks, and must stay there.
		r.span.Restate(spanData(s, res))
		for _, e := range s.Events() {
			r.span.AddEvent(eventOf(e))
		}
		r.span.EndWith(at, nil)
	default:
		// All of it is dated at the end: OnEnd comes a little later, and a reader up to a
		// time between would see a span that ended, and half of it.
		r.span.EndWith(at, nil)
		t.Record(spanData(s, res))
	}
}

// after reports whether there are events after a time.
func after(events []sdktrace.Event, at time.Time) bool {
	return slices.ContainsFunc(events, func(e sdktrace.Event) bool { return e.Time.After(at) })
}

// changed reports whether s has something that it hadn't when it started. The SDK never
// takes links away.
func (r *running) changed(s sdktrace.ReadOnlySpan) bool {
	return s.Name() != r.name || s.Status() != (sdktrace.Status{}) || len(s.Events()) > 0 || s.DroppedEvents() > 0 ||
		len(s.Links()) != r.links || s.DroppedLinks() != r.lost ||
		s.DroppedAttributes() != r.dropped || !slices.Equal(s.Attributes(), r.attrs)
}

// ForceFlush returns when what was recorded before the call is on stable storage. It is
// Traces.Flush: an error, which may be the context's, loses nothing.
func (p *Processor) ForceFlush(ctx context.Context) error {
	p.mu.Lock()
	down := p.down
	p.mu.Unlock()
	if down {
		return nil
	}
	return p.t.Flush(ctx)
}

// Shutdown ends the recording, and flushes as ForceFlush does. It doesn't close the Traces,
// in which spans that run stay open. A second Shutdown returns nil.
func (p *Processor) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	down := p.down
	p.down = true
	clear(p.running)
	clear(p.resources)
	p.mu.Unlock()
	if down {
		return nil
	}
	return p.t.Flush(ctx)
}
