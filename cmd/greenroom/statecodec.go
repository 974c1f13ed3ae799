package main

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/persist"
)

// A stateCodec is what input and state of an actor are encoded with. The record doesn't
// say it: the format is CBOR, and a program of Go alone may have stored JSON.
type stateCodec string

const (
	codecAuto stateCodec = "auto"
	codecCBOR stateCodec = "cbor"
	codecJSON stateCodec = "json"
)

// String is for the flag.
func (s *stateCodec) String() string { return string(*s) }

// Type is what help calls the flag's value.
func (s *stateCodec) Type() string { return "name" }

// Set reads the flag.
func (s *stateCodec) Set(text string) error {
	switch c := stateCodec(text); c {
	case codecAuto, codecCBOR, codecJSON:
		*s = c
		return nil
	}
	return errors.New("it has to be auto, cbor or json")
}

// A stateOutput says how a record is shown.
type stateOutput struct {
	asJSON bool
	codec  stateCodec
}

// of returns the codec of a record: JSON if the input or the state is that and can't be
// CBOR. A number may be both, such as 5, 85, 950 and 9.5.
func (s stateCodec) of(c *persist.Contents) stateCodec {
	if s != codecAuto {
		return s
	}
	if admin.StateIsJSON(c) {
		return codecJSON
	}
	return codecCBOR
}

// storedCell is a value in CBOR, or in JSON if it can't be that.
func storedCell(value []byte) cell {
	if c := bodyCell(value); c.kind != cellBlob {
		return c
	}
	return codecJSON.cell(value)
}

// optionalCell is the cell of a value, NULL for none.
func optionalCell(value []byte, of func([]byte) cell) cell {
	if value == nil {
		return cell{}
	}
	return of(value)
}

// cell is a value in JSON, or its bytes if it isn't of the codec. The value of an actor
// without a state is CBOR's undefined, whatever its codec.
func (s stateCodec) cell(value []byte) cell {
	var line bytes.Buffer
	if s == codecJSON && json.Compact(&line, value) == nil {
		return cell{kind: cellJSON, text: line.Bytes()}
	}
	return bodyCell(value)
}
