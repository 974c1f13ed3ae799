// Package otlp turns the spans of package traces into OTLP, the format in which
// OpenTelemetry's programs give traces to each other
// (https://opentelemetry.io/docs/specs/otlp/), and back: as messages of the official
// protobuf types, as their bytes, and as JSON. Push sends all that a range has to an
// endpoint, with one of OpenTelemetry's own clients.
//
// # What OTLP has no place for
//
// A time in an attribute becomes a text (RFC 3339), and so does an integer beyond 64 bits.
// Of a map with a key twice the last one counts. Text that isn't UTF-8 is replaced. Of a
// span that runs, the end is 0; SpanData.Partial is not told. Everything else comes back as
// it was.
//
// # What it is not
//
// It is not a receiver, and speaks no protocol itself: whoever pushes spans chooses the
// client. It links neither OpenTelemetry's SDK nor gRPC: it uses TracesData, which has the
// bytes of the request of OTLP's service.
package otlp

import (
	"encoding/binary"
	"fmt"
	"strings"

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

// text returns s with what isn't UTF-8 replaced: protobuf refuses it.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// fromProto returns the spans that the messages have, in their order; those of one
// ResourceSpans have the same Resource. They share nothing with the messages but bytes.
//
// Errors: ErrInvalid for ids of wrong sizes or of zeros, and for times beyond the year 2262.
func fromProto(d *tracepb.TracesData) ([]traces.SpanData, error) {
	var spans []traces.SpanData
	for _, rs := range d.GetResourceSpans() {
		var r *traces.Resource
		if rs.GetResource() != nil || rs.GetSchemaUrl() != "" {
			r = &traces.Resource{Attributes: attrs(rs.GetResource().GetAttributes()), SchemaURL: rs.GetSchemaUrl()}
		}
		for _, ss := range rs.GetScopeSpans() {
			scope := traces.Scope{
				Name: ss.GetScope().GetName(), Version: ss.GetScope().GetVersion(), SchemaURL: ss.GetSchemaUrl(),
				Attributes: attrs(ss.GetScope().GetAttributes()),
			}
			for _, s := range ss.GetSpans() {
				d, err := spanData(s)
				if err != nil {
					return nil, fmt.Errorf("%w: span %d, %.80q: %w", ErrInvalid, len(spans), s.GetName(), err)
				}
				d.Resource, d.Scope = r, scope
				spans = append(spans, d)
			}
		}
	}
	return spans, nil
}

// AppendBinary appends the bytes of Proto(spans): the body of a request of OTLP/HTTP with
// the type application/x-protobuf. It fails only for more than 2 GiB.
func AppendBinary(dst []byte, spans []traces.SpanData) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(dst, Proto(spans))
}

// ParseBinary returns the spans in what AppendBinary, or any program that speaks OTLP, has
// written. Fields that are not known are ignored. Errors: ErrInvalid.
func ParseBinary(b []byte) ([]traces.SpanData, error) {
	var d tracepb.TracesData
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return fromProto(&d)
}
