package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/workflow"
)

func newWorkflowShow(e *env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show STORE ACTOR",
		Short: "Show the workflow of an actor and its history",
		Long: `Show the state of the workflow, its input, and its output or error; then its history as
a tree, in which loops hold their iterations, and joins and races their branches: what
kind of entry each is, its status, how often it was tried, when it was created, its
value, and its error. The value of a sleep is the time that it ends.

Bytes in a value are in base64, and undefined is null. A value that is neither CBOR nor
JSON is shown as bytes. In JSON the entries are a list, each with its path. What is
damaged comes last.

They are tables on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: "  greenroom workflow show data order-1\n  greenroom workflow show --json data order-1",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := bufio.NewWriter(e.stdout)
			err := readWorkflow(cmd.Context(), args[0], args[1], func(s *workflow.Snapshot, damages []workflow.Damage) error {
				if asJSON {
					return newJSON(out).Encode(newWorkflowJSON(s, damages))
				}
				printWorkflow(out, listLayout(false, terminal(e.stdout) != nil), s, damages)
				return nil
			})
			return errors.Join(err, out.Flush())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one object")
	return cmd
}

// printWorkflow prints the fields, the tree, and what is damaged.
func printWorkflow(out *bufio.Writer, l layout, s *workflow.Snapshot, damages []workflow.Damage) {
	p := l.printer(out)
	p.begin([]string{"workflow", "value"})
	p.row([]cell{textCell("state"), textCell(s.State.String())})
	for _, field := range []struct {
		name  string
		value []byte
	}{{"input", s.Input}, {"output", s.Output}} {
		if field.value != nil {
			p.row([]cell{textCell(field.name), storedCell(field.value)})
		}
	}
	if s.Error != nil {
		p.row([]cell{textCell("error"), textCell(s.Error.Error())})
	}
	p.end()
	if len(s.Entries) > 0 {
		p = l.printer(out)
		p.begin([]string{"entry", "kind", "status", "attempts", "created", "value", "error"})
		printNodes(p, newWorkflowTree(s).inside, 0)
		p.end()
	}
	if len(damages) > 0 {
		p = l.printer(out)
		p.begin([]string{"damaged", "problem"})
		for _, d := range damages {
			p.row([]cell{textCell(actorstore.Describe(d.Key)), textCell(damageText(d.Err))})
		}
		p.end()
	}
}

// printNodes prints what is inside something, each two spaces further to the right.
func printNodes(p printer, nodes []*workflowNode, depth int) {
	for _, n := range nodes {
		r := newWorkflowRow(n)
		attempts := cell{}
		if r.Attempts > 0 {
			attempts = intCell(int64(r.Attempts))
		}
		p.row([]cell{textCell(strings.Repeat("  ", depth) + n.label), textCell(r.Kind), optionalCell(r.Status), attempts,
			millisCell(r.created), r.value, optionalCell(r.Error)})
		printNodes(p, n.inside, depth+1)
	}
}

// A workflowRow is what is shown of a place.
type workflowRow struct {
	Path      string          `json:"path"`
	ID        string          `json:"id,omitempty"` // of an entry
	Kind      string          `json:"kind"`
	Status    string          `json:"status,omitempty"`
	Attempts  uint32          `json:"attempts,omitempty"`
	Created   string          `json:"created,omitempty"`
	Completed string          `json:"completed,omitempty"`
	Undone    string          `json:"undone,omitempty"`
	Iteration *uint32         `json:"iteration,omitempty"` // of a loop
	Value     json.RawMessage `json:"value,omitempty"`
	Bytes     []byte          `json:"bytes,omitempty"` // a value that is neither CBOR nor JSON
	Error     string          `json:"error,omitempty"`

	value   cell
	created workflow.Millis
}

func newWorkflowRow(n *workflowNode) *workflowRow {
	r := &workflowRow{Path: n.path, Kind: n.kind}
	switch {
	case n.branch != nil:
		r.Status, r.value, r.Error = n.branch.Status.String(), optionalValue(n.branch.Output), textOf(n.branch.Error)
	case n.entry != nil:
		r.ID = n.entry.ID
		r.ofKind(n.entry.Kind)
		r.ofMetadata(n.entry.Metadata)
	}
	switch r.value.kind {
	case cellNull:
	case cellJSON:
		r.Value = r.value.text
	case cellBlob:
		r.Bytes = r.value.text
	default:
		r.Value, _ = json.Marshal(string(r.value.text)) // a text can't fail
	}
	return r
}

// ofKind fills in what the kind of an entry says.
func (r *workflowRow) ofKind(kind workflow.Kind) {
	switch k := kind.(type) {
	case workflow.StepEntry:
		r.value, r.Error = optionalValue(k.Output), textOf(k.Error)
	case workflow.LoopEntry:
		r.Iteration = &k.Iteration
		if r.value = optionalValue(k.Output); k.Output == nil {
			r.value = storedCell(k.State)
		}
	case workflow.SleepEntry:
		r.Status, r.value = k.State.String(), timeCell(k.Deadline.Time())
	case workflow.MessageEntry:
		r.value = storedCell(k.Data)
	case workflow.RaceEntry:
		if k.Winner != nil {
			r.value = textCell(*k.Winner)
		}
	case workflow.RemovedEntry:
		r.value = textCell(strings.TrimSpace(k.Original + " " + textOf(k.Name)))
	case workflow.VersionEntry:
		r.value = textCell(fmt.Sprintf("%d of %d", k.Resolved, k.Latest))
	}
}

// ofMetadata fills in how the entry got on.
func (r *workflowRow) ofMetadata(m *workflow.Metadata) {
	if m == nil {
		return
	}
	if r.Status == "" || m.Status == workflow.StatusFailed || m.Status == workflow.StatusExhausted {
		r.Status = m.Status.String()
	}
	r.Attempts, r.created, r.Created = m.Attempts, m.CreatedAt, string(millisCell(m.CreatedAt).text)
	if r.Error == "" {
		r.Error = textOf(m.Error)
	}
	if m.CompletedAt != nil {
		r.Completed = string(timeCell(m.CompletedAt.Time()).text)
	}
	if m.RollbackCompletedAt != nil {
		r.Status, r.Undone = "undone", string(timeCell(m.RollbackCompletedAt.Time()).text)
	}
	if m.RollbackError != nil {
		r.Error = strings.TrimSpace(r.Error + " undo: " + *m.RollbackError)
	}
}

func optionalValue(v []byte) cell {
	if v == nil {
		return cell{}
	}
	return storedCell(v)
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// A workflowJSON is a workflow in JSON.
type workflowJSON struct {
	State   string          `json:"state"`
	Input   json.RawMessage `json:"input,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   *failureJSON    `json:"error,omitempty"`
	Entries []*workflowRow  `json:"entries"`
	Damages []damageJSON    `json:"damages,omitempty"`
}

