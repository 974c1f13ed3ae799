package keys

import (
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/tuple"
)

// keyWords returns a packed key in words for people, as the elements of a tuple:
// ("account", 7). Bytes that aren't one are shown in hexadecimal.
func keyWords(packed []byte) string {
	t, err := tuple.Unpack(packed)
	if err != nil {
		return fmt.Sprintf("%x", packed)
	}
	return tupleWords(t)
}

func tupleWords(t tuple.Tuple) string {
	words := make([]string, len(t))
	for i, el := range t {
		words[i] = elementWords(el)
	}
	return "(" + strings.Join(words, ", ") + ")"
}

func elementWords(el tuple.Element) string {
	switch v := el.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", v)
	case []byte:
		return fmt.Sprintf("x'%x'", v)
	case tuple.Tuple:
		return tupleWords(v)
	case tuple.User:
		if uuid, label, ok := v.ID(); ok {
			return fmt.Sprintf("%s/%d", uuid, label)
		}
		return fmt.Sprintf("%02x'%x'", v.Code, v.Body)
	case tuple.Versionstamp:
		if v.Incomplete() {
			return fmt.Sprintf("stamp of the commit/%d", v.User)
		}
		return fmt.Sprintf("%x/%d", v.Transaction, v.User)
	}
	return fmt.Sprint(el)
}
