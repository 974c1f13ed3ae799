package itemstore

import (
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/tuple"
)

// A keyPath is a key path of an item type. What is exported stands in the catalog.
type keyPath struct {
	Number   uint64
	Template string   // in a catalog with the stored names of the fields
	Kinds    []idKind // of the IDs, one for each segment
	Removed  bool     `json:",omitempty"` // this version lacks it
	pathOptions

	segs []part
}

// A part is a segment of a template.
type part struct {
	ns  string
	ref []string // the field that the ID is, its names by dots; nil without an ID
	pos int      // of the segment in the text
}

// pathOptions are what stands behind a template.
type pathOptions struct {
	Ref       bool `json:",omitempty"`
	NoSync    bool `json:",omitempty"`
	Versioned bool `json:",omitempty"`
}

// index reports whether the template is one of an index: listed beside its group, and not unique.
func (t *keyPath) index() bool { return len(t.segs) > 1 && t.segs[1].ns[0] == '@' }

// shape is the sequence of the namespaces, with where IDs are.
func (t *keyPath) shape() string {
	var b strings.Builder
	for _, s := range t.segs {
		b.WriteString("/" + s.ns)
		if s.ref != nil {
			b.WriteString("-")
		}
	}
	return b.String()
}

// renamed returns segments whose fields have other names, and the template of them.
func renamed(segs []part, name func(string) string) (list []part, template string) {
	for _, s := range segs {
		template += "/" + s.ns
		if s.ref != nil {
			s.ref = append([]string{name(s.ref[0])}, s.ref[1:]...)
			template += "-:" + strings.Join(s.ref, ".")
		}
		list = append(list, s)
	}
	return list, template
}

// parseTemplate takes one key path of a type to pieces: a template, and the words of its options behind it.
func parseTemplate(typ, text string) (*keyPath, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		words = []string{""}
	}
	t := &keyPath{Template: words[0]}
	fail := func(rule string, pos int, format string, args ...any) error {
		return &TemplateError{typ, t.Template, rule, pos, fmt.Sprintf(format, args...)}
	}
	for _, w := range words[1:] {
		switch w {
		case "ref":
			t.Ref = true
		case "nosync":
			t.NoSync = true
		case "versioned":
			t.Versioned = true
		default:
			return nil, fail("R1", len(t.Template), "unknown option %q", clip(w))
		}
	}
	if !strings.HasPrefix(t.Template, "/") {
		return nil, fail("R1", 0, "a template begins with a slash")
	}
	pos := 1
	for i, s := range strings.Split(t.Template[1:], "/") {
		p, rule, at, what := parsePart(s, i == 1)
		if rule != "" {
			return nil, fail(rule, pos+at, "%s", what)
		}
		p.pos = pos
		t.segs = append(t.segs, p)
		pos += len(s) + 1
	}
	for i, p := range t.segs {
		switch {
		case p.ref != nil:
		case i == 0:
			return nil, fail("R3", p.pos, "the first segment is the group, and %s has no ID", p.ns)
		case i < len(t.segs)-1:
			return nil, fail("R4", p.pos, "only the last segment may lack an ID, and %s has none", p.ns)
		}
	}
	if t.index() {
		t.NoSync = true
	}
	return t, nil
}

// parsePart takes a segment to pieces. Of one that breaks a rule it returns the rule, the byte and the reason.
func parsePart(s string, mayIndex bool) (p part, rule string, at int, what string) {
	if s == "" {
		return p, "R1", 0, "an empty segment"
	}
	ns, ref, has := strings.Cut(s, "-:")
	if !has && strings.Contains(s, "-") {
		ns, _, _ = strings.Cut(s, "-")
		if namespace(ns, mayIndex) == len(ns) {
			return p, "R5", len(ns) + 1, "an ID is a colon and a field"
		}
	}
	if at := namespace(ns, mayIndex); at < len(ns) || ns == "" || ns == "@" {
		return p, "R2", at, "a namespace has letters and underscores"
	}
	if p.ns = ns; !has {
		return p, "", 0, ""
	}
	p.ref = strings.Split(ref, ".")
	at = len(ns) + len("-:")
	for _, name := range p.ref {
		// The stored name of a field whose name another one had is the name with apostrophes.
		if !identifier(strings.TrimRight(name, "'")) {
			return p, "R5", at, "an ID is a colon and the name of a field, or several by dots"
		}
		at += len(name) + 1
	}
	return p, "", 0, ""
}

// namespace returns how many bytes of s belong in a namespace.
func namespace(s string, mayIndex bool) int {
	for i := range len(s) {
		if !namespaceByte(s[i]) && (s[i] != '@' || i > 0 || !mayIndex) {
			return i
		}
	}
	return len(s)
}

func identifier(s string) bool {
	for i := range len(s) {
		if !namespaceByte(s[i]) && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}

// shapes knows the kinds of the IDs at every place of the key paths of a schema: it is
// a tree of namespaces. Within one store a place has one kind (rule R9), so that every
// path and every prefix means one thing.
type shapes struct {
	kind     idKind
	ref      bool   // a key path with that option ends here
	first    string // the type that gave it
	children map[string]*shapes
}

func newShapes() *shapes { return &shapes{children: map[string]*shapes{}} }

// add notes the kinds of a template whose fields are known.
func (s *shapes) add(typ string, t *keyPath) error {
	for i, p := range t.segs {
		c := s.children[p.ns]
		if c == nil {
			c = newShapes()
			s.children[p.ns] = c
		}
		if s = c; p.ref == nil {
			continue
		}
		if s.kind == idNone {
			s.kind, s.first = t.Kinds[i], typ
		}
		if s.kind != t.Kinds[i] {
			return &TemplateError{typ, t.Template, "R9", p.pos, fmt.Sprintf("the ID of %s is %s here and %s in %s", p.ns, t.Kinds[i], s.kind, s.first)}
		}
	}
	s.ref = s.ref || t.Ref
	return nil
}

// resolve packs a path. A missing last ID is left out of a prefix, and null in a whole path.
func (s *shapes) resolve(p Path, whole bool) (resolved, error) {
	var room [8]segment
	segs, err := p.segments(room[:0])
	if err != nil {
		return resolved{}, err
	}
	r := resolved{key: make([]byte, 0, len(p)+2*len(segs)+8), index: len(segs) > 1 && segs[1].ns[0] == '@'}
	for i, seg := range segs {
		c := s.children[seg.ns]
		if c == nil {
			return resolved{}, fmt.Errorf("%w: %q: no key path of the schema has %s there", ErrPath, clip(string(p)), seg.ns)
		}
		s = c
		r.key = tuple.AppendString(r.key, seg.ns)
		switch {
		case seg.has:
			if r.key, err = s.kind.pack(r.key, seg.id); err != nil {
				return resolved{}, fmt.Errorf("%w: %q: %s: %w", ErrPath, clip(string(p)), seg.ns, err)
			}
		case whole:
			r.key = appendElement(r.key, nil)
		}
		if i == 0 {
			r.group = len(r.key)
		}
	}
	r.ref = s.ref
	return r, nil
}

// item packs the path of an item, which isn't in an index.
func (s *shapes) item(p Path) ([]byte, error) {
	at, err := s.resolve(p, true)
	if err == nil && at.index {
		err = fmt.Errorf("%w: %q: an index is listed", ErrPath, clip(string(p)))
	}
	return at.key, err
}

// A resolved path is its packed elements.
type resolved struct {
	key   []byte
	group int // the length of the first segment in it
	index bool
	ref   bool // there may be a row that leads to another
}
