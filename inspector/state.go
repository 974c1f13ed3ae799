package inspector

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/admin"
)

// statePage is the record of an actor.
type statePage struct {
	State        *admin.State // nil if the actor has none
	Tree, Inputs *node
	Before       string // the state as the forms send it back
	At, Text     string // which part of it the form shows, as a pointer of JSON, and how; "" is the whole
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
	p := &statePage{State: s, Tree: tree(s.State), Inputs: tree(s.Input), Before: string(s.State), At: v.param("edit")}
	part := s.State
	keys, ok := keysOf(p.At)
	if at, end, found := locate(s.State, keys); ok && found {
		part = s.State[at:end]
	} else {
		p.At = "" // it is gone
	}
	var text bytes.Buffer
	if json.Indent(&text, part, "", "  ") == nil {
		p.Text = text.String()
	}
	if v.mayWrite() && s.Exact {
		p.Tree.point("")
	}
	return &shown{Title: "State", Template: "state", Data: p, Live: "actor"}, nil
}

// A node is a part of a value of JSON.
type node struct {
	Name  string  // its key, or its number in a list; "" for the whole
	Value string  // what is shown of a value that has no parts, or how many there are
	Parts []*node // nil for a value that has none
	Kind  string  // object, array, string, number, boolean or null
	Edit  string  // the pointer of a part that may be edited, see point
	key   string  // Name as it is
}

// point gives the parts of a tree that stand below a pointer theirs, https://www.rfc-editor.org/rfc/rfc6901. Those with long ones have none.
func (n *node) point(at string) {
	if n == nil || len(at) > maxName {
		return
	}
	n.Edit = at
	for _, part := range n.Parts {
		if part.Kind != "more" {
			part.point(at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part.key))
		}
	}
}

// keysOf returns the keys that a pointer of JSON has, none for that of the whole value.
func keysOf(pointer string) (keys []string, ok bool) {
	if pointer == "" {
		return nil, true
	}
	for _, key := range strings.Split(pointer, "/")[1:] {
		keys = append(keys, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
	}
	return keys, pointer[0] == '/'
}

// locate returns where the part with these keys, from the outermost on, stands in a value of JSON: [at, end). Of keys that are there twice the last one counts.
func locate(value json.RawMessage, keys []string) (at, end int, ok bool) {
	if len(keys) == 0 {
		return 0, len(value), true
	}
	d := json.NewDecoder(bytes.NewReader(value))
	open, err := d.Token()
	if err != nil {
		return 0, 0, false
	}
	for i := 0; d.More(); i++ {
		name := strconv.Itoa(i)
		if open == json.Delim('{') {
			token, err := d.Token()
			if err != nil {
				return 0, 0, false
			}
			name, _ = token.(string)
		}
		var part json.RawMessage
		if d.Decode(&part) != nil {
			return 0, 0, false
		}
		if name == keys[0] {
			after := int(d.InputOffset())
			from, to, found := locate(part, keys[1:])
			at, end, ok = after-len(part)+from, after-len(part)+to, found
		}
	}
	return at, end, ok
}

// replaced returns a value of JSON with another one in the place of the part with a pointer.
func replaced(value json.RawMessage, pointer string, by json.RawMessage) (json.RawMessage, bool) {
	keys, ok := keysOf(pointer)
	at, end, found := locate(value, keys)
	return slices.Concat(value[:at], by, value[end:]), ok && found
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
	n := &node{Name: cut(name, maxPreview), key: name}
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
