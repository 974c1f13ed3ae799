package inspector

import (
	"context"
	"strings"

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
	Size   int
	Latest admin.Time
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
			last = &keyNode{Name: name, Prefix: below}
			p.Nodes = append(p.Nodes, last)
		}
		last.Count++
		last.Size += k.Size
		last.Latest = max(last.Latest, k.Updated)
	}
	return &shown{Title: "Keys", Template: "keys", Data: p, Live: "actor"}, nil
}

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
