package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/workflow"
)

// TestLimits: the limits of a store are listed, with the actors that hold permits and wait, also without the host, and by the API.
func TestLimits(t *testing.T) {
	t.Chdir(t.TempDir())
	engine, err := pebblekv.Open("data", nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	flow := host.NewWorkflow(func(c *workflow.Context, _ int) (int, error) {
		err := workflow.Do(c, "begin", func(context.Context) error { close(begun); return nil })
		c.Sleep("rest", time.Hour)
		return 0, err
	}, nil)
	kind := &host.Type{
		Name: "import", Workflow: flow, Create: func(c *host.Context) error { return c.Label("customer", c.Address().Key[:3]) },
		WorkflowLimits: []*host.Limit{{Name: "imports", Concurrency: 1, Rate: 1, Per: time.Hour, Fair: "customer"}},
	}
	h, err := host.Open(t.Context(), engine, []*host.Type{kind}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"ann-1", "bob-1", "bob-2"} {
		if fresh, err := h.StartWorkflow(t.Context(), host.Address{Type: "import", Key: key}, i); !fresh || err != nil {
			t.Fatal(fresh, err)
		}
	}
	<-begun
	if err := h.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(must(t, "limits", "data"), "\n")
	if f := strings.Split(lines[0], "\t"); len(lines) != 2 || len(f) != 5 || fmt.Sprint(f[:4]) != "[imports  1 2]" || f[4] == "" {
		t.Errorf("limits: %q", lines)
	}
	if got := must(t, "limits", "data", "exports"); got != "" {
		t.Errorf("limits of another name: %q", got)
	}
	want := "held\timport/ann-1\tworkflow\t\t\nwaits\timport/bob-1\tworkflow\t\tbob\nwaits\timport/bob-2\tworkflow\t\tbob\n"
	if got := must(t, "limits", "data", "imports", ""); got != want {
		t.Errorf("one limit: %q, want %q", got, want)
	}
}
