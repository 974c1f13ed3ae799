package docstore_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/docstore"
)

// A thing is an entity of the model.
type thing struct {
	kind  docstore.Kind
	label string
	rule  int // of a category, catalogue or index: which of its kind's rules
	props docstore.Properties
}

// A model is what a store must have, in maps. What follows from documents is computed anew, each time.
type model map[docstore.Path]*thing

// rules are expressions of each kind, each with what it makes of a document.
var rules = map[docstore.Kind][]struct {
	expression string
	value      func(p docstore.Properties) (any, bool)
}{
	docstore.KindCategory: {
		{"n > 2", func(p docstore.Properties) (any, bool) { n, ok := p["n"].(int64); return n > 2, ok }},
		{"s.contains('a') || flag", func(p docstore.Properties) (any, bool) {
			s, isText := p["s"].(string)
			flag, isBool := p["flag"].(bool)
			if isText && strings.Contains(s, "a") || isBool && flag { // either decides, whatever the other is
				return true, true
			}
			return false, isText && isBool
		}},
		{"g == null", func(p docstore.Properties) (any, bool) { return p["g"] == nil, true }},
	},
	docstore.KindCatalogue: {
		{"g", func(p docstore.Properties) (any, bool) { return p["g"], true }},
		{"n % 3", func(p docstore.Properties) (any, bool) { n, ok := p["n"].(int64); return n % 3, ok }},
	},
	docstore.KindIndex: {
		{"s", func(p docstore.Properties) (any, bool) { s, ok := p["s"].(string); return s, ok }},
		{"s + ' ' + t", func(p docstore.Properties) (any, bool) {
			s, ok1 := p["s"].(string)
			t, ok2 := p["t"].(string)
			return s + " " + t, ok1 && ok2
		}},
	},
}

func (m model) clone() model {
	c := model{}
	for p, t := range m {
		d := *t
		d.props = maps.Clone(t.props)
		c[p] = &d
	}
	return c
}

// children returns the paths of what lies in a container.
func (m model) children(p docstore.Path) (all []docstore.Path) {
	for q := range m {
		if q.Parent() == p {
			all = append(all, q)
		}
	}
	slices.Sort(all)
	return all
}

// values returns what the rule of a category, catalogue or index makes of the documents that it suits.
func (m model) values(t *thing) map[docstore.Path]any {
	all := map[docstore.Path]any{}
	for p, d := range m {
		if d.kind != docstore.KindDocument || d.label != t.label {
			continue
		}
		if v, ok := rules[t.kind][t.rule].value(d.props); ok {
			all[p] = v
		}
	}
	return all
}

// members returns the documents whose value is one of a set, by path.
func (m model) members(t *thing, in func(v any) bool) (all []docstore.Path) {
	for p, v := range m.values(t) {
		if in(v) {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// groups returns the groups of a catalogue: name in a path to members.
func (m model) groups(t *thing) map[string][]docstore.Path {
	all := map[string][]docstore.Path{}
	for p, v := range m.values(t) {
		name := ""
		switch v := v.(type) {
		case nil:
			name = "~n"
		case bool:
			name = fmt.Sprintf("~b%v", v)
		case int64:
			name = fmt.Sprintf("~i%d", v)
		case float64:
			if name = fmt.Sprintf("~f%v", v); v == float64(int64(v)) {
				name = fmt.Sprintf("~i%d", int64(v))
			}
		case string:
			if name = strings.NewReplacer("~", "~7e", "/", "~2f").Replace(v); name == "" {
				name = "~s"
			}
		default:
			continue
		}
		all[name] = append(all[name], p)
		slices.Sort(all[name])
	}
	return all
}

// delete removes an entity with everything in it.
func (m model) delete(p docstore.Path) {
	for q := range m {
		if q == p || p.IsAncestorOf(q) {
			delete(m, q)
		}
	}
}

// move moves an entity with everything in it.
func (m model) move(from, to docstore.Path) {
	for q, t := range m.clone() {
		if q == from || from.IsAncestorOf(q) {
			delete(m, q)
			m[to+q[len(from):]] = t
		}
	}
}

// matchText reports whether a text matches a pattern, in the plainest way. The texts are lower-case ASCII.
func matchText(pattern, s string) bool {
	pattern = strings.ToLower(pattern)
	if pattern == "*" {
		return true
	}
	start, open := strings.CutSuffix(pattern, "*")
	literal, open2 := strings.CutPrefix(start, "*")
	switch {
	case open && open2:
		return strings.Contains(s, literal)
	case open:
		return strings.HasPrefix(s, literal)
	case open2:
		return strings.HasSuffix(s, literal)
	}
	return s == literal
}
