package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/greenroomdb/greenroom/traces"
)

// Widths in columns.
const (
	defaultWidth = 100
	minWidth     = 60
	lengthWidth  = 9 // of a duration
)

// A waterfall shows the spans of a trace as a tree on the left, and on the right when each
// of them was.
type waterfall struct {
	width   int
	details bool

	start, end time.Time
	names      int // columns of the tree
	bars       int // columns of the bars
}

// A branch is a span in the tree.
type branch struct {
	*traces.SpanData
	above    *branch // nil for a root
	children []*branch
}

// lines returns the picture.
func (w *waterfall) lines(spans []traces.SpanData) []string {
	w.width = max(w.width, minWidth)
	w.names = w.width * 2 / 5
	w.bars = w.width - w.names - lengthWidth - 4 // three blanks, and the end of what runs
	w.start, w.end = spans[0].Start, spans[0].Start
	running, errors := 0, 0
	for i := range spans {
		s := &spans[i]
		w.start, w.end = earlier(w.start, s.Start), later(later(w.end, s.Start), s.End)
		if s.Running() {
			running++
			for _, e := range s.Events {
				w.end = later(w.end, e.Time) // it ran until then, at least
			}
		}
		if s.Status.Code == traces.StatusError {
			errors++
		}
	}
	lines := []string{
		fmt.Sprintf("trace %s: %s from %s", spans[0].TraceID, short(w.end.Sub(w.start)), stamp(w.start)),
		fmt.Sprintf("%s, %d running, %s", count(len(spans), "span"), running, count(errors, "error")), "",
	}
	for _, b := range tree(spans) {
		lines = w.branch(lines, b, "", "")
	}
	return lines
}

func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
func later(a, b time.Time) time.Time   { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// tree puts spans below their parents. Those without one, or with one that isn't there, are
// roots; of spans that are below each other in a circle, the first one is.
func tree(spans []traces.SpanData) (roots []*branch) {
	byID := make(map[traces.SpanID]*branch, len(spans))
	all := make([]*branch, len(spans))
	for i := range spans {
		all[i] = &branch{SpanData: &spans[i]}
		byID[spans[i].SpanID] = all[i]
	}
	slices.SortStableFunc(all, func(a, b *branch) int {
		return cmp.Or(a.Start.Compare(b.Start), slices.Compare(a.SpanID[:], b.SpanID[:]))
	})
	for _, b := range slices.Backward(all) {
		above := byID[b.Parent]
		for p := above; p != nil; p = p.above {
			if p == b {
				above = nil // it would close a circle
			}
		}
		b.above = above
	}
	for _, b := range all {
		if b.above == nil {
			roots = append(roots, b)
		} else {
			b.above.children = append(b.above.children, b)
		}
	}
	return roots
}

// branch appends the lines of a span and of those below it. lead stands before the span
// itself, below before what belongs to it.
func (w *waterfall) branch(lines []string, b *branch, lead, below string) []string {
	lines = append(lines, w.span(b.SpanData, lead))
	rest := below + "  "
	if len(b.children) > 0 {
		rest = below + "│ "
	}
	if b.Status.Code == traces.StatusError && b.Status.Message != "" {
		lines = append(lines, w.cut(rest+"! "+plain(b.Status.Message)))
	}
	if w.details {
		for _, d := range details(b.SpanData) {
			lines = append(lines, rest+d)
		}
	}
	for i, c := range b.children {
		switch {
		case text.StringWidth(below) > w.names/2: // deeper ones stand no further right
			lines = w.branch(lines, c, below+"… ", below)
		case i == len(b.children)-1:
			lines = w.branch(lines, c, below+"└ ", below+"  ")
		default:
			lines = w.branch(lines, c, below+"├ ", below+"│ ")
		}
	}
	return lines
}

// cut keeps a line within the width.
func (w *waterfall) cut(line string) string { return text.Snip(line, w.width, "…") }

// span returns the line of a span.
func (w *waterfall) span(s *traces.SpanData, lead string) string {
	name := plain(s.Name)
	if s.Status.Code == traces.StatusError {
		name = "! " + name
	}
	length := "running"
	if !s.Running() {
		length = short(s.Duration())
	}
	left := text.Pad(text.Snip(lead+name, w.names, "…"), w.names, ' ')
	return strings.TrimRight(fmt.Sprintf("%s %*s  %s", left, lengthWidth, length, w.bar(s)), " ")
}

// bar shows when a span was: at least a thin line, and open to the right if it runs.
func (w *waterfall) bar(s *traces.SpanData) string {
	total := w.end.Sub(w.start)
	column := func(at time.Time) int {
		if total <= 0 {
			return 0
		}
		return int(float64(at.Sub(w.start)) / float64(total) * float64(w.bars))
	}
	from, end := column(s.Start), w.end
	if !s.Running() {
		end = s.End
	}
	n := max(column(end)-from, 0)
	from = min(from, w.bars-1)
	bar := strings.Repeat("█", n)
	if s.Running() {
		bar = strings.Repeat("░", max(n, 1)) + "▸"
	}
	return strings.Repeat(" ", from) + cmp.Or(bar, "▏")
}

// details returns what else a span has.
func details(s *traces.SpanData) (lines []string) {
	lines = append(lines, fmt.Sprintf("span %s, %s", s.SpanID, kindWords(s.Kind)))
	if s.Scope.Name != "" {
		lines[0] += ", by " + plain(s.Scope.Name)
	}
	lines = append(lines, attrLines(s.Attributes, "")...)
	for i := range s.Links {
		l := &s.Links[i]
		lines = append(lines, fmt.Sprintf("→ trace %s span %s", l.TraceID, l.SpanID))
		lines = append(lines, attrLines(l.Attributes, "  ")...)
	}
	for i := range s.Events {
		e := &s.Events[i]
		lines = append(lines, fmt.Sprintf("• %s after %s", plain(e.Name), short(e.Time.Sub(s.Start))))
		lines = append(lines, attrLines(e.Attributes, "  ")...)
	}
	for _, d := range []struct {
		n    uint32
		what string
	}{{s.DroppedAttributes, "attribute"}, {s.DroppedLinks, "link"}, {s.DroppedEvents, "event"}} {
		if d.n > 0 {
			lines = append(lines, count(int(d.n), d.what)+" dropped")
		}
	}
	return lines
}

func attrLines(attrs []traces.Attr, indent string) (lines []string) {
	for _, a := range attrs {
		lines = append(lines, indent+plain(a.Key)+" = "+plain(a.Value.String()))
	}
	return lines
}

func kindWords(k traces.SpanKind) string {
	words := []string{"unspecified", "internal", "server", "client", "producer", "consumer"}
	if int64(k) < int64(len(words)) {
		return words[k]
	}
	return fmt.Sprint("kind ", uint32(k))
}

// plain is s on one line of a terminal, on which it changes nothing.
func plain(s string) string { return onOneLine(visibleText(s)) }

// short is a duration with as many digits as people read.
func short(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit || d <= -unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}
