package itemstore

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/tuple"
)

// A Path says where an item lies, or with its last segments left out, what a list
// begins with:
//
//	/course-MATH321/year-2023/quarter-1
//
// A segment is a namespace of letters and underscores, a hyphen, and an ID; only the
// last one may lack the ID. The first segment is the group. In an ID that is a text,
// a slash is written %/ and a percent sign %%; a number is decimal, so that −5 in year
// is /year--5; bytes and UUIDs are base64url without padding (RFC 4648 §5).
//
// Any string can be converted to a Path: whatever takes one checks it, and returns
// ErrPath for one that isn't a path, or that no item type of the schema can have.
// Paths that are equal as strings are the same path, and others are not.
type Path string

// At returns the path of the segments that namespaces and IDs make in turn; the last ID may be missing:
//
//	At("course", "MATH321", "year", 2023, "syllabus")
//
// An ID is a string, an integer of any kind, a []byte, a [16]byte or a type of one of
// those. Another one makes a path that is refused where it is used.
func At(namespacesAndIDs ...any) Path {
	const refused = "%!" // an escape that isn't one
	var b strings.Builder
	for i, el := range namespacesAndIDs {
		text := fmt.Sprint(el)
		if i%2 == 0 {
			b.WriteByte('/')
			if strings.ContainsAny(text, "-/") {
				text = refused
			}
		} else {
			b.WriteByte('-')
			id, kind := elementOf(el)
			if text = textOf(id); kind == idNone {
				text = refused
			}
		}
		b.WriteString(text)
	}
	return Path(b.String())
}

// ParsePath returns s as a Path if it has the form of one, else an error that wraps ErrPath.
func ParsePath(s string) (Path, error) {
	if _, err := Path(s).segments(nil); err != nil {
		return "", err
	}
	return Path(s), nil
}

// Group returns the first segment, or "" of what isn't a path.
func (p Path) Group() Path {
	segs, err := p.segments(nil)
	if err != nil {
		return ""
	}
	return Path("/" + segs[0].ns + "-" + escape(segs[0].id))
}

// String returns the path as it is written.
func (p Path) String() string { return string(p) }

// A segment is one of a path, its ID as a text without escapes.
type segment struct {
	ns, id string
	has    bool // an ID
}

// bad is the error of a path that isn't one from byte at on.
func (p Path) bad(at int, what string) error {
	return fmt.Errorf("%w: %q at byte %d: %s", ErrPath, clip(string(p)), at, what)
}

// segments takes a path to pieces, and appends them to segs.
func (p Path) segments(segs []segment) ([]segment, error) {
	if p == "" || p[0] != '/' {
		return nil, p.bad(0, "a path begins with a slash")
	}
	if !utf8.ValidString(string(p)) {
		return nil, p.bad(0, "a path is UTF-8")
	}
	for i := 1; ; i++ {
		start := i
		for i < len(p) && p[i] != '/' && p[i] != '-' {
			if !namespaceByte(p[i]) && (i > start || p[i] != '@') {
				return nil, p.bad(i, "a namespace has letters and underscores")
			}
			i++
		}
		s := segment{ns: string(p[start:i])}
		if s.ns == "" || s.ns == "@" {
			return nil, p.bad(start, "a segment begins with a namespace")
		}
		if s.has = i < len(p) && p[i] == '-'; s.has {
			var err error
			if s.id, i, err = p.unescape(i + 1); err != nil {
				return nil, err
			}
			if s.id == "" {
				return nil, p.bad(i, "the ID is empty")
			}
		}
		segs = append(segs, s)
		if i == len(p) {
			break
		}
		if !s.has {
			return nil, p.bad(i, "only the last segment may lack an ID")
		}
	}
	if !segs[0].has {
		return nil, p.bad(len(p), "the first segment is the group and has an ID")
	}
	return segs, nil
}

// unescape reads the ID that begins at byte i, and returns it with where it ends.
func (p Path) unescape(i int) (string, int, error) {
	end := i
	for end < len(p) && p[end] != '/' {
		if p[end] == '%' {
			if end++; end == len(p) || p[end] != '/' && p[end] != '%' {
				return "", 0, p.bad(end-1, "% is written %% in an ID, and / is %/")
			}
		}
		end++
	}
	raw := string(p[i:end])
	if !strings.Contains(raw, "%") {
		return raw, end, nil
	}
	return unescaper.Replace(raw), end, nil
}

var (
	escaper   = strings.NewReplacer("%", "%%", "/", "%/")
	unescaper = strings.NewReplacer("%%", "%", "%/", "/")
)

func escape(id string) string { return escaper.Replace(id) }

func namespaceByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// clip cuts a text from outside for an error.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// An idKind is what the IDs of one place in a path are.
type idKind string

