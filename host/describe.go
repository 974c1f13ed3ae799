package host

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A TypeInfo says what others may call of the actors of a type.
type TypeInfo struct {
	Name    string       `json:"name"`
	Version string       `json:"version,omitempty"`
	Actions []ActionInfo `json:"actions"`         // those that are declared, by their names
	Other   bool         `json:"other,omitempty"` // the type takes actions that aren't declared, too: Type.Other
}

// An ActionInfo says what an action takes and returns, as JSON Schema (https://json-schema.org/draft/2020-12) of the values in JSON. An empty schema is
// anything, and nil nothing: an action without arguments, or a Command.
type ActionInfo struct {
	Name   string         `json:"name"`
	Args   map[string]any `json:"args"`
	Result map[string]any `json:"result"`
}

// Describe returns what others may call of h's types, in the order of their names: for clients in other languages. Actions of WebAssembly modules take and return anything.
func (s *catalog) Describe() []TypeInfo {
	all := []TypeInfo{}
	for _, name := range s.Types() {
		k := s.kind(name)
		if k == nil {
			continue // it was replaced meanwhile
		}
		info := TypeInfo{Name: name, Version: k.Version, Actions: []ActionInfo{}, Other: k.Other != nil}
		for _, a := range k.actions {
			info.Actions = append(info.Actions, ActionInfo{a.Name, schemaOf(a.in), schemaOf(a.out)})
		}
		slices.SortFunc(info.Actions, func(a, b ActionInfo) int { return cmp.Compare(a.Name, b.Name) })
		all = append(all, info)
	}
	return all
}

// schemaOf returns the schema of what an action takes or returns, nil for nothing.
func schemaOf(t reflect.Type) map[string]any {
	if t == nil || t == reflect.TypeFor[struct{}]() {
		return nil
	}
	return cbor.Schema(t)
}
