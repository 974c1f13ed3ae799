package traces

import (
	"strings"
	"unicode/utf8"
)

// Keys of attributes by which OpenTelemetry tells formats that have no place for them what
// recorded a span, and what is missing
// (https://opentelemetry.io/docs/specs/otel/common/mapping-to-non-otlp/).
const (
	keyScopeName     = "otel.scope.name"
	keyScopeVersion  = "otel.scope.version"
	keyScopeSchema   = "otel.scope.schema_url"
	keyScopeAttrs    = "otel.scope.attributes"
	keyDroppedEvents = "otel.dropped_events_count"
	keySchema        = "greenroom.schema_url" // of a resource
)

// reservedKey reports whether an attribute is one that a SpanData has a field for.
func reservedKey(key string) bool {
	if !strings.HasPrefix(key, "otel.") {
		return false
	}
	switch key {
	case keyScopeName, keyScopeVersion, keyScopeSchema, keyScopeAttrs, keyDroppedEvents:
		return true
	}
	return false
}

// A draft is a record on its way into a chunk: all but the numbers of its strings. Its
// memory is used again.
type draft struct {
	limits *limiter

	rec   record
	name  string
	keys  []string  // of rec.attrs, then of the attributes of all links
	attrs []attrRow // of them all
	ends  []int     // where in values the value of each ends
	// links says how many of attrs belong to each link.
	links  []int
	values []byte
	room   int // bytes that are left
}

// fixedRoom is what the parts of a record take that are always there: of a snapshot, with
// the longest counts.
const fixedRoom = 8 + 1 + 17 + 9 + 10 + 4 + 4 + 8 + 2 + 4 + 5 + 4 + 5 + 4 + 4

// begin empties d for a record of that kind.
func (d *draft) begin(kind recordKind) {
	clear(d.keys)
	clear(d.attrs)
	*d = draft{
		limits: d.limits, rec: record{kind: kind}, room: d.limits.bounds.record - fixedRoom,
		keys: d.keys[:0], attrs: d.attrs[:0], ends: d.ends[:0], links: d.links[:0], values: d.values[:0],
	}
}

// setName sets the name, of which a chunk may already have the string.
func (d *draft) setName(s string) {
	d.name = s
	d.room -= len(s) + 3
}

// setStatus sets the status; its message has been cut.
func (d *draft) setStatus(s *Status) {
	row := statusRow{code: s.Code}
	if s.Message != "" {
		row.message = some(s.Message)
		d.room -= len(s.Message) + 3
	}
	d.rec.status = some(row)
}

// setState sets the trace state.
func (d *draft) setState(s string) {
	if s == "" {
		return
	}
	if d.rec.state, d.room = some(s), d.room-len(s)-3; d.room < 0 {
		d.rec.state, d.room = optional[string]{}, d.room+len(s)+3
	}
}

// addAttr adds an attribute if there is room; otherwise it counts it as dropped. A text, and
// bytes, for which the room is missing is cut, and leaves some for others.
func (d *draft) addAttr(a *Attr) (ok bool) {
	from := len(d.values)
	key := a.Key
	cost := 4 + 3 + len(key) + 3
	e := valueEncoder{limit: d.limits.bounds.text, most: from + d.room - cost}
	if ok = key != "" && len(key) <= d.limits.bounds.name && utf8.ValidString(key) && d.room > cost; ok {
		d.values, ok = e.append(d.values, &a.Value, 0)
	}
	if ok && len(d.values) > e.most && a.Value.cuttable() {
		e.bytes = (d.room - cost) / 2
		d.values, ok = e.append(d.values[:from], &a.Value, 0)
	}
	if !ok || len(d.values) > e.most {
		d.values = d.values[:from]
		d.limits.stats.DroppedAttributes++
		return false
	}
	if e.cut {
		d.limits.stats.Truncated++
	}
	d.room -= cost + len(d.values) - from
	d.keys, d.ends = append(d.keys, key), append(d.ends, len(d.values))
	return true
}

