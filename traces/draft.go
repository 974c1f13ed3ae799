package traces

import (
	"math"
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

// bounds are what records are cut to, in bytes unless it says otherwise.
type bounds struct {
	record  int // of a record with its strings
	name    int // characters of a name, and bytes of a key
	message int // characters of a status
	state   int // bytes of a trace state, which is of no use in part
	text    int // characters of a text in an attribute
}

// boundsOf returns the bounds in chunks of so many bytes. A chunk has room for a resource,
// a record, and the list of the spans that run.
func boundsOf(chunk, text int) bounds {
	b := bounds{record: chunk / 4, name: chunk / 128, message: chunk / 32, state: 512, text: chunk / 16}
	if text > 0 {
		b.text = min(b.text, text)
	}
	b.state = min(b.state, chunk/64)
	return b
}

// fixedRoom is what the parts of a record take that are always there: of a snapshot, with
// the longest counts.
const fixedRoom = 8 + 1 + 17 + 9 + 10 + 4 + 4 + 8 + 2 + 4 + 5 + 4 + 5 + 4 + 4

// begin empties d for a record of that kind.
func (d *draft) begin(kind recordKind, b *bounds) {
	clear(d.keys)
	clear(d.attrs)
	*d = draft{
		rec: record{kind: kind}, room: b.record - fixedRoom,
		keys: d.keys[:0], attrs: d.attrs[:0], ends: d.ends[:0], links: d.links[:0], values: d.values[:0],
	}
}

// setName sets the name, of which a chunk may already have the string.
func (d *draft) setName(s string) {
	d.name = s
	d.room -= len(s) + 3
}

// text returns s as it can be stored, at most limit characters of it.
func (t *Traces) text(s string, limit int) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	short := cutText(s, limit)
	if len(short) < len(s) {
		t.stats.Truncated++
	}
	return short
}

// setState sets the trace state.
func (t *Traces) setState(d *draft, s string) {
	if s == "" {
		return
	}
	if d.rec.state, d.room = some(s), d.room-len(s)-3; d.room < 0 {
		d.rec.state, d.room = optional[string]{}, d.room+len(s)+3
	}
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

// addAttr adds an attribute if there is room; otherwise it counts it as dropped. A text, and
// bytes, for which the room is missing is cut, and leaves some for others.
func (t *Traces) addAttr(d *draft, a *Attr) (ok bool) {
	from := len(d.values)
	key := a.Key
	cost := 4 + 3 + len(key) + 3
	e := valueEncoder{limit: t.bounds.text, most: from + d.room - cost}
	if ok = key != "" && len(key) <= t.bounds.name && utf8.ValidString(key) && d.room > cost; ok {
		d.values, ok = e.append(d.values, &a.Value, 0)
	}
	if ok && len(d.values) > e.most && a.Value.cuttable() {
		e.bytes = (d.room - cost) / 2
		d.values, ok = e.append(d.values[:from], &a.Value, 0)
	}
	if !ok || len(d.values) > e.most {
		d.values = d.values[:from]
		t.stats.DroppedAttributes++
		return false
	}
	if e.cut {
		t.stats.Truncated++
	}
	d.room -= cost + len(d.values) - from
	d.keys, d.ends = append(d.keys, key), append(d.ends, len(d.values))
	return true
}

// addAttrs adds attributes, and returns how many of them had no room.
func (t *Traces) addAttrs(d *draft, attrs []Attr) (dropped uint32) {
	for i := range attrs {
		if !t.addAttr(d, &attrs[i]) {
			dropped++
		}
	}
	return dropped
}

// addLinks adds links, and returns how many of them had no room. It comes after the
// attributes of the span.
func (t *Traces) addLinks(d *draft, links []Link) (dropped uint32) {
	for i := range links {
		l := &links[i]
		cost := 17 + 9 + 1 + 3 + len(l.TraceState) + 5 + 4
		if cost > d.room {
			t.stats.DroppedLinks++
			dropped++
			continue
		}
		d.room -= cost
		row := linkRow{trace: l.TraceID, span: l.SpanID, dropped: l.DroppedAttributes}
		if l.TraceState != "" {
			row.state = some(l.TraceState)
		}
		before := len(d.keys)
		row.dropped = addCounts(row.dropped, t.addAttrs(d, l.Attributes))
		d.links = append(d.links, len(d.keys)-before)
		d.rec.links = append(d.rec.links, row)
	}
	return dropped
}

// addCounts adds without going over.
func addCounts(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), math.MaxUint32)) }

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
