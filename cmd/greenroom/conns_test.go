package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/kv"
)

// TestConns runs the commands in testdata/conns, each file in an empty folder. "greenroom"
// is as in TestCommands; "connection ID" stores one in the actor lobby of the store data,
// of which the input says in JSON what it has, "damaged ID" stores the input, which is in
// hexadecimal, "broken ID" takes one of the rows away that hold the record, and "stray ID"
// puts one before them that belongs to no connection.
func TestConns(t *testing.T) {
	runFiles(t, "conns", func() directives {
		return func(t *testing.T, d *datadriven.TestData) (string, bool) {
			switch d.Cmd {
			case "connection", "damaged":
				storeConn(t, d)
				return "", true
			case "broken":
				breakConn(t, testConnID(t, d))
				return "", true
			case "stray":
				strayBefore(t, testConnID(t, d))
				return "", true
			}
			return "", false
		}
	})
}

// testConnID is the id that a directive names, as the commands do.
func testConnID(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	id, err := parseBytes(d.CmdArgs[0].String(), "id")
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return string(id)
}

// storeConn stores a connection past package conn, which would choose an id for it.
func storeConn(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	id := testConnID(t, d)
	value, err := hex.DecodeString(d.Input)
	if d.Cmd == "connection" {
		value, err = connRecord(id, d.Input)
	}
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	err = ownBelow(t.Context(), target{url: "data", actor: "lobby", create: true}, func(a *actorstore.Actor) error {
		return a.Put(context.Background(), actorstore.AppendConnection(nil, id), value)
	})
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
}

// breakConn removes the METADATA row of a connection.
func breakConn(t *testing.T, id string) {
	t.Helper()
	p := &planter{t: t, dir: "data"}
	p.rows(actorstore.AppendConnection(nil, id), func(e kv.Entry) []kv.Op {
		if bytes.HasSuffix(e.Key, []byte{0x15, 44}) {
			return []kv.Op{kv.Clear(e.Key)}
		}
		return nil
	})
}

// strayBefore writes a row whose key breaks off within that of a connection.
func strayBefore(t *testing.T, id string) {
	t.Helper()
	p := &planter{t: t, dir: "data"}
	p.rows(actorstore.AppendConnection(nil, id), func(e kv.Entry) []kv.Op {
		if bytes.HasSuffix(e.Key, []byte{0x15, 44}) {
			return []kv.Op{kv.Set(e.Key[:bytes.LastIndex(e.Key, []byte{0, 0})], nil)}
		}
		return nil
	})
}

func connRecord(id, text string) ([]byte, error) {
	var in struct {
		Gateway, Request, Path string
		In, Out                conn.Index
		Events                 []string
		Headers                [][2]string
		Parameters, State      any
		Raw                    string // the state, in hexadecimal
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return nil, err
	}
	rec := conn.Record{
		ID: conn.ID(id), Server: in.In, Client: in.Out, Path: in.Path, Subscriptions: in.Events,
		Parameters: []byte{0xf7}, State: []byte{0xf7}, // undefined
	}
	for _, h := range in.Headers {
		rec.Headers = append(rec.Headers, conn.Header{Name: h[0], Value: h[1]})
	}
	var err error
	for text, id := range map[string]*[4]byte{in.Gateway: (*[4]byte)(&rec.Gateway), in.Request: (*[4]byte)(&rec.Request)} {
		if n, err := hex.Decode(id[:], []byte(text)); err != nil || n != len(id) {
			return nil, fmt.Errorf("the id %q: %w", text, err)
		}
	}
	if in.Parameters != nil {
		if rec.Parameters, err = conn.Encode(in.Parameters); err != nil {
			return nil, err
		}
	}
	if in.State != nil {
		if rec.State, err = conn.Encode(in.State); err != nil {
			return nil, err
		}
	}
	if in.Raw != "" {
		if rec.State, err = hex.DecodeString(in.Raw); err != nil {
			return nil, err
		}
	}
	return rec.Append(nil), nil
}
