package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	_ "time/tzdata" // the zones of cron events, wherever the program runs

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
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
	out := bufio.NewWriter(e.stdout)
	err := view(ctx, url, actor, func(v *greenroom.View) error {
		c, err := persist.Look(ctx, v.Lower().Snapshot)
		switch {
		case errors.Is(err, persist.ErrNoRecord):
			return say(nil, "the actor %s has no state", actor)
		case err != nil:
			return err
		case o.asJSON:
			return writeState(out, c, o.codec.of(c))
		}
		s := statePrinter{out, listLayout(false, terminal(e.stdout) != nil), o.codec.of(c)}
		s.print(c)
		return nil
	})
	return errors.Join(err, out.Flush())
}

// A statePrinter prints records as tables or lines.
type statePrinter struct {
	out    *bufio.Writer
	layout layout
	codec  stateCodec
}

// print prints the record, and the events if there are any.
func (s *statePrinter) print(c *persist.Contents) {
	initialized := "no"
	if c.Initialized {
		initialized = "yes"
	}
	p := s.layout.printer(s.out)
	p.begin([]string{"record", "value"})
	p.row([]cell{textCell("initialized"), textCell(initialized)})
	if c.Input != nil {
		p.row([]cell{textCell("input"), s.codec.cell(c.Input)})
	}
	p.row([]cell{textCell("state"), s.codec.cell(c.State)})
	p.end()
	if len(c.Events) == 0 {
		return
	}
	p = s.layout.printer(s.out)
	p.begin([]string{"event", "at", "action", "arguments", "cron", "zone", "attempts", "again", "problem"})
	for _, ev := range c.Events {
		args, again := cell{}, optionalTimeCell(ev.NotBefore)
		if ev.Args != nil {
			args = bodyCell(ev.Args)
		}
		if ev.Parked {
			again = textCell("parked")
		}
		p.row([]cell{textCell(ev.ID), timeCell(ev.At), textCell(ev.Action), args, optionalCell(ev.Cron), optionalCell(ev.Zone),
			intCell(int64(ev.Attempts)), again, optionalCell(ev.LastError)})
	}
	p.end()
}

// A stateJSON is the record in JSON.
type stateJSON struct {
	Initialized bool            `json:"initialized"`
	Input       json.RawMessage `json:"input,omitempty"`
	State       json.RawMessage `json:"state"`
	Events      []eventJSON     `json:"events"`
}

type eventJSON struct {
	ID       string          `json:"id"`
	At       string          `json:"at"`
	Action   string          `json:"action"`
	Args     json.RawMessage `json:"args,omitempty"`
	Cron     string          `json:"cron,omitempty"`
	Zone     string          `json:"zone,omitempty"`
	Attempts int             `json:"attempts,omitempty"`
	Again    string          `json:"again,omitempty"`
	Parked   bool            `json:"parked,omitempty"`
	Problem  string          `json:"problem,omitempty"`
}

func writeState(out *bufio.Writer, c *persist.Contents, codec stateCodec) error {
	j := stateJSON{Initialized: c.Initialized, Input: storedJSON(codec, c.Input), State: storedJSON(codec, c.State), Events: []eventJSON{}}
	for _, ev := range c.Events {
		j.Events = append(j.Events, eventJSON{
			ID: ev.ID, At: string(timeCell(ev.At).text), Action: ev.Action, Args: storedJSON(codecCBOR, ev.Args), Cron: ev.Cron, Zone: ev.Zone,
			Attempts: ev.Attempts, Again: string(optionalTimeCell(ev.NotBefore).text), Parked: ev.Parked, Problem: ev.LastError,
		})
	}
	return newJSON(out).Encode(&j)
}

// storedJSON is the cell of a value in JSON, nil for no value.
func storedJSON(codec stateCodec, value []byte) json.RawMessage {
	if value == nil {
		return nil
	}
	return bytes.Clone(appendJSON(nil, codec.cell(value)))
}
