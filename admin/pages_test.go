package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/workflow"
)

// entries returns the paths of a workflow's entries from a page on, in pages of limit, and what is behind the first page.
func (r *rig) entries(after string, limit int) (paths []string, second string) {
	r.Helper()
	for n := 0; n == 0 || after != ""; n++ {
		w := get[admin.Workflow](r, fmt.Sprintf("/v1/actors/room/workflow?limit=%d&after=%s", limit, after))
		if len(w.Entries) > limit || w.Next != "" && len(w.Entries) < limit || w.State == "" {
			r.Fatalf("a page of %d, state %q, next %q", len(w.Entries), w.State, w.Next)
		}
		for _, e := range w.Entries {
			paths = append(paths, e.Path)
		}
		if after = w.Next; n == 0 {
			second = after
		}
	}
	return paths, second
}

// steps returns a branch of steps.
func steps(name string, names ...string) workflow.Branch[int] {
	return workflow.Branch[int]{Name: name, Run: func(c *workflow.Context) (n int, err error) {
		for _, name := range names {
			_, serr := workflow.Step(c, name, func(context.Context) (int, error) { return 0, nil })
			err = errors.Join(err, serr)
		}
		return n, err
	}}
}

// TestWorkflowPages: pages have the entries that one large page has, also behind an entry that is gone meanwhile.
func TestWorkflowPages(t *testing.T) {
	r := newRig(t, admin.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pause := true
	work := func(c *workflow.Context, _ int) (int, error) {
		// The names of the branches come in another order than they do.
		if _, err := steps("", "last", "first").Run(c); err != nil {
			return 0, err
		}
		if _, err := workflow.Join(c, "both", steps("first", "x", "y"), steps("last", "x")); err != nil {
			return 0, err
		}
		return workflow.LoopWith(c, "turns", 0, &workflow.LoopOptions{Commit: 1, Keep: 2}, func(c *workflow.Context, n *int) (int, bool, error) {
			_, err := workflow.Step(c, "turn", func(ctx context.Context) (int, error) {
				if *n == 2 && pause {
					cancel()
					<-ctx.Done() // which is told by another goroutine
					return 0, ctx.Err()
				}
				return *n, nil
			})
			*n++
			return *n, *n == 9, err
		})
	}
	r.actor("room", func(a *greenroom.Actor) error {
		if _, err := greenroom.RunWorkflow(ctx, a, work, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("the first run: %v", err)
		}
		before, _ := r.entries("", 1000)
		if len(before) < 10 {
			t.Errorf("there are only %q", before)
		}
		for limit := range 3 {
			if got, _ := r.entries("", limit+1); !reflect.DeepEqual(got, before) {
				t.Errorf("in pages of %d: %q, want %q", limit+1, got, before)
			}
		}
		var afters []string // behind each entry, as it was
		for i := range before {
			_, after := r.entries("", i+1)
			afters = append(afters, after)
		}
		pause = false
		if n, err := greenroom.RunWorkflow(t.Context(), a, work, 1); err != nil || n != 9 {
			t.Errorf("the second run: %d, %v", n, err)
		}
		all, _ := r.entries("", 1000)
		there := map[string]int{}
		for i, path := range all {
			there[path] = i + 1
		}
		gone, from := 0, 0
		for i, path := range before[:len(before)-1] {
			// One that is gone stood behind what is left of those before it.
			if there[path] == 0 {
				gone++
			}
			from = max(from, there[path])
			if got, _ := r.entries(afters[i], 1); !reflect.DeepEqual(got, all[from:]) {
				t.Errorf("behind %s: %q, want %q", path, got, all[from:])
			}
		}
		if gone == 0 || reflect.DeepEqual(all, before) {
			t.Errorf("none of %q is gone: %q", before, all)
		}
		return nil
	})
}

// TestTracePages: pages have the spans that one large page has, in their order, and those that are recorded meanwhile.
func TestTracePages(t *testing.T) {
	r := newRig(t, admin.Options{})
	record := func(from, to int) {
		a, err := r.store.Actor(t.Context(), "traced", &greenroom.ActorOptions{Traces: &greenroom.TracesOptions{}})
		for i := from; i < to && err == nil; i++ {
			err = a.Update(t.Context(), func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte{byte(i)}) })
		}
		if err = errors.Join(err, a.Close()); err != nil {
			t.Fatal(err)
		}
	}
	list := func(limit int, meanwhile func()) (ids []string) {
		t.Helper()
		for after := ""; ; {
			page := get[admin.TraceList](r, fmt.Sprintf("/v1/actors/traced/traces?limit=%d&after=%s", limit, after))
			of := spanIDs(t, page.OTLP)
			if ids = append(ids, of...); len(of) != page.Spans || len(of) > limit {
				t.Fatalf("%d of %d spans", len(of), page.Spans)
			}
			if after = page.Next; after == "" {
				return ids
			}
			meanwhile()
		}
	}
	record(0, 5)
	want := list(1000, func() { t.Error("there are more than 1000") })
	if len(want) < 5 {
		t.Fatalf("there are %q", want)
	}
	for limit := range 3 {
		if got := list(limit+1, func() {}); !reflect.DeepEqual(got, want) {
			t.Errorf("in pages of %d: %q, want %q", limit+1, got, want)
		}
	}
	once := false
	got := list(1, func() {
		if !once {
			record(5, 8)
		}
		once = true
	})
	if all := list(1000, func() {}); len(all) < len(want)+3 || !reflect.DeepEqual(got, all) {
		t.Errorf("with more meanwhile: %q, want %q", got, all)
	}
}

