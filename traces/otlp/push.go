package otlp

import (
	"context"
	"fmt"
	"math"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/greenroomdb/greenroom/traces"
)

// An Exporter sends spans to an endpoint. OpenTelemetry's own clients are such: those of
// go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp and otlptracegrpc, which
// compress, wait, try again, and tell otel.Handle what the endpoint has thrown away.
type Exporter interface {
	UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error
}

// One upload has at most so many spans, and so many bytes unless one span is larger: fewer
// than the 4 MiB that servers of gRPC take.
const (
	batchSpans = 512
	batchBytes = 3 << 20
)

// Pushed is what Push has done.
type Pushed struct {
	// Uploads is how many uploads succeeded, and Spans how many spans were in them. An
	// endpoint may drop some spans of an upload that it takes: a client of OpenTelemetry's
	// tells otel.Handle how many, and why, but doesn't name its caller.
	Spans, Uploads int
	// Partial counts the spans of which some could not be read (SpanData.Partial); they
	// were sent as they are.
	Partial int
	// Damaged are chunks that could not be read; they were skipped.
	Damaged []traces.Damage
}

// Push sends, with e, the spans that q selects and that ended in [q.Start, q.End). It reads
// them by read, such as the method Read of a traces.Traces, or greenroom.View's Spans. Each is
// sent whole, and once: so the pushes of ranges that follow each other send each span once,
// but for spans that were recorded later with an end in a range that was pushed before. A span
// that is still running is sent with the range in which it ends.
//
// There are as many reads as it takes; a zero q.Start means all that there is, a zero q.End
// now. q.Limit bounds the spans of one read, not the push. After an error some of the range
// is sent, as Pushed says, and pushing it again sends that once more.
//
// Errors: those of reading and of e, ErrTooMany, and ErrOptions for a negative Limit.
func Push(ctx context.Context, read func(context.Context, traces.Query) (*traces.Result, error), q traces.Query, e Exporter) (Pushed, error) {
	if q.Limit < 0 {
		return Pushed{}, fmt.Errorf("%w: a negative limit", ErrOptions)
	}
	p := &pusher{read: read, q: q, e: e}
	start, end := int64(0), time.Now().UnixNano()
	if !q.Start.IsZero() {
		start = clampNano(q.Start)
	}
	if !q.End.IsZero() {
		end = clampNano(q.End)
	}
	err := p.window(ctx, start, end)
	return p.done, err
}

// clampNano is t in Unix nanoseconds, moved into what there are spans of.
func clampNano(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s >= maxSeconds:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// A pusher is one Push.
type pusher struct {
	read func(context.Context, traces.Query) (*traces.Result, error)
	q    traces.Query
	e    Exporter
	done Pushed
	seen map[string]bool // keys of damaged chunks
}

// window pushes the spans that ended in [start, end). When they are too many for one read
// it pushes one half, and then the other: of a span that belongs to both, only one has the
// end.
func (p *pusher) window(ctx context.Context, start, end int64) error {
	if start >= end {
		return nil
	}
	q := p.q
	q.Start, q.End = time.Unix(0, start), time.Unix(0, end)
	q.Match = func(s *traces.SpanData) bool {
		return !s.Running() && !s.End.Before(q.Start) && s.End.Before(q.End) && (p.q.Match == nil || p.q.Match(s))
	}
	res, err := p.read(ctx, q)
	if err != nil {
		return err
	}
	if res.Clamped && p.q.Limit > res.Limit { // it doesn't say that there is more
		p.q.Limit = 0
		return p.window(ctx, start, end)
	}
	if !res.Clamped {
		p.damaged(res.Damaged)
		return p.send(ctx, res.Spans)
	}
	if end-start == 1 {
		return fmt.Errorf("%w: more than %d at %s", ErrTooMany, res.Limit, q.Start.UTC().Format(time.RFC3339Nano))
	}
	middle := start + (end-start)/2
	if err := p.window(ctx, start, middle); err != nil {
		return err
	}
	return p.window(ctx, middle, end)
}

// send uploads spans, one batch after the other: each of batchSpans at most, and cut in half
// until it fits batchBytes. After an error those before it are sent, and p.done says how many.
func (p *pusher) send(ctx context.Context, spans []traces.SpanData) error {
	for len(spans) > 0 {
		n := min(len(spans), batchSpans)
		d := Proto(spans[:n])
		for n > 1 && proto.Size(d) > batchBytes {
			n = (n + 1) / 2
			d = Proto(spans[:n])
		}
		if err := p.e.UploadTraces(ctx, d.ResourceSpans); err != nil {
			return fmt.Errorf("otlp: %w", err)
		}
		p.done.Uploads++
		p.done.Spans += n
		for i := range spans[:n] {
			if spans[i].Partial {
				p.done.Partial++
			}
		}
		spans = spans[n:]
	}
	return nil
}

// damaged keeps damage, which two windows may meet, once.
func (p *pusher) damaged(list []traces.Damage) {
	for _, d := range list {
		if p.seen[string(d.Key)] {
			continue
		}
		if p.seen == nil {
			p.seen = map[string]bool{}
		}
		p.seen[string(d.Key)] = true
		p.done.Damaged = append(p.done.Damaged, d)
	}
}
