package otlp

import (
	"strings"
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

// text returns s with what isn't UTF-8 replaced: protobuf refuses it.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