// addAttrs adds attributes, and returns how many of them had no room.
func (d *draft) addAttrs(attrs []Attr) (dropped uint32) {
	for i := range attrs {
		if !d.addAttr(&attrs[i]) {
			dropped++
		}
	}
	return dropped
}

// addLinks adds links, and returns how many of them had no room. It comes after the
// attributes of the span.
func (d *draft) addLinks(links []Link) (dropped uint32) {
	for i := range links {
		l := &links[i]
		cost := 17 + 9 + 1 + 3 + len(l.TraceState) + 5 + 4
		if cost > d.room {
			d.limits.stats.DroppedLinks++
			dropped++
			continue
		}
		d.room -= cost
		row := linkRow{trace: l.TraceID, span: l.SpanID, dropped: l.DroppedAttributes}
		if l.TraceState != "" {
			row.state = some(l.TraceState)
		}
		before := len(d.keys)
		row.dropped = addCounts(row.dropped, d.addAttrs(l.Attributes))
		d.links = append(d.links, len(d.keys)-before)
		d.rec.links = append(d.rec.links, row)
	}
	return dropped
}

// whole drafts a start or a snapshot of the span as it is now.
func (d *draft) whole(s *Span, kind recordKind) {
	d.bare(s, kind)
	if kind == kindSnapshot && s.status.set {
		d.setStatus(&s.status.value)
	}
	if s.lostEvents > 0 {
		a := Int(keyDroppedEvents, int64(s.lostEvents))
		d.addAttr(&a)
	}
	r := &d.rec
	r.dropped = addCounts(s.dropped, d.addAttrs(s.attrs))
	r.droppedLinks = addCounts(s.droppedLinks, d.addLinks(s.links))
}

// bare drafts what of the span never changes.
func (d *draft) bare(s *Span, kind recordKind) {
	d.begin(kind)
	r := &d.rec
	r.trace, r.span, r.parent.value, r.parent.set = s.trace, s.id, s.parent, !s.parent.IsZero()
	r.spanKind, r.flags = uint32(s.kind), s.flags
	d.setName(s.name)
	d.setState(s.traceState)
	if kind == kindSnapshot {
		r.start = s.began
	}
	d.setScope(s.scope)
}

// setScope says what recorded the span.
func (d *draft) setScope(s *Scope) {
	if s == nil {
		return
	}
	for _, a := range [...]Attr{
		String(keyScopeName, s.Name), String(keyScopeVersion, s.Version), String(keyScopeSchema, s.SchemaURL),
	} {
		if a.Value.text != "" {
			d.addAttr(&a)
		}
	}
	if len(s.Attributes) > 0 {
		a := Attr{keyScopeAttrs, MapValue(s.Attributes...)}
		d.addAttr(&a)
	}
}

// event drafts an event of a span.
func (d *draft) event(id SpanID, e *Event) {
	d.begin(kindEvent)
	d.rec.span = id
	d.setName(d.limits.text(e.Name, d.limits.bounds.name))
	dropped := e.DroppedAttributes
	attrs := d.limits.first(e.Attributes, d.limits.most.EventAttributes, &dropped)
	d.rec.dropped = addCounts(dropped, d.addAttrs(attrs))
}

// finish gives all strings their numbers in b, and completes rec.
func (d *draft) finish(b *builder) {
	if d.rec.kind != kindUpdate && d.rec.kind != kindEnd {
		d.rec.name = b.intern(d.name)
	}
	d.attrs = d.attrs[:0]
	from := 0
	for i, key := range d.keys {
		d.attrs = append(d.attrs, attrRow{b.intern(key), d.values[from:d.ends[i]]})
		from = d.ends[i]
	}
	own := len(d.attrs)
	for _, n := range d.links {
		own -= n
	}
	rest := d.attrs[own:]
	d.rec.attrs = d.attrs[:own]
	for i, n := range d.links {
		d.rec.links[i].attrs, rest = rest[:n:n], rest[n:]
	}
}
