package actorstore

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/tuple"
)

// Describe returns a logical key in words, as in the table of keys.go:
// "sqlite/chunks/main/17", "user/greeting", "workflow/history/0/2~5/3". Different
// keys of one layout have different words. A key that no layout has is "unknown/" and its
// bytes in hexadecimal.
func Describe(key []byte) string {
	for l := range Layout(layouts) {
		if words := l.describe(key); words != "" {
			return words
		}
	}
	return "unknown/" + hex.EncodeToString(key)
}

// describe returns "" for a key that no namespace of the layout has.
func (l Layout) describe(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	switch rest := key[1:]; key[0] {
	case NamespacePersist:
		return describeSingle("persist", rest)
	case NamespaceConnections:
		return "connections/" + quote(rest)
	case NamespaceInspector:
		return describeSingle("inspector", rest)
	case NamespaceUser:
		return "user/" + quote(rest)
	case NamespaceHost:
		return describeHost(rest)
	}
	for namespace := NamespaceQueue; namespace <= NamespaceSQLite; namespace++ {
		if rest, ok := l.cut(key, namespace); ok {
			return describeIn(namespace, rest)
		}
	}
	return ""
}

// describeIn describes what follows the prefix of a namespace.
func describeIn(namespace byte, rest []byte) string {
	switch namespace {
	case NamespaceQueue:
		if len(rest) == 8 {
			return "queue/messages/" + strconv.FormatUint(binary.BigEndian.Uint64(rest), 10)
		}
		return ""
	case NamespaceQueueMetadata:
		return describeSingle("queue/metadata", rest)
	case NamespaceWorkflow:
		return describeWorkflow(rest)
	case NamespaceTraces:
		return describeTraces(rest)
	}
	return describeFile(rest)
}

// describeSingle is for namespaces of one key.
func describeSingle(words string, rest []byte) string {
	if len(rest) > 0 {
		return ""
	}
	return words
}

func describeFile(rest []byte) string {
	if len(rest) < 2 {
		return ""
	}
	kind, rest := rest[0], rest[1:]
	known := int(rest[0]) < len(fileNames)
	switch {
	case kind == sqliteMetadata && known && len(rest) == 1:
		return "sqlite/metadata/" + fileNames[rest[0]]
	case kind == sqliteChunks && known && len(rest) == 5:
		return "sqlite/chunks/" + fileNames[rest[0]] + "/" + chunkNumber(rest[1:])
	case kind == sqliteMetadata && strings.IndexByte(string(rest), 0) < 0:
		return "sqlite/named/metadata/" + quote(rest)
	case kind == sqliteChunks:
		// The name has no NUL; the number behind it may.
		name, number, ok := strings.Cut(string(rest), "\x00")
		if ok && name != "" && len(number) == 4 {
			return "sqlite/named/chunks/" + quote([]byte(name)) + "/" + chunkNumber([]byte(number))
		}
	}
	return ""
}

func chunkNumber(b []byte) string {
	return strconv.FormatUint(uint64(binary.BigEndian.Uint32(b)), 10)
}

// workflowFields are the names of the fields (3, 1) to (3, 6).
var workflowFields = [...]string{"state", "output", "error", "version", "input", "waits"}

func describeWorkflow(rest []byte) string {
	t, err := tuple.Unpack(rest)
	if err != nil || len(t) < 2 {
		return ""
	}
	switch t[0] {
	case int64(1):
		if n, ok := index(t[1]); ok && len(t) == 2 {
			return "workflow/names/" + n
		}
	case int64(2):
		return describeLocation(t[1:])
	case int64(3):
		if i, ok := t[1].(int64); ok && len(t) == 2 && i >= 1 && i <= int64(len(workflowFields)) {
			return "workflow/fields/" + workflowFields[i-1]
		}
	case int64(4):
		if s, ok := t[1].(string); ok && len(t) == 2 {
			return "workflow/entries/" + quote([]byte(s))
		}
	}
	return ""
}

func describeLocation(segments tuple.Tuple) string {
	words := "workflow/history"
	for _, s := range segments {
		if n, ok := index(s); ok {
			words += "/" + n
			continue
		}
		marker, ok := s.(tuple.Tuple)
		if !ok || len(marker) != 2 {
			return ""
		}
		loop, ok1 := index(marker[0])
		iteration, ok2 := index(marker[1])
		if !ok1 || !ok2 {
			return ""
		}
		words += "/" + loop + "~" + iteration
	}
	return words
}

func describeTraces(rest []byte) string {
	t, err := tuple.Unpack(rest)
	if err != nil || len(t) != 3 || t[0] != int64(1) {
		return ""
	}
	bucket, ok1 := index(t[1])
	chunk, ok2 := index(t[2])
	if !ok1 || !ok2 {
		return ""
	}
	return "traces/" + bucket + "/" + chunk
}

func describeHost(rest []byte) string {
	switch {
	case len(rest) == 1+18 && rest[0] == hostIn:
		return "host/in/" + hex.EncodeToString(rest[1:])
	case len(rest) > 1+8 && (rest[0] == hostCall || rest[0] == hostResult):
		kind := map[byte]string{hostCall: "calls", hostResult: "results"}[rest[0]]
		return "host/" + kind + "/" + strconv.FormatUint(binary.BigEndian.Uint64(rest[1:]), 10) + "/" + quote(rest[9:])
	case len(rest) == 1+8 && rest[0] == hostOut:
		return "host/out/" + strconv.FormatUint(binary.BigEndian.Uint64(rest[1:]), 10)
	case string(rest) == "s":
		return "host/nonce"
	case string(rest) == "e":
		return "rivetkit/engine"
	case string(rest) == "h":
		return "rivetkit/head"
	case string(rest) == "m":
		return "host/import"
	case len(rest) == 1+8+8 && rest[0] == hostSocket:
		return "host/sockets/" + hex.EncodeToString(rest[1:9]) + "/" + strconv.FormatUint(binary.BigEndian.Uint64(rest[9:]), 10)
	}
	return ""
}

// index prints an integer that is not negative.
func index(el tuple.Element) (text string, ok bool) {
	i, ok := el.(int64)
	return strconv.FormatInt(i, 10), ok && i >= 0
}

// quote returns b as it is if it reads well, else in Go's quotes.
func quote(b []byte) string {
	if len(b) > 0 && utf8.Valid(b) && strings.IndexFunc(string(b), oddRune) < 0 {
		return string(b)
	}
	return strconv.Quote(string(b))
}

// oddRune reports whether r calls for quotes: what doesn't print, spaces, and
// what quotes are made of.
func oddRune(r rune) bool {
	return r == ' ' || r == '"' || r == '\\' || !strconv.IsPrint(r)
}
