package main

import (
	"strings"

	"github.com/greenroomdb/greenroom/workflow"
)

// A workflowNode is a place in the code of a workflow: an entry, an iteration or a branch,
// with what is inside.
type workflowNode struct {
	label  string // what its path has that the path around it hasn't
	path   string
	kind   string // "iteration", "branch" or the type of the entry
	entry  *workflow.Entry
	branch *workflow.BranchEntry
	inside []*workflowNode
}

// A workflowTree is a history as a tree.
type workflowTree struct {
	s     *workflow.Snapshot
	nodes map[workflow.Location]*workflowNode
}

// newWorkflowTree returns the root of the history.
func newWorkflowTree(s *workflow.Snapshot) *workflowNode {
	t := &workflowTree{s, map[workflow.Location]*workflowNode{"": {}}}
	for i := range s.Entries {
		e := &s.Entries[i]
		n := t.node(e.Location)
		n.entry, n.kind = e, e.Type()
		switch k := e.Kind.(type) {
		case workflow.JoinEntry:
			t.branches(e, k.Branches)
		case workflow.RaceEntry:
			t.branches(e, k.Branches)
		}
	}
	return t.nodes[""]
}

// node returns the node of a location, and makes those around it that are missing.
func (t *workflowTree) node(l workflow.Location) *workflowNode {
	if n := t.nodes[l]; n != nil {
		return n
	}
	parent, last, _ := l.Parent()
	n := &workflowNode{path: t.s.Path(l), kind: "scope"}
	if last.Loop {
		n.kind = "iteration"
	}
	n.label = n.path
	if parent != "" {
		n.label = strings.TrimPrefix(strings.TrimPrefix(n.path, t.s.Path(parent)), "/")
	}
	t.nodes[l] = n
	around := t.node(parent)
	around.inside = append(around.inside, n)
	return n
}

// branches makes the nodes of the branches of a join or a race, in their order. One that
// has recorded nothing may have no location.
func (t *workflowTree) branches(e *workflow.Entry, branches []workflow.BranchEntry) {
	for i := range branches {
		b := &branches[i]
		var n *workflowNode
		if index, ok := t.s.Lookup(b.Name); ok {
			n = t.node(e.Location.Name(index))
		} else {
			alone := workflow.Snapshot{Names: []string{b.Name}}
			var root workflow.Location
			n = &workflowNode{label: alone.Path(root.Name(0))}
			n.path = t.s.Path(e.Location) + "/" + n.label
			around := t.node(e.Location)
			around.inside = append(around.inside, n)
		}
		n.kind, n.branch = "branch", b
	}
}
