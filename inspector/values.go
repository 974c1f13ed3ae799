package inspector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/visible"
)

// Bounds of what is shown of a value, in bytes.
const (
	maxPreview = 200
	maxWhole   = 64 << 10
)

// functions are what templates call.
var functions = template.FuncMap{
	"name": nameOf, "link": linkOf, "bytes": size, "time": shortTime, "preview": preview, "whole": whole, "ms": millis,
	"number": grouped, "deref": deref, "indent": indented, "linked": linked,
}

// deref returns what a pointer of the API points to, "" for nil.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// nameOf is what an actor is called: its name, or its id if it has none.
func nameOf(a *admin.Actor) string {
	if a.Name == nil {
		return "id:" + a.ID
	}
	return shownText(*a.Name)
}

// linkOf returns the path of a page of an actor. It has the id, since a name may have anything in it.
func linkOf(id string, rest ...string) string {
	path := "/actors/id:" + id
	for _, r := range rest {
		path += "/" + segment(r)
	}
	return path
}

// maxName bounds the name of a table, a column or a part that the page has links to, in bytes.
const maxName = 1000

// linked reports whether a name may stand in links, which are on a page as often as it is.
func linked(name string) bool { return len(name) <= maxName }

// marked begins a segment of a path that would be another one, or none, without it.
const marked = "~"

// segment returns a name as a segment of a path. An empty one and those of dots, which browsers resolve however they are escaped, are marked, and so is one that
// begins with the mark.
func segment(name string) string {
	if name == "" || name == "." || name == ".." || strings.HasPrefix(name, marked) {
		name = marked + name
	}
	return url.PathEscape(name)
}

// nameIn returns the name that a segment says, when it is unescaped.
func nameIn(segment string) string { return strings.TrimPrefix(segment, marked) }

// size is a number of bytes in words: an int, an int64 or a *int.
func size(n any) string {
	var b float64
	switch v := n.(type) {
	case int:
		b = float64(v)
	case int64:
		b = float64(v)
	case *int:
		if v == nil {
			return ""
		}
		b = float64(*v)
	}
	if b < 1024 {
		return fmt.Sprintf("%.0f B", b)
	}
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if b /= 1024; b < 1024 {
			return fmt.Sprintf("%.3g %s", b, unit)
		}
	}
	return fmt.Sprintf("%.3g TiB", b/1024)
}

// grouped is a whole number whose digits stand in groups of three.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// millis is a number of milliseconds in words.
func millis(n int64) string {
	return (time.Duration(n) * time.Millisecond).Round(time.Millisecond).String()
}

// shortTime is a time as people read it, "" for none. An actor that must be woken as soon as it isn't awake any more is stored with the first millisecond there is.
func shortTime(t admin.Time) string {
	if strings.HasPrefix(string(t), "1970-01-01T00:00:00.001") {
		return "at once"
	}
	return strings.TrimSuffix(strings.Replace(string(t), "T", " ", 1), "Z")
}

// shownText is text of which all shows; see package visible.
func shownText(text string) string { return visible.Text(text, "\n\t") }

// cut returns the beginning of text, and how long all of it is if it is longer.
func cut(text string, most int) string {
	if len(text) <= most {
		return shownText(text)
	}
	at := most
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return shownText(text[:at]) + "… (" + size(len(text)) + ")"
}

// preview is the beginning of a value of JSON, or of a text, in one line.
func preview(value any) string { return strings.ReplaceAll(cut(plain(value), maxPreview), "\n", " ") }

// whole is a value of JSON, or a text, as far as it is shown.
func whole(value any) string { return cut(plain(value), maxWhole) }

// plain is a value that a template has.
func plain(value any) string {
	switch v := value.(type) {
	case json.RawMessage:
		return string(v)
	case string:
		return v
	case *string:
		return deref(v)
	case []byte:
		return fmt.Sprintf("%x", v)
	}
	return fmt.Sprint(value)
}

// maxNested is how deep a value may be that is indented: the blanks grow with the square of the depth.
const maxNested = 100

// nested returns how deep the arrays and objects of a value of JSON are.
func nested(value json.RawMessage) (most int) {
	depth, text := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			depth++
			most = max(most, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return most
}

// indented is a value of JSON over several lines, as far as it is shown. One that is large or deep is in one line.
func indented(value json.RawMessage) string {
	var b bytes.Buffer
	if len(value) > maxWhole || nested(value) > maxNested || json.Indent(&b, value, "", "  ") != nil {
		return whole(value)
	}
	return cut(b.String(), maxWhole)
}

// sorted returns the keys of a map in their order.
func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// quoted is a name in SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// stringOf is what a text of JSON says, and any other value as it stands.
func stringOf(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) != nil || len(value) > 0 && value[0] != '"' {
		return string(value)
	}
	return s
}

// intOf is an integer of JSON, 0 for any other value.
func intOf(value json.RawMessage) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
