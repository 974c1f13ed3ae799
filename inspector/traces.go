package inspector

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/admin"
)

// tracesPage is a list of traces, by when the first thing of each was recorded.
type tracesPage struct {
	Traces  []*traceRow
	Spans   int
	Damaged []string
	Params  url.Values
	Since   string // how far back: 1h, 24h or all
	Next    string
}

// A traceRow is what a page has of a trace.
type traceRow struct {
	ID     string
	Root   string // the name of its first span
	Start  admin.Time
	Length string
	Spans  int
	Failed int
	line   timeline
}

// A tracePage is a page of the spans of a trace, as a waterfall.
type tracePage struct {
	ID       string
	Spans    []*spanRow
	From     admin.Time
	Length   string
	Failed   int
	Next     string
	Damaged  []string
	Complete bool // the page has all spans of the trace
}

// A spanRow is a span in a waterfall.
type spanRow struct {
	span
	Indent int
	Bar    *bar
	depth  int
	below  []*spanRow
	above  *spanRow
}

// A span is one of OTLP in JSON: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding.
type span struct {
	Trace  string `json:"traceId"`
	ID     string `json:"spanId"`
	Parent string `json:"parentSpanId"`
	Name   string `json:"name"`
	Start  nanos  `json:"startTimeUnixNano"`
	End    nanos  `json:"endTimeUnixNano"`
	Status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
	Attributes []attribute `json:"attributes"`
	Dropped    uint32      `json:"droppedEventsCount"` // there are so many more
	Events     []struct {
		Time       nanos       `json:"timeUnixNano"`
		Name       string      `json:"name"`
		Attributes []attribute `json:"attributes"`
	} `json:"events"`
}

// Failed reports whether the span has ended with an error.
func (s *span) Failed() bool { return s.Status.Code == 2 }

// stepTraces returns the parameters by which listTraces shows the attempts at the entry of a workflow with that id.
func stepTraces(id string) string { return url.Values{"attribute": {attrStep + "=" + id}}.Encode() }

// attrStep is the attribute by which a span names the entry of a workflow that it is an attempt at, as package workflow records it.
const attrStep = "workflow.step.id"

// Step returns the id of the entry of the workflow that the span is an attempt at, "" for none.
func (s *span) Step() string {
	for _, a := range s.Attributes {
		if a.Key == attrStep {
			return a.Text()
		}
	}
	return ""
}

// An attribute is one of OTLP.
type attribute struct {
	Key   string                     `json:"key"`
	Value map[string]json.RawMessage `json:"value"` // of one element, whose key is the type
}

// Text is the value.
func (a attribute) Text() string {
	for _, v := range a.Value {
		var s string
		if json.Unmarshal(v, &s) == nil {
			return cut(s, maxPreview)
		}
		return cut(string(v), maxPreview)
	}
	return ""
}

// nanos is a time of OTLP, in nanoseconds since 1970 as a text.
type nanos string

