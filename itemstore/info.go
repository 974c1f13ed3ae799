package itemstore

import (
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/tuple"
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
	for name, err := range keys.Texts(ctx, e, tuple.NewSubspace(tuple.Tuple{rowsName, rowsVersion})) {
		if err != nil {
			return nil, fmt.Errorf("itemstore: %w", err)
		}
		names = append(names, name)
	}
	return names, nil
}
