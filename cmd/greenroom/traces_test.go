package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/internal/visible"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otlp/otlptest"
	"github.com/greenroomdb/greenroom/tuple"
)

// TestTraces runs the commands in testdata/traces, each file in an empty folder.
// "greenroom" is as in TestCommands; "spans" records in the actor lobby of the store data
// the spans that the input has in OTLP's JSON, and "damaged" a chunk that can't be read.
func TestTraces(t *testing.T) {
	runFiles(t, "traces", func() directives {
		return func(t *testing.T, d *datadriven.TestData) (string, bool) {
			switch d.Cmd {
			case "spans":
				spans, err := otlptest.ParseJSON([]byte(d.Input))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				storeSpans(t, spans)
				return "", true
			case "damaged":
				damageTraces(t)
				return "", true
			}
			return "", false
		}
	})
}

// storeSpans records spans, which may be years old.
func storeSpans(t *testing.T, spans []traces.SpanData) {
	t.Helper()
	err := ownBelow(t.Context(), target{url: "data", actor: "lobby", create: true}, func(a *actorstore.Actor) (err error) {
		tr, err := traces.Open(t.Context(), a, &traces.Options{MaxAge: -1, Adopt: true})
		if err != nil {
			return err
		}
		for i := range spans {
			s := &spans[i]
			if !s.Running() {
				tr.Record(s)
				continue
			}
			run := tr.Begin(s.Name, &traces.StartOptions{
				TraceID: s.TraceID, SpanID: s.SpanID, ParentID: s.Parent, Kind: s.Kind, Time: s.Start, Attributes: s.Attributes,
			})
			for _, e := range s.Events {
				run.AddEvent(e)
			}
		}
		return tr.Close(t.Context())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// damageTraces stores bytes that aren't a chunk, in the hour of the spans, behind them.
func damageTraces(t *testing.T) {
	t.Helper()
	err := ownBelow(t.Context(), target{url: "data", actor: "lobby"}, func(a *actorstore.Actor) error {
		key := []byte{actorstore.NamespaceTraces}
		for _, n := range []int64{1, 1_699_999_200, 9} {
			key = tuple.AppendInt(key, n)
		}
		return a.Put(context.Background(), key, []byte{1, 0, 9})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 5, 4, 10, 11, 12, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"":                          {},
		"2026-05-04T09:00:00Z":      now.Truncate(time.Hour).Add(-time.Hour),
		"2026-05-04T11:00:00+01:00": now.Truncate(time.Hour),
		"2026-05-04":                time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC),
		"90m":                       now.Add(-90 * time.Minute),
		"1h30m ago":                 now.Add(-90 * time.Minute),
	} {
		if got, err := parseTime(in, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"soon", "-1h", "2026-13-01", "5"} {
		if got, err := parseTime(in, now); err == nil {
			t.Errorf("%q: got %v", in, got)
		}
	}
}

// TestWaterfallShapes draws trees that programs don't record on purpose.
func TestWaterfallShapes(t *testing.T) {
	span := func(id, parent byte, start, end int) traces.SpanData {
		s := traces.SpanData{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{id}, Name: fmt.Sprint("span", id), Start: time.Unix(int64(start), 0)}
		if s.Parent = (traces.SpanID{parent}); parent == 0 {
			s.Parent = traces.SpanID{}
		}
		if end >= 0 {
			s.End = time.Unix(int64(end), 0)
		}
		return s
	}
	for _, c := range []struct {
		name  string
		spans []traces.SpanData
		want  string // the tree
	}{
		{"a span below itself", []traces.SpanData{span(1, 1, 0, 1)}, "span1"},
		{"a circle", []traces.SpanData{span(1, 3, 0, 1), span(2, 1, 0, 1), span(3, 2, 0, 1), span(4, 3, 0, 1)},
			"span1|└ span2|  └ span3|    └ span4"},
		{"a parent elsewhere", []traces.SpanData{span(2, 9, 5, 6), span(1, 0, 0, 1)}, "span1|span2"},
		{"an end before the start", []traces.SpanData{span(1, 0, 5, 4), span(2, 1, 0, -1)}, "span1|└ span2"},
		{"no time at all", []traces.SpanData{span(1, 0, 5, 5), span(2, 1, 5, 5), span(3, 1, 5, -1)}, "span1|├ span2|└ span3"},
	} {
		w := &waterfall{width: 80}
		var got []string
		for _, line := range w.lines(c.spans)[3:] {
			got = append(got, strings.TrimRight(string([]rune(line)[:w.names]), " "))
			if n := len([]rune(line)); n > 80 {
				t.Errorf("%s: %d columns: %s", c.name, n, line)
			}
		}
		if got := strings.Join(got, "|"); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	var deep []traces.SpanData
	for i := range 5000 {
		s := span(1, 0, i, 5000)
		s.SpanID = traces.SpanID{1, byte(i >> 8), byte(i)}
		if i > 0 {
			s.Parent = deep[i-1].SpanID
		}
		deep = append(deep, s)
	}
	for _, line := range (&waterfall{width: 10, details: true}).lines(deep) {
		if n := len([]rune(line)); n > 100 {
			t.Fatalf("%d columns: %s", n, line)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 1234567: "1.23ms", 1234567890: "1.23s", 90 * time.Minute: "1h30m0s", -1500 * time.Millisecond: "-1.5s",
	} {
		if got := short(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}

// TestTracesWarn: what is missing is said on standard error, with flags that the command has.
func TestTracesWarn(t *testing.T) {
	res := &traces.Result{
		Spans: []traces.SpanData{{Partial: true}, {}}, Clamped: true,
		Damaged: []traces.Damage{{Words: "traces/1/2", Err: fmt.Errorf("a\x1b[31m: %w", actorstore.ErrCorrupt)}},
	}
	for name, flags := range map[string]string{"ls": ": see --since and --until", "show": ""} {
		var out bytes.Buffer
		e := &env{stderr: visible.Writer(&out)}
		c := &tracesCommand{e: e}
		if name == "ls" {
			c.more = flags
		}
		if err := c.warn(res); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "greenroom: traces/1/2 can't be read") || strings.Contains(out.String(), "\x1b") ||
			lines[1] != "greenroom: there may be more than 2 spans"+flags || lines[2] != "greenroom: some of 1 span could not be read" {
			t.Errorf("%s: %q", name, lines)
		}
	}
	for _, cmd := range []*cobra.Command{newTracesList(&env{}), newTracesShow(&env{})} {
		for _, flag := range []string{"since", "until"} {
			if has := cmd.Flags().Lookup(flag) != nil; has != (cmd.Name() == "ls") {
				t.Errorf("%s has the flag --%s: %v", cmd.Name(), flag, has)
			}
		}
	}
}

// TestTracesOdd draws, and writes as OTLP, spans that programs don't record on purpose.
func TestTracesOdd(t *testing.T) {
	odd := []traces.SpanData{
		{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{1}, Name: "", Start: time.Unix(0, 0), Kind: 1 << 31},
		{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{2}, Parent: traces.SpanID{1}, Name: "a\nb\x1b[2J\u202e😀" + strings.Repeat("日", 200),
			Start: time.Unix(5, 0), End: time.Unix(1, 0), Status: traces.Status{Code: traces.StatusError, Message: strings.Repeat("x\n", 500)},
			Attributes: []traces.Attr{traces.Float("nan", math.NaN()), traces.Float("inf", math.Inf(-1)), traces.Int("big", math.MinInt64), {Key: "b", Value: traces.BytesValue([]byte{0, 255})},
				{Key: "huge", Value: traces.BigValue(new(big.Int).Lsh(big.NewInt(1), 100))}, {Key: "t", Value: traces.TimeValue(time.Unix(1, 5))},
				{Key: "nested", Value: traces.MapValue(traces.Attr{Key: "k", Value: traces.ArrayValue(traces.Value{}, traces.FloatValue(1.5))})}, traces.String("utf", "\xff")},
			Events: []traces.Event{{Time: time.Unix(0, 0), Name: "before"}, {Time: time.Unix(9, 0)}},
			Links:  []traces.Link{{TraceID: traces.TraceID{2}, SpanID: traces.SpanID{3}}}},
		{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{3}, Name: "far", Start: time.Unix(1, 0), End: time.Unix(9_000_000_000, 0)},
	}
	for _, width := range []int{1, 80, 200} {
		w := &waterfall{width: width, details: true}
		for i, line := range w.lines(odd) {
			if strings.ContainsAny(line, "\n\r\x1b\u202e") || !utf8.ValidString(line) {
				t.Errorf("width %d, line %d: %q", width, i, line)
			}
		}
	}
	var buf bytes.Buffer
	out := bufio.NewWriter(&buf)
	if err := errors.Join(writeOTLP(out, odd), out.Flush()); err != nil {
		t.Fatal(err)
	}
	back, err := otlptest.ParseJSON(buf.Bytes())
	if err != nil || len(back) != len(odd) {
		t.Fatalf("%d spans come back, %v: %s", len(back), err, buf.String())
	}
	for i := range back {
		if back[i].SpanID != odd[i].SpanID || !back[i].End.Equal(odd[i].End) || len(back[i].Attributes) != len(odd[i].Attributes) || len(back[i].Events) != len(odd[i].Events) {
			t.Errorf("got %+v, want %+v", back[i], odd[i])
		}
	}
}

// TestTracesLeaveNoMark: both commands write nothing to the store, and don't disturb the
// owner of the actor.
func TestTracesLeaveNoMark(t *testing.T) {
	t.Chdir(t.TempDir())
	storeSpans(t, []traces.SpanData{{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{2}, Name: "work", Start: time.Unix(1, 0), End: time.Unix(2, 0)}})
	dump := func() (keys string) {
		err := readStore(t.Context(), target{url: "data", env: &env{}}, func(s *storeurl.Store) error {
			for e, err := range s.Lower().Check(t.Context()) {
				return errors.Join(err, fmt.Errorf("%v", e))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return must(t, "ls", "data", "lobby")
	}
	before := dump()
	for range 2 {
		must(t, "traces", "ls", "data", "lobby")
		must(t, "traces", "show", "data", "lobby", traces.TraceID{1}.String())
	}
	if after := dump(); after != before {
		t.Errorf("got %s, before %s", after, before)
	}
}
