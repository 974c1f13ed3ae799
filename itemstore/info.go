package itemstore

import (
	"bytes"
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
)

// A SchemaInfo says what a version of a schema declares, for what shows it.
type SchemaInfo struct {
	Version int        `json:"version"`
	Types   []TypeInfo `json:"types"`
}

// A TypeInfo is an item type.
type TypeInfo struct {
	Name   string      `json:"name"`
	Paths  []string    `json:"paths"`           // key paths with their options, the primary one first
	TTL    string      `json:"ttl,omitempty"`   // as in the tag
	Codec  bool        `json:"codec,omitempty"` // the type has a codec of its own
	Fields []FieldInfo `json:"fields"`          // that are stored; metadata isn't
}

// A FieldInfo is a field of an item type.
type FieldInfo struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"` // text, bytes, uuid, an integer or a float as Go calls it, bool, time, duration, object, list, [] and the kind of its elements, or any; a pointer has a star
	Required   bool   `json:"required,omitempty"`
	Default    string `json:"default,omitempty"` // as in the tag
	Make       string `json:"make,omitempty"`    // uuid, rand53 or sequence
	Valid      string `json:"valid,omitempty"`   // a condition
	Deprecated bool   `json:"deprecated,omitempty"`
}

// Names returns the names of the item stores on an engine, in their order.
func Names(ctx context.Context, e kv.Engine) (names []string, err error) {
	start, end := allStores.Range()
	for {
		var row []byte
		for e, err := range e.Scan(ctx, kv.Range{Start: start, End: end, Limit: 1}) {
			if err != nil {
				return nil, fmt.Errorf("itemstore: %w", err)
			}
			row = bytes.Clone(e.Key)
		}
		if row == nil {
			return names, nil
		}
		name, err := storeOf(row)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
		start = after(newSpace(name).sub.Bytes())
	}
}
