package traces

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A gathered is the records of one id of a span, as far as they were gathered: of one
// span, unless spans of several traces have it.
type gathered struct {
	id      SpanID
	records []timed
	base    bool     // there is a start or a snapshot
	traces  []uint64 // hashes of the traces that these are of
	inRange bool     // there is a record in the range
	first   moment   // of these the first
	late    bool     // something of it may have been left out before
	ended   bool
	judged  bool // or is going to be
	matched bool // it was judged, and is wanted
	partial bool
	begins  []place // records with which it began, that were looked up
	since   horizon // what is looked for of it
}

// A horizon says where records of a span may be: in a chunk with records behind a time, in
// Unix ns, and in those from a key on, however they are dated. Of chunks that the index
// doesn't know they are looked for from gaps on.
type horizon struct {
	at        uint64
	key, gaps chunkKey
}

// nowhere returns a horizon behind every chunk and record.
func nowhere() horizon {
	last := chunkKey{math.MaxInt64, 0}
	return horizon{math.MaxUint64, last, last}
}

// join returns one that has both.
func (h horizon) join(o horizon) horizon {
	return horizon{min(h.at, o.at), h.key.min(o.key), h.gaps.min(o.gaps)}
}

// horizon returns where all is that was recorded of the span since it began, and what was
// dated back to before that, if it is behind its beginning.
func (g *gathered) horizon() horizon {
	h, started := nowhere(), g.starts() && !g.mixed()
	for i := range g.records {
		if r := &g.records[i]; r.base() {
			h = h.join(r.horizon(started))
		}
	}
	return h
}

// horizon is that of a span that begins with r, or was started before.
func (r *timed) horizon(started bool) horizon {
	h := horizon{r.at, r.place.chunk, r.place.chunk}
	if r.kind == kindSnapshot && r.start < r.at {
		if h.at = r.start; !started {
			// It was recorded in the bucket of that time, which may be of any length, or before,
			// dated ahead.
			h.gaps = h.gaps.min(chunkKey{max(int64(r.start/1e9)-int64(widest/time.Second), 0), 0})
		}
	}
	return h
}

// add notes that there is something of a trace.
func (g *gathered) add(t TraceID) {
	if h := hashTrace(t); !slices.Contains(g.traces, h) {
		g.traces = append(g.traces, h)
	}
}

// A moment orders records as they happened: those of one time in the order of their keys.
type moment struct {
	at    uint64 // Unix ns
	place place
}

func (m moment) compare(o moment) int {
	return cmp.Or(cmp.Compare(m.at, o.at), m.place.compare(o.place))
}

// position returns the place of a span in a Result whose first record in the range is at m.
func (m moment) position() Position {
	return Position{m.at, m.place.chunk.bucket, m.place.chunk.id, m.place.index + 1}
}

// mixed reports whether spans of several traces have the id.
func (g *gathered) mixed() bool { return len(g.traces) > 1 }

// sort puts the records into the order in which they happened. They were gathered as they
// are stored, which is another one: what is dated back is in a chunk of its own.
func (g *gathered) sort() {
	slices.SortFunc(g.records, func(a, b timed) int {
		return moment{a.at, a.place}.compare(moment{b.at, b.place})
	})
}

// starts reports whether the start of the span is there. Of one that is known from where it
// was recorded whole there may be events from before that.
func (g *gathered) starts() bool {
	return slices.ContainsFunc(g.records, func(r timed) bool { return r.kind == kindStart })
}

// restated reports whether the span began before a time and all that is known of its
// beginning was recorded later.
func (g *gathered) restated(from uint64) bool {
	return !g.starts() && slices.ContainsFunc(g.records, func(r timed) bool { return r.kind == kindSnapshot && r.start < from })
}

// orphaned reports whether there are records that seem to be of another span with the id:
// from before all that is known to begin, or one end too many.
func (g *gathered) orphaned() bool {
	g.sort()
	began := uint64(math.MaxUint64)
	for _, r := range g.records {
		switch r.kind {
		case kindStart:
			began = min(began, r.at)
		case kindSnapshot:
			began = min(began, r.at, r.start)
		}
	}
	var open []uint64
	for _, r := range g.records {
		switch {
		case r.at < began:
			return true
		case r.base():
			h := hashTrace(r.record.trace)
			open = append(slices.DeleteFunc(open, func(o uint64) bool { return o == h }), h)
		case r.kind == kindEnd && len(open) == 0:
			return true
		case r.kind == kindEnd:
			open = open[:len(open)-1]
		}
	}
	return false
}

// resources makes one of all resources that are the same.
type resources map[string]*Resource

func (m resources) of(r *record, strings []string) *Resource {
	if len(r.attrs) == 0 {
		return nil
	}
	var key []byte
	for _, a := range r.attrs {
		key = bare.AppendData(bare.AppendString(key, strings[a.key]), a.value)
	}
	if known := m[string(key)]; known != nil {
		return known
	}
	res := &Resource{}
	for _, a := range r.attrs {
		if v := decodeValue(a.value); strings[a.key] == keySchema {
			res.SchemaURL, _ = v.Any().(string)
		} else {
			res.Attributes = append(res.Attributes, Attr{strings[a.key], v})
		}
	}
	m[string(key)] = res
	return res
}

