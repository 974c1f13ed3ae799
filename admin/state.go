package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/persist"
)

// SetState replaces the state of an actor.
var SetState = &Verb[SetStateIn, None]{"state/set", "Replace the state of the actor, unless it has changed meanwhile, or has what JSON can't say.", setState}

// SetStateIn is the request of SetState.
type SetStateIn struct {
	State  json.RawMessage `json:"state"`            // the new one
	Before json.RawMessage `json:"before,omitempty"` // what it must be until then, as State has it; left out for anything
}

func setState(ctx context.Context, a *greenroom.Actor, actor string, in *SetStateIn) (*None, error) {
	err := a.View(ctx, func(v *greenroom.View) error {
		_, err := v.Record()
		return err
	})
	if errors.Is(err, persist.ErrNoRecord) {
		err = &Error{Code: "not_found", Message: "the actor " + actor + " has no state"}
	}
	if err != nil {
		return nil, err
	}
	value, err := encodeState(in.State)
	if err != nil {
		return nil, &Error{Code: "invalid", Message: "the state is not JSON: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	return &None{}, a.Update(ctx, func(tx *greenroom.Tx) error {
		raw, err := tx.RawState()
		if err != nil {
			return err
		}
		now := NewState(&persist.Contents{State: raw}, false)
		switch {
		case !exactState(raw, now.State):
			return &Error{Code: "unsupported", Message: "the state of " + actor + " has what JSON can't say, such as bytes, and would lose it: let its code change it"}
		case in.Before != nil && !bytes.Equal(compact(in.Before), now.State):
			return &Error{Code: "conflict", Message: "the state of " + actor + " is another one by now"}
		}
		return tx.SetRawState(value)
	})
}

// encodeState returns a value in JSON as a state is stored.
func encodeState(value json.RawMessage) ([]byte, error) {
	v, err := cbor.FromJSON(value)
	if err != nil {
		return nil, err
	}
	return cbor.Marshal(v)
}

// exactState reports whether a state is stored again with the same bytes when it is set to what JSON says of it.
func exactState(raw []byte, value json.RawMessage) bool {
	again, err := encodeState(value)
	return err == nil && bytes.Equal(again, raw)
}
