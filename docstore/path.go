package docstore

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxPath bounds a path as it stands in keys, in bytes.
	maxPath = 2000
	// maxVirtual bounds a path that is looked up: below a category, the whole path of a document may be one name.
	maxVirtual = 8000
	// maxLabel bounds the label of a type, and maxGroup the key of a group.
	maxLabel = 200
	maxGroup = 1000
)

// Root is the path of the container that all others lie in.
const Root Path = "/"

// A Path is where an entity lies: "/users/john". It is absolute, and ends without a slash. In names, the four
// characters ~ / \ and NUL are written ~7e ~2f ~5c ~00; all others stand for themselves, so that "." is a name like
// others. The key of a group in a catalogue that is not a text begins with ~: ~i30 is the integer, ~f1.5 the
// number, ~btrue the truth value, ~n null, and ~s the empty text.
type Path string

var (
	nameEscapes   = strings.NewReplacer("~", "~7e", "/", "~2f", `\`, "~5c", "\x00", "~00")
	nameUnescapes = strings.NewReplacer("~7e", "~", "~2f", "/", "~5c", `\`, "~00", "\x00")
)

// Join returns the path of names, which it escapes: Join("users", "a/b") is "/users/a~2fb". Without names it is Root.
// Whether it is a path shows when it is used: an empty name can't be part of one.
func Join(names ...string) Path {
	p := Root
	for _, n := range names {
		p = p.Child(n)
	}
	return p
}

// Child returns the path of the entity with a name, which it escapes, in p.
func (p Path) Child(name string) Path { return p.below(nameEscapes.Replace(name)) }

// below returns the path of an escaped name in p.
func (p Path) below(segment string) Path {
	return Path(strings.TrimSuffix(string(p), "/") + "/" + segment)
}

// Parent returns the path of the container that p lies in. That of Root is Root.
func (p Path) Parent() Path {
	if i := strings.LastIndexByte(string(p), '/'); i > 0 {
		return p[:i]
	}
	return Root
}

// Name returns the last name of the path without escapes; that of Root is empty.
func (p Path) Name() string { return nameUnescapes.Replace(p.segment()) }

// segment returns the last name as it stands in the path.
func (p Path) segment() string { return string(p[strings.LastIndexByte(string(p), '/')+1:]) }

// Names returns all names without escapes, from the top down.
func (p Path) Names() []string {
	if p == Root || p == "" {
		return nil
	}
	names := strings.Split(string(p[1:]), "/")
	for i, n := range names {
		names[i] = nameUnescapes.Replace(n)
	}
	return names
}

// Depth returns how many names the path has; that of Root is 0.
func (p Path) Depth() int {
	if p == Root {
		return 0
	}
	return strings.Count(string(p), "/")
}

// Sibling returns the path of the entity with a name, which it escapes, beside p. Root has none: ErrPath.
func (p Path) Sibling(name string) (Path, error) {
	if p == Root {
		return "", fmt.Errorf("%w: the root has no sibling", ErrPath)
	}
	return p.Parent().Child(name), nil
}

// Ancestor returns the path n names above p, which is p for 0. One above the root is ErrPath.
func (p Path) Ancestor(n int) (Path, error) {
	if n < 0 || n > p.Depth() {
		return "", fmt.Errorf("%w: %s has no ancestor %d", ErrPath, clip(p), n)
	}
	for range n {
		p = p.Parent()
	}
	return p, nil
}

// IsAncestorOf reports whether other lies in p, at whatever depth. No path is its own ancestor.
func (p Path) IsAncestorOf(other Path) bool {
	return len(other) > len(p) && strings.HasPrefix(string(other), strings.TrimSuffix(string(p), "/")+"/")
}

// check returns why p can't be looked up.
func (p Path) check() error {
	what := ""
	switch {
	case len(p) > maxVirtual:
		return fmt.Errorf("%w: a path of %d bytes, the bound is %d", ErrTooLarge, len(p), maxVirtual)
	case p == Root:
		return nil
	case !strings.HasPrefix(string(p), "/"):
		what = "it doesn't begin with a slash"
	case !utf8.ValidString(string(p)):
		what = "it is not UTF-8"
	case strings.ContainsAny(string(p), "\\\x00"):
		what = `\ is written ~5c, and NUL ~00`
	default:
		for s := range strings.SplitSeq(string(p[1:]), "/") {
			if s == "" {
				what = "a name is empty"
			} else if !isGroup(s) && nameEscapes.Replace(nameUnescapes.Replace(s)) != s {
				what = "~ is written ~7e"
			}
		}
	}
	if what != "" {
		return fmt.Errorf("%w: %q: %s", ErrPath, clip(p), what)
	}
	return nil
}

// checkNew returns why an entity can't lie at p.
func (p Path) checkNew() error {
	if err := p.check(); err != nil {
		return err
	}
	if n := len(escape(string(p))); n > maxPath {
		return fmt.Errorf("%w: a path that takes %d bytes in keys, the bound is %d", ErrTooLarge, n, maxPath)
	}
	for s := range strings.SplitSeq(string(p), "/") {
		if isGroup(s) {
			return fmt.Errorf("%w: %q: ~ is written ~7e", ErrPath, clip(p))
		}
	}
	return nil
}

// isGroup reports whether a name in a path is the key of a group that is not a text; see Path.
func isGroup(segment string) bool {
	return len(segment) > 1 && segment[0] == '~' && strings.IndexByte("ifbns", segment[1]) >= 0
}

// checkLabel returns why a label can't be that of a type.
func checkLabel(label string) error {
	switch {
	case label == "" || !utf8.ValidString(label):
		return fmt.Errorf("%w: the label %q is not a text of UTF-8", ErrValue, clip(label))
	case len(label) > maxLabel:
		return fmt.Errorf("%w: a label of %d bytes, the bound is %d", ErrTooLarge, len(label), maxLabel)
	}
	return nil
}
