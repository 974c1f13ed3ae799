// Package otlp turns the spans of package traces into OTLP, the format in which
// OpenTelemetry's programs give traces to each other
// (https://opentelemetry.io/docs/specs/otlp/): as messages of the official
// protobuf types, and as JSON. Push sends all that a range has to an
// endpoint, with one of OpenTelemetry's own clients.
//
// # What OTLP has no place for
//
// A time in an attribute becomes a text (RFC 3339), and so does an integer beyond 64 bits.
// Of a map with a key twice the last one counts. Text that isn't UTF-8 is replaced. Of a
// span that runs, the end is 0; SpanData.Partial is not told. Everything else
// is told as it is.
//
// # What it is not
//
// It is not a receiver, and speaks no protocol itself: the caller that pushes spans
// chooses the client. It links neither OpenTelemetry's SDK nor gRPC: it uses TracesData,
// which has the bytes of the request of OTLP's service.
package otlp

import (
	"encoding/binary"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/greenroomdb/greenroom/traces"
)

// Proto returns the spans in messages, those of one resource and scope together, in the
// order in which they first come. The messages share nothing with the spans but bytes that
// don't change.
func Proto(spans []traces.SpanData) *tracepb.TracesData {
	g := grouper{byAddress: map[*traces.Resource]*resourceGroup{}, byContent: map[string]*resourceGroup{}}
	for i := range spans {
		s := &spans[i]
		scope := g.resource(s.Resource).scope(&s.Scope)
		scope.Spans = append(scope.Spans, span(s))
	}
	return &g.data
}

// A grouper puts spans to their resources and scopes.
type grouper struct {
	data      tracepb.TracesData
	byAddress map[*traces.Resource]*resourceGroup
	byContent map[string]*resourceGroup // what is read of a store is equal, not the same
}

type resourceGroup struct {
	spans  *tracepb.ResourceSpans
	scopes map[string]*tracepb.ScopeSpans
}

func (g *grouper) resource(r *traces.Resource) *resourceGroup {
	if group := g.byAddress[r]; group != nil {
		return group
	}
	rs := &tracepb.ResourceSpans{}
	content := ""
	if r != nil {
		rs.Resource = &resourcepb.Resource{Attributes: attributes(r.Attributes)}
		rs.SchemaUrl = text(r.SchemaURL)
		content = "r" + key(rs.Resource, rs.SchemaUrl)
	}
	group := g.byContent[content]
	if group == nil {
		group = &resourceGroup{rs, map[string]*tracepb.ScopeSpans{}}
		g.byContent[content] = group
		g.data.ResourceSpans = append(g.data.ResourceSpans, rs)
	}
	g.byAddress[r] = group
	return group
}

func (g *resourceGroup) scope(s *traces.Scope) *tracepb.ScopeSpans {
	ss := &tracepb.ScopeSpans{}
	content := ""
	if !s.IsZero() {
		ss.Scope = &commonpb.InstrumentationScope{
			Name: text(s.Name), Version: text(s.Version), Attributes: attributes(s.Attributes),
		}
		ss.SchemaUrl = text(s.SchemaURL)
		content = "s" + key(ss.Scope, ss.SchemaUrl)
	}
	if known := g.scopes[content]; known != nil {
		return known
	}
	g.scopes[content] = ss
	g.spans.ScopeSpans = append(g.spans.ScopeSpans, ss)
	return ss
}

// key returns a text that equal messages have in common, and others don't.
func key(m proto.Message, schema string) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("otlp: a message that can't be encoded: " + err.Error()) // all text in it is UTF-8
	}
	return string(append(binary.AppendUvarint(nil, uint64(len(schema))), schema...)) + string(b)
}
