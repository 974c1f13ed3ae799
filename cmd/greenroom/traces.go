package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otlp"
)

func newTraces(e *env) *cobra.Command {
	return newGroup("traces", "Look at the traces of an actor", newTracesList(e), newTracesShow(e))
}

// A tracesCommand is the call of one of the commands.
type tracesCommand struct {
	e                    *env
	more                 string // what helps if there are more spans than are read
	json, details        bool
	since, until         string
	name                 string
	status               []string
	minLength, maxLength time.Duration
	limit                int
}

func newTracesList(e *env) *cobra.Command {
	c := &tracesCommand{e: e, more: ": see --since and --until"}
	cmd := &cobra.Command{
		Use:   "ls STORE ACTOR",
		Short: "List the traces of an actor",
		Long: `List the traces that an actor has stored, oldest first: when each began, how long it
took, how many spans it has, how many of these run and how many failed, and the name of
its first span. With flags that select spans it is about those alone.

It is a table on a terminal, and elsewhere lines with fields separated by tabs. JSON is
the spans in OTLP, as OpenTelemetry's programs read it.`,
		Example: "  greenroom traces ls data lobby --since 1h\n  greenroom traces ls data lobby --status error --min-duration 100ms",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := c.query(time.Now())
			if err != nil {
				return err
			}
			return c.read(cmd.Context(), args, q, c.list)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.since, "since", "", "spans of which something is recorded at this `time` or after it: 2026-05-04T10:11:12Z, 2026-05-04, or 90m ago")
	flags.StringVar(&c.until, "until", "", "spans of which something is recorded before this `time`, as they were then")
	flags.StringVar(&c.name, "name", "", "spans of this `name`")
	flags.StringSliceVar(&c.status, "status", nil, "spans with this `status`: unset, ok or error")
	flags.DurationVar(&c.minLength, "min-duration", 0, "spans that took this `time` or more, as 100ms")
	flags.DurationVar(&c.maxLength, "max-duration", 0, "spans that took less than this `time`")
	flags.IntVar(&c.limit, "limit", 0, "at most `N` spans; 0 means 10000, the most")
	flags.BoolVar(&c.json, "json", false, "write the spans in OTLP's JSON")
	return cmd
}

func newTracesShow(e *env) *cobra.Command {
	c := &tracesCommand{e: e}
	cmd := &cobra.Command{
		Use:   "show STORE ACTOR TRACE",
		Short: "Show a trace, span by span",
		Long: `Show the spans of a trace, each below the one that it belongs to: its name, how long it
took, and when, from the left to the right. A span that failed has an exclamation mark
and says why, one that runs has a bar that is open. TRACE is the id, which ls shows.

With --details each span has its attributes, links and events. Those of an actor are
named rivet.*, as RivetKit names them: one reader takes the traces of both. JSON is the
spans in OTLP.`,
		Example: "  greenroom traces show data lobby 0af7651916cd43dd8448eb211c80319c",
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := traces.ParseTraceID(args[2])
			if err != nil {
				return serving.Usage(args[2] + " is not the id of a trace: that is 32 hexadecimal digits, as traces ls shows it")
			}
			return c.read(cmd.Context(), args, traces.Query{TraceID: id}, c.show)
		},
	}
	cmd.Flags().BoolVar(&c.details, "details", false, "write attributes, links and events")
	cmd.Flags().BoolVar(&c.json, "json", false, "write the spans in OTLP's JSON")
	return cmd
}

// query is what the flags select.
func (c *tracesCommand) query(now time.Time) (q traces.Query, err error) {
	q = traces.Query{Name: c.name, MinDuration: c.minLength, MaxDuration: c.maxLength, Limit: c.limit}
	if c.limit < 0 || c.minLength < 0 || c.maxLength < 0 {
		return q, serving.Usage("a negative --limit, --min-duration or --max-duration")
	}
	if q.Start, err = parseTime(c.since, now); err == nil {
		q.End, err = parseTime(c.until, now)
	}
	if err != nil {
		return q, err
	}
	for _, s := range c.status {
		i := slices.Index([]string{"unset", "ok", "error"}, strings.ToLower(s))
		if i < 0 {
			return q, serving.Usage("--status is unset, ok or error, not " + s)
		}
		q.Status = append(q.Status, traces.StatusCode(i))
	}
	return q, nil
}

