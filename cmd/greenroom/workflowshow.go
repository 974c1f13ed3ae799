package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
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
				rows := admin.WorkflowEntries(s)
				if asJSON {
					return e.object(admin.NewWorkflow(s, rows, damages), "")
				}
				return printWorkflow(e, s, rows, damages)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one object")
	return cmd
}

// printWorkflow prints the fields, the tree, and what is damaged.
func printWorkflow(e *env, s *workflow.Snapshot, rows []*admin.WorkflowEntry, damages []workflow.Damage) error {
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
		err = list(output{e, false, columns}, all(rows), func(r *admin.WorkflowEntry) ([]any, error) {
			return []any{strings.Repeat("  ", r.Depth) + r.Label, r.Kind, maybe(r.Status), r.Attempts, maybe(r.Created), entryCell(r), maybe(r.Error)}, nil
		})
	}
	if err == nil && len(damages) > 0 {
		err = list(output{e, false, "damaged problem"}, all(damages), func(d workflow.Damage) ([]any, error) {
			return []any{actorstore.Describe(d.Key), damageText(d.Err)}, nil
		})
	}
	return err
}

// entryCell is the value of an entry.
func entryCell(w *admin.WorkflowEntry) cell {
	switch {
	case w.Text != "":
		return newCell(w.Text)
	case w.Value != nil:
		return cell{kind: cellJSON, text: w.Value}
	case w.Bytes != nil:
		return cell{kind: cellBlob, text: w.Bytes}
	}
	return cell{}
}
