package cbor_test

import (
	"encoding/json"
	"math/big"
	"reflect"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

type tree struct {
	Name string  `json:"name"`
	Left *tree   `json:"left,omitempty"`
	More []*tree `json:"more"`
}

type inner struct {
	ID   int `cbor:"id"`
	Over string
}

type point struct{ X int }

// TestSchema: the schemas of types, as they stand in JSON.
func TestSchema(t *testing.T) {
	for _, tt := range []struct {
		of   any
		want string
	}{
		{true, `{"type":"boolean"}`},
		{uint8(1), `{"type":"integer"}`},
		{float32(1), `{"type":"number"}`},
		{"", `{"type":"string"}`},
		{[]byte{}, `{"contentEncoding":"base64","type":"string"}`},
		{time.Time{}, `{"anyOf":[{"format":"date-time","type":"string"},{"type":"null"}]}`},
		{new(time.Time), `{"anyOf":[{"format":"date-time","type":"string"},{"type":"null"}]}`},
		{new(big.Int), `{"anyOf":[{"type":"integer"},{"type":"null"}]}`},
		{[]any{}, `{"items":{},"type":"array"}`},
		{[2]int{}, `{"items":{"type":"integer"},"type":"array"}`},
		{map[string]int{}, `{"additionalProperties":{"type":"integer"},"type":"object"}`},
		{map[int]int{}, `{}`},
		{struct{}{}, `{"properties":{},"type":"object"}`},
		{struct {
			inner
			Over int64
			Note *string `json:"note,omitzero"`
			Skip int     `json:"-"`
			low  int
		}{}, `{"properties":{"Over":{"type":"integer"},"id":{"type":"integer"},"note":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["id","Over"],"type":"object"}`},
		{struct{ A, B point }{}, `{"$defs":{"point":{"properties":{"X":{"type":"integer"}},"required":["X"],"type":"object"}},"properties":{"A":{"$ref":"#/$defs/point"},"B":{"$ref":"#/$defs/point"}},"required":["A","B"],"type":"object"}`},
		{tree{}, `{"$defs":{"tree":{"properties":{"left":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]},"more":{"items":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]},"type":"array"},"name":{"type":"string"}},"required":["name","more"],"type":"object"}},"$ref":"#/$defs/tree"}`},
	} {
		got, err := json.Marshal(cbor.Schema(reflect.TypeOf(tt.of)))
		if err != nil || string(got) != tt.want {
			t.Errorf("%T: got %s, want %s; %v", tt.of, got, tt.want, err)
		}
	}
}
