package docstore

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// groupOf returns the key of the group of a value, as it stands in keys, and false for a value that makes none: a list,
// a dictionary, bytes, or a text of more than maxGroup bytes. Numbers that are equal are one group, whatever
// their types are.
func groupOf(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "~n", true
	case bool:
		return "~b" + strconv.FormatBool(v), true
	case int64:
		return "~i" + strconv.FormatInt(v, 10), true
	case uint64:
		return "~i" + strconv.FormatUint(v, 10), true
	case float64:
		if v == math.Trunc(v) && v >= -1<<63 && v < 1<<63 {
			return "~i" + strconv.FormatInt(int64(v), 10), true
		}
		if v == math.Trunc(v) && v > 0 && v < 1<<64 {
			return "~i" + strconv.FormatUint(uint64(v), 10), true
		}
		return "~f" + strconv.FormatFloat(v, 'g', -1, 64), true
	case string:
		s := textEscapes.Replace(v)
		return s, len(s) <= maxGroup && utf8.ValidString(v)
	}
	return "", false
}

// rounded reports whether a number is so large that an expression takes it for equal to others: to those that are the same
// as a float64.
func rounded(v any) bool {
	f, _ := v.(float64)
	switch v := v.(type) {
	case int64:
		f = float64(v)
	case uint64:
		f = float64(v)
	}
	return math.Abs(f) >= 1<<53
}

// groupSegment returns the name in a path of a group, from its key.
func groupSegment(key string) string {
	switch {
	case key == "":
		return "~s"
	case isGroup(key):
		return key
	}
	return nameEscapes.Replace(textUnescapes.Replace(key))
}

// segmentGroups returns the keys of the groups that a name in a path stands for: that of the text comes first, then
// those of other values that are written so.
func segmentGroups(segment string) []string {
	switch {
	case segment == "~s":
		return []string{""}
	case isGroup(segment):
		return []string{segment}
	}
	name := nameUnescapes.Replace(segment)
	return append([]string{textEscapes.Replace(name)}, typedGroups(name)...)
}

// typedGroups returns the keys of the groups that are no texts, and are called text in the documented form.
func typedGroups(text string) []string {
	switch text {
	case "true", "false":
		return []string{"~b" + text}
	case "null":
		return []string{"~n"}
	}
	for _, prefix := range []string{"~i", "~f"} {
		if v, ok := groupValue(prefix + text); ok {
			if key, _ := groupOf(v); key == prefix+text {
				return []string{key}
			}
		}
	}
	return nil
}

// groupText returns what the documented form calls a group.
func groupText(key string) string {
	switch {
	case key == "~n":
		return "null"
	case isGroup(key):
		return key[2:]
	}
	return textUnescapes.Replace(key)
}

// groupValue returns the value of a group's key: nil, a bool, an int64, a uint64, a float64 or a string.
func groupValue(key string) (any, bool) {
	if !isGroup(key) {
		return textUnescapes.Replace(key), true
	}
	switch text := key[2:]; key[1] {
	case 'n':
		return nil, text == ""
	case 'b':
		return text == "true", text == "true" || text == "false"
	case 'i':
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, true
		}
		u, err := strconv.ParseUint(text, 10, 64)
		return u, err == nil
	case 'f':
		f, err := strconv.ParseFloat(text, 64)
		return f, err == nil
	}
	return nil, false
}
