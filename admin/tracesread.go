package admin

import (
	"context"
	"encoding/json"
	"math"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otlp"
)

// A TraceList is a page of spans that an actor has stored, by when the first thing of each was recorded, within since and until.
type TraceList struct {
	OTLP    json.RawMessage `json:"otlp"`           // the spans, as the body of a request of OTLP/HTTP
	Spans   int             `json:"spans"`          // how many there are
	Next    string          `json:"next,omitempty"` // after of the next page, which may be empty; "" on the last one
	Damaged []string        `json:"damaged,omitempty"`
}

// spanStatuses are the words of the status of a span, by its traces.StatusCode.
var spanStatuses = []string{"unset", "ok", "error"}

func traceReads() []route {
	return []route{readActor("/traces", "Show the spans that an actor has stored, in OTLP.", []param{
		{name: "trace", kind: "string", what: "Spans of the trace with this id, 32 hexadecimal digits."},
		{name: "since", kind: "date-time", what: "Spans of which something is recorded at this time or after it."},
		{name: "until", kind: "date-time", what: "Spans of which something is recorded before this time, as they were then."},
		{name: "name", kind: "string", what: "Spans of this name."},
		{name: "status", kind: "string", repeated: true, of: spanStatuses, what: "Spans with this status, or with one of these."},
		{name: "attribute", kind: "string", repeated: true, what: "Spans with this attribute, as KEY=VALUE: numbers and truth values in their decimal and English form."},
		{name: "events", kind: "integer", what: "The first events of each span, up to so many, and all without it. The others are among the span's droppedEventsCount."},
		afterParam, limitParam,
	}, func(_ context.Context, v *greenroom.View, q *query) (*TraceList, error) {
		spans, err := spansQuery(q)
		if err != nil {
			return nil, err
		}
		events := uint64(math.MaxUint64)
		if q.values.Has("events") {
			if events, err = q.number("events"); err != nil {
				return nil, err
			}
		}
		res, err := v.Spans(spans)
		if err != nil {
			return nil, err
		}
		for i := range res.Spans {
			if s := &res.Spans[i]; events < uint64(len(s.Events)) {
				s.DroppedEvents += uint32(uint64(len(s.Events)) - events)
				s.Events = s.Events[:events]
			}
		}
		out := &TraceList{Spans: len(res.Spans)}
		if res.Clamped && len(res.Spans) > 0 {
			out.Next = res.Last.String()
		}
		out.OTLP, err = otlp.AppendJSON(nil, res.Spans)
		for _, d := range res.Damaged[:min(len(res.Damaged), maxLimit)] {
			out.Damaged = append(out.Damaged, d.Words+": "+d.Err.Error())
		}
		return out, err
	})}
}

// spansQuery returns what a query selects.
func spansQuery(q *query) (s traces.Query, err error) {
	if text := q.text("trace"); text != "" {
		if s.TraceID, err = traces.ParseTraceID(text); err != nil {
			return s, invalid("trace is an id of 32 hexadecimal digits, not %q", text)
		}
	}
	if text := q.text("after"); text != "" {
		if s.After, err = traces.ParsePosition(text); err != nil {
			return s, invalid("after is not the next of a list of spans")
		}
	}
	for _, word := range q.values["status"] {
		for i, status := range spanStatuses {
			if word == status {
				s.Status = append(s.Status, traces.StatusCode(i))
			}
		}
	}
	wanted := map[string]string{}
	for _, text := range q.values["attribute"] {
		key, value, ok := strings.Cut(text, "=")
		if before, twice := wanted[key]; !ok || key == "" || twice && before != value {
			return s, invalid("attribute is KEY=VALUE, with one value for each key, not %q", text)
		}
		wanted[key] = value
	}
	if len(wanted) > 0 {
		s.Match = func(d *traces.SpanData) bool { return hasAll(d.Attributes, wanted) }
	}
	s.Name = q.text("name")
	if s.Limit, err = q.limit(); err == nil {
		s.Start, err = q.time("since")
	}
	if err == nil {
		s.End, err = q.time("until")
	}
	return s, err
}

// hasAll reports whether each of the attributes that are wanted is among those of a span, which has no key twice.
func hasAll(attrs []traces.Attr, wanted map[string]string) bool {
	found := 0
	for i := range attrs {
		if value, ok := wanted[attrs[i].Key]; ok && attrs[i].Value.String() == value {
			found++
		}
	}
	return found == len(wanted)
}