// span puts a span together from its records.
func (g *gathered) span() SpanData {
	g.sort()
	d := SpanData{SpanID: g.id, Partial: g.partial}
	var says *timed // what the status is
	for i := range g.records {
		r := &g.records[i]
		if (r.status.set || r.kind == kindSnapshot) && r.overrules(says) {
			says = r
			d.Status = Status{r.status.value.code, r.status.value.message.value}
		}
		switch r.kind {
		case kindStart, kindSnapshot:
			d.begin(r)
		case kindUpdate:
			d.update(r.attrs, r.strings)
			d.DroppedAttributes = addCounts(d.DroppedAttributes, r.dropped)
		case kindEvent: // a snapshot says nothing of events: they are kept through it
			d.Events = append(d.Events, Event{timeOf(r.at), r.strings[r.name], attrsOf(r.attrs, r.strings), r.dropped})
		case kindEnd:
			d.End = timeOf(r.at)
		}
	}
	return d
}

// apart returns the spans that the records are of. Ids are unique in a trace, and only the
// records that a span begins with have that of the trace: the others are of the one that
// began last of those that still run.
func (g *gathered) apart(from uint64) []*gathered {
	if !g.mixed() {
		return []*gathered{g}
	}
	g.sort()
	var parts, open []*gathered
	for _, r := range g.records {
		if r.base() {
			hash := hashTrace(r.record.trace)
			same := func(p *gathered) bool { return p.traces[0] == hash }
			i := slices.IndexFunc(parts, same)
			if i < 0 {
				i = len(parts)
				parts = append(parts, &gathered{id: g.id, base: true, traces: []uint64{hash}, partial: g.partial})
			}
			open = append(slices.DeleteFunc(open, same), parts[i])
		}
		if len(open) == 0 {
			continue // of what began before all that is known
		}
		p := open[len(open)-1]
		p.records = append(p.records, r)
		if r.at >= from && !p.inRange {
			p.inRange, p.first = true, moment{r.at, r.place}
		}
		p.ended = p.ended || r.kind == kindEnd
		if r.kind == kindEnd && len(open) > 1 {
			open = open[:len(open)-1]
		}
	}
	return parts
}

// overrules reports whether the status of r, which is the later one by time, holds and not
// that of o. An end may be dated back to before what was recorded until then: it is what
// was written last that holds. The end of another bucket was, too: behind it comes only
// what repeats it.
func (r *timed) overrules(o *timed) bool {
	switch {
	case o == nil:
		return true
	case o.place.chunk.bucket == r.place.chunk.bucket:
		return o.place.compare(r.place) < 0
	}
	return o.kind != kindEnd
}

// begin takes over a start or a snapshot, which says everything but the events.
func (d *SpanData) begin(r *timed) {
	d.TraceID, d.Parent, d.Name, d.Kind = r.trace, r.parent.value, r.strings[r.name], SpanKind(r.spanKind)
	d.TraceState, d.Flags = r.state.value, r.flags
	d.Resource, d.Scope, d.Attributes, d.Links = r.resource, Scope{}, nil, nil
	d.update(r.attrs, r.strings)
	d.DroppedAttributes, d.DroppedLinks = r.dropped, r.droppedLinks
	for i := range r.links {
		l := &r.links[i]
		d.Links = append(d.Links, Link{l.trace, l.span, l.state.value, attrsOf(l.attrs, r.strings), l.dropped})
	}
	if d.Start = timeOf(r.at); r.kind == kindSnapshot {
		d.Start = timeOf(r.start)
	}
}

// update sets attributes; those by which the format says other things go where they belong.
func (d *SpanData) update(rows []attrRow, strings []string) {
	if d.Attributes == nil && len(rows) > 0 {
		d.Attributes = make([]Attr, 0, len(rows))
	}
	for _, row := range rows {
		a := Attr{strings[row.key], decodeValue(row.value)}
		if reservedKey(a.Key) && d.reserved(&a) {
			continue
		}
		i := slices.IndexFunc(d.Attributes, func(o Attr) bool { return o.Key == a.Key })
		if i < 0 {
			d.Attributes = append(d.Attributes, a)
		} else {
			d.Attributes[i] = a
		}
	}
}

// reserved reports whether an attribute was for a field, which it then sets.
func (d *SpanData) reserved(a *Attr) bool {
	switch {
	case a.Key == keyDroppedEvents && a.Value.typ == typeInt:
		d.DroppedEvents = uint32(min(max(a.Value.asInt(), 0), 1<<32-1))
	case a.Key == keyScopeAttrs && a.Value.typ == typeMap:
		d.Scope.Attributes = a.Value.asMap()
	case a.Value.typ != typeString:
		return false
	case a.Key == keyScopeName:
		d.Scope.Name = a.Value.text
	case a.Key == keyScopeVersion:
		d.Scope.Version = a.Value.text
	case a.Key == keyScopeSchema:
		d.Scope.SchemaURL = a.Value.text
	default:
		return false
	}
	return true
}

func attrsOf(rows []attrRow, strings []string) []Attr {
	if len(rows) == 0 {
		return nil
	}
	attrs := make([]Attr, len(rows))
	for i, row := range rows {
		attrs[i] = Attr{strings[row.key], decodeValue(row.value)}
	}
	return attrs
}

// start returns where the first record is, or the first one with which the span began.
func (s *gathered) start(base bool) place {
	first := place{chunk: chunkKey{math.MaxInt64, 0}}
	for i := range s.records {
		if r := &s.records[i]; (r.base() || !base) && r.place.compare(first) < 0 {
			first = r.place
		}
	}
	return first
}

// newest returns where the last record is that says what the span is.
func (s *gathered) newest() (last place) {
	for i := range s.records {
		if r := &s.records[i]; r.base() && r.place.compare(last) >= 0 {
			last = r.place
		}
	}
	return last
}

// startsBefore is the order of spans by their first records in the range.
func startsBefore(s, o *gathered) bool {
	return cmp.Or(s.first.compare(o.first), bytes.Compare(s.id[:], o.id[:])) < 0
}

// base reports whether it is a record with which a span can begin.
func (r *record) base() bool { return r.kind == kindStart || r.kind == kindSnapshot }
