package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

func newConns(e *env) *cobra.Command {
	return newGroup("conns", "Look at the connections of an actor", newConnsList(e), newConnsDiscard())
}

func newConnsList(e *env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls STORE ACTOR",
		Short: "List the connections that an actor has stored",
		Long: `List the connections of an actor that hibernate, as they were saved last, in the order
of their ids: the gateway that the client is connected to, and the request there; the
indices of the last messages that came in and went out; the events that the connection
has subscribed to; the path of its request; the size of its record, and when that was
written. One that can't be read has a problem instead, and so have rows that belong to no
connection, for which there is no id either. An id that doesn't print, or isn't UTF-8, is
hex: and its bytes in hexadecimal.

It is a table on a terminal, and elsewhere lines with fields separated by tabs. JSON has
the parameters, the state and the headers too.`,
		Example: `  greenroom conns ls data lobby
  greenroom conns ls --json data lobby`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return listConns(cmd.Context(), e, args[0], args[1], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write an array of objects")
	return cmd
}

func newConnsDiscard() *cobra.Command {
	var stray bool
	cmd := &cobra.Command{
		Use:   "discard STORE ACTOR [ID]",
		Short: "Delete the record of a connection that can't be read",
		Long: `Delete what is stored of a connection that can't be read: one that "greenroom conns ls"
lists with a problem of its record or its rows. It is not for any other. ID is as it is
listed: text, or hex: and bytes in hexadecimal.

With --stray instead of an ID, delete the rows that belong to no connection, which have no
id that one could name.`,
		Example: `  greenroom conns discard data lobby 0b0a9f0e-9c49-4d6c-8ac6-d6d4d9ed5d0c
  greenroom conns discard --stray data lobby`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case stray && len(args) == 3:
				return &usageError{"--stray is for rows without an id"}
			case !stray && len(args) == 2:
				return &usageError{"neither an ID nor --stray"}
			}
			in := &admin.DiscardConnectionIn{ID: append(args, "")[2], Stray: stray}
			if _, err := parseBytes(in.ID, "id"); err != nil {
				return err
			}
			_, err := do(cmd.Context(), target{url: args[0], actor: args[1]}, admin.DiscardConnection, in)
			return err
		},
	}
	cmd.Flags().BoolVar(&stray, "stray", false, "delete the rows that belong to no connection")
	return cmd
}

func listConns(ctx context.Context, e *env, url, actor string, asJSON bool) error {
	return view(ctx, target{url: url, actor: actor, env: e}, func(v *greenroom.View) error {
		if asJSON {
			return list(output{e, true, ""}, v.Connections(), func(c conn.Stored) ([]any, error) {
				return []any{jsonCell(newConnJSON(c))}, nil
			})
		}
		const columns = "id gateway request in out subscriptions path size updated problem"
		return list(output{e, false, columns}, v.Connections(), func(c conn.Stored) ([]any, error) {
			j := newConnJSON(c)
			if c.Record != nil {
				j.Problem = "" // that is of a value, which is not shown
			}
			return []any{j.ID, maybe(j.Gateway), maybe(j.Request), j.In, j.Out, maybe(strings.Join(j.Subscriptions, " ")),
				maybe(j.Path), j.Size, c.Updated, maybe(j.Problem)}, nil
		})
	})
}

// connID is an id as parseBytes reads it, in characters that a command line can hold.
func connID(id conn.ID) string {
	text := string(id)
	unprinted := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unprinted) || strings.HasPrefix(text, "hex:") {
		return "hex:" + hex.EncodeToString([]byte(text))
	}
	return text
}

// problem says why a record can't be read.
func problem(c conn.Stored) string {
	err := c.Err
	if c.Stray {
		return "rows that belong to no connection: " + strings.TrimSuffix(err.Error(), ": "+actorstore.ErrCorrupt.Error())
	}
	if format := (*actorstore.FormatError)(nil); errors.As(err, &format) {
		return fmt.Sprintf("version %d, known are versions up to %d", format.Found, format.Known)
	}
	text := strings.TrimPrefix(err.Error(), "conn: record: ")
	text = strings.TrimPrefix(text, "actorstore: "+actorstore.Describe(actorstore.AppendConnection(nil, string(c.ID)))+": ")
	return strings.TrimPrefix(strings.TrimSuffix(text, ": "+actorstore.ErrCorrupt.Error()), "bare: ")
}

// A connJSON is a connection as it is listed in JSON.
type connJSON struct {
	ID            string            `json:"id"`
	Gateway       string            `json:"gateway,omitempty"`
	Request       string            `json:"request,omitempty"`
	In            *conn.Index       `json:"in,omitempty"`
	Out           *conn.Index       `json:"out,omitempty"`
	Subscriptions []string          `json:"subscriptions,omitempty"`
	Path          string            `json:"path,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Parameters    json.RawMessage   `json:"parameters,omitempty"` // left out if undefined
	State         json.RawMessage   `json:"state,omitempty"`      // left out if undefined
	Size          *int              `json:"size,omitempty"`       // left out if rows are damaged
	Updated       string            `json:"updated,omitempty"`    // left out if rows are damaged
	Problem       string            `json:"problem,omitempty"`
}

func newConnJSON(c conn.Stored) connJSON {
	j := connJSON{ID: connID(c.ID)}
	if !c.Damaged && !c.Stray {
		j.Size, j.Updated = &c.Size, stamp(c.Updated)
	}
	r := c.Record
	if r == nil {
		j.Problem = problem(c)
		return j
	}
	j.Gateway, j.Request, j.In, j.Out = r.Gateway.String(), r.Request.String(), &r.Server, &r.Client
	j.Subscriptions, j.Path = r.Subscriptions, r.Path
	j.Headers = make(map[string]string, len(r.Headers)) // left out if it is empty
	for _, h := range r.Headers {
		j.Headers[h.Name] = h.Value
	}
	var errs [2]error
	j.Parameters, errs[0] = valueJSON(r.Parameters)
	j.State, errs[1] = valueJSON(r.State)
	for i, what := range []string{"parameters", "state"} {
		if errs[i] != nil {
			j.Problem = what + ": " + strings.TrimPrefix(errs[i].Error(), "cbor: ")
		}
	}
	return j
}

// valueJSON returns a value in CBOR as JSON, nil if it is undefined.
func valueJSON(value []byte) (json.RawMessage, error) {
	v, err := cbor.Decode(value)
	if _, is := v.(cbor.Undefined); is || err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
