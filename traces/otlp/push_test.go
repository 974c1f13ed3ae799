package otlp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otlp/otlptest"
)

// A shelf reads spans out of a slice, as traces.Traces reads its own: those of which
// something is in the range, without what comes after it, at most max.
type shelf struct {
	spans []traces.SpanData
	max   int
	reads int
	err   error // of the read after the first
}

func (s *shelf) Read(_ context.Context, q traces.Query) (*traces.Result, error) {
	if s.reads++; s.err != nil && s.reads > 1 {
		return nil, s.err
	}
	res := &traces.Result{Limit: s.max, Damaged: []traces.Damage{{Key: []byte{8, 1}}}}
	if q.Limit > 0 {
		res.Limit = min(q.Limit, s.max)
	}
	res.Clamped = q.Limit > s.max
	for _, d := range s.spans {
		if !d.Start.Before(q.End) || !d.Running() && d.End.Before(q.Start) {
			continue
		}
		if !d.End.Before(q.End) {
			d.End = time.Time{}
		}
		if q.TraceID != d.TraceID && !q.TraceID.IsZero() || q.Match != nil && !q.Match(&d) {
			continue
		}
		if len(res.Spans) == res.Limit {
			res.Clamped = true
			break
		}
		res.Spans = append(res.Spans, d)
	}
	return res, nil
}

// An endpoint keeps what is uploaded, and fails the upload of that number, from 1 on.
type endpoint struct {
	spans   [][]traces.SpanData
	uploads int
	fails   int
}

var errNetwork = errors.New("no network")

func (e *endpoint) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	if e.uploads++; e.uploads == e.fails {
		return errNetwork
	}
	got, err := otlptest.FromProto(&tracepb.TracesData{ResourceSpans: spans})
	e.spans = append(e.spans, got)
	return err
}

// counted returns how often each span was uploaded.
func counted(t interface{ Fatal(...any) }, e *endpoint) map[traces.SpanID]int {
	n := map[traces.SpanID]int{}
	for _, spans := range e.spans {
		for i := range spans {
			if spans[i].Running() {
				t.Fatal("a span was sent while it ran")
			}
			n[spans[i].SpanID]++
		}
	}
	return n
}

// some returns n spans.
func some(n int) []traces.SpanData {
	spans := make([]traces.SpanData, n)
	for i := range spans {
		spans[i] = order()
		spans[i].SpanID = traces.SpanID{1, byte(i >> 8), byte(i)}
	}
	return spans
}

// TestBatches holds the bounds of one upload: in spans, and in bytes but for a larger span.
func TestBatches(t *testing.T) {
	large := func(spans []traces.SpanData, kib int) []traces.SpanData {
		for i := range spans {
			spans[i].Attributes = []traces.Attr{traces.String("large", strings.Repeat("x", kib<<10))}
		}
		return spans
	}
	for _, tt := range []struct {
		name  string
		spans []traces.SpanData
		want  []int // spans of each upload
	}{
		{"none", nil, nil},
		{"full", some(batchSpans), []int{batchSpans}},
		{"one more", some(batchSpans + 1), []int{batchSpans, 1}},
		{"of a MiB", large(some(6), 1<<10), []int{2, 2, 2}},
		{"larger than an upload", large(some(2), 4<<10), []int{1, 1}},
	} {
		e := &endpoint{}
		done, err := Push(t.Context(), (&shelf{max: 1000, spans: tt.spans}).Read, traces.Query{}, e)
		if err != nil || done.Spans != len(tt.spans) || done.Uploads != len(tt.want) {
			t.Errorf("%s: %+v, %v", tt.name, done, err)
		}
		var got []int
		for _, spans := range e.spans {
			got = append(got, len(spans))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: uploads of %v spans, want %v", tt.name, got, tt.want)
		}
	}
}

// TestPush pushes one range after the other: each span that ended in one of them is sent
// once, however few a read returns.
func TestPush(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &shelf{max: rapid.IntRange(1, 5).Draw(t, "max")}
		ends := map[int64]int{}
		for i := range rapid.IntRange(0, 30).Draw(t, "spans") {
			start := rapid.Int64Range(0, 100).Draw(t, "start")
			end := start + rapid.Int64Range(0, 50).Draw(t, "duration")
			for ends[end] == s.max { // more at once is ErrTooMany
				end++
			}
			ends[end]++
			d := traces.SpanData{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{1, byte(i)}, Start: unix(start), End: unix(end)}
			if i%7 == 3 {
				ends[end]--
				d.End = time.Time{}
			}
			s.spans = append(s.spans, d)
		}
		e := &endpoint{}
		cut := rapid.Int64Range(0, 200).Draw(t, "cut")
		limit := rapid.IntRange(0, 8).Draw(t, "limit")
		total := 0
		for _, q := range []traces.Query{{End: unix(cut), Limit: limit}, {Start: unix(cut), Limit: limit}} {
			if q.Limit > 0 && q.Limit < s.max {
				q.Limit = 0
			}
			done, err := Push(context.Background(), s.Read, q, e)
			if err != nil || len(done.Damaged) > 1 {
				t.Fatalf("got %+v, %v", done, err)
			}
			total += done.Spans
		}
		got := counted(t, e)
		for _, d := range s.spans {
			want := 1
			if d.Running() {
				want = 0
			}
			if got[d.SpanID] != want {
				t.Errorf("span %v was sent %d times, want %d", d.SpanID, got[d.SpanID], want)
			}
			total -= want
		}
		if total != 0 {
			t.Errorf("%d are too many", total)
		}
	})
}

func unix(ns int64) time.Time { return time.Unix(1_700_000_000, ns) }

func TestPushErrors(t *testing.T) {
	c := &endpoint{fails: 2}
	s := &shelf{max: 2 * batchSpans, spans: some(batchSpans + 1)}
	s.spans[0].Partial = true
	if done, err := Push(t.Context(), s.Read, traces.Query{}, c); !errors.Is(err, errNetwork) || done.Spans != batchSpans || done.Partial != 1 {
		t.Errorf("got %+v, %v", done, err)
	}
	s = &shelf{max: 2, spans: some(3)} // all of them at once
	if done, err := Push(t.Context(), s.Read, traces.Query{}, c); !errors.Is(err, ErrTooMany) || done.Spans != 0 {
		t.Errorf("got %+v, %v", done, err)
	}
	broken := errors.New("broken")
	s = &shelf{max: 2, spans: some(3), err: broken}
	if _, err := Push(t.Context(), s.Read, traces.Query{}, c); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := Push(t.Context(), s.Read, traces.Query{Limit: -1}, c); !errors.Is(err, ErrOptions) {
		t.Errorf("got %v", err)
	}
	// Only what the query selects.
	s = &shelf{max: 5, spans: some(4)}
	s.spans[3].TraceID = traces.TraceID{9}
	match := func(d *traces.SpanData) bool { return d.SpanID != s.spans[1].SpanID }
	if done, err := Push(t.Context(), s.Read, traces.Query{TraceID: s.spans[0].TraceID, Match: match}, c); err != nil || done.Spans != 2 {
		t.Errorf("got %+v, %v", done, err)
	}
	// An empty range, and one beyond all times.
	s.reads = 0
	if done, err := Push(t.Context(), s.Read, traces.Query{Start: unix(5), End: unix(5)}, c); err != nil || done.Spans != 0 || s.reads != 0 {
		t.Errorf("got %+v, %v", done, err)
	}
	late := traces.Query{Start: time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), End: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)}
	if done, err := Push(t.Context(), s.Read, late, c); err != nil || done.Spans != 4 {
		t.Errorf("got %+v, %v", done, err)
	}
}
