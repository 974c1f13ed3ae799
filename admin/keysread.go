package admin

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
)

// A KeyList is a page of the keys of an actor, all of its parts, in their order.
type KeyList struct {
	Keys []Key  `json:"keys"`
	Next string `json:"next,omitempty"` // after of the next page; "" on the last one
}

// A Key is one key of an actor.
type Key struct {
	Key     string `json:"key"`  // in words
	Size    int    `json:"size"` // of the value, in bytes
	Updated Time   `json:"updated"`
	Hex     string `json:"hex"`             // the key as it is stored, below that of its actor, in hexadecimal
	Value   []byte `json:"value,omitempty"` // of the one key that was asked for
}

func keyReads() []route {
	return []route{readActor("/keys", "List the keys of an actor in words.", []param{
		{name: "prefix", kind: "string", what: "Keys whose words begin with it."},
		{name: "key", kind: "string", what: "The hex of a key: this one alone, with its value. The list is empty if it isn't there."}, afterParam, limitParam,
	}, listKeys)}
}

func listKeys(ctx context.Context, v *greenroom.View, q *query) (*KeyList, error) {
	limit, err := q.limit()
	if err != nil {
		return nil, err
	}
	o := actorstore.ListOptions{KeysOnly: true}
	if q.text("key") != "" {
		if o.Start, err = hex.DecodeString(q.text("key")); err != nil {
			return nil, invalid("key is the hex of a key")
		}
		o.End, o.KeysOnly = append(bytes.Clone(o.Start), 0), false
	}
	if q.text("after") != "" {
		after, err := hex.DecodeString(q.text("after"))
		if err != nil {
			return nil, invalid("after is not the next of a list of keys")
		}
		o.Start = append(after, 0)
	}
	out := &KeyList{Keys: []Key{}}
	var last []byte
	for k, err := range v.Lower().List(ctx, o) {
		if err != nil {
			return nil, err
		}
		words := actorstore.Describe(k.Key)
		if !strings.HasPrefix(words, q.text("prefix")) {
			continue
		}
		if len(out.Keys) == limit {
			out.Next = hex.EncodeToString(last)
			break
		}
		out.Keys = append(out.Keys, Key{words, k.Size, NewTime(k.Updated), hex.EncodeToString(k.Key), bytes.Clone(k.Value)})
		last = append(last[:0], k.Key...)
	}
	return out, nil
}
