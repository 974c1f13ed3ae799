package admin

import (
	"encoding/binary"
	"strings"

	"github.com/greenroomdb/greenroom/workflow"
)

// A workflowTree is a history as a tree of the places in the code of a workflow: entries,
// iterations and branches, each with what is inside.
type workflowTree struct {
	s     *workflow.Snapshot
	nodes map[workflow.Location]*WorkflowEntry
}

// WorkflowEntries returns the places of a history, each followed by those inside it.
func WorkflowEntries(s *workflow.Snapshot) []*WorkflowEntry {
	t := &workflowTree{s, map[workflow.Location]*WorkflowEntry{"": {}}}
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
func flat(nodes []*WorkflowEntry, depth int) (rows []*WorkflowEntry) {
	for _, n := range nodes {
		n.Depth = depth
		rows = append(append(rows, n), flat(n.inside, depth+1)...)
	}
	return rows
}

// node returns the place of a location, and makes those around it that are missing.
func (t *workflowTree) node(l workflow.Location) *WorkflowEntry {
	if n := t.nodes[l]; n != nil {
		return n
	}
	parent, last, _ := l.Parent()
	n := &WorkflowEntry{Path: t.s.Path(l), Kind: "scope"}
	if last.Loop {
		n.Kind = "iteration"
	}
	n.Label = n.Path
	if parent != "" {
		n.Label = strings.TrimPrefix(strings.TrimPrefix(n.Path, t.s.Path(parent)), "/")
	}
	t.nodes[l] = n
	around := t.node(parent)
	around.add(n, string(l[len(parent):])) // of which none begins with another
	return n
}

// add puts a node inside, at a place there.
func (w *WorkflowEntry) add(n *WorkflowEntry, place string) {
	w.inside = append(w.inside, n)
	n.place = w.place + place
}

// branches makes the places of the branches of a join or a race, in their order. One that
// has recorded nothing may have no location.
func (t *workflowTree) branches(e *workflow.Entry, branches []workflow.BranchEntry) {
	around := t.node(e.Location)
	for i := range branches {
		b := &branches[i]
		var n *WorkflowEntry
		if index, ok := t.s.Lookup(b.Name); ok {
			n = t.node(e.Location.Name(index))
		} else {
			alone := workflow.Snapshot{Names: []string{b.Name}}
			var root workflow.Location
			n = &WorkflowEntry{Label: alone.Path(root.Name(0))}
			n.Path = t.s.Path(e.Location) + "/" + n.Label
			around.add(n, "")
		}
		// In a join there is nothing else. What is inside the branch isn't there yet.
		n.place = around.place + string(binary.BigEndian.AppendUint32(nil, uint32(i)))
		n.Kind, n.Status, n.Error, n.Recorded = "branch", b.Status.String(), textOf(b.Error), true
		n.stored(b.Output)
	}
}