// TestWorkflowEntry: the page of a workflow that has an entry is found by its id, and the pages behind it go on from there.
func TestWorkflowEntry(t *testing.T) {
	r := newRig(t, admin.Options{})
	a, err := r.store.Actor(t.Context(), "long", nil)
	testkit.Must(t, err)
	_, err = greenroom.RunWorkflow(t.Context(), a, func(c *workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := workflow.Step(c, fmt.Sprint(i), func(context.Context) (int, error) { return i, nil }); err != nil {
				return 0, err
			}
		}
		return n, nil
	}, 8)
	testkit.Must(t, errors.Join(err, a.Close()))
	all := get[admin.Workflow](r, "/v1/actors/long/workflow").Entries
	if len(all) != 8 {
		t.Fatalf("%d entries", len(all))
	}
	for entry, want := range map[string]string{all[0].ID: "012", all[2].ID: "012", all[3].ID: "345", all[7].ID: "67", "gone": "012", "": "012"} {
		page := get[admin.Workflow](r, "/v1/actors/long/workflow?limit=3&entry="+url.QueryEscape(entry))
		got := ""
		for _, e := range page.Entries {
			got += e.Label
		}
		if got != want || (page.Next == "") != (want == "67") {
			t.Errorf("the page of %q has %s, and next %q", entry, got, page.Next)
		}
		if want == "345" {
			page = get[admin.Workflow](r, "/v1/actors/long/workflow?limit=3&entry="+url.QueryEscape(entry)+"&after="+page.Next)
			if len(page.Entries) != 2 || page.Entries[0].Label != "6" {
				t.Errorf("behind it are %d entries", len(page.Entries))
			}
		}
	}
}

// TestTraceEvents: a span is found by its attributes, with so many of its events as are asked for, and the number of the others.
func TestTraceEvents(t *testing.T) {
	r := newRig(t, admin.Options{})
	a, err := r.store.Actor(t.Context(), "traced", &greenroom.ActorOptions{Traces: &greenroom.TracesOptions{}})
	testkit.Must(t, err)
	tr, err := a.Traces(t.Context())
	testkit.Must(t, err)
	for _, name := range []string{"one", "two"} {
		_, span := tr.Start(t.Context(), name, nil)
		span.SetAttributes(traces.String("name", name), traces.Int("n", 7))
		for range 3 {
			span.Event("event")
		}
		span.End()
	}
	testkit.Must(t, a.Close())
	for query, want := range map[string]struct{ spans, events, more int }{
		"": {2, 6, 0}, "?events=0": {2, 0, 6}, "?events=2": {2, 4, 2}, "?events=3": {2, 6, 0}, "?attribute=name%3Done": {1, 3, 0},
		"?attribute=n%3D7&attribute=name%3Dtwo&events=1": {1, 1, 2}, "?attribute=name%3Dthree": {}, "?attribute=other%3D": {},
	} {
		list := get[admin.TraceList](r, "/v1/actors/traced/traces"+query)
		events, more := strings.Count(string(list.OTLP), `"name":"event"`), 0
		for _, m := range regexp.MustCompile(`"droppedEventsCount":(\d+)`).FindAllStringSubmatch(string(list.OTLP), -1) {
			n, err := strconv.Atoi(m[1])
			testkit.Must(t, err)
			more += n
		}
		if list.Spans != want.spans || events != want.events || more != want.more {
			t.Errorf("%s: %d spans, %d events and %d more: %s", query, list.Spans, events, more, list.OTLP)
		}
	}
}

// spanIDs returns the ids of spans in OTLP.
func spanIDs(t *testing.T, text json.RawMessage) (ids []string) {
	t.Helper()
	var otlp struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct{ SpanID string }
			}
		}
	}
	if err := json.Unmarshal(text, &otlp); err != nil {
		t.Fatal(err)
	}
	for _, r := range otlp.ResourceSpans {
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				ids = append(ids, span.SpanID)
			}
		}
	}
	return ids
}
