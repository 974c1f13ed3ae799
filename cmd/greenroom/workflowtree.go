package main

import (
	"strings"

	"github.com/greenroomdb/greenroom/workflow"
)

// A workflowTree is a history as a tree of the places in the code of a workflow: entries,
// iterations and branches, each with what is inside.
type workflowTree struct {
	s     *workflow.Snapshot
	nodes map[workflow.Location]*workflowRow
}

// workflowRows returns the places of a history, each followed by those inside it.
func workflowRows(s *workflow.Snapshot) []*workflowRow {
	t := &workflowTree{s, map[workflow.Location]*workflowRow{"": {}}}
	for i := range s.Entries {
		e := &s.Entries[i]
		t.node(e.Location).record(e)
		switch k := e.Kind.(type) {
		case workflow.JoinEntry:
			t.branches(e, k.Branches)
		case workflow.RaceEntry:
			t.branches(e, k.Branches)
		}
	}
	return flat(t.nodes[""].inside, 0)
}

// flat returns nodes, each followed by what is inside.
func flat(nodes []*workflowRow, depth int) (rows []*workflowRow) {
	for _, n := range nodes {
		n.depth = depth
		if n.value.kind == cellBlob {
			n.Bytes = n.value.text
		} else if n.value.kind != cellNull {
			n.Value = appendJSON(nil, n.value)
		}
		rows = append(append(rows, n), flat(n.inside, depth+1)...)
	}
	return rows
}

// node returns the place of a location, and makes those around it that are missing.
func (t *workflowTree) node(l workflow.Location) *workflowRow {
	if n := t.nodes[l]; n != nil {
		return n
	}
	parent, last, _ := l.Parent()
	n := &workflowRow{Path: t.s.Path(l), Kind: "scope"}
	if last.Loop {
		n.Kind = "iteration"
	}
	n.label = n.Path
	if parent != "" {
		n.label = strings.TrimPrefix(strings.TrimPrefix(n.Path, t.s.Path(parent)), "/")
	}
	t.nodes[l] = n
	around := t.node(parent)
	around.inside = append(around.inside, n)
	return n
}

// branches makes the places of the branches of a join or a race, in their order. One that
// has recorded nothing may have no location.
func (t *workflowTree) branches(e *workflow.Entry, branches []workflow.BranchEntry) {
	for i := range branches {
		b := &branches[i]
		var n *workflowRow
		if index, ok := t.s.Lookup(b.Name); ok {
			n = t.node(e.Location.Name(index))
		} else {
			alone := workflow.Snapshot{Names: []string{b.Name}}
			var root workflow.Location
			n = &workflowRow{label: alone.Path(root.Name(0))}
			n.Path = t.s.Path(e.Location) + "/" + n.label
			around := t.node(e.Location)
			around.inside = append(around.inside, n)
		}
		n.Kind, n.Status, n.Error, n.recorded = "branch", b.Status.String(), textOf(b.Error), true
		n.value = optionalCell(b.Output, storedCell)
	}
}
