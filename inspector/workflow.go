package inspector

import (
	"context"
	"strings"

	"github.com/greenroomdb/greenroom/admin"
)

// workflowPage is a workflow with a page of its history.
type workflowPage struct {
	Workflow *admin.Workflow // nil if the actor has none
	Entries  []entryRow
	From, To admin.Time // of the timeline
	Next     string
}

// An entryRow is a place in the code, with its bar in the timeline.
type entryRow struct {
	*admin.WorkflowEntry
	Around string // the beginning of its path, above its label
	Indent int    // 0 to maxIndent
	Bar    *bar   // nil if nothing says when it was
	Traces string // the URL of the page with the traces of its attempts; "" for an entry that has none
}

// showWorkflow shows the workflow of an actor as a tree beside a timeline.
func showWorkflow(ctx context.Context, v *visit) (*shown, error) {
	params := v.only("after", "entry")
	params.Set("limit", "500")
	w, err := get[admin.Workflow](ctx, v, "/workflow", params)
	out := &shown{Title: "Workflow", Template: "workflow", Live: "actor", Data: &workflowPage{}}
	if missing(err) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	p := &workflowPage{Workflow: w, Next: v.next(w.Next)}
	line := &timeline{}
	for _, e := range w.Entries {
		line.add(parseTime(e.Created), parseTime(max(e.Completed, e.Undone)))
	}
	p.From, p.To = admin.NewTime(line.from), admin.NewTime(line.to)
	for _, e := range w.Entries {
		row := entryRow{WorkflowEntry: e, Around: strings.TrimSuffix(e.Path, e.Label), Indent: min(e.Depth, maxIndent)}
		row.Bar = line.bar(parseTime(e.Created), parseTime(max(e.Completed, e.Undone)))
		if row.Bar != nil && e.Completed == "" && e.Undone == "" {
			row.Bar.Text = e.Status // which says more than that nothing says when it ended
		}
		if e.Attempts != nil && *e.Attempts > 0 {
			row.Traces = linkOf(v.actor.ID, "traces") + "?" + stepTraces(e.ID)
		}
		p.Entries = append(p.Entries, row)
	}
	out.Data = p
	return out, nil
}
