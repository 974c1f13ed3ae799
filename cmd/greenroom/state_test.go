package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/persist"
)

// TestState runs the commands in testdata/state, each file in an empty folder. "greenroom"
// is as in TestCommands. "record" makes the record of the actor lobby of the store data,
// of which the input says in JSON what it has; "damaged" stores the input instead, which
// is in hexadecimal.
func TestState(t *testing.T) {
	runFiles(t, "state", func() directives {
		return func(t *testing.T, d *datadriven.TestData) (string, bool) {
			switch d.Cmd {
			case "record", "damaged":
				if err := storeState(t, d); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return "", true
			}
			return "", false
		}
	})
}

func storeState(t *testing.T, d *datadriven.TestData) error {
	return ownBelow(t.Context(), target{url: "data", actor: "lobby", create: true}, func(a *actorstore.Actor) error {
		if d.Cmd == "damaged" {
			value, err := hex.DecodeString(d.Input)
			return errors.Join(err, a.Put(context.Background(), actorstore.AppendPersist(nil), value))
		}
		return storeRecord(t.Context(), a, d.Input)
	})
}

func storeRecord(ctx context.Context, a *actorstore.Actor, text string) (err error) {
	var in struct {
		Input any
		State *struct { // a map's members would come in any order
			Count int    `json:"count"`
			Name  string `json:"name,omitempty"`
		}
		Events []persist.Job
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return err
	}
	o := &persist.Options{Create: true}
	if in.Input != nil {
		if o.Input, err = cbor.Marshal(in.Input); err != nil {
			return err
		}
	}
	r, err := persist.Open(ctx, a, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(ctx)) }()
	for _, job := range in.Events {
		if _, err := r.Schedule().Add(ctx, job); err != nil {
			return err
		}
	}
	if in.State == nil {
		return nil
	}
	var b batch.Batch
	if err := greenroom.SetState(r.In(&b), in.State); err != nil {
		return err
	}
	return a.Commit(ctx, &b)
}
