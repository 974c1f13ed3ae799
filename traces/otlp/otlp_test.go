package otlp

import (
	"math"
	"math/big"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otlp/otlptest"
)

// order is a span that has something in every field.
func order() traces.SpanData {
	at := time.Unix(1_700_000_000, 123_456_789).UTC()
	return traces.SpanData{
		TraceID: traces.TraceID{0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c},
		SpanID:  traces.SpanID{0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31},
		Parent:  traces.SpanID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		Name:    "actor.action.order", Kind: traces.KindServer,
		Start: at, End: at.Add(1500 * time.Millisecond),
		TraceState: "vendor=1", Flags: 0x301,
		Status: traces.Status{Code: traces.StatusError, Message: "no such item"},
		Attributes: []traces.Attr{
			traces.String("text", `<a> & "b"`), traces.Int("min", math.MinInt64), traces.Float("nan", math.NaN()),
			traces.Float("three", 3), traces.Float("inf", math.Inf(-1)), traces.Bool("no", false),
			{Key: "bytes", Value: traces.BytesValue([]byte{0, 0xff, 0xfe})}, {Key: "null"},
			{Key: "list", Value: traces.ArrayValue(traces.IntValue(1), traces.StringValue("two"), traces.ArrayValue())},
			{Key: "map", Value: traces.MapValue(traces.Attr{Key: "a"}, traces.Bool("b", true))},
		},
		Links: []traces.Link{{
			TraceID: traces.TraceID{1}, SpanID: traces.SpanID{2}, TraceState: "x=y",
			Attributes: []traces.Attr{traces.String("why", "cause")}, DroppedAttributes: 4,
		}},
		Events:            []traces.Event{{Time: at.Add(time.Second), Name: "exception", Attributes: []traces.Attr{traces.Int("n", 1)}, DroppedAttributes: 5}},
		DroppedAttributes: 1, DroppedLinks: 2, DroppedEvents: 3,
		Resource: &traces.Resource{Attributes: []traces.Attr{traces.String("service.name", "shop")}, SchemaURL: "https://example.com/r"},
		Scope:    traces.Scope{Name: "lib", Version: "1.2", SchemaURL: "https://example.com/s", Attributes: []traces.Attr{traces.Int("k", 1)}},
	}
}

