package otlp

import (
	"math"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/greenroomdb/greenroom/traces"
)

// attributes returns attributes as messages. No key comes twice, which OTLP forbids: the
// last one counts, in the place of the first.
func attributes(list []traces.Attr) []*commonpb.KeyValue {
	if len(list) == 0 {
		return nil
	}
	out := make([]*commonpb.KeyValue, 0, len(list))
	seen := make(map[string]int, len(list))
	for i := range list {
		kv := &commonpb.KeyValue{Key: text(list[i].Key), Value: value(list[i].Value)}
		if at, ok := seen[kv.Key]; ok {
			out[at] = kv
			continue
		}
		seen[kv.Key] = len(out)
		out = append(out, kv)
	}
	return out
}

// value returns a value as a message: null is one without a value.
func value(v traces.Value) *commonpb.AnyValue {
	p := &commonpb.AnyValue{}
	switch x := v.Any().(type) {
	case nil:
	case bool:
		p.Value = &commonpb.AnyValue_BoolValue{BoolValue: x}
	case int64:
		p.Value = &commonpb.AnyValue_IntValue{IntValue: x}
	case float64:
		p.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: x}
	case []byte:
		p.Value = &commonpb.AnyValue_BytesValue{BytesValue: x}
	case time.Time:
		at := x.UTC().Format(time.RFC3339Nano)
		p.Value = &commonpb.AnyValue_StringValue{StringValue: at}
	case []traces.Value:
		a := &commonpb.ArrayValue{Values: make([]*commonpb.AnyValue, len(x))}
		for i, v := range x {
			a.Values[i] = value(v)
		}
		p.Value = &commonpb.AnyValue_ArrayValue{ArrayValue: a}
	case []traces.Attr:
		p.Value = &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: attributes(x)}}
	default: // text; integers beyond 64 bits in decimal
		p.Value = &commonpb.AnyValue_StringValue{StringValue: text(v.String())}
	}
	return p
}

// attrs returns messages as attributes; of a key that is there twice the last one.
func attrs(list []*commonpb.KeyValue) []traces.Attr {
	if len(list) == 0 {
		return nil
	}
	out := make([]traces.Attr, 0, len(list))
	seen := make(map[string]int, len(list))
	for _, kv := range list {
		a := traces.Attr{Key: kv.GetKey(), Value: fromValue(kv.GetValue())}
		if at, ok := seen[a.Key]; ok {
			out[at] = a
			continue
		}
		seen[a.Key] = len(out)
		out = append(out, a)
	}
	return out
}

// fromValue is the inverse of value. What isn't known is null.
func fromValue(p *commonpb.AnyValue) traces.Value {
	switch x := p.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return traces.StringValue(x.StringValue)
	case *commonpb.AnyValue_BoolValue:
		return traces.BoolValue(x.BoolValue)
	case *commonpb.AnyValue_IntValue:
		return traces.IntValue(x.IntValue)
	case *commonpb.AnyValue_DoubleValue:
		if math.IsNaN(x.DoubleValue) {
			return traces.FloatValue(math.NaN()) // JSON knows only one
		}
		return traces.FloatValue(x.DoubleValue)
	case *commonpb.AnyValue_BytesValue:
		return traces.BytesValue(x.BytesValue)
	case *commonpb.AnyValue_ArrayValue:
		values := x.ArrayValue.GetValues()
		list := make([]traces.Value, len(values))
		for i, v := range values {
			list[i] = fromValue(v)
		}
		return traces.ArrayValue(list...)
	case *commonpb.AnyValue_KvlistValue:
		return traces.MapValue(attrs(x.KvlistValue.GetValues())...)
	}
	return traces.Value{}
}
