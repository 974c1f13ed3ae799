package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/workflow"
)

// TestWorkflowTraces looks for the spans of a workflow in the actor's own traces, above
// those of the turns that its steps ask for.
func TestWorkflowTraces(t *testing.T) {
	bubble(t, Options{Traces: &greenroom.TracesOptions{}}, func(r *rig) {
		_, err := invoke[any](r.ctx, r.Host, lobby, "order", "tea")
		must(t, err)
		pass(time.Second)
		synctest.Wait()
		all := r.spans(lobby)
		got := told(all)
		step := got["workflow.step"]
		if !strings.HasPrefix(step, "1 0 ") || !strings.Contains(step, "workflow.step.path=book") || !strings.Contains(step, "workflow.step.attempt=1") {
			t.Errorf("the step is %q", step)
		}
		if run := got["workflow.run"]; !strings.HasPrefix(run, "1 0 ") || !strings.Contains(run, "workflow.state=sleeping") || !strings.Contains(run, "workflow.live=false") {
			t.Errorf("the run is %q", run)
		}
		wantParent(t, all, "workflow.step", "workflow.run")
		wantParent(t, all, "actor.turn", "workflow.step")
	}, orderThing())
}

// TestWorkflowTracesFailure: a step that fails says why in its span.
func TestWorkflowTracesFailure(t *testing.T) {
	kind := orderThing()
	kind.Workflow = NewWorkflow(func(c *workflow.Context, _ string) (int, error) {
		return workflow.Step(c, "fail", func(context.Context) (int, error) {
			return 0, fmt.Errorf("the kettle: %w", errRefused)
		})
	}, nil)
	bubble(t, Options{Traces: &greenroom.TracesOptions{}}, func(r *rig) {
		_, err := invoke[any](r.ctx, r.Host, lobby, "order", "tea")
		must(t, err)
		pass(time.Second)
		synctest.Wait()
		step := told(r.spans(lobby))["workflow.step"]
		if !strings.HasPrefix(step, "1 2 ") || !strings.Contains(step, "exception.message=the kettle: refused") {
			t.Errorf("the step is %q", step)
		}
	}, kind)
}