// parseTime reads a time, of UTC unless it says another zone, or how long ago it was. No text is the zero time.
func parseTime(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly, time.DateTime, "2006-01-02 15:04"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	ago, err := serving.ParseDuration(strings.TrimSuffix(strings.TrimSpace(s), " ago"))
	if err != nil {
		return time.Time{}, serving.Usage(s + " is not a time: write 2026-05-04, 2026-05-04T10:11:12Z, or 90m for so long ago")
	}
	return now.Add(-ago), nil
}

// read runs fn with the spans that q selects, and says on standard error what is missing.
func (c *tracesCommand) read(ctx context.Context, args []string, q traces.Query, fn func([]string, []traces.SpanData) error) error {
	return view(ctx, target{url: args[0], actor: args[1], env: c.e}, func(v *greenroom.View) error {
		res, err := v.Spans(q)
		if err == nil {
			err = fn(args, res.Spans)
		}
		if err != nil {
			return err
		}
		return c.warn(res)
	})
}

func (c *tracesCommand) warn(res *traces.Result) error {
	var b strings.Builder
	for _, d := range res.Damaged {
		fmt.Fprintf(&b, "greenroom: %s can't be read: %s\n", d.Words, serving.Message(d.Err))
	}
	if res.Clamped {
		fmt.Fprintf(&b, "greenroom: there may be more than %s%s\n", count(len(res.Spans), "span"), c.more)
	}
	partial := 0
	for i := range res.Spans {
		if res.Spans[i].Partial {
			partial++
		}
	}
	if partial > 0 {
		fmt.Fprintf(&b, "greenroom: some of %s could not be read\n", count(partial, "span"))
	}
	_, err := fmt.Fprint(c.e.stderr, b.String())
	return err
}

// A traceRow is a line of the list.
type traceRow struct {
	id               traces.TraceID
	name             string
	root             bool      // the name is that of a root
	named            time.Time // when the span began that it has its name of
	start, end       time.Time
	spans            int
	running, errored int
}

func (c *tracesCommand) list(_ []string, spans []traces.SpanData) error {
	if c.json {
		return writeOTLP(c.e.stdout, spans)
	}
	const columns = "trace started duration spans running errors name"
	return list(output{c.e, false, columns}, all(traceRows(spans)), func(r *traceRow) ([]any, error) {
		length := newCell(r.end.Sub(r.start))
		if r.running > 0 {
			length = cell{}
		}
		return []any{r.id, r.start, length, r.spans, r.running, r.errored, r.name}, nil
	})
}

// traceRows puts spans together to traces, oldest first. A trace has the name of the span
// that began first, and of a root rather than another one.
func traceRows(spans []traces.SpanData) []*traceRow {
	var rows []*traceRow
	byID := map[traces.TraceID]*traceRow{}
	for i := range spans {
		s := &spans[i]
		r := byID[s.TraceID]
		if r == nil {
			r = &traceRow{id: s.TraceID, start: s.Start, end: s.Start}
			byID[s.TraceID] = r
			rows = append(rows, r)
		}
		if root := s.Parent.IsZero(); r.spans == 0 || root && !r.root || root == r.root && s.Start.Before(r.named) {
			r.name, r.root, r.named = s.Name, root, s.Start
		}
		r.spans++
		r.start, r.end = earlier(r.start, s.Start), later(r.end, s.End)
		if s.Running() {
			r.running++
		}
		if s.Status.Code == traces.StatusError {
			r.errored++
		}
	}
	slices.SortStableFunc(rows, func(a, b *traceRow) int {
		return cmp.Or(a.start.Compare(b.start), slices.Compare(a.id[:], b.id[:]))
	})
	return rows
}

func (c *tracesCommand) show(args []string, spans []traces.SpanData) error {
	switch {
	case len(spans) == 0:
		return fmt.Errorf("%s has no trace %s", args[1], args[2])
	case c.json:
		return writeOTLP(c.e.stdout, spans)
	}
	w := &waterfall{width: defaultWidth, details: c.details}
	if tty := terminal(c.e.stdout); tty != nil {
		if width, _, err := term.GetSize(int(tty.Fd())); err == nil {
			w.width = width
		}
	}
	_, err := io.WriteString(c.e.stdout, strings.Join(w.lines(spans), "\n")+"\n")
	return err
}

func writeOTLP(out io.Writer, spans []traces.SpanData) error {
	b, err := otlp.AppendJSON(nil, spans)
	if err != nil {
		return err
	}
	_, err = out.Write(append(b, '\n'))
	return err
}