const (
	idNone   idKind = ""       // no ID there
	idText   idKind = "text"   // sorted by bytes
	idNumber idKind = "number" // of 64 bits with a sign or without, sorted as numbers
	idBytes  idKind = "bytes"
	idUUID   idKind = "uuid"
)

// parseNumber returns the number that id is, as it is written in paths, if it fits.
func parseNumber(id string) (n int64, ok bool) {
	n, err := strconv.ParseInt(id, 10, 64)
	var room [20]byte
	return n, err == nil && string(strconv.AppendInt(room[:0], n, 10)) == id
}

// pack appends an ID of kind k, given as it stands in a path but for the escapes.
func (k idKind) pack(dst []byte, id string) ([]byte, error) {
	switch k {
	case idText:
		return tuple.AppendString(dst, id), nil
	case idNumber:
		if n, ok := parseNumber(id); ok {
			return tuple.AppendInt(dst, n), nil
		}
		if n, err := strconv.ParseUint(id, 10, 64); err == nil && strconv.FormatUint(n, 10) == id {
			return tuple.AppendUint(dst, n), nil
		}
		return dst, fmt.Errorf("%q is not a decimal number of 64 bits", clip(id))
	case idBytes, idUUID:
		b, err := base64.RawURLEncoding.Strict().DecodeString(id)
		switch {
		case err != nil || strings.ContainsAny(id, "\r\n"):
			return dst, fmt.Errorf("%q is not base64url without padding", clip(id))
		case k == idBytes:
			return tuple.AppendBytes(dst, b), nil
		case len(b) == len(tuple.UUID{}):
			return tuple.AppendUUID(dst, tuple.UUID(b)), nil
		}
		return dst, fmt.Errorf("%q is not a UUID", clip(id))
	}
	return dst, fmt.Errorf("no ID is known there")
}

// textOf returns an ID as it stands in a path.
func textOf(el tuple.Element) string {
	switch v := el.(type) {
	case string:
		return escape(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case []byte:
		return base64.RawURLEncoding.EncodeToString(v)
	case tuple.UUID:
		return base64.RawURLEncoding.EncodeToString(v[:])
	}
	return ""
}

// unpackPath returns the path that stands packed in b, all of it.
func unpackPath(b []byte) (Path, error) {
	var room [128]byte // so that most paths are one allocation
	s := room[:0]
	for more := true; more; more = len(b) > 0 {
		ns, rest, ok := tuple.NextString(append(s, '/'), b)
		err := tuple.ErrMalformed
		if ok {
			s, b, err = appendID(ns, rest)
		}
		if err != nil {
			return "", fmt.Errorf("itemstore: path of a row: %w: %w", err, ErrCorrupt)
		}
	}
	return Path(s), nil
}

// appendID appends the ID that b begins with as it stands in a path, and returns what follows it in b.
func appendID(dst, b []byte) (_, rest []byte, err error) {
	with := append(dst, '-')
	if s, rest, ok := tuple.NextString(with, b); ok {
		if id := s[len(with):]; bytes.ContainsAny(id, "%/") {
			s = append(with, escape(string(id))...)
		}
		return s, rest, nil
	}
	if n, rest, err := tuple.NextInt(b); err == nil {
		return strconv.AppendInt(with, n, 10), rest, nil
	}
	el, rest, err := tuple.Next(b)
	if el != nil {
		dst = append(with, textOf(el)...)
	}
	return dst, rest, err
}

// idKindOf returns the kind of the IDs that fields of a Go type make.
func idKindOf(t reflect.Type) idKind {
	switch k := t.Kind(); {
	case k == reflect.String:
		return idText
	case k >= reflect.Int && k <= reflect.Uint64 && t != reflect.TypeFor[time.Duration]():
		return idNumber
	case k == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return idBytes
	case k == reflect.Array && t.Elem().Kind() == reflect.Uint8 && t.Len() == len(tuple.UUID{}):
		return idUUID
	}
	return idNone
}

// elementOf returns the tuple element that v is as an ID, with its kind: idNone if v can't be one.
func elementOf(v any) (tuple.Element, idKind) {
	rv := reflect.ValueOf(v)
	if !rv.IsValid() {
		return nil, idNone
	}
	kind := idKindOf(rv.Type())
	switch kind {
	case idText:
		return rv.String(), kind
	case idBytes:
		return rv.Bytes(), kind
	case idUUID:
		var u tuple.UUID
		reflect.Copy(reflect.ValueOf(u[:]), rv)
		return u, kind
	case idNumber:
		if rv.CanInt() {
			return rv.Int(), kind
		}
		if n := rv.Uint(); n > 1<<63-1 {
			return n, kind
		}
		return int64(rv.Uint()), kind
	}
	return nil, idNone
}
