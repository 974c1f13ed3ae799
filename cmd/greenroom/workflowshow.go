package main

import (
	"encoding/json"
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
		Long: `Show the state of the workflow, what it waits for, its input, and its output or error; then its
history as a tree, in which loops hold their iterations, and joins and races their branches: what
kind of entry each is, its status, how often it was tried, when it was created, its
value, and its error. The value of a sleep is the time that it ends.

Bytes in a value are in base64, and undefined is null. A value that is neither CBOR nor
JSON is shown as bytes. In JSON the entries are a list, each with its path. What is
damaged comes last.

They are tables on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: "  greenroom workflow show data order-1\n  greenroom workflow show --json data order-1",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return readWorkflow(cmd.Context(), target{url: args[0], actor: args[1], env: e}, func(s *workflow.Snapshot, damages []workflow.Damage) error {
				rows := workflowRows(s)
				if asJSON {
					return e.object(newWorkflowJSON(s, rows, damages), "")
				}
				return printWorkflow(e, s, rows, damages)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one object")
	return cmd
}

// printWorkflow prints the fields, the tree, and what is damaged.
func printWorkflow(e *env, s *workflow.Snapshot, rows []*workflowRow, damages []workflow.Damage) error {
	fields := [][]any{{"state", s.State}}
	if s.Stuck() {
		fields = append(fields, []any{"stuck", "nothing that comes by itself wakes it"})
	}
	for _, w := range s.Waits() {
		words := w.String()
		if w.Since != 0 {
			words += ", since " + stamp(w.Since.Time())
		}
		fields = append(fields, []any{"waits for", oneLine(words)})
	}
	fields = append(fields, []any{"input", optionalCell(s.Input, storedCell)}, []any{"output", optionalCell(s.Output, storedCell)})
	if s.Error != nil {
		fields = append(fields, []any{"error", s.Error.Error()})
	}
	err := list(output{e, false, "workflow value"}, all(fields), func(field []any) ([]any, error) {
		if newCell(field[1]).kind == cellNull {
			return nil, nil
		}
		return field, nil
	})
	if err == nil && len(rows) > 0 {
		const columns = "entry kind status attempts created value error"
		err = list(output{e, false, columns}, all(rows), func(r *workflowRow) ([]any, error) {
			return []any{strings.Repeat("  ", r.depth) + r.label, r.Kind, maybe(r.Status), r.Attempts, maybe(r.Created), r.value, maybe(r.Error)}, nil
		})
	}
	if err == nil && len(damages) > 0 {
		err = list(output{e, false, "damaged problem"}, all(damages), func(d workflow.Damage) ([]any, error) {
			return []any{actorstore.Describe(d.Key), damageText(d.Err)}, nil
		})
	}
	return err
}

// A workflowRow is what is shown of a place.
type workflowRow struct {
	Path      string          `json:"path"`
	ID        string          `json:"id,omitempty"` // of an entry
	Kind      string          `json:"kind"`
	Status    string          `json:"status,omitempty"`
	Attempts  *uint32         `json:"attempts,omitempty"`
	Created   string          `json:"created,omitempty"`
	Completed string          `json:"completed,omitempty"`
	Undone    string          `json:"undone,omitempty"`
	Iteration *uint32         `json:"iteration,omitempty"` // of a loop
	Value     json.RawMessage `json:"value,omitempty"`
	Bytes     []byte          `json:"bytes,omitempty"` // a value that is neither CBOR nor JSON
	Error     string          `json:"error,omitempty"`

	value    cell
	recorded bool   // of an entry or a branch
	label    string // in the tree
	depth    int    // there, 0 for the outermost
	inside   []*workflowRow
}

// record fills in what an entry says.
func (r *workflowRow) record(e *workflow.Entry) {
	r.ID, r.Kind, r.recorded = e.ID, e.Type(), true
	r.ofKind(e.Kind)
	r.ofMetadata(e.Metadata)
}

// ofKind fills in what the kind of an entry says.
func (r *workflowRow) ofKind(kind workflow.Kind) {
	switch k := kind.(type) {
	case workflow.StepEntry:
		r.value, r.Error = optionalCell(k.Output, storedCell), textOf(k.Error)
	case workflow.LoopEntry:
		r.Iteration = &k.Iteration
		if r.value = storedCell(k.State); k.Output != nil {
			r.value = storedCell(k.Output)
		}
	case workflow.SleepEntry:
		r.Status, r.value = k.State.String(), newCell(k.Deadline.Time())
	case workflow.MessageEntry:
		r.value = storedCell(k.Data)
	case workflow.RaceEntry:
		r.value = newCell(maybe(textOf(k.Winner)))
	case workflow.RemovedEntry:
		r.value = newCell(strings.TrimSpace(k.Original + " " + textOf(k.Name)))
	case workflow.VersionEntry:
		r.value = newCell(fmt.Sprintf("%d of %d", k.Resolved, k.Latest))
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
	r.Created = stamp(dated(m.CreatedAt))
	if m.Attempts > 0 {
		r.Attempts = &m.Attempts
	}
	if r.Error == "" {
		r.Error = textOf(m.Error)
	}
	if m.CompletedAt != nil {
		r.Completed = stamp(m.CompletedAt.Time())
	}
	if m.RollbackCompletedAt != nil {
		r.Status, r.Undone = "undone", stamp(m.RollbackCompletedAt.Time())
	}
	if m.RollbackError != nil {
		r.Error = strings.TrimSpace(r.Error + " undo: " + *m.RollbackError)
	}
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
	Stuck   bool            `json:"stuck,omitempty"`
	Waits   []waitJSON      `json:"waits,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   *failureJSON    `json:"error,omitempty"`
	Entries []*workflowRow  `json:"entries"`
	Damages []damageJSON    `json:"damages,omitempty"`
}

// A waitJSON is a thing that a workflow waits for.
type waitJSON struct {
	For   string   `json:"for"`
	Path  string   `json:"path,omitempty"`
	Since string   `json:"since,omitempty"`
	Until string   `json:"until,omitempty"`
	Names []string `json:"names,omitempty"`
	Error string   `json:"error,omitempty"`
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

func newWorkflowJSON(s *workflow.Snapshot, rows []*workflowRow, damages []workflow.Damage) workflowJSON {
	j := workflowJSON{State: s.State.String(), Stuck: s.Stuck(), Input: rawJSON(s.Input), Output: rawJSON(s.Output), Entries: []*workflowRow{}}
	if s.Error != nil {
		j.Error = &failureJSON{s.Error.Name, s.Error.Message, s.Error.Stack}
	}
	for _, w := range s.Waits() {
		j.Waits = append(j.Waits, waitJSON{w.For.String(), w.Path, stamp(dated(w.Since)), stamp(dated(w.Until)), w.Names, w.Error})
	}
	for _, r := range rows {
		if r.recorded {
			j.Entries = append(j.Entries, r)
		}
	}
	for _, d := range damages {
		j.Damages = append(j.Damages, damageJSON{actorstore.Describe(d.Key), damageText(d.Err), d.Harmless})
	}
	return j
}

// rawJSON is a value in JSON; its bytes in base64, as a text, if it is none.
func rawJSON(v []byte) json.RawMessage {
	c := optionalCell(v, storedCell)
	if c.kind == cellBlob {
		c = jsonCell(c.text)
	}
	return c.text
}
