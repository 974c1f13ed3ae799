package inspector

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/admin"
)

// keysPage is a level of the tree of keys, in words.
type keysPage struct {
	Prefix string
	Above  []step // the levels above, the outermost first
	Nodes  []*keyNode
	Next   string
}

// A step is a link to a level.
type step struct{ Name, Prefix string }

// A keyNode is a key, or several whose words go on in the same way.
type keyNode struct {
	Name   string // behind the prefix
	Prefix string // of the level below; "" for a key
	Count  int
	More   bool // there are, or may be, more keys below it than Count, on the next page
	Size   int
	Latest admin.Time
	Hex    string // of a key
}

// maxKeys is how many keys a page reads.
const maxKeys = "1000"

// listKeys shows the keys whose words begin with a prefix.
func listKeys(ctx context.Context, v *visit) (*shown, error) {
	params := v.only("prefix", "after")
	params.Set("limit", maxKeys)
	list, err := get[admin.KeyList](ctx, v, "/keys", params)
	if err != nil {
		return nil, err
	}
	p := &keysPage{Prefix: v.param("prefix"), Next: v.next(list.Next)}
	for at, part := range splitWords(p.Prefix) {
		p.Above = append(p.Above, step{part, strings.Join(splitWords(p.Prefix)[:at+1], "")})
	}
	var last *keyNode
	for _, k := range list.Keys {
		rest := strings.TrimPrefix(k.Key, p.Prefix)
		parts := splitWords(rest)
		name, below := rest, ""
		if len(parts) > 1 {
			name, below = parts[0], p.Prefix+parts[0]
		}
		if last == nil || below == "" || last.Prefix != below {
			last = &keyNode{Name: name, Prefix: below, Hex: k.Hex}
			p.Nodes = append(p.Nodes, last)
		}
		last.Count++
		last.Size += k.Size
		last.Latest = max(last.Latest, k.Updated)
	}
	if last != nil && last.Prefix != "" {
		last.More = p.Next != ""
	}
	return &shown{Title: "Keys", Template: "keys", Data: p, Live: "actor"}, nil
}

// A keyPage is a key with its value.
type keyPage struct {
	admin.Key
	Text string // of a value that is one
	JSON json.RawMessage
	Dump string // of the beginning
	Cut  bool
}

// showKey shows the value of a key, as text and JSON where it is that.
func showKey(ctx context.Context, v *visit) (*shown, error) {
	list, err := get[admin.KeyList](ctx, v, "/keys", url.Values{"key": {v.r.PathValue("key")}})
	if err != nil {
		return nil, err
	}
	if len(list.Keys) == 0 {
		return nil, &admin.Error{Code: "not_found", Message: "The actor has no such key."}
	}
	p := &keyPage{Key: list.Keys[0]}
	begin := p.Value[:min(len(p.Value), maxWhole)]
	p.Cut = len(begin) < len(p.Value)
	if json.Valid(p.Value) {
		p.JSON = p.Value
	} else if utf8.Valid(p.Value) && len(begin) > 0 {
		p.Text = whole(string(p.Value))
	}
	p.Dump = hex.Dump(begin[:min(len(begin), maxDump)])
	return &shown{Title: "Key", Template: "key", Data: p, Live: "actor"}, nil
}

// maxDump bounds the bytes of a dump.
const maxDump = 4 << 10

// splitWords splits the words of a key behind each slash that isn't within quotes.
func splitWords(words string) (parts []string) {
	quoted, from := false, 0
	for i := 0; i < len(words); i++ {
		switch c := words[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == '/' && !quoted:
			parts = append(parts, words[from:i+1])
			from = i + 1
		}
	}
	if from < len(words) {
		parts = append(parts, words[from:])
	}
	return parts
}
