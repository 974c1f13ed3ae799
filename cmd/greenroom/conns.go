package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

func newConns(e *env) *cobra.Command {
	return newGroup("conns", "Look at the connections of an actor", newConnsList(e))
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
written. One that can't be read has a problem instead.

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

func listConns(ctx context.Context, e *env, url, actor string, asJSON bool) error {
	out := bufio.NewWriter(e.stdout)
	err := view(ctx, url, actor, func(v *actorstore.View) error {
		if asJSON {
			return writeConns(ctx, v, out)
		}
		return printConns(ctx, v, listLayout(false, terminal(e.stdout) != nil).printer(out))
	})
	return errors.Join(err, out.Flush())
}

func printConns(ctx context.Context, v *actorstore.View, p printer) error {
	p.begin([]string{"id", "gateway", "request", "in", "out", "subscriptions", "path", "size", "updated", "problem"})
	for c, err := range conn.List(ctx, v) {
		if err != nil {
			return err
		}
		row := []cell{textCell(string(c.ID)), {}, {}, {}, {}, {}, {}, intCell(int64(c.Size)), timeCell(c.Updated), {}}
		if r := c.Record; r != nil {
			row[1], row[2] = textCell(r.Gateway.String()), textCell(r.Request.String())
			row[3], row[4] = intCell(int64(r.Server)), intCell(int64(r.Client))
			row[5], row[6] = textCell(strings.Join(r.Subscriptions, " ")), textCell(r.Path)
		} else {
			row[9] = textCell(problem(c.Err))
		}
		p.row(row)
	}
	p.end()
	return nil
}

// problem says why a record can't be read.
func problem(err error) string {
	if format := (*actorstore.FormatError)(nil); errors.As(err, &format) {
		return fmt.Sprintf("version %d, known are versions up to %d", format.Found, format.Known)
	}
	text := strings.TrimPrefix(err.Error(), "conn: record: ")
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
	Size          int               `json:"size"`
	Updated       string            `json:"updated"`
	Problem       string            `json:"problem,omitempty"`
}

// writeConns writes an array with an object on each line.
func writeConns(ctx context.Context, v *actorstore.View, w *bufio.Writer) error {
	line := &bytes.Buffer{}
	enc := json.NewEncoder(line)
	enc.SetEscapeHTML(false)
	separator := "["
	for c, err := range conn.List(ctx, v) {
		if err != nil {
			return err
		}
		line.Reset()
		if err := enc.Encode(newConnJSON(c)); err != nil {
			return err
		}
		for _, part := range []string{separator, strings.TrimSuffix(line.String(), "\n")} {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
		}
		separator = ",\n"
	}
	if separator == "[" {
		_, err := w.WriteString("[]\n")
		return err
	}
	_, err := w.WriteString("]\n")
	return err
}

func newConnJSON(c conn.Stored) connJSON {
	j := connJSON{ID: string(c.ID), Size: c.Size, Updated: string(timeCell(c.Updated).text)}
	r := c.Record
	if r == nil {
		j.Problem = problem(c.Err)
		return j
	}
	j.Gateway, j.Request, j.In, j.Out = r.Gateway.String(), r.Request.String(), &r.Server, &r.Client
	j.Subscriptions, j.Path = r.Subscriptions, r.Path
	if len(r.Headers) > 0 {
		j.Headers = make(map[string]string, len(r.Headers))
	}
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
