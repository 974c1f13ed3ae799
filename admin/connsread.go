package admin

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A ConnectionList is a page of the connections that an actor has stored, in the order of their ids.
type ConnectionList struct {
	Connections []Connection `json:"connections"`
	Next        string       `json:"next,omitempty"` // after of the next page; "" on the last one
}

// A Connection is one that an actor has stored. One that can't be read has a Problem.
type Connection struct {
	ID            string            `json:"id"` // as ParseBytes reads it; "" for rows that belong to no connection
	Gateway       string            `json:"gateway,omitempty"`
	Request       string            `json:"request,omitempty"`
	In            *conn.Index       `json:"in,omitempty"`  // of the last message that came in
	Out           *conn.Index       `json:"out,omitempty"` // of the last message that went out
	Subscriptions []string          `json:"subscriptions,omitempty"`
	Path          string            `json:"path,omitempty"` // of its request
	Headers       map[string]string `json:"headers,omitempty"`
	Parameters    json.RawMessage   `json:"parameters,omitempty"` // left out if undefined
	State         json.RawMessage   `json:"state,omitempty"`      // left out if undefined
	Size          *int              `json:"size,omitempty"`       // left out if rows are damaged
	Updated       Time              `json:"updated,omitempty"`    // left out if rows are damaged
	Problem       string            `json:"problem,omitempty"`
}

func connReads() []route {
	return []route{readActor("/connections", "List the connections that an actor has stored.", []param{afterParam, limitParam}, listConnections)}
}

func listConnections(_ context.Context, v *greenroom.View, q *query) (*ConnectionList, error) {
	limit, err := q.limit()
	if err != nil {
		return nil, err
	}
	after, err := ParseBytes(q.text("after"), "after")
	if err != nil {
		return nil, err
	}
	out := &ConnectionList{Connections: []Connection{}}
	size := 0
	for c, err := range v.Connections() {
		if err != nil {
			return nil, err
		}
		if len(after) > 0 && string(c.ID) <= string(after) {
			continue
		}
		size += c.Size
		if n := len(out.Connections); n == limit || size > readBytes && n > 0 {
			out.Next = out.Connections[n-1].ID
			break
		}
		out.Connections = append(out.Connections, NewConnection(c))
	}
	return out, nil
}

// NewConnection returns what c says.
func NewConnection(c conn.Stored) Connection {
	j := Connection{ID: connID(c.ID)}
	if !c.Damaged && !c.Stray {
		j.Size, j.Updated = &c.Size, NewTime(c.Updated)
	}
	r := c.Record
	if r == nil {
		j.Problem = connProblem(c)
		return j
	}
	j.Gateway, j.Request, j.In, j.Out = r.Gateway.String(), r.Request.String(), &r.Server, &r.Client
	j.Subscriptions, j.Path = r.Subscriptions, r.Path
	j.Headers = make(map[string]string, len(r.Headers)) // left out if it is empty
	for _, h := range r.Headers {
		j.Headers[h.Name] = h.Value
	}
	var errs [2]error
	j.Parameters, errs[0] = definedJSON(r.Parameters)
	j.State, errs[1] = definedJSON(r.State)
	for i, what := range []string{"parameters", "state"} {
		if errs[i] != nil {
			j.Problem = what + ": " + strings.TrimPrefix(errs[i].Error(), "cbor: ")
		}
	}
	return j
}

// connID is an id as ParseBytes reads it, in characters that a command line can hold.
func connID(id conn.ID) string {
	text := string(id)
	unprinted := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unprinted) || strings.HasPrefix(text, "hex:") {
		return "hex:" + hex.EncodeToString([]byte(text))
	}
	return text
}

// connProblem says why a record can't be read.
func connProblem(c conn.Stored) string {
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

// definedJSON returns a value in CBOR as JSON, nil if it is undefined.
func definedJSON(value []byte) (json.RawMessage, error) {
	v, err := cbor.Decode(value)
	if _, is := v.(cbor.Undefined); is || err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