// orderJSON is that span in OTLP's JSON.
const orderJSON = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},` +
	`"scopeSpans":[{"scope":{"name":"lib","version":"1.2","attributes":[{"key":"k","value":{"intValue":"1"}}]},` +
	`"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","traceState":"vendor=1",` +
	`"parentSpanId":"ffffffffffffffff","flags":769,"name":"actor.action.order","kind":2,` +
	`"startTimeUnixNano":"1700000000123456789","endTimeUnixNano":"1700000001623456789","attributes":[` +
	`{"key":"text","value":{"stringValue":"<a> & \"b\""}},{"key":"min","value":{"intValue":"-9223372036854775808"}},` +
	`{"key":"nan","value":{"doubleValue":"NaN"}},{"key":"three","value":{"doubleValue":3}},` +
	`{"key":"inf","value":{"doubleValue":"-Infinity"}},{"key":"no","value":{"boolValue":false}},` +
	`{"key":"bytes","value":{"bytesValue":"AP/+"}},{"key":"null","value":{}},` +
	`{"key":"list","value":{"arrayValue":{"values":[{"intValue":"1"},{"stringValue":"two"},{"arrayValue":{}}]}}},` +
	`{"key":"map","value":{"kvlistValue":{"values":[{"key":"a","value":{}},{"key":"b","value":{"boolValue":true}}]}}}],` +
	`"droppedAttributesCount":1,"events":[{"timeUnixNano":"1700000001123456789","name":"exception",` +
	`"attributes":[{"key":"n","value":{"intValue":"1"}}],"droppedAttributesCount":5}],"droppedEventsCount":3,` +
	`"links":[{"traceId":"01000000000000000000000000000000","spanId":"0200000000000000","traceState":"x=y",` +
	`"attributes":[{"key":"why","value":{"stringValue":"cause"}}],"droppedAttributesCount":4}],"droppedLinksCount":2,` +
	`"status":{"message":"no such item","code":2}}],"schemaUrl":"https://example.com/s"}],"schemaUrl":"https://example.com/r"}]}`

func TestJSON(t *testing.T) {
	got, err := AppendJSON([]byte("> "), []traces.SpanData{order()})
	if err != nil || string(got) != "> "+orderJSON {
		t.Errorf("got %s, %v\nwant %s", got, err, orderJSON)
	}
	spans, err := otlptest.ParseJSON([]byte(orderJSON))
	if want := order(); err != nil || len(spans) != 1 || !reflect.DeepEqual(spans[0], want) {
		t.Errorf("got %+v, %v\nwant %+v", spans, err, want)
	}
	got, err = AppendJSON(nil, nil)
	if err != nil || string(got) != "{}" {
		t.Errorf("of nothing: got %s, %v", got, err)
	}
	// A span of which next to nothing is known, and which runs.
	got, err = AppendJSON(nil, []traces.SpanData{{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{2}, Start: time.Unix(1, 0)}})
	want := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01000000000000000000000000000000",` +
		`"spanId":"0200000000000000","startTimeUnixNano":"1000000000"}]}]}]}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

// TestLossy shows what OTLP has no place for.
func TestLossy(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.FixedZone("", 3600))
	huge, ok := new(big.Int).SetString("-123456789012345678901234567890", 10)
	if !ok {
		t.Fatal("no number")
	}
	for _, c := range []struct{ in, want traces.Value }{
		{traces.TimeValue(at), traces.StringValue("2026-02-03T03:05:06.789Z")},
		{traces.BigValue(huge), traces.StringValue("-123456789012345678901234567890")},
		{traces.BigValue(new(big.Int).SetUint64(math.MaxUint64)), traces.StringValue("18446744073709551615")},
		{traces.StringValue("a\xffb"), traces.StringValue("a\uFFFDb")},
		{traces.MapValue(traces.Int("k", 1), traces.Int("l", 2), traces.Int("k", 3)), traces.MapValue(traces.Int("k", 3), traces.Int("l", 2))},
	} {
		if got, want := value(c.in), value(c.want); !proto.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", c.in, got, want)
		}
	}
	s := traces.SpanData{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{1}, Name: "\xff", Kind: math.MaxUint32,
		Start: time.Unix(-5, 0), Status: traces.Status{Code: traces.StatusOK, Message: "\xff"}}
	got, err := otlptest.FromProto(Proto([]traces.SpanData{s}))
	if err != nil || got[0].Name != "\uFFFD" || got[0].Kind != 0 || !got[0].Start.IsZero() || got[0].Status.Message != "\uFFFD" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestGroups puts spans of equal resources and scopes together, whatever their addresses.
func TestGroups(t *testing.T) {
	resource := func(name string) *traces.Resource {
		return &traces.Resource{Attributes: []traces.Attr{traces.String("service.name", name)}}
	}
	a := resource("a")
	schema := &traces.Resource{Attributes: a.Attributes, SchemaURL: "https://example.com"}
	var spans []traces.SpanData
	for i, r := range []*traces.Resource{a, resource("b"), resource("a"), nil, a, schema, {}} {
		for _, scope := range []traces.Scope{{Name: "x"}, {}, {Name: "x", Version: "1"}} {
			spans = append(spans, traces.SpanData{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{byte(i + 1)}, Resource: r, Scope: scope})
		}
	}
	d := Proto(spans)
	want := []int{3, 1, 1, 1, 1} // a, b, nil, schema, empty
	if len(d.ResourceSpans) != len(want) {
		t.Fatalf("got %d groups", len(d.ResourceSpans))
	}
	for i, rs := range d.ResourceSpans {
		if len(rs.ScopeSpans) != 3 {
			t.Errorf("group %d: got %d scopes", i, len(rs.ScopeSpans))
		}
		for _, ss := range rs.ScopeSpans {
			if len(ss.Spans) != want[i] {
				t.Errorf("group %d: got %d spans, want %d", i, len(ss.Spans), want[i])
			}
		}
	}
	back, err := otlptest.FromProto(d)
	if err != nil || len(back) != len(spans) {
		t.Fatal(len(back), err)
	}
	if !proto.Equal(Proto(back), d) {
		t.Error("another message comes of what was read")
	}
}