type failureJSON struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

type damageJSON struct {
	Key      string `json:"key"`
	Problem  string `json:"problem"`
	Harmless bool   `json:"harmless"`
}

func newWorkflowJSON(s *workflow.Snapshot, damages []workflow.Damage) workflowJSON {
	j := workflowJSON{State: s.State.String(), Input: rawJSON(s.Input), Output: rawJSON(s.Output), Entries: []*workflowRow{}}
	if s.Error != nil {
		j.Error = &failureJSON{s.Error.Name, s.Error.Message, s.Error.Stack}
	}
	var walk func(nodes []*workflowNode)
	walk = func(nodes []*workflowNode) {
		for _, n := range nodes {
			if n.entry != nil || n.branch != nil {
				j.Entries = append(j.Entries, newWorkflowRow(n))
			}
			walk(n.inside)
		}
	}
	walk(newWorkflowTree(s).inside)
	for _, d := range damages {
		j.Damages = append(j.Damages, damageJSON{actorstore.Describe(d.Key), damageText(d.Err), d.Harmless})
	}
	return j
}

// rawJSON is a value in JSON; its bytes in base64, as a text, if it is none.
func rawJSON(v []byte) json.RawMessage {
	c := optionalValue(v)
	if c.kind == cellBlob {
		b, _ := json.Marshal(c.text) // bytes can't fail
		return b
	}
	return c.text
}
