package inspector

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/greenroomdb/greenroom/admin"
)

// statePage is the record of an actor.
type statePage struct {
	State        *admin.State // nil if the actor has none
	Tree, Inputs *node
	Before, Text string // the state as the form sends it back, and as it shows it
}

// showState shows the state of an actor, and its schedule.
func showState(ctx context.Context, v *visit) (*shown, error) {
	s, err := get[admin.State](ctx, v, "/state", nil)
	if missing(err) {
		return &shown{Title: "State", Template: "state", Data: &statePage{}, Live: "actor"}, nil
	}
	if err != nil {
		return nil, err
	}
	p := &statePage{State: s, Tree: tree(s.State), Inputs: tree(s.Input), Before: string(s.State)}
	var text bytes.Buffer
	if json.Indent(&text, s.State, "", "  ") == nil {
		p.Text = text.String()
	}
	return &shown{Title: "State", Template: "state", Data: p, Live: "actor"}, nil
}

// A node is a part of a value of JSON.
type node struct {
	Name  string  // its key, or its number in a list; "" for the whole
	Value string  // what is shown of a value that has no parts, or how many there are
	Parts []*node // nil for a value that has none
	Kind  string  // object, array, string, number, boolean or null
}

// Bounds of a tree.
const (
	maxParts = 200 // of one node; others are counted
	maxDepth = 20
	maxNodes = 5000
)

// tree returns a value of JSON as a tree; nil for none.
func tree(value json.RawMessage) *node {
	if len(value) == 0 {
		return nil
	}
	left := maxNodes
	return branch("", value, 0, &left)
}

// branch returns the tree of a value at a depth, and takes what it has from left.
func branch(name string, value json.RawMessage, depth int, left *int) *node {
	n := &node{Name: cut(name, maxPreview)}
	*left--
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return n
	}
	var parts []*node
	total := 0
	add := func(name string, part json.RawMessage) {
		if total++; total <= maxParts && *left > 0 {
			parts = append(parts, branch(name, part, depth+1, left))
		}
	}
	switch c := value[0]; {
	case (c == '{' || c == '[') && depth >= maxDepth:
		n.Kind, n.Value = "deep", cut(string(value), maxPreview)
		return n
	case c == '{':
		var fields map[string]json.RawMessage
		if json.Unmarshal(value, &fields) != nil {
			n.Kind, n.Value = "text", whole(value)
			return n
		}
		for _, key := range sorted(fields) {
			add(key, fields[key])
		}
		n.Kind, n.Value = "object", strconv.Itoa(total)
	case c == '[':
		var items []json.RawMessage
		if json.Unmarshal(value, &items) != nil {
			n.Kind, n.Value = "text", whole(value)
			return n
		}
		for i, item := range items {
			add(strconv.Itoa(i), item)
		}
		n.Kind, n.Value = "array", strconv.Itoa(total)
	default:
		n.Kind = map[byte]string{'"': "string", 't': "boolean", 'f': "boolean", 'n': "null"}[c]
		if n.Kind == "" {
			n.Kind = "number"
		}
		n.Value = whole(value)
		return n
	}
	if more := total - len(parts); more > 0 {
		parts = append(parts, &node{Kind: "more", Value: strconv.Itoa(more) + " more"})
	}
	n.Parts = slices.Clip(parts)
	return n
}
