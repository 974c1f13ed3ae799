package main

import (
	"context"
	"errors"
	_ "time/tzdata" // the zones of cron events, wherever the program runs

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/persist"
)

func newState(e *env) *cobra.Command {
	return newGroup("state", "Look at the state of an actor, and what it has scheduled", newStateShow(e))
}

func newStateShow(e *env) *cobra.Command {
	var asJSON bool
	codec := codecAuto
	cmd := &cobra.Command{
		Use:   "show STORE ACTOR",
		Short: "Show the state of an actor, its input and its scheduled events",
		Long: `Show what the actor's own record has, as it was saved last: whether the actor has been
initialised, the input that it was created with, and its state, both as JSON; then the
events that it has scheduled, the next first: their actions and arguments, the rules by
which they come again, how often they failed, and with what.

Bytes in a value are in base64, and undefined is null. A value that is neither CBOR nor
JSON is shown as bytes. Some numbers are both: a 5 of JSON is −22 in CBOR. Then the input,
which is of the same codec, decides, or else it is CBOR; --codec says which it is. What a
running host hasn't saved yet isn't shown.

They are tables on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: `  greenroom state show data lobby
  greenroom state show --json data lobby`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return showState(cmd.Context(), e, args[0], args[1], stateOutput{asJSON, codec})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one object")
	cmd.Flags().Var(&codec, "codec", "what input and state are encoded with: auto, cbor or json")
	return cmd
}

func showState(ctx context.Context, e *env, url, actor string, o stateOutput) error {
	return view(ctx, target{url: url, actor: actor, env: e}, func(v *greenroom.View) error {
		c, err := v.Record()
		switch {
		case errors.Is(err, persist.ErrNoRecord):
			return say(nil, "the actor %s has no state", actor)
		case err != nil:
			return err
		case o.asJSON:
			return e.object(admin.NewState(c, o.codec.of(c) == codecJSON), "")
		}
		return printState(e, c, o.codec.of(c))
	})
}

// printState prints the record, and the events if there are any.
func printState(e *env, c *persist.Contents, codec stateCodec) error {
	record := [][]any{{"initialized", "no"}, {"input", codec.cell(c.Input)}, {"state", codec.cell(c.State)}}
	if c.Initialized {
		record[0][1] = "yes"
	}
	if c.Input == nil {
		record[1] = nil
	}
	err := list(output{e, false, "record value"}, all(record), func(row []any) ([]any, error) { return row, nil })
	if err != nil || len(c.Events) == 0 {
		return err
	}
	const columns = "event at action arguments cron zone attempts again problem"
	return list(output{e, false, columns}, all(c.Events), func(ev persist.Event) ([]any, error) {
		again := newCell(ev.NotBefore)
		if ev.Parked {
			again = newCell("parked")
		}
		return []any{ev.ID, ev.At, ev.Action, optionalCell(ev.Args, bodyCell), maybe(ev.Cron), maybe(ev.Zone),
			ev.Attempts, again, maybe(ev.LastError)}, nil
	})
}
