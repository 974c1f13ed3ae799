package traces

import (
	"math"
	"strings"
	"unicode/utf8"
)

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

// A limiter keeps what spans and records have within limits, and counts what it cuts. The lock
// of the store guards it, as it does the counts.
type limiter struct {
	bounds   bounds
	most     Limits
	resource *Resource // of spans without one
	stats    *Stats
}

// text returns s as it can be stored, at most limit characters of it.
func (m *limiter) text(s string, limit int) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	short := cutText(s, limit)
	if len(short) < len(s) {
		m.stats.Truncated++
	}
	return short
}

// fill takes over what the span begins with.
func (m *limiter) fill(s *Span, name string, o *StartOptions) {
	s.name, s.kind = m.text(name, m.bounds.name), o.Kind
	s.flags, s.resource = o.Flags, o.Resource
	if len(o.TraceState) <= m.bounds.state {
		s.traceState = m.text(o.TraceState, 0)
	}
	if s.resource == nil {
		s.resource = m.resource
	}
	if !o.Scope.IsZero() {
		scope := o.Scope
		s.scope = &scope
	}
	s.dropped, s.droppedLinks = o.DroppedAttributes, o.DroppedLinks
	s.attrs = make([]Attr, 0, len(o.Attributes))
	_, more := m.merge(s, o.Attributes)
	s.dropped = addCounts(s.dropped, more)
	m.setLinks(s, o.Links)
}

// merge sets attributes of the span as far as the limit allows. It returns those that it
// set, and how many it did not.
func (m *limiter) merge(s *Span, attrs []Attr) (kept []Attr, dropped uint32) {
	kept = attrs
	for i := range attrs {
		switch ok := m.mergeOne(s, &attrs[i]); {
		case !ok && dropped == 0:
			kept = append(make([]Attr, 0, len(attrs)), attrs[:i]...)
			fallthrough
		case !ok:
			dropped++
		case dropped > 0:
			kept = append(kept, attrs[i])
		}
	}
	return kept, dropped
}

// mergeOne reports whether the limit allows the attribute.
func (m *limiter) mergeOne(s *Span, a *Attr) bool {
	for i := range s.attrs {
		if s.attrs[i].Key == a.Key {
			s.attrs[i].Value = a.Value
			return true
		}
	}
	if !reservedKey(a.Key) {
		if over(s.ownAttrs, m.most.Attributes) {
			m.stats.DroppedAttributes++
			return false
		}
		s.ownAttrs++
	}
	s.attrs = append(s.attrs, *a)
	return true
}

// setLinks sets the links of the span as far as the limits allow.
func (m *limiter) setLinks(s *Span, links []Link) {
	s.links = nil
	for i := range links {
		if over(len(s.links), m.most.Links) {
			n := len(links) - i
			m.stats.DroppedLinks += int64(n)
			s.droppedLinks = addCounts(s.droppedLinks, uint32(n))
			return
		}
		l := links[i]
		if l.TraceState = m.text(l.TraceState, 0); len(l.TraceState) > m.bounds.state {
			l.TraceState = ""
		}
		l.Attributes = m.first(l.Attributes, m.most.LinkAttributes, &l.DroppedAttributes)
		s.links = append(s.links, l)
	}
}

// first returns as many attributes as limit allows, and counts the others.
func (m *limiter) first(attrs []Attr, limit int, dropped *uint32) []Attr {
	if limit < 0 || len(attrs) <= limit {
		return attrs
	}
	n := len(attrs) - limit
	m.stats.DroppedAttributes += int64(n)
	*dropped = addCounts(*dropped, uint32(n))
	return attrs[:limit]
}

// status returns a status as it can be stored.
func (m *limiter) status(s *Status) Status {
	return Status{min(s.Code, StatusError), m.text(s.Message, m.bounds.message)}
}

// over reports whether one more than n is over a limit, of which a negative one doesn't count.
func over(n, limit int) bool { return limit >= 0 && n >= limit }

// addCounts adds without going over.
func addCounts(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), math.MaxUint32)) }
