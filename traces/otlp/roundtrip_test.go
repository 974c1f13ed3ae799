package otlp

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otlp/otlptest"
)

// TestRoundTrip takes any spans that OTLP has a place for there and back, also in JSON.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := rapid.SliceOfN(rapid.Custom(genSpan), 1, 4).Draw(t, "spans")
		want, err := otlptest.FromProto(Proto(spans))
		if err != nil {
			t.Fatal(err)
		}
		if len(want) != len(spans) {
			t.Fatalf("got %d spans of %d", len(want), len(spans))
		}
		if len(spans) == 1 && !reflect.DeepEqual(want, spans) {
			t.Fatalf("got %+v\nwant %+v", want, spans)
		}
		b, err := AppendJSON(nil, spans)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := otlptest.ParseJSON(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("JSON: got %+v, %v\nwant %+v\n%s", got, err, want, b)
		}
	})
}

func genSpan(t *rapid.T) traces.SpanData {
	count := rapid.Uint32()
	s := traces.SpanData{
		TraceID: genTrace(t), SpanID: genID(t), Name: rapid.String().Draw(t, "name"),
		Kind:  traces.SpanKind(rapid.IntRange(0, 7).Draw(t, "kind")),
		Start: genTime(t), End: genTime(t), TraceState: rapid.StringN(0, 5, -1).Draw(t, "state"), Flags: count.Draw(t, "flags"),
		Status:     traces.Status{Code: traces.StatusCode(rapid.IntRange(0, 2).Draw(t, "code")), Message: rapid.String().Draw(t, "message")},
		Attributes: genAttrs(t, 2), DroppedAttributes: count.Draw(t, "attributes"), DroppedEvents: count.Draw(t, "events"),
		DroppedLinks: count.Draw(t, "links"),
	}
	if rapid.Bool().Draw(t, "child") {
		s.Parent = genID(t)
	}
	for range rapid.IntRange(0, 2).Draw(t, "events") {
		s.Events = append(s.Events, traces.Event{Time: genTime(t), Name: rapid.String().Draw(t, "event"),
			Attributes: genAttrs(t, 1), DroppedAttributes: count.Draw(t, "dropped")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "links") {
		s.Links = append(s.Links, traces.Link{TraceID: genTrace(t), SpanID: genID(t), TraceState: rapid.String().Draw(t, "state"),
			Attributes: genAttrs(t, 1), DroppedAttributes: count.Draw(t, "dropped")})
	}
	if rapid.Bool().Draw(t, "resource") {
		s.Resource = &traces.Resource{Attributes: genAttrs(t, 1), SchemaURL: rapid.SampledFrom([]string{"", "https://a", "https://b"}).Draw(t, "schema")}
	}
	if rapid.Bool().Draw(t, "scope") {
		s.Scope = traces.Scope{Name: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "scope"), SchemaURL: rapid.String().Draw(t, "schema"),
			Version: rapid.String().Draw(t, "version"), Attributes: genAttrs(t, 0)}
	}
	return s
}

func genTrace(t *rapid.T) (id traces.TraceID) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "trace"))
	id[15] |= 1
	return id
}

func genID(t *rapid.T) (id traces.SpanID) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "id"))
	id[0] |= 0x80
	return id
}

func genTime(t *rapid.T) time.Time {
	ns := rapid.Int64Range(0, maxSeconds*int64(time.Second)-1).Draw(t, "time")
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func genAttrs(t *rapid.T, depth int) (list []traces.Attr) {
	for i, key := range rapid.SliceOfNDistinct(rapid.String(), 0, 4, rapid.ID).Draw(t, "keys") {
		if i == 0 {
			list = []traces.Attr{}
		}
		list = append(list, traces.Attr{Key: key, Value: genValue(t, depth)})
	}
	return list
}

func genValue(t *rapid.T, depth int) traces.Value {
	kinds := 6
	if depth > 0 {
		kinds = 8
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "type") {
	case 0:
		return traces.BoolValue(rapid.Bool().Draw(t, "bool"))
	case 1:
		return traces.IntValue(rapid.Int64().Draw(t, "int"))
	case 2:
		special := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e21, math.SmallestNonzeroFloat64})
		return traces.FloatValue(rapid.OneOf(rapid.Float64(), special).Draw(t, "float"))
	case 3:
		return traces.StringValue(rapid.String().Draw(t, "string"))
	case 4:
		return traces.BytesValue(rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "bytes"))
	case 6:
		list := make([]traces.Value, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = genValue(t, depth-1)
		}
		return traces.ArrayValue(list...)
	case 7:
		return traces.MapValue(genAttrs(t, depth-1)...)
	}
	return traces.Value{}
}