// Time returns the time, the zero time for none.
func (n nanos) Time() time.Time {
	ns, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil || ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// spansOf returns the spans that the API answers with.
func spansOf(otlp json.RawMessage) (spans []span, err error) {
	var doc struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []span `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	if err := json.Unmarshal(otlp, &doc); err != nil {
		return nil, err
	}
	for _, r := range doc.ResourceSpans {
		for _, s := range r.ScopeSpans {
			spans = append(spans, s.Spans...)
		}
	}
	return spans, nil
}

// agos are how far back the list goes.
var agos = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour}

// listTraces shows the traces of an actor.
func listTraces(ctx context.Context, v *visit) (*shown, error) {
	params := v.only("name", "status", "attribute", "after")
	p := &tracesPage{Params: params, Since: cmp.Or(v.param("since"), "all")}
	asked := url.Values{"limit": {"1000"}, "events": {"0"}}
	for name, values := range params {
		asked[name] = values
	}
	if ago, ok := agos[p.Since]; ok {
		asked.Set("since", time.Now().Add(-ago).UTC().Format(time.RFC3339))
	}
	list, err := get[admin.TraceList](ctx, v, "/traces", asked)
	if err != nil {
		return nil, err
	}
	spans, err := spansOf(list.OTLP)
	if err != nil {
		return nil, err
	}
	p.Spans, p.Damaged, p.Next = list.Spans, list.Damaged, v.next(list.Next)
	byID := map[string]*traceRow{}
	for i := range spans {
		s := &spans[i]
		t := byID[s.Trace]
		if t == nil {
			t = &traceRow{ID: s.Trace, Root: s.Name}
			byID[s.Trace] = t
			p.Traces = append(p.Traces, t)
		}
		if s.Parent == "" {
			t.Root = s.Name
		}
		if t.Spans++; s.Failed() {
			t.Failed++
		}
		t.line.add(s.Start.Time(), s.End.Time())
	}
	for _, t := range p.Traces {
		t.Start, t.Length = admin.NewTime(t.line.from), duration(t.line.to.Sub(t.line.from))
	}
	slices.Reverse(p.Traces)
	return &shown{Title: "Traces", Template: "traces", Data: p, Live: "actor"}, nil
}

// shownEvents bounds the events of a span on a page.
const shownEvents = "20"

// showTrace shows a trace as a waterfall.
func showTrace(ctx context.Context, v *visit) (*shown, error) {
	params := v.only("after")
	params.Set("trace", v.r.PathValue("trace"))
	params.Set("limit", "1000")
	params.Set("events", shownEvents)
	list, err := get[admin.TraceList](ctx, v, "/traces", params)
	if err != nil {
		return nil, err
	}
	spans, err := spansOf(list.OTLP)
	if err != nil {
		return nil, err
	}
	if len(spans) == 0 && v.param("after") == "" {
		return nil, &admin.Error{Code: "not_found", Message: "The actor has stored no spans of the trace " + shownText(v.r.PathValue("trace")) + "."}
	}
	p := &tracePage{ID: v.r.PathValue("trace"), Next: v.next(list.Next), Damaged: list.Damaged, Complete: list.Next == "" && v.param("after") == ""}
	line := &timeline{}
	for i := range spans {
		line.add(spans[i].Start.Time(), spans[i].End.Time())
		if spans[i].Failed() {
			p.Failed++
		}
	}
	p.From, p.Length = admin.NewTime(line.from), duration(line.to.Sub(line.from))
	p.Spans = waterfall(spans)
	for _, s := range p.Spans {
		s.Indent, s.Bar = min(s.depth, maxIndent), line.bar(s.Start.Time(), s.End.Time())
	}
	return &shown{Title: "Trace " + strings.ToLower(p.ID[:min(8, len(p.ID))]), Template: "trace", Data: p}, nil
}

// waterfall returns spans, each followed by those below it. One whose parent isn't there is a root, and so is the first one of a circle.
func waterfall(spans []span) []*spanRow {
	all, byID := make([]*spanRow, len(spans)), map[string]*spanRow{}
	for i := range spans {
		all[i] = &spanRow{span: spans[i]}
		byID[spans[i].ID] = all[i]
	}
	slices.SortStableFunc(all, func(a, b *spanRow) int { return a.Start.Time().Compare(b.Start.Time()) })
	for _, s := range slices.Backward(all) {
		above := byID[s.Parent]
		for p := above; p != nil; p = p.above {
			if p == s {
				above = nil
				break
			}
		}
		s.above = above
	}
	var roots []*spanRow
	for _, s := range all {
		if s.above == nil {
			roots = append(roots, s)
		} else {
			s.above.below = append(s.above.below, s)
		}
	}
	rows := make([]*spanRow, 0, len(all))
	for todo := slices.Clone(roots); len(todo) > 0; {
		s := todo[0]
		todo = todo[1:]
		if s.above != nil {
			s.depth = s.above.depth + 1
		}
		rows = append(rows, s)
		todo = append(slices.Clone(s.below), todo...)
	}
	return rows
}
